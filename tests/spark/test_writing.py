"""DataFrames into tables: what becomes of bad rows, of what is there, of views and of writes meanwhile."""

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from belvedere.spark.calls import SparkFaceError
from belvedere.spark.load import load_frame
from belvedere.spark.loading import BadRowsFound
from tests.spark.conftest import Background, Gate, Store, until


@pytest.fixture
def store(store: Store) -> Store:
    store.cql("CREATE TABLE KS.t (k int, c int, v text, n int, PRIMARY KEY (k, c))")
    return store


def rows_with_three_bad(store: Store) -> DataFrame:
    return store.spark.range(100).selectExpr(
        "int(id % 10) AS k",
        "IF(id IN (3, 4), NULL, int(id)) AS c",
        "IF(id = 50, 'many', string(id)) AS n",
    )


# -- bad rows --------------------------------------------------------------------------------------


def test_bad_rows_fail_the_load(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "bad.jsonl"
    message = (
        r"3 rows do not fit ks\d+\.t, so nothing was loaded:\n"
        r"  2 × column c: null, but part of the primary key\n"
        r"  1 × column n: 'many' is not an int\n"
    )
    with pytest.raises(PySparkException, match="BadRowsFound: " + message):
        store.write(rows_with_three_bad(store), "t", badRowsPath=str(path))
    with pytest.raises(BadRowsFound, match="^" + message):
        load_frame(rows_with_three_bad(store), store.name("t"), **store.options)
    assert store.json("t") == []
    assert len(path.read_text().splitlines()) == 3
    until(lambda: store.jobs("load-") == set())


def test_bad_rows_are_left_out(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    frame = rows_with_three_bad(store)
    store.write(frame, "t", badRows="skip", badRowsPath=str(path))
    assert len(store.json("t")) == 97
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(row["reason"] for row in found) == [
        "column c: null, but part of the primary key",
        "column c: null, but part of the primary key",
        "column n: 'many' is not an int",
    ]
    assert {"k": 0, "c": 50, "n": "many"} in [row["row"] for row in found]

    summary = load_frame(frame, store.name("t"), badRows="skip", **store.options)
    assert (summary.rows, summary.bad_rows, summary.bad_rows_path) == (97, 3, None)
    assert list(summary.reasons.items()) == [
        ("column c: null, but part of the primary key", 2),
        ("column n: 'many' is not an int", 1),
    ]
    assert summary.seconds > 0


def test_bad_rows_that_are_no_text_can_be_written_down(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    frame = store.spark.sql("SELECT 1 AS k, 1 AS c, CAST(X'61ff62' AS STRING) AS v")
    summary = load_frame(frame, store.name("t"), badRows="skip", badRowsPath=str(path), **store.options)
    assert (summary.rows, summary.bad_rows) == (0, 1)
    assert json.loads(path.read_text())["row"] == {"k": 1, "c": 1, "v": "a�b"}


# -- what is there ---------------------------------------------------------------------------------


def test_overwrite_wants_to_be_confirmed(store: Store) -> None:
    frame = store.spark.sql("SELECT 1 AS k, 1 AS c, 'new' AS v")
    store.cql("INSERT INTO KS.t (k, c, v) VALUES (1, 0, 'old')")
    with pytest.raises(PySparkException, match="mode overwrite would remove all rows of"):
        store.write(frame, "t", mode="overwrite")
    assert len(store.json("t")) == 1
    with pytest.raises(PySparkException, match="has no column more"):
        store.write(frame.selectExpr("*", "1 AS more"), "t", mode="overwrite", **{"confirm.truncate": "true"})
    assert len(store.json("t")) == 1
    store.write(frame, "t", mode="overwrite", **{"confirm.truncate": "true"})
    assert store.json("t") == ['{"k": 1, "c": 1, "n": null, "v": "new"}']
    assert store.jobs("load-") == set()


def test_rows_of_the_same_key_are_replaced_column_by_column(store: Store) -> None:
    store.cql("INSERT INTO KS.t (k, c, v, n) VALUES (1, 1, 'old', 5)")
    store.write(store.spark.sql("SELECT 1 AS k, 1 AS c, 'new' AS v"), "t")
    store.write(store.spark.sql("SELECT 1 AS k, 1 AS c, CAST(NULL AS STRING) AS v"), "t")
    assert store.json("t") == ['{"k": 1, "c": 1, "n": 5, "v": "new"}']


def test_write_time_and_ttl(store: Store) -> None:
    store.cql("INSERT INTO KS.t (k, c, v) VALUES (1, 1, 'cql') USING TIMESTAMP 2000")
    frame = store.spark.sql("SELECT 1 AS k, stack(2, 1, 2) AS c, 'spark' AS v, 7 AS n")
    store.write(frame, "t", timestamp="1000", ttl="5000")
    rows = store.cql("SELECT c, v, WRITETIME(v), n, TTL(n) FROM KS.t WHERE k = 1")
    assert [tuple(row.values())[:4] for row in rows] == [(1, "cql", 2000, 7), (2, "spark", 1000, 7)]
    assert all(4000 < row["ttl(n)"] <= 5000 for row in rows)
    with pytest.raises(PySparkException, match="ttl of a load must be from 0 to"):
        store.write(frame, "t", ttl="-1")


def test_an_empty_frame_is_a_load_of_nothing(store: Store) -> None:
    frame = store.spark.createDataFrame([], "k int, c int")
    store.write(frame, "t")
    assert load_frame(frame, store.name("t"), **store.options).rows == 0
    assert store.jobs("load-") == set()


# -- views, and writes meanwhile -------------------------------------------------------------------


def test_views_follow_and_the_newest_write_counts(store: Store, gate: Gate) -> None:
    store.cql(
        "CREATE MATERIALIZED VIEW KS.by_n AS SELECT * FROM KS.t WHERE n IS NOT NULL AND k IS NOT NULL "
        "AND c IS NOT NULL PRIMARY KEY (n, k, c)",
        "INSERT INTO KS.t (k, c, v, n) VALUES (0, 0, 'before', 1000)",
        "INSERT INTO KS.t (k, c, v, n) VALUES (1, 1, 'before', 1000)",
    )
    frame = store.spark.range(500).selectExpr(
        "int(id % 10) AS k", "int(id) AS c", "'loaded' AS v", "int(id % 7) AS n"
    )
    load = Background(lambda: load_frame(gate.behind(frame), store.name("t"), **store.options))
    until(lambda: store.jobs("load-"))
    store.cql(
        "UPDATE KS.t SET n = 2000 WHERE k = 2 AND c = 2",
        "UPDATE KS.t USING TIMESTAMP 1000 SET n = 3000, v = 'old' WHERE k = 3 AND c = 3",
        "DELETE FROM KS.t WHERE k = 4 AND c = 4",
        "DELETE FROM KS.t USING TIMESTAMP 1000 WHERE k = 5 AND c = 5",
        "INSERT INTO KS.t (k, c, v, n) VALUES (6, 9999, 'meanwhile', 6)",
    )
    assert len(store.json("t")) == 5, "rows of a load are there before it is committed"
    gate.open()
    assert load.end().rows == 500

    found = {(row["k"], row["c"]): (row["v"], row["n"]) for row in store.cql("SELECT k, c, v, n FROM KS.t")}
    expected: dict[tuple[int, int], tuple[str, int]] = {
        (number % 10, number): ("loaded", number % 7) for number in range(500)
    }
    expected |= {(2, 2): ("loaded", 2000), (6, 9999): ("meanwhile", 6)}
    del expected[4, 4]
    assert found == expected
    store.wait_for_loads("by_n")
    assert store.compare("by_n")["view_rows"] == 500
    view = {(row["k"], row["c"]): (row["v"], row["n"]) for row in store.cql("SELECT k, c, v, n FROM KS.by_n")}
    assert view == expected


# -- what cannot be written ------------------------------------------------------------------------


def test_what_cannot_be_loaded_into(store: Store) -> None:
    store.cql(
        "CREATE MATERIALIZED VIEW KS.mv AS SELECT * FROM KS.t WHERE k IS NOT NULL AND c IS NOT NULL "
        "PRIMARY KEY (c, k)",
        "CREATE TABLE KS.hits (k int PRIMARY KEY, n counter)",
        "CREATE TABLE KS.s (k int, c int, s int static, PRIMARY KEY (k, c))",
    )
    frame = store.spark.sql("SELECT 1 AS k, 2 AS c, 3 AS n")

    def refused(table: str, frame: DataFrame, message: str) -> None:
        with pytest.raises(SparkFaceError, match=message):
            load_frame(frame, store.name(table), **store.options)
        with pytest.raises(PySparkException, match=message):
            store.write(frame, table)

    refused("nope", frame, r"table ks\d+\.nope does not exist")
    refused("mv", frame.drop("n"), "mv is a materialized view|Cannot directly modify a materialized view")
    refused("hits", frame.drop("c"), "counters")
    refused("t", frame.selectExpr("k", "c", "n > 1 AS n"), "column n: bool cannot become int")
    refused("t", frame.drop("c"), "the rows lack c of the primary key")
    refused("t", frame.withColumnRenamed("n", "w"), r"has no column w; it has k, c, n, v")
    refused("s", frame.withColumnRenamed("n", "s"), "s of .* is static: static columns cannot be loaded")
    assert store.jobs("load-") == set()


def test_a_server_that_is_not_there(store: Store) -> None:
    frame = store.spark.sql("SELECT 1 AS k")
    with pytest.raises(SparkFaceError, match=r"^no answer from 127\.0\.0\.1:1: .*Is a server running there"):
        load_frame(frame, "ks.t", host="127.0.0.1", port="1")


def test_a_job_that_fails_leaves_nothing_and_says_why_in_a_sentence(store: Store) -> None:
    frame = store.spark.range(10).selectExpr("int(id) AS k", "int(id / (id - 7)) AS c")
    with pytest.raises(SparkFaceError) as caught:
        load_frame(frame, store.name("t"), **store.options)
    assert str(caught.value).startswith("[DIVIDE_BY_ZERO] Division by zero.")
    assert "Exception" not in str(caught.value)
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        store.write(frame, "t")
    until(lambda: store.jobs("load-") == set())
    assert store.json("t") == []
