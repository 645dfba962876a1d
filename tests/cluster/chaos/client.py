"""Clients in a process of their own: `python -m tests.cluster.chaos.client SETTINGS`.

They work until stdin is closed, and then write down what they were told.
"""

import sys
import threading
import traceback
from pathlib import Path

import msgspec
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import (
    ConstantReconnectionPolicy,
    FallthroughRetryPolicy,
    LoadBalancingPolicy,
    RoundRobinPolicy,
    TokenAwarePolicy,
    WhiteListRoundRobinPolicy,
)

from tests.cluster.chaos.work import Client, Statements


class Settings(msgspec.Struct):
    name: str
    number: int
    seed: int
    hosts: list[str]
    port: int
    threads: int
    #: When the run began, by the machine's monotonic clock.
    began: int
    #: Where `history.jsonl` and `troubles.jsonl` go.
    folder: str
    #: Each thread asks one host only, and waits for it.
    faithful: bool = False
    token_aware: bool = False
    client_timestamps: bool = False
    request_timeout: float = 5.0


def connected(
    hosts: list[str],
    port: int,
    *,
    policy: LoadBalancingPolicy | None = None,
    request_timeout: float = 10.0,
) -> Cluster:
    """Never tries anything twice by itself: what is noted is what was asked."""
    profile = ExecutionProfile(
        load_balancing_policy=policy or RoundRobinPolicy(),
        retry_policy=FallthroughRetryPolicy(),
        request_timeout=request_timeout,
    )
    return Cluster(
        hosts,
        port=port,
        protocol_version=5,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        reconnection_policy=ConstantReconnectionPolicy(0.5, max_attempts=None),
        connect_timeout=10,
        control_connection_timeout=10,
        idle_heartbeat_interval=3,
        idle_heartbeat_timeout=5,
    )


def only(*hosts: str) -> LoadBalancingPolicy:
    """Never another, though the driver knows of it."""
    return WhiteListRoundRobinPolicy(list(hosts))


def clients_of(settings: Settings) -> tuple[list[Client], list[Cluster]]:
    clusters: list[Cluster] = []

    def statements(hosts: list[str], policy: LoadBalancingPolicy) -> Statements:
        cluster = connected(hosts, settings.port, policy=policy, request_timeout=settings.request_timeout)
        clusters.append(cluster)
        session = cluster.connect()
        session.use_client_timestamp = settings.client_timestamps
        return Statements(session)

    if settings.faithful:
        ways = [statements([host], only(host)) for host in settings.hosts]
    else:
        policy: LoadBalancingPolicy = RoundRobinPolicy()
        ways = [statements(settings.hosts, TokenAwarePolicy(policy) if settings.token_aware else policy)]
    clients = [
        Client(
            f"{settings.name}{index}",
            settings.number + index,
            settings.seed,
            ways[index % len(ways)],
            settings.began,
        )
        for index in range(settings.threads)
    ]
    return clients, clusters


def main() -> int:
    settings = msgspec.json.decode(sys.argv[1], type=Settings)
    clients, clusters = clients_of(settings)
    stopping, failed = threading.Event(), threading.Event()

    def work(client: Client) -> None:
        try:
            while not stopping.is_set():
                client.step()
        except BaseException:
            traceback.print_exc()
            failed.set()

    threads = [threading.Thread(target=work, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    print("working", flush=True)
    sys.stdin.read()
    stopping.set()
    for thread in threads:
        thread.join()
    folder = Path(settings.folder)
    (folder / f"{settings.name}.history.jsonl").write_bytes(
        b"".join(client.history.to_lines() for client in clients)
    )
    (folder / f"{settings.name}.troubles.jsonl").write_bytes(
        b"".join(msgspec.json.encode(one) + b"\n" for client in clients for one in client.troubles)
    )
    for cluster in clusters:
        cluster.shutdown()
    return 1 if failed.is_set() else 0


if __name__ == "__main__":
    sys.exit(main())
