"""The unmodified cassandra-driver against a real server on loopback."""

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cassandra import AlreadyExists, ConsistencyLevel, InvalidRequest, ProtocolVersion
from cassandra.cluster import Cluster, ExecutionProfile, NoHostAvailable, ResponseFuture, Session
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import WhiteListRoundRobinPolicy
from cassandra.protocol import SyntaxException
from cassandra.query import BatchStatement, SimpleStatement

from tests.server.running_server import Running, running_server

pytestmark = pytest.mark.filterwarnings("ignore")
FLAVOURS = [(3, False), (4, False), (4, "lz4"), (5, False), (5, "lz4")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_server(str(tmp_path_factory.mktemp("node"))) as running:
        yield running


def cluster(server: Running, version: int | None = 5, **options: Any) -> Cluster:
    profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy([server.host]))
    if version is not None:
        options["protocol_version"] = version
    return Cluster(
        [server.host],
        port=server.port,
        execution_profiles={"default": profile},
        connect_timeout=30,
        control_connection_timeout=30,
        **options,
    )


@pytest.fixture
def session(server: Running) -> Iterator[Session]:
    connected = cluster(server)
    yield connected.connect()
    connected.shutdown()


def new_keyspace(session: Session) -> str:
    name = f"ks_{uuid.uuid4().hex[:12]}"
    session.execute(
        f"CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    )
    session.set_keyspace(name)
    return name


def test_the_version_is_negotiated(server: Running) -> None:
    connected = cluster(server, None)
    session = connected.connect()
    assert connected.protocol_version == ProtocolVersion.V5
    assert session.execute("SELECT cluster_name FROM system.local").one().cluster_name == "belvedere"
    connected.shutdown()


@pytest.mark.parametrize(("version", "compression"), FLAVOURS)
def test_create_write_read_page(server: Running, version: int, compression: Any) -> None:
    connected = cluster(server, version, compression=compression)
    session = connected.connect()
    new_keyspace(session)
    session.execute("CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))")
    insert = session.prepare("INSERT INTO t (k, c, v) VALUES (?, ?, ?)")
    rows = [(k, c, f"value {k} {c} " + "é" * 50) for k in range(3) for c in range(100)]
    assert all(done.success for done in execute_concurrent_with_args(session, insert, rows, 64))
    select = session.prepare("SELECT k, c, v FROM t WHERE k = ?")
    assert [tuple(row) for row in session.execute(select, [1])] == rows[100:200]
    assert select.result_metadata is not None
    paged = session.execute(SimpleStatement("SELECT k, c, v FROM t", fetch_size=7))
    assert paged.has_more_pages
    assert sorted(tuple(row) for row in paged) == rows
    select.fetch_size = 9
    assert [tuple(row) for row in session.execute(select, [2])] == rows[200:]
    assert session.execute("SELECT count(*) FROM t WHERE k = 0").one().count == 100
    big = "x" * 3_000_000
    session.execute(insert, (9, 9, big))
    assert session.execute("SELECT v FROM t WHERE k = 9 AND c = 9").one().v == big
    connected.shutdown()


def test_batches_and_values(session: Session) -> None:
    new_keyspace(session)
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v text)")
    insert = session.prepare("INSERT INTO t (k, v) VALUES (?, ?)")
    batch = BatchStatement(consistency_level=ConsistencyLevel.QUORUM)
    batch.add(insert, (1, "a"))
    batch.add("INSERT INTO t (k, v) VALUES (2, 'b')")
    batch.add(SimpleStatement("INSERT INTO t (k, v) VALUES (%s, %s)"), (3, "c"))
    session.execute(batch)
    session.execute("INSERT INTO t (k, v) VALUES (%(k)s, %(v)s)", {"k": 4, "v": "d"})
    session.execute(insert, {"k": 5, "v": "e"})
    assert sorted(map(tuple, session.execute("SELECT * FROM t"))) == [
        (number, letter) for number, letter in zip(range(1, 6), "abcde", strict=True)
    ]
    applied = session.execute("INSERT INTO t (k, v) VALUES (1, 'z') IF NOT EXISTS").one()
    assert (applied.applied, applied.v) == (False, "a")
    conditional = session.prepare("UPDATE t SET v = ? WHERE k = ? IF v = ?")
    assert session.execute(conditional, ("y", 1, "a")).one().applied
    assert not session.execute(conditional, ("y", 1, "a")).one().applied


def test_errors_have_their_classes(session: Session) -> None:
    keyspace = new_keyspace(session)
    session.execute("CREATE TABLE t (k int PRIMARY KEY)")
    with pytest.raises(AlreadyExists):
        session.execute("CREATE TABLE t (k int PRIMARY KEY)")
    with pytest.raises(InvalidRequest, match="Undefined column name nothere"):
        session.execute("SELECT nothere FROM t")
    with pytest.raises(SyntaxException):
        session.execute("SELEC 1")
    with pytest.raises(InvalidRequest):
        session.prepare(f"SELECT * FROM {keyspace}.missing")


def test_prepared_statements_follow_the_schema(server: Running) -> None:
    for version in (4, 5):
        connected = cluster(server, version)
        session = connected.connect()
        new_keyspace(session)
        session.execute("CREATE TABLE t (k int PRIMARY KEY, a int)")
        session.execute("INSERT INTO t (k, a) VALUES (1, 2)")
        select = session.prepare("SELECT * FROM t WHERE k = ?")
        assert tuple(session.execute(select, [1]).one()) == (1, 2)
        session.execute("ALTER TABLE t ADD aa text")
        session.execute("INSERT INTO t (k, aa) VALUES (1, 'new')")
        for _ in range(3):
            assert session.execute(select, [1]).one()._asdict() == {"k": 1, "a": 2, "aa": "new"}
        connected.shutdown()


def test_a_statement_that_the_server_forgot_is_prepared_again(server: Running, session: Session) -> None:
    select = session.prepare("SELECT key FROM system.local")
    server.loop.call_soon_threadsafe(server.node.database._prepared.clear)
    assert session.execute(select).one().key == "local"


def test_metadata_of_the_schema(server: Running, session: Session) -> None:
    name = new_keyspace(session)
    session.execute("CREATE TYPE place (street text, spots frozen<list<int>>)")
    session.execute(
        """CREATE TABLE t (a int, b text, c timeuuid, d int, s set<text> static, m map<int, text>,
           p frozen<place>, PRIMARY KEY ((a, b), c, d))
           WITH CLUSTERING ORDER BY (c DESC, d ASC) AND comment = 'of things'"""
    )
    session.cluster.refresh_schema_metadata()
    keyspace = session.cluster.metadata.keyspaces[name]
    assert keyspace.replication_strategy.export_for_schema() == (
        "{'class': 'SimpleStrategy', 'replication_factor': '1'}"
    )
    table = keyspace.tables["t"]
    assert [column.name for column in table.partition_key] == ["a", "b"]
    assert [(c.name, c.is_reversed) for c in table.clustering_key] == [("c", True), ("d", False)]
    assert table.columns["s"].is_static
    assert table.columns["p"].cql_type == "frozen<place>"
    assert table.options["comment"] == "of things"
    assert keyspace.user_types["place"].field_names == ["street", "spots"]
    assert "CLUSTERING ORDER BY (c DESC, d ASC)" in table.export_as_string()
    assert {"system", "system_schema", "system_views", "system_virtual_schema"} <= set(
        session.cluster.metadata.keyspaces
    )
    (host,) = session.cluster.metadata.all_hosts()
    assert (host.release_version[:4], host.endpoint.port) == ("5.0.", server.port)


def test_schema_events_reach_other_clients(server: Running, session: Session) -> None:
    other = cluster(server, 4)
    other.connect()
    name = new_keyspace(session)
    session.execute("CREATE TABLE pushed (k int PRIMARY KEY)")
    deadline = 200
    while "pushed" not in getattr(other.metadata.keyspaces.get(name), "tables", {}):
        deadline -= 1
        assert deadline, "the event did not come"
        if deadline % 40 == 0:
            # The driver forgets a table that it hears of before it has looked at its keyspace.
            session.execute(f"ALTER TABLE pushed WITH comment = '{deadline}'")
        time.sleep(0.1)
    other.shutdown()


def test_many_connections_and_clients_in_a_table(server: Running, session: Session) -> None:
    others = [cluster(server) for _ in range(5)]
    for other in others:
        other.connect()
    rows = list(session.execute("SELECT * FROM system_views.clients"))
    assert len(rows) >= 6
    assert all("Python Driver" in row.driver_name for row in rows)
    for other in others:
        other.shutdown()


def outcome_of(future: ResponseFuture) -> Exception | None:
    try:
        future.result()
    except Exception as error:
        return error
    return None


def test_a_server_that_stops_answers_first(tmp_path: Path) -> None:
    with running_server(str(tmp_path)) as server:
        connected = cluster(server)
        session = connected.connect()
        new_keyspace(session)
        session.execute("CREATE TABLE t (k int PRIMARY KEY)")
        insert = session.prepare("INSERT INTO t (k) VALUES (?)")
        pending = [session.execute_async(insert, [number]) for number in range(500)]
    outcomes = [outcome_of(future) for future in pending]
    assert not any(isinstance(outcome, InvalidRequest) for outcome in outcomes)
    answered = outcomes.count(None)
    with running_server(str(tmp_path)) as server:
        again = cluster(server)
        session = again.connect()
        keyspace = next(name for name in again.metadata.keyspaces if name.startswith("ks_"))
        assert len(list(session.execute(f"SELECT k FROM {keyspace}.t"))) >= answered
        again.shutdown()
    connected.shutdown()


def test_a_client_that_asks_for_an_unknown_version_is_told(server: Running) -> None:
    connected = cluster(server, 6, allow_beta_protocol_version=True)
    with pytest.raises(NoHostAvailable) as caught:
        connected.connect()
    assert "ProtocolError returned from server" in str(caught.value)
    connected.shutdown()
