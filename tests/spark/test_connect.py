"""The same through Spark Connect, where the session is in another process than Spark."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.conftest import Store

SCRIPT = """
import sys
from belvedere.pipeline.spark_session import make_session
from belvedere.spark.load import load_files, load_frame

host, port, table, file = sys.argv[1:]
settings = {
    "spark.remote": "local[1]",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.ui.enabled": "false",
}
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


@pytest.mark.timeout(300)  # it starts processes that take seconds each, and a busy machine many
def test_read_and_write(store: Store, tmp_path: Path) -> None:
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
