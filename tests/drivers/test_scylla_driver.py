"""The unmodified scylla-driver, which has the same module name as cassandra-driver: a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.drivers.server_process import ServerProcess

PEER = Path(sys.executable).parent.parent / "peers" / "scylla"

SCRIPT = """
import sys
import cassandra
from cassandra.cluster import Cluster
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.query import BatchStatement, SimpleStatement

assert "peers/scylla" in cassandra.__file__, cassandra.__file__
cluster = Cluster([sys.argv[1]], port=int(sys.argv[2]))
session = cluster.connect()
session.execute(
    "CREATE KEYSPACE scylla WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
)
session.set_keyspace("scylla")
session.execute("CREATE TABLE t (k int, c int, v text, m map<text, int>, PRIMARY KEY (k, c))")
assert set(cluster.metadata.keyspaces["scylla"].tables["t"].columns) == set("kcvm")
insert = session.prepare("INSERT INTO t (k, c, v, m) VALUES (?, ?, ?, ?)")
rows = [(k, c, f"é{c}", {"x": c}) for k in range(5) for c in range(40)]
assert all(done.success for done in execute_concurrent_with_args(session, insert, rows, 50))
paged = session.execute(SimpleStatement("SELECT k, c, v, m FROM t", fetch_size=7))
assert paged.has_more_pages
assert sorted((r.k, r.c, r.v, dict(r.m)) for r in paged) == rows
select = session.prepare("SELECT c FROM t WHERE k = ? AND c > ?")
assert [row.c for row in session.execute(select, (3, 36))] == [37, 38, 39]
batch = BatchStatement()
batch.add(insert, (9, 1, "batch", None))
batch.add("INSERT INTO t (k, c, v) VALUES (9, 2, 'batch')")
session.execute(batch)
assert session.execute("SELECT count(*) FROM t WHERE k = 9").one()[0] == 2
assert not session.execute("INSERT INTO t (k, c) VALUES (9, 1) IF NOT EXISTS").one().applied
try:
    session.execute("SELECT * FROM missing")
except cassandra.InvalidRequest:
    pass
else:
    raise AssertionError("no error")
cluster.shutdown()
print("scylla-driver", cassandra.__version__, "protocol", cluster.protocol_version)
"""


def test_connect_prepare_page_batch(server: ServerProcess) -> None:
    if not PEER.is_dir():
        pytest.skip("./run setup installs it")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, server.host, str(server.port)],
        env={**os.environ, "PYTHONPATH": str(PEER)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("scylla-driver 3.")
