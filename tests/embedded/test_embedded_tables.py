"""Values of every type through the embedded API: as Python values, Arrow, pandas and Polars."""

import datetime
import decimal
import math
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import belvedere
from belvedere import Duration, EmbeddedDatabase

TIMEUUID = uuid.UUID("f2f9a2c0-5d0e-11ee-8c99-0242ac120002")

#: Column type, Python value given and got, Arrow type, value in the Arrow table.
TYPES: dict[str, tuple[Any, pa.DataType, Any]] = {
    "ascii": ("plain", pa.string(), "plain"),
    "bigint": (-(2**63), pa.int64(), -(2**63)),
    "blob": (b"\x00\xff", pa.binary(), b"\x00\xff"),
    "boolean": (True, pa.bool_(), True),
    "date": (datetime.date(1969, 12, 31), pa.date32(), datetime.date(1969, 12, 31)),
    "decimal": (decimal.Decimal("-12.340"), pa.string(), "-12.340"),
    "double": (math.pi, pa.float64(), math.pi),
    "duration": (
        Duration(1, 2, 3),
        pa.struct([("months", pa.int32()), ("days", pa.int32()), ("nanoseconds", pa.int64())]),
        {"months": 1, "days": 2, "nanoseconds": 3},
    ),
    "float": (0.5, pa.float32(), 0.5),
    "inet": ("2001:db8::1", pa.string(), "2001:db8::1"),
    "int": (-7, pa.int32(), -7),
    "smallint": (-300, pa.int16(), -300),
    "text": ("größer 🏛", pa.string(), "größer 🏛"),
    "time": (3_600_000_000_001, pa.time64("ns"), None),
    "timestamp": (
        datetime.datetime(2024, 2, 29, 12, 30, 0, 5000),
        pa.timestamp("ms", tz="UTC"),
        datetime.datetime(2024, 2, 29, 12, 30, 0, 5000, tzinfo=datetime.UTC),
    ),
    "timeuuid": (TIMEUUID, pa.binary(16), TIMEUUID.bytes),
    "tinyint": (-128, pa.int8(), -128),
    "uuid": (uuid.UUID(int=5), pa.binary(16), uuid.UUID(int=5).bytes),
    "varint": (-(10**30), pa.string(), str(-(10**30))),
    "list<int>": ([3, 1, 3], pa.list_(pa.field("element", pa.int32())), [3, 1, 3]),
    "set<text>": ({"a", "b"}, pa.list_(pa.field("element", pa.string())), ["a", "b"]),
    "map<text, int>": ({"x": 1, "y": 2}, pa.map_(pa.string(), pa.int32()), [("x", 1), ("y", 2)]),
    "frozen<list<frozen<set<int>>>>": ([{1}, {2, 3}], None, [[1], [2, 3]]),
    "tuple<int, text>": ((1, None), None, {"field_1": 1, "field_2": None}),
    "vector<float, 3>": ([1.0, 0.5, -2.0], None, [1.0, 0.5, -2.0]),
    "map<time, frozen<list<time>>>": ({5: [3_600_000_000_001]}, None, None),
    "place": ({"street": "Rua 1", "number": 7}, None, {"street": "Rua 1", "number": 7}),
}


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedDatabase]:
    path: Path = tmp_path_factory.mktemp("data")
    with belvedere.open(path) as opened:
        opened.execute(
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        opened.execute("USE ks")
        opened.execute("CREATE TYPE place (street text, number int)")
        columns = ", ".join(f"c{number} {name}" for number, name in enumerate(TYPES))
        opened.execute(f"CREATE TABLE everything (k int PRIMARY KEY, {columns})")
        opened.execute("CREATE TABLE counts (k int PRIMARY KEY, n counter)")
        names = ", ".join(f"c{number}" for number in range(len(TYPES)))
        marks = ", ".join("?" * len(TYPES))
        insert = opened.prepare(f"INSERT INTO everything (k, {names}) VALUES (?, {marks})")
        opened.execute(insert, [1, *(value for value, _, _ in TYPES.values())])
        opened.execute(insert, [2, *[None] * len(TYPES)])
        yield opened


@pytest.mark.parametrize(("column", "name"), [(f"c{n}", name) for n, name in enumerate(TYPES)])
def test_every_type_comes_back(db: EmbeddedDatabase, column: str, name: str) -> None:
    given, arrow_type, in_arrow = TYPES[name]
    select = db.prepare(f"SELECT {column} FROM everything WHERE k = ?")
    got = db.execute(select, [1]).one()[0]
    assert got == given
    assert db.execute(select, [2]).one()[0] is None
    table = db.execute(f"SELECT {column} FROM everything WHERE k IN (1, 2)").to_arrow()
    table.validate(full=True)
    if arrow_type is not None:
        assert table.schema.field(column).type == arrow_type
    if name == "time":
        assert table[column].cast(pa.int64()).to_pylist() == [given, None]
    elif in_arrow is not None:
        assert table[column].to_pylist() == [in_arrow, None]


def test_empty_results_have_their_types(db: EmbeddedDatabase) -> None:
    full = db.execute("SELECT * FROM everything").to_arrow()
    empty = db.execute("SELECT * FROM everything WHERE k = 99")
    assert empty.one() is None
    table = empty.to_arrow()
    assert (table.num_rows, table.schema) == (0, full.schema)
    frame = db.execute("SELECT * FROM everything WHERE k = 99").to_pandas()
    assert (len(frame), list(frame.columns)) == (0, full.column_names)
    assert db.execute("SELECT * FROM everything WHERE k = 99").to_polars().shape == (
        0,
        len(full.column_names),
    )
    nothing = db.execute("UPDATE counts SET n = n + 1 WHERE k = 1")
    assert (nothing.column_names, nothing.all(), nothing.to_arrow().num_rows) == ([], [], 0)


def test_whole_tables_as_frames(db: EmbeddedDatabase) -> None:
    frame = db.execute("SELECT * FROM everything").to_pandas().set_index("k")
    number = {name: f"c{n}" for n, name in enumerate(TYPES)}
    assert frame.loc[1, number["text"]] == "größer 🏛"
    assert frame.loc[1, number["timestamp"]].year == 2024
    assert frame.loc[1, number["time"]] == datetime.time(1, 0)
    assert frame.loc[1, number["map<time, frozen<list<time>>>"]][0][1] == [datetime.time(1, 0)]
    assert frame.loc[2].isna().all()
    polars_frame = db.execute("SELECT * FROM everything").to_polars()
    assert polars_frame.height == 2
    assert set(polars_frame[number["int"]].to_list()) == {-7, None}
    assert db.execute("SELECT n FROM counts").to_arrow().schema.field("n").type == pa.int64()


def test_large_results_come_in_chunks(db: EmbeddedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("belvedere.server.resultset._CHUNK_ROWS", 100)
    db.execute("CREATE TABLE many (k int, c int, v text, PRIMARY KEY (k, c))")
    insert = db.prepare("INSERT INTO many (k, c, v) VALUES (?, ?, ?)")
    for k in range(5):
        db.execute_batch([(insert, (k, c, f"{k}-{c}")) for c in range(90)])
    table = db.execute("SELECT * FROM many", page_size=40).to_arrow()
    assert table["v"].num_chunks > 2
    expected = {(k, c): f"{k}-{c}" for k in range(5) for c in range(90)}
    rows = table.to_pylist()
    assert {(row["k"], row["c"]): row["v"] for row in rows} == expected
    assert len(rows) == len(expected)
