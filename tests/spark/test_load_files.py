"""`belvedere load` with Spark: Parquet, CSV and JSON files into tables."""

import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from belvedere.cli.main import main
from belvedere.spark.calls import SparkFaceError
from belvedere.spark.load import LoadSummary, load_files
from tests.drivers.server_process import belvedere
from tests.spark.conftest import SETTINGS, Store

COLUMNS = "k int, c int, v text, d decimal, l list<int>, day date, at timestamp, PRIMARY KEY (k, c)"
#: What all formats say of it, as CQL shows it.
ROWS = [
    '{"k": 1, "c": 1, "at": "2024-01-02 03:04:05.678Z", "d": 1.10, "day": "2024-02-29", "l": [1, 2], '
    '"v": "a, \\"b\\""}',
    '{"k": 2, "c": 1, "at": null, "d": null, "day": null, "l": null, "v": ""}',
]


@pytest.fixture
def store(store: Store) -> Store:
    store.cql(f"CREATE TABLE KS.t ({COLUMNS})")
    return store


class Told(list[str]):
    def __call__(self, text: str) -> None:
        self.append(text)


def load(store: Store, files: list[Path], file_format: str, table: str = "t", **options: str) -> LoadSummary:
    host, port = store.server.host, store.server.port
    names = [str(file) for file in files]
    return load_files(SETTINGS, names, file_format, store.name(table), host, port, options, Told())


def shell(store: Store, *words: str) -> int:
    return main(["load", *words, "--host", store.server.host, "--port", str(store.server.port)])


def write_csv(path: Path) -> Path:
    path.write_text(
        "\ufeffk,c,v,d,l,day,at\r\n"
        '1,1,"a, ""b""",1.10,"[1, 2]",2024-02-29,2024-01-02T03:04:05.678Z\r\n'
        "\r\n"
        '2,1,"",,,,\r\n',
        encoding="utf-8",
        newline="",
    )
    return path


def write_json(path: Path) -> Path:
    path.write_text(
        '{"k": 1, "c": 1, "v": "a, \\"b\\"", "d": 1.10, "l": [1, 2], "day": "2024-02-29", '
        '"at": "2024-01-02 03:04:05.678Z"}\n'
        '{"c": "1", "K": 2, "v": "", "d": null}\n'
    )
    return path


def write_parquet(path: Path) -> Path:
    table = pa.table(
        {
            "k": pa.array([1, 2], pa.int64()),
            "c": pa.array([1, 1], pa.int16()),
            "v": ['a, "b"', ""],
            "d": pa.array(["1.10", None]).cast(pa.decimal128(10, 2)),
            "l": pa.array([[1, 2], None], pa.list_(pa.int32())),
            "day": [datetime.date(2024, 2, 29), None],
            "at": pa.array([1704164645678000, None], pa.timestamp("us", "UTC")),
        }
    )
    pq.write_table(table, path)
    return path


WRITERS = {"csv": write_csv, "json": write_json, "parquet": write_parquet}


@pytest.mark.parametrize("file_format", WRITERS)
def test_all_formats_say_the_same(
    store: Store, file_format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = WRITERS[file_format](tmp_path / f"rows [1].{file_format}")
    assert shell(store, str(path), store.name("t"), "--spark", "spark.master=local[2]", "--json") == 0
    told = capsys.readouterr()
    summary = json.loads(told.out)
    assert summary["seconds"] > 0
    assert {**summary, "seconds": 0} == {
        "table": store.name("t"),
        "rows": 2,
        "bad_rows": 0,
        "bad_rows_path": None,
        "reasons": {},
        "seconds": 0,
    }
    assert told.err.splitlines() == [
        "starting Spark on local[2]",
        f"reading {file_format} into {store.name('t')}",
        f"2 rows written; making them part of {store.name('t')}",
    ]
    assert store.json("t") == ROWS


def test_files_and_directories_together(store: Store, tmp_path: Path) -> None:
    """Columns that a file lacks are null in its rows; headers are left out of each."""
    many = tmp_path / "many.parquet"
    many.mkdir()
    pq.write_table(pa.table({"k": [1, 2], "c": [0, 0], "v": ["x", "y"]}), many / "a.parquet")
    pq.write_table(pa.table({"k": [3], "c": [0], "d": ["1.5"]}), many / "b.parquet")
    assert load(store, [many], "parquet").rows == 3
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text("".join(["k,c,v\n", *(f"{name!r},{n},\n" for n in range(3))]))
    assert load(store, [tmp_path / "*.csv"], "csv", badRows="skip").bad_rows == 9
    for number, name in enumerate("abc"):
        (tmp_path / f"{name}.csv").write_text("".join(["k,c,v\n", *(f"9,{number},{name}\n",)]))
    assert load(store, [tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "c.csv"], "csv").rows == 3
    found = {
        (row["k"], row["c"], row["v"], row["d"] and str(row["d"])) for row in store.cql("SELECT * FROM KS.t")
    }
    assert found == {
        *((1, 0, "x", None), (2, 0, "y", None), (3, 0, None, "1.5")),
        *((9, number, name, None) for number, name in enumerate("abc")),
    }


def test_a_session_that_was_there_is_left_there(store: Store, spark: SparkSession, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "rows.csv")
    # As where Spark's connection to this thread was lost and made anew.
    active = SparkSession._get_j_spark_session_class(spark._jvm)
    active.clearActiveSession()
    try:
        assert load(store, [path], "csv").rows == 2
        assert spark.range(3).count() == 3
    finally:
        active.setActiveSession(spark._jsparkSession)


def test_a_file_in_many_parts_loses_nothing(store: Store, spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    lines = [f'{number % 7},{number},"text {number}"' for number in range(5000)]
    path.write_text("\n".join(["k,c,v", *lines]))
    spark.conf.set("spark.sql.files.maxPartitionBytes", "20000")
    try:
        assert load(store, [path], "csv").rows == 5000
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert store.cql("SELECT count(*), max(c) FROM KS.t")[0] == {"count": 5000, "system.max(c)": 4999}


def test_columns_in_names_of_directories(store: Store, tmp_path: Path) -> None:
    for day in ("2024-02-29", "2024-03-01"):
        directory = tmp_path / "t.parquet" / f"day={day}" / "v=007"
        directory.mkdir(parents=True)
        pq.write_table(pa.table({"k": [1], "c": [int(day[-2:])]}), directory / "a.parquet")
    assert load(store, [tmp_path / "t.parquet"], "parquet").rows == 2
    assert [row["v"] for row in store.cql("SELECT v FROM KS.t")] == ["007", "007"]
    assert [str(row["day"]) for row in store.cql("SELECT day FROM KS.t")] == ["2024-03-01", "2024-02-29"]
    directory = tmp_path / "t.csv" / "day=2024-02-29"
    directory.mkdir(parents=True)
    (directory / "a.csv").write_text("k,c\n1,1\n")
    with pytest.raises(SparkFaceError, match="directories named day=… hold a column"):
        load(store, [tmp_path / "t.csv"], "csv")


def test_bad_lines_and_rows_are_counted_with_their_reasons(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, bad = tmp_path / "rows.csv", tmp_path / "bad.jsonl"
    path.write_bytes(b'k,c,d\n1,1,1\n2,x,1\n,3,\n4,4\n5,5,"1\n6,6,\xff\n7,7,"7"\n')
    words = (str(path), store.name("t"), "--on-bad-rows", "skip", "--bad-rows", str(bad))
    assert shell(store, *words) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith(f"{store.name('t')}: 2 rows loaded in ")
    assert out[1] == f"5 bad rows left out; they are in {bad}"
    assert out[2:] == [
        "           1  a line of CSV with 2 values instead of 3",
        "           1  a line of CSV with a quote that is not closed, or not at the end of a value",
        "           1  a line that is not UTF-8",
        "           1  column c: 'x' is not an int",
        "           1  column k: null, but part of the primary key",
    ]
    rows: list[dict[str, Any]] = [json.loads(line) for line in bad.read_text(encoding="utf-8").splitlines()]
    assert {"line": "4,4"} in [row["row"] for row in rows]
    assert {"line": "6,6,\ufffd"} in [row["row"] for row in rows]
    assert {"k": "2", "c": "x", "d": "1"} in [row["row"] for row in rows]

    assert shell(store, str(path), store.name("t")) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert f"loading into {store.name('t')} failed: 5 rows do not fit {store.name('t')}" in told.err
    assert "Traceback" not in told.err
    assert store.cql("SELECT count(*) FROM KS.t")[0]["count"] == 2


def test_json_lines_that_are_no_rows(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text('{"k": 1, "c": 1}\n{"k": 2, "c": 1\n{"k": 3, "c": 1, "x": 0}\n{"k": 4, "c": 1.5}\n')
    summary = load(store, [path], "json", badRows="skip")
    assert (summary.rows, summary.bad_rows) == (1, 3)
    assert set(summary.reasons) == {
        "not a line with a JSON object: Input data was truncated",
        f"{store.name('t')} has no column x; it has k, c, at, d, day, l, v",
        "column c: '1.5' is not an int",
    }
    path.write_text("")
    assert load(store, [path], "json").rows == 0


def test_files_that_cannot_be_loaded(store: Store, tmp_path: Path) -> None:
    def refused(name: str, content: str | pa.Table, message: str) -> None:
        path = tmp_path / name
        if isinstance(content, str):
            path.write_text(content)
        else:
            pq.write_table(content, path)
        with pytest.raises(SparkFaceError, match=message) as caught:
            load(store, [path], path.suffix[1:])
        assert "\n" not in str(caught.value)

    refused("a.csv", "k,c,zz\n1,1,1\n", r"has no column zz; it has k, c, at, d, day, l, v")
    refused("b.csv", "k,v\n1,1\n", r"the rows lack c of the primary key")
    refused("c.csv", "", r"the CSV files are empty")
    refused("d.csv", "k,c,c\n", r"two columns of the CSV file have the same name")
    refused("_e.csv", "k,c\n1,1\n", r"Spark passes over files whose names begin with _")
    refused("f.parquet", "nonsense", r"CANNOT_READ_FILE_FOOTER.*f\.parquet")
    nanoseconds = pa.table({"k": [1], "c": [1], "at": pa.array([1], pa.timestamp("ns"))})
    refused("g.parquet", nanoseconds, r"TIMESTAMP\(NANOS.*write microseconds")
    refused("h.parquet", pa.table({"k": [1], "c": [True]}), "column c: bool cannot become int")
    (tmp_path / "i.csv").write_text("k,c\n1,1\n")
    (tmp_path / "j.csv").write_text("c,k\n1,1\n")
    with pytest.raises(
        SparkFaceError, match=r"the same columns in the same order: one begins with '(k,c|c,k)'"
    ):
        load(store, [tmp_path / "i.csv", tmp_path / "j.csv"], "csv")
    with pytest.raises(SparkFaceError, match=r"PATH_NOT_FOUND.*gone\.csv"):
        load(store, [tmp_path / "gone.csv"], "csv")
    assert store.json("t") == []
    assert store.jobs("load-") == set()


@pytest.mark.timeout(300)  # it starts processes that take seconds each, and a busy machine many
def test_the_command_starts_and_ends_its_own_spark(store: Store, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "rows.csv")
    words = ("load", path.name, store.name("t"), "--spark", "spark.master=local[1]", "--ttl", "1000")
    server = ("--host", store.server.host, "--port", str(store.server.port))
    done = belvedere([*words, *server], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{store.name('t')}: 2 rows loaded in ")
    assert store.json("t") == ROWS
    done = belvedere(["load", "rows.csv", store.name("nope"), *server], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
