"""What unmodified clients learn of materialized views: cassandra-driver's metadata and cqlsh's DESCRIBE."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cassandra import InvalidRequest
from cassandra.cluster import Cluster, ExecutionProfile, Session
from cassandra.metadata import KeyspaceMetadata, MaterializedViewMetadata
from cassandra.policies import WhiteListRoundRobinPolicy

from tests.server.running_server import Running, running_server

pytestmark = pytest.mark.filterwarnings("ignore")
CQLSH = Path(sys.executable).with_name("cqlsh")
SCHEMA = (
    "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE shop.t (k int, c int, v text, n int, PRIMARY KEY (k, c))",
    """CREATE MATERIALIZED VIEW shop."byV" AS SELECT v, k, c FROM shop.t
       WHERE v > 'a' AND k IS NOT NULL AND c IS NOT NULL
       PRIMARY KEY (v, c, k) WITH CLUSTERING ORDER BY (c DESC, k ASC) AND comment = 'by value'""",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_server(str(tmp_path_factory.mktemp("node"))) as running:
        session = connect(running)
        for text in SCHEMA:
            session.execute(text)
        session.cluster.shutdown()
        yield running


def connect(server: Running) -> Session:
    profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy([server.host]))
    cluster = Cluster(
        [server.host],
        port=server.port,
        protocol_version=5,
        execution_profiles={"default": profile},
        connect_timeout=30,
        control_connection_timeout=30,
        schema_event_refresh_window=0,
    )
    return cluster.connect()


@pytest.fixture
def session(server: Running) -> Iterator[Session]:
    connected = connect(server)
    yield connected
    connected.cluster.shutdown()


def eventually(holds: Callable[[], bool]) -> None:
    for _ in range(600):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("the driver never learned of it")


def check_by_v(view: MaterializedViewMetadata) -> None:
    assert (view.keyspace_name, view.name, view.base_table_name) == ("shop", "byV", "t")
    assert view.include_all_columns is False
    assert [column.name for column in view.partition_key] == ["v"]
    assert [(c.name, c.is_reversed) for c in view.clustering_key] == [("c", True), ("k", False)]
    assert list(view.columns) == ["v", "c", "k"]
    assert view.where_clause == "v > 'a' AND k IS NOT NULL AND c IS NOT NULL"
    assert view.options["comment"] == "by value"


def test_metadata(session: Session) -> None:
    keyspace: KeyspaceMetadata = session.cluster.metadata.keyspaces["shop"]
    assert set(keyspace.tables) == {"t"}
    assert set(keyspace.views) == set(keyspace.tables["t"].views) == {"byV"}
    check_by_v(keyspace.views["byV"])


def test_the_drivers_own_text_makes_the_same_view_again(session: Session) -> None:
    text = session.cluster.metadata.keyspaces["shop"].views["byV"].as_cql_query()
    session.execute('DROP MATERIALIZED VIEW shop."byV"')
    eventually(lambda: "byV" not in session.cluster.metadata.keyspaces["shop"].views)
    session.execute(text)
    eventually(lambda: "byV" in session.cluster.metadata.keyspaces["shop"].views)
    check_by_v(session.cluster.metadata.keyspaces["shop"].views["byV"])


def test_events_reach_other_clients(server: Running, session: Session) -> None:
    other = connect(server)
    keyspace: KeyspaceMetadata = other.cluster.metadata.keyspaces["shop"]
    session.execute("CREATE TABLE shop.base (k int PRIMARY KEY, v int)")
    session.execute(
        "CREATE MATERIALIZED VIEW shop.a AS SELECT * FROM shop.base "
        "WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (v, k)"
    )
    eventually(lambda: "a" in keyspace.views)
    assert set(keyspace.tables["base"].views) == {"a"}
    session.execute("ALTER TABLE shop.base ADD w text")
    eventually(lambda: list(keyspace.views["a"].columns) == ["v", "k", "w"])
    with pytest.raises(InvalidRequest, match=r"materialized views still depend on it \(a\)"):
        session.execute("DROP TABLE shop.base")
    session.execute("DROP MATERIALIZED VIEW shop.a")
    eventually(lambda: "a" not in keyspace.views)
    session.execute("DROP TABLE shop.base")
    eventually(lambda: "base" not in keyspace.tables)
    other.cluster.shutdown()


def test_cqlsh(server: Running) -> None:
    statements = 'USE shop; DESCRIBE TABLES; DESCRIBE MATERIALIZED VIEW "byV"; DESCRIBE TABLE t'
    done = subprocess.run(
        [CQLSH, server.host, str(server.port), "--no-color", "-e", statements],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count('CREATE MATERIALIZED VIEW shop."byV" AS\n    SELECT v, c, k\n') == 2
    assert done.stdout.count("CREATE TABLE shop.t (") == 1
    assert "_write_times" not in done.stdout
