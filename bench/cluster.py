"""What three nodes cost and give: the same requests to a table with three replicas and to one with one.

    ./run bench cluster [--rows N] [--rounds N] [--metadata sqlite|etcd] [--quick]

Three server processes on this machine and a raw-frame client. Both tables are in the same cluster, reached
over the same connections (two to each node, so two of three requests come to a node that is not their
primary), and take turns within every round. One machine does the work of three here: three times the
processor time, and one disk for three copies. So the ratio to one replica is the worst that it can be.

Then: how long nobody can write a key whose primary was killed with kill -9 (`--failovers` times, with the
lease of `--lease-seconds`), and how fast the simulations of replication run on one core.
"""

import argparse
import importlib.util
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvloop
from _machine import cpu_seconds_fine, describe
from _raw_client import RawConnection, connect, execute_body, run_pipelines

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.cluster.chaos.nodes import Node, Nodes
from tests.cluster.chaos.placement import placement
from tests.cluster.chaos.raw import RawClient
from tests.cluster.chaos.run import wait_until_at_rest
from tests.meta.etcd_server import EtcdServer

ONE, QUORUM = 0x0001, 0x0004
COUNTS = (1, 3)
CONNECTIONS_PER_NODE = 2
TABLE = "CREATE TABLE {}.t (k bigint PRIMARY KEY, a text, b text, n int, x double)"
#: What is asked, with which consistency, how often as a share of `--rows`, and with how many in flight.
KINDS = {
    "INSERT, 1 in flight": ("insert", QUORUM, 0.05, 1),
    "INSERT, 256 in flight": ("insert", QUORUM, 1.0, 256),
    "SELECT at QUORUM, 1 in flight": ("select", QUORUM, 0.05, 1),
    "SELECT at QUORUM, 256 in flight": ("select", QUORUM, 1.0, 256),
    "SELECT at ONE, 256 in flight": ("select", ONE, 1.0, 256),
    "INSERT IF NOT EXISTS, 1 in flight": ("claim", QUORUM, 0.05, 1),
    "INSERT IF NOT EXISTS, 256 in flight": ("claim", QUORUM, 0.5, 256),
}
#: Take --seeds and say how many seeds a minute they do. Those that are not there are left out.
SIMULATIONS = ("belvedere.sim.replication", "belvedere.sim.cluster")


def row(number: int) -> list[bytes]:
    return [
        struct.pack(">q", number),
        b"name-%09d" % number,
        b"some text of a usual length, forty-odd by",
        struct.pack(">i", number & 0xFFFF),
        struct.pack(">d", number * 0.5),
    ]


@dataclass
class Figures:
    rates: list[float] = field(default_factory=list)
    micros: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)


@dataclass
class Table:
    """With so many replicas; a keyspace of its own."""

    replicas: int
    figures: dict[str, Figures] = field(default_factory=lambda: {kind: Figures() for kind in KINDS})
    statements: dict[str, bytes] = field(default_factory=dict)
    _claimed: int = 10**9

    @property
    def keyspace(self) -> str:
        return f"rf{self.replicas}"

    async def create(self, connections: Sequence[RawConnection]) -> None:
        replication = f"{{'class': 'SimpleStrategy', 'replication_factor': {self.replicas}}}"
        await connections[0].query(f"CREATE KEYSPACE {self.keyspace} WITH replication = {replication}")
        await connections[0].query(TABLE.format(self.keyspace))
        insert = f"INSERT INTO {self.keyspace}.t (k, a, b, n, x) VALUES (?, ?, ?, ?, ?)"
        select = f"SELECT k, a, b, n, x FROM {self.keyspace}.t WHERE k = ?"
        texts = {"insert": insert, "select": select, "claim": f"{insert} IF NOT EXISTS"}
        for connection in connections:
            for name, text in texts.items():
                self.statements[name] = await connection.prepare(text)

    def bodies(self, kind: str, rows: int) -> list[bytes]:
        name, level, share, _ = KINDS[kind]
        count = max(1, round(rows * share))
        numbers = [index * 7919 % rows for index in range(count)]
        if name == "claim":
            # Nobody has these yet.
            numbers = list(range(self._claimed, self._claimed + count))
            self._claimed += count
        values = [row(number)[: 1 if name == "select" else 5] for number in numbers]
        return [execute_body(self.statements[name], value, level) for value in values]


async def run_rounds(arguments: argparse.Namespace, nodes: Nodes) -> None:
    connections = [
        await connect(node.host, nodes.port) for _ in range(CONNECTIONS_PER_NODE) for node in nodes.all
    ]
    tables = [Table(count) for count in COUNTS]
    for table in tables:
        await table.create(connections)
    for turn in range(arguments.rounds + 1):
        for kind, (_, _, _, depth) in KINDS.items():
            for offset in range(len(tables)):
                table = tables[(turn + offset) % len(tables)]
                bodies = table.bodies(kind, arguments.rows)
                users = connections if depth > 1 else [connections[turn % len(connections)]]
                before = spent(nodes)
                seconds, latencies = await run_pipelines(users, bodies, max(1, depth // len(users)))
                if turn:  # The first round only warms up.
                    figures = table.figures[kind]
                    figures.rates.append(len(bodies) / seconds)
                    figures.micros.append((spent(nodes) - before) / len(bodies) * 1e6)
                    figures.latencies += latencies
    report(tables)


def spent(nodes: Nodes) -> float:
    return sum(cpu_seconds_fine(node.process.pid) for node in nodes.all)


def report(tables: Sequence[Table]) -> None:
    print(f"{'':<47} {'requests':>10} {'ratio':>6} {'p50':>8} {'p99':>8}    {'all servers':>11} {'ratio':>6}")
    single = tables[0]
    for kind in KINDS:
        for table in tables:
            mine, alone = table.figures[kind], single.figures[kind]
            rate = statistics.median(mine.rates)
            slower = statistics.median(a / b for a, b in zip(mine.rates, alone.rates, strict=True))
            dearer = statistics.median(a / b for a, b in zip(mine.micros, alone.micros, strict=True))
            p50, p99 = (percentile(mine.latencies, share) * 1e3 for share in (0.5, 0.99))
            print(
                f"{kind:<36} {table.replicas} replica{'s' if table.replicas > 1 else ' '} {rate:>8,.0f}/s"
                f" {slower:>6.2f} {p50:>5.2f} ms {p99:>5.2f} ms    {statistics.median(mine.micros):>8.1f} µs"
                f" {dearer:>6.2f}",
                flush=True,
            )


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


# --- failover -----------------------------------------------------------------------------------------


def run_failovers(nodes: Nodes, times: int, lease_seconds: float) -> None:
    """From the kill until somebody else's answer that the write is done."""
    took = []
    for number in range(times):
        wait_until_at_rest(nodes, 120)
        key = 10**12 + number
        name = placement(nodes.metadata).primary_of("rf3.t", struct.pack(">q", key))
        victim = next(node for node in nodes.all if node.name == name)
        other = next(node for node in nodes.all if node.name != name)
        until_written(other, key)
        victim.kill()
        took.append(until_written(other, key))
        victim.start()
    print(
        f"a key can be written again {statistics.median(took):.2f} s after its primary was killed "
        f"({min(took):.2f} to {max(took):.2f} s, {times} times; a lease is {lease_seconds:g} s)",
        flush=True,
    )


def until_written(node: Node, key: int, patience: float = 120.0) -> float:
    text = f"INSERT INTO rf3.t (k, n) VALUES ({key}, 1)"
    began = time.perf_counter()
    with RawClient(node.host, node.port, patience) as client:
        while (told := client.ask(text, QUORUM)).error is not None:
            if time.perf_counter() - began > patience:
                raise SystemExit(f"the key cannot be written: {told.text}")
            time.sleep(0.01)
    return time.perf_counter() - began


# --- simulations --------------------------------------------------------------------------------------


def run_simulations(seeds: int) -> None:
    for module in SIMULATIONS:
        if importlib.util.find_spec(module) is None:
            continue
        done = subprocess.run(
            [sys.executable, "-m", module, "--seeds", str(seeds)], capture_output=True, text=True
        )
        last = done.stdout.splitlines()[-1] if done.stdout else done.stderr[-500:]
        rate = re.search(r"(\d+) seeds a minute", last)
        if done.returncode != 0 or rate is None:
            raise SystemExit(f"{module}: {last}")
        print(f"{module}: {int(rate[1]):,} seeds a minute of one core ({last})", flush=True)


@contextmanager
def metadata_store(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:{folder}/meta.sqlite"
        return
    etcd = EtcdServer()
    try:
        etcd.wait_until_healthy()
        yield f"etcd:{etcd.endpoint}"
    finally:
        etcd.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=20_000, help="requests of one kind in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--metadata", choices=("sqlite", "etcd"), default="sqlite")
    parser.add_argument("--fsync", choices=("group", "periodic", "none"), default="group")
    parser.add_argument("--lease-seconds", type=float, default=10.0)
    parser.add_argument("--failovers", type=int, default=5, help="how often the primary is killed")
    parser.add_argument("--seeds", type=int, default=500, help="of each simulation")
    parser.add_argument("--quick", action="store_true", help="once, and little of everything: does it work?")
    parser.add_argument("--folder", type=Path, help="where to put the data (default: a temporary folder)")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rows, arguments.rounds, arguments.lease_seconds = 200, 1, 2.0
        arguments.failovers, arguments.seeds = 1, 5
    print(f"{describe()}, metadata in {arguments.metadata}")
    folder = Path(tempfile.mkdtemp(prefix="belvedere-bench-", dir=arguments.folder))
    try:
        with (
            metadata_store(arguments.metadata, folder) as metadata,
            Nodes(
                folder,
                metadata,
                lease_seconds=arguments.lease_seconds,
                options=("--fsync", arguments.fsync),
            ) as nodes,
        ):
            nodes.start()
            uvloop.run(run_rounds(arguments, nodes))
            run_failovers(nodes, arguments.failovers, arguments.lease_seconds)
            nodes.stop()
        run_simulations(arguments.seeds)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
