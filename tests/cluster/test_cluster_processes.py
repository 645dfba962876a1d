"""Several servers on 127.0.0.1, .2, .3 as one cluster: what drivers, people and logs see of it."""

import json
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from belvedere.cluster.ring import Ring
from belvedere.query.errors import CQLError
from tests.cli.commands import query
from tests.drivers.server_process import KEYSPACE, ServerProcess, belvedere, server_process
from tests.meta.etcd_server import EtcdServer, etcd_program

pytestmark = pytest.mark.filterwarnings("ignore")


class Nodes:
    """Starts nodes of one cluster; all are killed at the end if they still run."""

    def __init__(self, folder: Path, stack: ExitStack, metadata: str) -> None:
        self.folder = folder
        self.metadata = metadata
        self._stack = stack

    def options(self, number: int, *more: str) -> list[str]:
        words = ["--node", f"n{number}", "--host", f"127.0.0.{number}", "--rpc-port", "0"]
        return [*words, "--metadata", self.metadata, "--cluster", "trial", *more]

    def start(self, number: int, *more: str) -> ServerProcess:
        data = self.folder / f"d{number}"
        log = self.folder / f"d{number}-{time.monotonic_ns()}.log"
        return self._stack.enter_context(server_process(data, *self.options(number, *more), log=log))

    def refused(self, data: str, words: list[str]) -> str:
        done = belvedere(["start", "--data", str(self.folder / data), "--port", "0", *words])
        assert (done.returncode, done.stdout) == (1, "")
        assert "Traceback" not in done.stderr
        return str(done.stderr)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with ExitStack() as stack:
        yield Nodes(tmp_path, stack, f"sqlite:{tmp_path}/meta.sqlite")


def states(server: ServerProcess) -> dict[str, str]:
    return {row["node"]: row["state"] for row in query(server, "SELECT node, state FROM system_views.nodes")}


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


class Events:
    """A client that registered for what happens to nodes, in protocol v4."""

    def __init__(self, server: ServerProcess) -> None:
        self._socket = socket.create_connection((server.host, server.port))
        self._socket.settimeout(30)
        self._request(1, self._map({"CQL_VERSION": "3.4.5"}))
        kinds = ["TOPOLOGY_CHANGE", "STATUS_CHANGE"]
        self._request(11, struct.pack(">H", len(kinds)) + b"".join(map(self._text, kinds)))

    @staticmethod
    def _text(text: str) -> bytes:
        return struct.pack(">H", len(text)) + text.encode()

    def _map(self, values: dict[str, str]) -> bytes:
        parts = (self._text(key) + self._text(value) for key, value in values.items())
        return struct.pack(">H", len(values)) + b"".join(parts)

    def _request(self, opcode: int, body: bytes) -> None:
        self._socket.sendall(struct.pack(">BBhBi", 4, 0, 0, opcode, len(body)) + body)
        assert self._message()[0] == 2, "READY"

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            assert more, "the server closed the connection"
            data += more
        return data

    def _message(self) -> tuple[int, bytes]:
        _, _, _, opcode, length = struct.unpack(">BBhBi", self._exactly(9))
        return opcode, self._exactly(length)

    def next(self) -> tuple[str, str, int]:
        """What happened, and to whom."""
        opcode, body = self._message()
        assert opcode == 12
        kind = struct.unpack_from(">H", body)[0]
        rest = body[2 + kind :]
        length = struct.unpack_from(">H", rest)[0]
        what, rest = rest[2 : 2 + length].decode(), rest[2 + length :]
        size = rest[0]
        host = socket.inet_ntoa(rest[1 : 1 + size])
        return what, host, struct.unpack_from(">i", rest, 1 + size)[0]

    def close(self) -> None:
        self._socket.close()


@contextmanager
def driver(server: ServerProcess, **options: Any) -> Iterator[Any]:
    from cassandra.cluster import Cluster

    cluster = Cluster(
        [server.host], port=server.port, protocol_version=5, connect_timeout=30, control_connection_timeout=30
    )
    try:
        yield cluster
    finally:
        cluster.shutdown()


def test_three_nodes_know_of_each_other(nodes: Nodes) -> None:
    one = nodes.start(1)
    events = Events(one)
    two = nodes.start(2)
    assert events.next() == ("NEW_NODE", two.host, two.port)
    assert events.next() == ("UP", two.host, two.port)
    three = nodes.start(3)
    for server in (one, two, three):
        wait_for(lambda server=server: states(server) == dict.fromkeys(("n1", "n2", "n3"), "UP"))
        with driver(server) as cluster:
            cluster.connect()
            hosts = cluster.metadata.all_hosts()
            found = {(str(host.broadcast_rpc_address), host.broadcast_rpc_port) for host in hosts}
            assert found == {(other.host, other.port) for other in (one, two, three)}
            owners = cluster.metadata.token_map.token_to_host_owner
            ring, addresses = Ring(["n1", "n2", "n3"]), {"n1": one.host, "n2": two.host, "n3": three.host}
            assert {token.value: host.address for token, host in owners.items()} == {
                token: address for name, address in addresses.items() for token in ring.tokens(name)
            }
            assert cluster.control_connection.wait_for_schema_agreement(wait_time=10)
            assert cluster.metadata.cluster_name == "trial"
        assert len(query(server, "SELECT * FROM system.peers")) == 2
    assert events.next() == ("NEW_NODE", three.host, three.port)
    assert events.next() == ("UP", three.host, three.port)
    # One that leaves is down at once, and is known for as long as it may come back.
    assert three.stop() == 0
    assert events.next() == ("DOWN", three.host, three.port)
    wait_for(lambda: states(one) == {"n1": "UP", "n2": "UP", "n3": "DOWN"})
    assert [row["peer"] for row in query(one, "SELECT peer FROM system.peers")] == [two.host]
    human = belvedere(["status", "--host", one.host, "--port", str(one.port)])
    lines = [line.split() for line in human.stdout.splitlines()]
    assert ["n1", "(leads)", "UP"] in [line[:3] for line in lines]
    assert ["n3", "DOWN"] in [line[:2] for line in lines]
    machine = belvedere(["status", "--host", two.host, "--port", str(two.port), "--json"])
    assert {row["node"] for row in json.loads(machine.stdout)["nodes"]} == {"n1", "n2", "n3"}
    events.close()


def test_a_driver_uses_at_once_what_another_node_has_made(nodes: Nodes) -> None:
    """Whatever node it asks next: that one knows, though it may have to send it on."""
    from cassandra import InvalidRequest

    servers = [nodes.start(number) for number in (1, 2, 3)]
    with ExitStack() as stack:
        sessions = [stack.enter_context(only(server)) for server in servers]
        sessions[0].execute(KEYSPACE.format("ks"))
        for number in range(12):
            maker, table = sessions[number % 3], f"ks.t{number}"
            maker.execute(f"CREATE TABLE {table} (k int PRIMARY KEY)")
            for session in sessions:
                session.prepare(f"SELECT k FROM {table} WHERE k = ?")
            maker.execute(f"ALTER TABLE {table} ADD v int")
            for session in sessions:
                session.prepare(f"SELECT v FROM {table} WHERE k = ?")
            maker.execute(f"DROP TABLE {table}")
            for session in sessions:
                with pytest.raises(InvalidRequest):
                    session.prepare(f"SELECT k FROM {table}")


def test_a_driver_hears_who_goes_and_comes(nodes: Nodes) -> None:
    one, two = nodes.start(1), nodes.start(2)
    heard: list[tuple[str, str]] = []

    class Listener:
        def on_up(self, host: Any) -> None:
            heard.append(("up", host.address))

        def on_down(self, host: Any) -> None:
            heard.append(("down", host.address))

        def on_add(self, host: Any) -> None:
            heard.append(("add", host.address))

        def on_remove(self, host: Any) -> None:
            heard.append(("remove", host.address))

    with driver(one) as cluster:
        # Without a session that somebody holds, the driver opens no connections and tells nobody.
        session = cluster.connect()
        cluster.register_listener(Listener())
        assert two.stop() == 0
        wait_for(lambda: ("down", two.host) in heard)
        again = nodes.start(2, "--port", str(two.port))
        wait_for(lambda: ("up", two.host) in heard)
        three = nodes.start(3)
        wait_for(lambda: ("add", three.host) in heard)
        assert again.stop() == 0
        wait_for(lambda: [what for what, host in heard if host == two.host][-1] == "down")
        assert list(session.execute("SELECT cluster_name FROM system.local")) == [("trial",)]


def test_a_change_is_answered_though_a_node_cannot_hear_of_it(nodes: Nodes) -> None:
    one, two = nodes.start(1), nodes.start(2)
    with only(one) as session:
        two.process.send_signal(signal.SIGSTOP)
        try:
            began = time.monotonic()
            answer = session.execute_async(KEYSPACE.format("ks"))
            answer.result()
            took = time.monotonic() - began
        finally:
            two.process.send_signal(signal.SIGCONT)
        (warning,) = answer.warnings
        assert "The change is made, but after 8 s it is not known to all nodes" in warning
        assert warning.endswith(": n2")
        assert 7.5 < took < 15
        # It is back.
        wait_for(lambda: states(two) == {"n1": "UP", "n2": "UP"})
        assert session.execute_async("CREATE TABLE ks.t (k int PRIMARY KEY)").result() is not None
    with only(two) as session:
        session.prepare("SELECT k FROM ks.t")


@contextmanager
def only(server: ServerProcess) -> Iterator[Any]:
    """A session that asks this node and no other."""
    from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
    from cassandra.policies import WhiteListRoundRobinPolicy

    policy = WhiteListRoundRobinPolicy([server.host])
    profile = ExecutionProfile(load_balancing_policy=policy, request_timeout=30)
    cluster = Cluster(
        [server.host],
        port=server.port,
        protocol_version=5,
        connect_timeout=30,
        control_connection_timeout=30,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        prepare_on_all_hosts=False,
    )
    try:
        yield cluster.connect()
    finally:
        cluster.shutdown()


def test_a_killed_node_is_back_at_once_as_another_incarnation(nodes: Nodes) -> None:
    one, two = nodes.start(1), nodes.start(2)
    query(
        two, KEYSPACE.format("ks"), "CREATE TABLE ks.t (k int PRIMARY KEY)", "INSERT INTO ks.t (k) VALUES (1)"
    )
    before = incarnation(one, "n2")
    two.process.kill()
    two.process.wait()
    again = nodes.start(2)
    assert incarnation(one, "n2") > before
    assert query(again, "SELECT k FROM ks.t") == [{"k": 1}]


def incarnation(server: ServerProcess, node: str) -> int:
    (row,) = query(server, f"SELECT incarnation FROM system_views.nodes WHERE node = '{node}'")
    return int(row["incarnation"])


def test_the_next_one_leads_when_the_leader_is_killed(nodes: Nodes) -> None:
    one, two = nodes.start(1), nodes.start(2)
    leader = "SELECT leader FROM system_views.nodes WHERE node = 'n1'"
    assert query(two, leader) == [{"leader": True}]
    one.process.kill()
    wait_for(lambda: states(two) == {"n1": "DOWN", "n2": "UP"})
    wait_for(lambda: query(two, leader.replace("n1", "n2")) == [{"leader": True}])


def test_any_node_serves_any_table(nodes: Nodes) -> None:
    one, two = nodes.start(1), nodes.start(2)
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 2}"
    query(one, f"CREATE KEYSPACE ks WITH replication = {replication}")
    query(one, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)", "INSERT INTO ks.t (k, v) VALUES (1, 2)")
    # Nothing to wait for: what one node has answered, any other knows.
    assert query(two, "SELECT * FROM ks.t WHERE k = 1") == [{"k": 1, "v": 2}]
    query(two, "INSERT INTO ks.t (k, v) VALUES (3, 4)")
    applied = query(two, "INSERT INTO ks.t (k, v) VALUES (1, 3) IF NOT EXISTS")
    assert applied == [{"[applied]": False, "k": 1, "v": 2}]
    query(
        two,
        "CREATE MATERIALIZED VIEW ks.v AS SELECT * FROM ks.t WHERE v IS NOT NULL AND k IS NOT NULL "
        "PRIMARY KEY (v, k)",
    )
    assert query(one, "SELECT k FROM ks.v WHERE v = 4") == [{"k": 3}]
    query(two, "CREATE TABLE ks.u (k int PRIMARY KEY)", "INSERT INTO ks.u (k) VALUES (7)")
    assert one.stop() == 0
    # What was there is still to be had from the other node.
    wait_for(lambda: answers(two, "SELECT k FROM ks.v WHERE v = 2") == [{"k": 1}])
    again = nodes.start(1)
    assert query(again, "SELECT k FROM ks.v WHERE v = 2") == [{"k": 1}]
    assert query(again, "SELECT k FROM ks.u") == [{"k": 7}]
    query(two, "TRUNCATE ks.t")
    assert query(again, "SELECT * FROM ks.t") == query(again, "SELECT * FROM ks.v") == []
    query(two, "DROP MATERIALIZED VIEW ks.v", "DROP TABLE ks.t")
    wait_for(lambda: not any((nodes.folder / "d1" / "node" / "tables").glob("ks.t-*")))


def answers(server: ServerProcess, text: str) -> list[dict[str, Any]] | None:
    """None while nobody serves the tablet."""
    try:
        return query(server, text)
    except CQLError:
        return None


def test_what_must_not_be_is_refused(nodes: Nodes, tmp_path: Path) -> None:
    first = nodes.start(1)
    assert "a node named n1 is running already" in nodes.refused("other", nodes.options(1))
    assert not (tmp_path / "other" / "node.json").exists()
    other = [word if word != "trial" else "other" for word in nodes.options(2)]
    assert "is that of cluster trial, not of other" in nodes.refused("d2", other)
    assert "is in use" in nodes.refused("d1", nodes.options(1))
    assert first.stop() == 0
    assert "not of node n2 of cluster trial" in nodes.refused("d1", nodes.options(2))
    assert "start it with --node n1 --cluster trial" in nodes.refused("d1", [])
    elsewhere = [word.replace("meta.sqlite", "new.sqlite") for word in nodes.options(1)]
    assert "not the one that node n1 joined before" in nodes.refused("d1", elsewhere)
    with server_process(tmp_path / "alone") as server:
        assert server.stop() == 0
    assert "a server that was alone" in nodes.refused("alone", nodes.options(3))
    assert "a node needs --metadata" in nodes.refused("d3", ["--node", "n3"])
    assert "give it a --node" in nodes.refused("d3", ["--metadata", nodes.metadata])
    # The one that was refused everywhere has lost nothing.
    assert states(nodes.start(1))["n1"] == "UP"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_nothing_complains_in_a_shutdown_under_load(nodes: Nodes, number: int) -> None:
    """All at once, each with clients and with work for views."""
    servers = [nodes.start(one) for one in (1, 2, 3)]
    stopped = threading.Event()
    written = [0, 0, 0]

    def load(index: int, server: ServerProcess) -> None:
        from cassandra.cluster import Cluster
        from cassandra.policies import FallthroughRetryPolicy, WhiteListRoundRobinPolicy

        with_one = WhiteListRoundRobinPolicy([server.host])
        cluster = Cluster(
            [server.host],
            port=server.port,
            protocol_version=5,
            connect_timeout=30,
            load_balancing_policy=with_one,
            default_retry_policy=FallthroughRetryPolicy(),
        )
        session = cluster.connect()
        insert = session.prepare(f"INSERT INTO k{index}.t (k, v) VALUES (?, ?)")
        try:
            for k in range(10_000_000):
                futures = [session.execute_async(insert, (k * 50 + n, n)) for n in range(50)]
                for future in futures:
                    future.result()
                written[index] += 50
        except Exception:
            assert stopped.is_set(), "it failed before anybody was stopped"
        finally:
            cluster.shutdown()

    for index, server in enumerate(servers):
        query(
            server,
            KEYSPACE.format(f"k{index}"),
            f"CREATE TABLE k{index}.t (k int PRIMARY KEY, v int)",
            f"CREATE MATERIALIZED VIEW k{index}.w AS SELECT * FROM k{index}.t WHERE v IS NOT NULL AND "
            "k IS NOT NULL PRIMARY KEY (v, k)",
        )
    threads = [threading.Thread(target=load, args=pair) for pair in enumerate(servers)]
    for thread in threads:
        thread.start()
    wait_for(lambda: min(written) > 500, 60)
    stopped.set()
    for server in servers:
        server.process.send_signal(number)
    assert [server.process.wait(timeout=60) for server in servers] == [0, 0, 0]
    for thread in threads:
        thread.join()
    assert [server.log_text() for server in servers] == ["", "", ""]


def test_metadata_in_etcd(tmp_path: Path) -> None:
    if etcd_program() is None:
        pytest.skip("there is no etcd: ./run setup fetches it where apt-get can")
    etcd = EtcdServer()
    try:
        etcd.wait_until_healthy()
        with ExitStack() as stack:
            nodes = Nodes(tmp_path, stack, f"etcd:{etcd.endpoint}")
            one, two = nodes.start(1), nodes.start(2)
            wait_for(lambda: states(one) == {"n1": "UP", "n2": "UP"} == states(two))
            query(one, KEYSPACE.format("ks"))
            wait_for(
                lambda: bool(query(two, "SELECT * FROM system_schema.keyspaces WHERE keyspace_name = 'ks'"))
            )
            assert [server.stop() for server in (two, one)] == [0, 0]
            assert (one.log_text(), two.log_text()) == ("", "")
    finally:
        etcd.close()


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    words = ["start", "--data", str(tmp_path / "d"), "--node", "n", "--port", "0", "--rpc-port", "0"]
    done = belvedere([*words, "--metadata", f"sqlite:{tmp_path}/missing/meta.sqlite"])
    assert done.returncode == 1
    assert "cannot open the metadata store" in done.stderr
    assert "Traceback" not in done.stderr
