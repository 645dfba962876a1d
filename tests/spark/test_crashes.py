"""A load is all there or not at all, also when the server is killed."""

import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from belvedere.spark.calls import SparkFaceError
from belvedere.spark.load import load_frame
from tests.drivers.server_process import KEYSPACE, server_process
from tests.spark.conftest import NO_SPARK, Background, Gate, Store, until

SCHEMA = (
    KEYSPACE.format("KS"),
    "CREATE TABLE KS.t (k int PRIMARY KEY, n int)",
    "CREATE MATERIALIZED VIEW KS.by_n AS SELECT * FROM KS.t WHERE n IS NOT NULL AND k IS NOT NULL "
    "PRIMARY KEY (n, k)",
    "INSERT INTO KS.t (k, n) VALUES (1, -1)",
)


@pytest.mark.timeout(300)  # it starts processes that take seconds each, and a busy machine many
def test_a_server_killed_before_and_after_the_commit(
    spark: SparkSession, tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its directory is given relative to where it runs, which is not where Spark's workers do."""
    data = tmp_path / "data"
    frame = spark.range(1000).selectExpr("int(id) AS k", "int(id % 9) AS n")
    with monkeypatch.context() as there:
        there.chdir(tmp_path)
        with server_process(Path("data"), *NO_SPARK) as server:
            store = Store(server, spark, "ks", data)
            store.cql(*SCHEMA)
            load = Background(lambda: load_frame(gate.behind(frame), "ks.t", **store.options))
            until(lambda: store.jobs("load-"))
            server.stop(signal.SIGKILL)
            gate.open()
            with pytest.raises(
                SparkFaceError, match=f"(no answer from|the connection to) 127.0.0.1:{server.port}"
            ):
                load.end()

    with server_process(data, *NO_SPARK) as server:
        store = Store(server, spark, "ks", data)
        assert store.json("t") == ['{"k": 1, "n": -1}']
        assert store.jobs("load-") == set()
        assert load_frame(frame, "ks.t", **store.options).rows == 1000
        server.stop(signal.SIGKILL)

    with server_process(data, *NO_SPARK) as server:
        store = Store(server, spark, "ks", data)
        assert store.cql("SELECT count(*) FROM KS.t")[0]["count"] == 1000
        store.wait_for_loads("by_n")
        assert store.compare("by_n")["view_rows"] == 1000
        assert store.read("t").count() == 1000
