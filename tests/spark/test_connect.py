"""The same through Spark Connect, where the session is in another process than Spark."""

import subprocess
import sys
from pathlib import Path

import pytest

import belvedere
from tests.spark.conftest import Store

#: Spark Connect in this machine: a server on a port of its own, always the same.
CONNECT = {
    "spark.remote": "local[1]",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.ui.enabled": "false",
}
SCRIPT = (
    f"""
settings = {CONNECT!r}
"""
    + """
import sys
from belvedere.pipeline.spark_session import make_session
from belvedere.spark.load import load_files, load_frame

host, port, table, file = sys.argv[1:]
where = {"host": host, "port": port}
session = make_session(settings, "connect")
assert type(session).__module__ == "pyspark.sql.connect.session"
frame = session.range(100).selectExpr("int(id) AS k", "string(id) AS v")
frame.where("k < 50").write.format("belvedere").options(**where).mode("append").save(table)
rest = frame.where("k >= 40").selectExpr("k", "IF(k = 99, NULL, k) AS k2").selectExpr("k2 AS k")
print(load_frame(rest, table, badRows="skip", **where).bad_rows)
read = session.read.format("belvedere").options(**where).load(table)
print(read.count(), read.where("v IS NULL").count(), read.where("k = 7").collect()[0].v)
print(session.read.format("belvedere").options(keys='{"k": [7, 8]}', **where).load(table).count())
summary = load_files(settings, [file], "csv", table, host, int(port), {}, lambda text: None)
print(summary.rows, session.read.format("belvedere").options(**where).load(table).count())
try:
    load_frame(frame.selectExpr("k", "k AS w"), table, **where)
except Exception as error:
    print(error)
session.stop()
"""
)


@pytest.mark.timeout(300)  # it starts processes that take seconds each, and a busy machine many
def test_reading_writing_and_views(store: Store, tmp_path: Path) -> None:
    """One after the other: there is but one port."""
    data_frames_are_read_and_written(store, tmp_path)
    a_node_builds_views_through_it(tmp_path)


def data_frames_are_read_and_written(store: Store, tmp_path: Path) -> None:
    store.cql("CREATE TABLE KS.t (k int PRIMARY KEY, v text)")
    rows = tmp_path / "rows.csv"
    rows.write_text("k,v\n1000,a\n1001,b\n")
    arguments = [store.server.host, str(store.server.port), store.name("t"), str(rows)]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [
        "1",
        "99 49 7",
        "2",
        "2 101",
        f"{store.name('t')} has no column w; it has k, v",
    ]
    assert len(store.json("t")) == 101


def a_node_builds_views_through_it(tmp_path: Path) -> None:
    with belvedere.open(tmp_path / "data", spark=CONNECT, inline_rows=0) as db:
        db.execute(
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        db.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
        for number in range(40):
            db.execute(f"INSERT INTO ks.t (k, v) VALUES ({number}, {number % 3})")
        view = (
            "CREATE MATERIALIZED VIEW ks.by_v AS SELECT * FROM ks.t WHERE v IS NOT NULL AND k IS NOT NULL "
            "PRIMARY KEY (v, k) WITH build = {}"
        )
        # A row a second: dropped in the middle, it is cancelled and leaves room for the next.
        db.execute(view.format("{'max_rate': '1'}"))
        db.execute("DROP MATERIALIZED VIEW ks.by_v")
        db.execute(view.format("{'wait': 'true'}"))
        assert len(list(db.execute("SELECT * FROM ks.by_v"))) == 40
        (found,) = db.execute("CALL verify('ks.by_v')")
        assert (found.view_rows, found.missing, found.orphaned, found.different) == (40, 0, 0, 0)
