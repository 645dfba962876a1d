"""Values of all types, from CQL to Spark and back, and what they look like there."""

import datetime
from typing import Any

from pyspark.sql import Row

from tests.spark.conftest import Store


def local(seconds: float) -> datetime.datetime:
    """As PySpark hands out timestamps: in the zone of this process, without saying so."""
    return datetime.datetime.fromtimestamp(seconds)


#: Type, literal in CQL, value in Spark.
ORDINARY: dict[str, tuple[str, str, Any]] = {
    "a": ("ascii", "'plain'", "plain"),
    "bi": ("bigint", "-9223372036854775808", -(2**63)),
    "bl": ("blob", "0x00ff", bytearray(b"\x00\xff")),
    "bo": ("boolean", "true", True),
    "da": ("date", "'2024-02-29'", datetime.date(2024, 2, 29)),
    "de": ("decimal", "-12345678901234567890.123456789", "-12345678901234567890.123456789"),
    "dou": ("double", "0.1", 0.1),
    "du": ("duration", "1mo2d3h", Row(months=1, days=2, nanoseconds=3 * 3600 * 10**9)),
    "fl": ("float", "1.5", 1.5),
    "ine": ("inet", "'::1'", "::1"),
    "i": ("int", "-7", -7),
    "sm": ("smallint", "32767", 32767),
    "te": ("text", "'žluťoučký 🐎'", "žluťoučký 🐎"),
    "ti": ("time", "'13:14:15.000000016'", "13:14:15.000000016"),
    "ts": ("timestamp", "'2024-05-06 07:08:09.123Z'", local(1714979289.123)),
    "tu": ("timeuuid", "50554d6e-29bb-11e5-b345-feff819cdc9f", "50554d6e-29bb-11e5-b345-feff819cdc9f"),
    "tin": ("tinyint", "-128", -128),
    "uu": ("uuid", "123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-42d3-a456-426614174000"),
    "va": ("varint", "123456789012345678901234567890", "123456789012345678901234567890"),
    "li": ("list<int>", "[3, 1, 3]", [3, 1, 3]),
    "se": ("set<text>", "{'b', 'a'}", ["a", "b"]),
    "ma": ("map<text, decimal>", "{'x': 1.50}", {"x": "1.50"}),
    "fli": ("frozen<list<time>>", "['00:00:01']", ["00:00:01.000000000"]),
    "su": (
        "set<uuid>",
        "{123e4567-e89b-42d3-a456-426614174000}",
        ["123e4567-e89b-42d3-a456-426614174000"],
    ),
    "tup": ("frozen<tuple<int, text>>", "(1, 'one')", Row(field_1=1, field_2="one")),
    "ud": ("person", "{name: 'Ann', born: '2000-01-01'}", Row(name="Ann", born=datetime.date(2000, 1, 1))),
    "fud": ("frozen<person>", "{name: 'Bob'}", Row(name="Bob", born=None)),
    "mud": (
        "map<int, frozen<person>>",
        "{1: {name: 'Eve', born: '1999-12-31'}}",
        {1: Row(name="Eve", born=datetime.date(1999, 12, 31))},
    ),
    "ve": ("vector<float, 3>", "[1, 2.5, -3]", [1.0, 2.5, -3.0]),
    "lt": (
        "list<frozen<tuple<uuid, map<text, int>>>>",
        "[(123e4567-e89b-42d3-a456-426614174000, {'q': 4})]",
        [Row(field_1="123e4567-e89b-42d3-a456-426614174000", field_2={"q": 4})],
    ),
}
#: What is rare: columns and literals of further rows.
RARE = (
    {"te": "''", "bl": "0x", "li": "[]", "se": "{}", "ma": "{}", "fli": "[]"},
    {"dou": "NaN", "fl": "-Infinity", "de": "1E+3", "va": "0", "i": "2147483647"},
    {"da": "'1582-10-04'", "ts": "'1582-10-04 00:00:00Z'", "du": "-1mo1ns", "ti": "'23:59:59.999999999'"},
    {"tup": "(null, 'x')", "ud": "{born: '2000-01-01'}", "mud": "{}", "fud": "{}"},
    {"ma": "{'': 0, 'k': -0.10}", "se": "{''}", "bl": "0xcafe", "ine": "'10.0.0.1'"},
    {},
)


def columns() -> str:
    return ", ".join(f"{name} {kind}" for name, (kind, _, _) in ORDINARY.items())


def filled(store: Store) -> list[str]:
    """Two tables of all types, one with rows; returns them as JSON."""
    store.cql(
        "CREATE TYPE KS.person (name text, born date)",
        f"CREATE TABLE KS.t (k int PRIMARY KEY, {columns()})".replace("person", "KS.person"),
        f"CREATE TABLE KS.copy (k int PRIMARY KEY, {columns()})".replace("person", "KS.person"),
    )
    values = {name: literal for name, (_, literal, _) in ORDINARY.items()}
    for number, row in enumerate((values, *RARE)):
        names = ", ".join(["k", *row])
        store.cql(f"INSERT INTO KS.t ({names}) VALUES ({', '.join([str(number), *row.values()])})")
    return store.json("t")


def test_what_is_read_is_what_cql_shows_and_goes_back_in_as_it_was(store: Store) -> None:
    rows = filled(store)
    frame = store.read("t")
    found = frame.where("k = 0").collect()[0].asDict()
    assert found.pop("k") == 0
    assert found == {name: value for name, (_, _, value) in ORDINARY.items()}
    nothing = frame.where(f"k = {len(RARE)}").collect()[0].asDict()
    assert set(nothing.values()) == {len(RARE), None}
    assert set(nothing) == {"k", *ORDINARY}

    store.write(frame, "copy")
    assert store.json("copy") == rows
    assert sorted(map(repr, store.read("copy").collect())) == sorted(map(repr, frame.collect()))


def test_what_spark_has_of_its_own(store: Store) -> None:
    """Types that Spark has and our schema does not use: decimals, wider numbers, binary UUIDs."""
    store.cql(
        "CREATE TABLE KS.t (k int PRIMARY KEY, d decimal, v varint, i smallint, u uuid, ts timestamp, "
        "t text, day date, l list<bigint>, f float)"
    )
    frame = store.spark.sql(
        "SELECT 1L AS K, 1.50BD AS d, 123456789012345678901234567890BD AS v, 7L AS i, "
        "X'123e4567e89b42d3a456426614174000' AS u, TIMESTAMP_NTZ'2024-01-02 03:04:05.678' AS ts, "
        "CAST('x' AS VARCHAR(3)) AS t, '2024-02-29' AS day, ARRAY(1Y, 2Y) AS l, 0.5D AS f"
    )
    store.write(frame, "t")
    row = store.cql("SELECT JSON * FROM KS.t")[0]["[json]"]
    assert row == (
        '{"k": 1, "d": 1.50, "day": "2024-02-29", "f": 0.5, "i": 7, "l": [1, 2], "t": "x", '
        '"ts": "2024-01-02 03:04:05.678Z", "u": "123e4567-e89b-42d3-a456-426614174000", '
        '"v": 123456789012345678901234567890}'
    )


def test_compound_keys_static_columns_and_quoted_names(store: Store) -> None:
    store.cql(
        'CREATE TABLE KS."BigTable" (a int, "B b" text, c timeuuid, s int static, v set<int>, '
        'PRIMARY KEY ((a, "B b"), c)) WITH CLUSTERING ORDER BY (c DESC)',
        'INSERT INTO KS."BigTable" (a, "B b", s) VALUES (1, \'lonely\', 5)',
        'INSERT INTO KS."BigTable" (a, "B b", c, s, v) VALUES (2, \'x\', '
        "50554d6e-29bb-11e5-b345-feff819cdc9f, 6, {1, 2})",
        'INSERT INTO KS."BigTable" (a, "B b", c) VALUES (2, \'x\', 60554d6e-29bb-11e5-b345-feff819cdc9f)',
    )
    frame = store.read('"BigTable"')
    assert frame.columns == ["a", "B b", "c", "s", "v"]
    found = {(row["a"], row["B b"], row.c and row.c[:2], row.s, str(row.v)) for row in frame.collect()}
    assert found == {(1, "lonely", None, 5, "None"), (2, "x", "50", 6, "[1, 2]"), (2, "x", "60", 6, "None")}

    more = frame.where("a = 2").drop("s").replace({"x": "y"})
    store.write(more, '"BigTable"')
    assert len(store.cql('SELECT * FROM KS."BigTable" WHERE a = 2 AND "B b" = \'y\'')) == 2
