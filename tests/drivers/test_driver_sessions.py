"""What applications do with a cassandra-driver session: keys, counters, expiry, routing, many at once."""

import asyncio
import resource
from typing import Any

import pytest
from cassandra import (
    AlreadyExists,
    ConsistencyLevel,
    InvalidRequest,
)
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Session
from cassandra.concurrent import execute_concurrent, execute_concurrent_with_args
from cassandra.metadata import Murmur3Token
from cassandra.protocol import ConfigurationException, SyntaxException
from cassandra.query import (
    UNSET_VALUE,
    BatchStatement,
    BatchType,
    SimpleStatement,
    dict_factory,
)

from tests.drivers.conftest import Connect
from tests.drivers.server_process import ServerProcess

pytestmark = pytest.mark.filterwarnings("ignore")


def test_plain_settings_negotiate_the_newest_version(connect: Connect) -> None:
    session = connect(protocol_version=None)
    assert session.cluster.protocol_version == 5
    assert session.execute("SELECT release_version FROM system.local").one()[0].startswith("5.0.")


def test_routing_keys_are_those_of_the_server(session: Session, keyspace: str) -> None:
    session.execute("CREATE TABLE t (a int, b text, c int, PRIMARY KEY ((a, b), c))")
    session.cluster.refresh_schema_metadata()
    insert = session.prepare("INSERT INTO t (a, b, c) VALUES (?, ?, ?)")
    assert insert.routing_key_indexes == [0, 1]
    for a in range(20):
        bound = insert.bind((a, f"text {a}", 0))
        session.execute(bound)
        token = Murmur3Token.from_key(bound.routing_key).value
        query = "SELECT token(a, b) FROM t WHERE a = %s AND b = %s"
        assert session.execute(query, (a, f"text {a}")).one()[0] == token
    token_map = session.cluster.metadata.token_map
    assert token_map is not None
    (host,) = session.cluster.metadata.all_hosts()
    assert set(token_map.token_to_host_owner.values()) == {host}
    assert session.cluster.metadata.get_replicas(keyspace, bound.routing_key) == [host]
    reversed_order = session.prepare("INSERT INTO t (c, b, a) VALUES (?, ?, ?)")
    assert reversed_order.routing_key_indexes == [2, 1]


def test_pages_by_hand(session: Session, keyspace: str) -> None:
    session.execute("CREATE TABLE t (k int, c int, PRIMARY KEY (k, c))")
    insert = session.prepare("INSERT INTO t (k, c) VALUES (?, ?)")
    execute_concurrent_with_args(session, insert, [(k, c) for k in range(10) for c in range(10)])
    statement = SimpleStatement("SELECT k, c FROM t", fetch_size=7)
    seen: list[Any] = []
    state = None
    while True:
        page = session.execute(statement, paging_state=state)
        assert len(page.current_rows) <= 7
        seen += page.current_rows
        state = page.paging_state
        if state is None:
            break
    assert len(set(seen)) == len(seen) == 100
    with pytest.raises(Exception, match=r"(?i)paging state"):
        session.execute(statement, paging_state=b"nonsense")


def test_expiry_and_write_times(session: Session, keyspace: str) -> None:
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v text, w text)")
    session.execute("INSERT INTO t (k, v) VALUES (1, 'a') USING TTL 1000 AND TIMESTAMP 5")
    session.execute("UPDATE t SET w = 'b' WHERE k = 1")
    row = session.execute("SELECT ttl(v) AS t, ttl(w) AS none, writetime(v) AS at FROM t").one()
    assert 990 <= row.t <= 1000
    assert (row.none, row.at) == (None, 5)
    insert = session.prepare("INSERT INTO t (k, v) VALUES (?, ?) USING TTL ? AND TIMESTAMP ?")
    session.execute(insert, (2, "x", 500, 7))
    assert session.execute("SELECT writetime(v) FROM t WHERE k = 2").one()[0] == 7
    stamped = SimpleStatement("INSERT INTO t (k, v) VALUES (3, 'y')")
    session.execute(stamped)
    session.execute("DELETE FROM t USING TIMESTAMP 1 WHERE k = 3")
    assert session.execute("SELECT v FROM t WHERE k = 3").one().v == "y"
    with pytest.raises(InvalidRequest, match="A TTL must be greater"):
        session.execute("INSERT INTO t (k, v) VALUES (4, 'z') USING TTL -1")


def test_counters(session: Session, keyspace: str) -> None:
    session.execute("CREATE TABLE t (k int PRIMARY KEY, n counter)")
    add = session.prepare("UPDATE t SET n = n + ? WHERE k = ?")
    execute_concurrent_with_args(session, add, [(1, 1)] * 200, concurrency=50)
    session.execute("UPDATE t SET n = n - 5 WHERE k = 1")
    assert session.execute("SELECT n FROM t").one().n == 195
    batch = BatchStatement(BatchType.COUNTER)
    for _ in range(10):
        batch.add(add, (10, 2))
    session.execute(batch)
    assert session.execute("SELECT n FROM t WHERE k = 2").one().n == 100
    with pytest.raises(InvalidRequest):
        session.execute("INSERT INTO t (k, n) VALUES (3, 1)")


def test_conditions_raced_by_many(connect: Connect, session: Session, keyspace: str) -> None:
    session.execute("CREATE TABLE t (k int PRIMARY KEY, owner int)")
    insert = session.prepare("INSERT INTO t (k, owner) VALUES (?, ?) IF NOT EXISTS")
    insert.serial_consistency_level = ConsistencyLevel.LOCAL_SERIAL
    work = [(insert, (k, owner)) for k in range(5) for owner in range(20)]
    results = execute_concurrent(session, work, concurrency=100)
    won = [done.result_or_exc.one() for done in results]
    assert sum(row.applied for row in won) == 5
    session.execute("CREATE TABLE s (k int, c int, v int, PRIMARY KEY (k, c))")
    batch = BatchStatement()
    batch.add("INSERT INTO s (k, c, v) VALUES (1, 1, 1) IF NOT EXISTS")
    batch.add("INSERT INTO s (k, c, v) VALUES (1, 2, 2)")
    assert session.execute(batch).was_applied
    assert not session.execute(batch).was_applied


def test_unset_values_leave_columns_alone(session: Session, keyspace: str) -> None:
    session.execute("CREATE TABLE t (k int PRIMARY KEY, a int, b int)")
    insert = session.prepare("INSERT INTO t (k, a, b) VALUES (?, ?, ?)")
    session.execute(insert, (1, 1, 1))
    session.execute(insert, (1, 2, UNSET_VALUE))
    session.execute(insert, (1, 3))
    assert session.execute("SELECT a, b FROM t").one() == (3, 1)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_errors_are_the_drivers_own(connect: Connect, version: int) -> None:
    session = connect(protocol_version=version)
    name = f"errors_{version}"
    create = (
        f"CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    )
    session.execute(create)
    session.set_keyspace(name)
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v int)")
    with pytest.raises(AlreadyExists) as exists:
        session.execute("CREATE TABLE t (k int PRIMARY KEY)")
    assert (exists.value.keyspace, exists.value.table) == (name, "t")
    with pytest.raises(AlreadyExists):
        session.execute(create)
    with pytest.raises(SyntaxException):
        session.execute("SELECT FROM WHERE")
    with pytest.raises(SyntaxException):
        session.prepare("INSERT INTO t (k VALUES (?)")
    with pytest.raises(InvalidRequest, match=r"(?i)unconfigured table|does not exist"):
        session.execute("SELECT * FROM missing")
    with pytest.raises(InvalidRequest):
        session.execute("INSERT INTO t (k, v) VALUES (1, 'text')")
    with pytest.raises(ConfigurationException):
        session.execute("CREATE KEYSPACE wrong WITH replication = {'class': 'NoSuchStrategy'}")
    with pytest.raises(InvalidRequest, match=r"(?i)keyspace"):
        session.set_keyspace("nowhere")
    assert session.execute("SELECT * FROM t").all() == []


def test_more_replicas_than_nodes_come_with_a_warning(session: Session) -> None:
    future = session.execute_async(
        "CREATE KEYSPACE spread WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}"
    )
    future.result()
    assert future.warnings is not None
    assert "higher than the number of nodes" in future.warnings[0]
    session.execute("CREATE TABLE spread.t (k int PRIMARY KEY)")
    one = SimpleStatement("INSERT INTO spread.t (k) VALUES (1)", consistency_level=ConsistencyLevel.ONE)
    session.execute(one)
    assert session.execute("SELECT k FROM spread.t").all() == [(1,)]


def test_rows_as_dicts_and_tracing(connect: Connect, session: Session, keyspace: str) -> None:
    session.execute('CREATE TABLE t (k int PRIMARY KEY, "Mixed Case" int)')
    session.execute('INSERT INTO t (k, "Mixed Case") VALUES (1, 2)')
    as_dicts = session.execution_profile_clone_update(EXEC_PROFILE_DEFAULT, row_factory=dict_factory)
    query = "SELECT * FROM t"
    assert session.execute(query, execution_profile=as_dicts).one() == {"k": 1, "Mixed Case": 2}
    assert session.execute(query, trace=True).one().k == 1


def test_schema_changes_reach_other_sessions(connect: Connect, session: Session, keyspace: str) -> None:
    other = connect(schema_event_refresh_window=0, protocol_version=4)
    # The driver asks for a refresh itself when it is told to wait for agreement.
    for change, expected in (
        ("CREATE TABLE t (k int PRIMARY KEY)", {"k"}),
        ("ALTER TABLE t ADD v text", {"k", "v"}),
    ):
        session.execute(change)
        assert set(session.cluster.metadata.keyspaces[keyspace].tables["t"].columns) == expected
        for _ in range(600):
            known = other.cluster.metadata.keyspaces.get(keyspace)
            if known is not None and "t" in known.tables and set(known.tables["t"].columns) == expected:
                break
            other.execute("SELECT key FROM system.local")
        else:
            pytest.fail(f"the event of {change!r} did not come")


def test_very_many_at_once(session: Session, keyspace: str) -> None:
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v text)")
    insert = session.prepare("INSERT INTO t (k, v) VALUES (?, ?)")
    written = execute_concurrent_with_args(session, insert, [(k, f"v{k}") for k in range(2000)], 1000)
    assert all(done.success for done in written)
    select = session.prepare("SELECT v FROM t WHERE k = ?")
    read = execute_concurrent_with_args(session, select, [(k,) for k in range(2000)], 1000)
    assert [done.result_or_exc.one().v for done in read] == [f"v{k}" for k in range(2000)]


def test_five_hundred_connections(server: ServerProcess) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2000:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(2000, hard), hard))
    text = b"SELECT key FROM system.local"
    query = b"\x04\x00\x00\x01\x07" + (len(text) + 7).to_bytes(4, "big")
    query += len(text).to_bytes(4, "big") + text + b"\x00\x01\x00"
    startup = b"\x04\x00\x00\x00\x01\x00\x00\x00\x16\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0"

    async def client() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(startup)
        assert await answer(reader) == 2
        return reader, writer

    async def answer(reader: asyncio.StreamReader) -> int:
        head = await reader.readexactly(9)
        await reader.readexactly(int.from_bytes(head[5:], "big"))
        return head[4]

    async def main() -> None:
        before = server.resident_mib()
        clients = await asyncio.gather(*(client() for _ in range(500)))
        for _, writer in clients:
            writer.write(query)
        assert [await answer(reader) for reader, _ in clients] == [8] * 500
        grown = server.resident_mib() - before
        assert grown < 100, f"{grown:.0f} MiB for 500 idle connections"
        for _, writer in clients:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in clients))

    asyncio.run(main())
