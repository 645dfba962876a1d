"""Native functions, each with exact results; constants are computed while planning, columns per row."""
# ruff: noqa: E501 - tables of calls read best with one case a line

import datetime
from decimal import Decimal
from typing import Any

import pytest

from belvedere.model.types import NATIVE_TYPES, TIMEUUID, parse_type
from belvedere.query.errors import CQLError, FunctionFailure, InvalidRequest
from belvedere.query.functions.registry import Fit, TypedArgument, fit_types, lookup
from belvedere.query.results import Rows
from tests.query.fake_access import Session, decoded, make_table, run

TYPES = {
    "i": "int", "b": "bigint", "si": "smallint", "ti": "tinyint", "f": "float", "d": "double", "de": "decimal",
    "vi": "varint", "tx": "text", "ac": "ascii", "ts": "timestamp", "da": "date", "tm": "time", "tu": "timeuuid",
    "uu": "uuid", "bo": "boolean", "bl": "blob", "l": "list<int>", "st": "set<double>", "m": "map<text, int>",
    "v2": "vector<float, 2>", "v3": "vector<float, 3>", "du": "duration", "ip": "inet",
}  # fmt: skip
ROW = {
    "i": "-7", "b": "9000000000", "si": "300", "ti": "5", "f": "1.5", "d": "2.75", "de": "10.50",
    "vi": "123456789012345678901234567890", "tx": "'tëxt'", "ac": "'abc'", "ts": "'2024-02-29 13:45:10.123'",
    "da": "'2024-02-29'", "tm": "'10:11:12.5'", "tu": "50554d6e-29bb-11e5-b345-feff819cdc9f",
    "uu": "123e4567-e89b-42d3-a456-426614174000", "bo": "true", "bl": "0xcafe", "l": "[3, 1, 2]",
    "st": "{1.5, 2.5}", "m": "{'x': 1, 'y': 2}", "v2": "[1, 0]", "v3": "[0, 3, 4]", "du": "1d2h", "ip": "'127.0.0.1'",
}  # fmt: skip


@pytest.fixture(scope="module")
def session() -> Session:
    columns = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())
    session = Session(make_table("t", f"k int, {columns}, nothing int, key (k)"))
    run(session, f"INSERT INTO t (k, {', '.join(ROW)}) VALUES (1, {', '.join(ROW.values())})")
    return session


def value(session: Session, expression: str, values: Any = ()) -> Any:
    result = run(session, f"SELECT {expression} FROM t WHERE k = 1", values)
    assert isinstance(result, Rows)
    return decoded(result)[0][0]


def type_of(session: Session, expression: str) -> str:
    return session.plan(f"SELECT {expression} FROM t").result_columns[0].type.name


at = datetime.datetime


@pytest.mark.parametrize(
    ("expression", "type_name", "wanted"),
    [
        # times
        ("to_date(ts)", "date", datetime.date(2024, 2, 29)),
        ("todate(tu)", "date", datetime.date(2015, 7, 14)),
        ("to_timestamp(da)", "timestamp", at(2024, 2, 29)),
        ("toTimestamp(tu)", "timestamp", at(2015, 7, 14, 0, 0, 18, 805000)),
        ("to_unix_timestamp(ts)", "bigint", 1709214310123),
        ("tounixtimestamp(da)", "bigint", 1709164800000),
        ("dateOf(tu)", "timestamp", at(2015, 7, 14, 0, 0, 18, 805000)),
        ("unixTimestampOf(tu)", "bigint", 1436832018805),
        ("to_timestamp(min_timeuuid(ts))", "timestamp", at(2024, 2, 29, 13, 45, 10, 123000)),
        ("to_timestamp(maxtimeuuid(ts))", "timestamp", at(2024, 2, 29, 13, 45, 10, 123000)),
        ("floor(ts, 1h)", "timestamp", at(2024, 2, 29, 13)),
        ("floor(ts, 1mo)", "timestamp", at(2024, 2, 1)),
        ("floor(ts, 1y)", "timestamp", at(2024, 1, 1)),
        ("floor(ts, 7d, '2024-02-26')", "timestamp", at(2024, 2, 26)),
        ("floor(ts, 1mo, '2023-12-31')", "timestamp", at(2024, 2, 29)),
        ("floor(tu, 1d)", "timestamp", at(2015, 7, 14)),
        ("floor(da, 1mo)", "date", datetime.date(2024, 2, 1)),
        ("floor(tm, 1h)", "time", 36_000_000_000_000),
        ("ts + 1mo", "timestamp", at(2024, 3, 29, 13, 45, 10, 123000)),
        ("ts - 1d2h", "timestamp", at(2024, 2, 28, 11, 45, 10, 123000)),
        ("da + 1y", "date", datetime.date(2025, 2, 28)),
        ("da - du", "date", InvalidRequest("The duration must have a day precision. Was: 1d2h")),
        # numbers
        ("abs(i)", "int", 7), ("abs(de)", "decimal", Decimal("10.50")), ("abs(vi)", "varint", 123456789012345678901234567890),
        ("round(f)", "float", 2.0), ("round(d)", "double", 3.0), ("round(de)", "decimal", Decimal("11")),
        ("round((double) -2.5)", "double", -2.0), ("exp(ti)", "tinyint", -108), ("exp((int) 0)", "int", 1),
        ("log10(b)", "bigint", 9), ("log((double) 1)", "double", 0.0), ("log10((decimal) 1000)", "decimal", Decimal(3)),
        ("log(i)", "int", 0),
        # arithmetic
        ("i + 1", "int", -6), ("i * b", "bigint", -63000000000), ("i / 2", "int", -3), ("i % 2", "int", -1),
        ("ti + si", "smallint", 305), ("ti * f", "float", 7.5), ("b * f", "double", 13_500_000_000.0),
        ("i + de", "decimal", Decimal("3.50")), ("vi + d", "decimal", Decimal("123456789012345678901234567892.75")),
        ("de / 3", "decimal", Decimal("3.5")), ("(decimal) 1 / 3", "decimal", Decimal("0." + "3" * 32)),
        ("-i", "int", 7), ("-de", "decimal", Decimal("-10.50")), ("d / 0.0", "double", float("inf")),
        ("2147483647 + 1", "int", -2147483648), ("ac + 'def'", "ascii", "abcdef"), ("tx + '!'", "text", "tëxt!"),
        ("d % 2", "double", 0.75), ("i - -3", "int", -4),
        # casts
        ("cast(b as int)", "int", 410065408), ("cast(d as int)", "int", 2), ("cast(si as tinyint)", "tinyint", 44),
        ("cast(de as int)", "int", 10), ("cast(vi as bigint)", "bigint", -4362896299872285998),
        ("cast(f as decimal)", "decimal", Decimal("1.5")), ("cast(i as varint)", "varint", -7),
        ("cast(vi as double)", "double", 1.2345678901234568e29), ("cast(i as text)", "text", "-7"),
        ("cast(bo as text)", "text", "true"), ("cast(d as ascii)", "ascii", "2.75"), ("cast(da as text)", "text", "2024-02-29"),
        ("cast(tm as text)", "text", "10:11:12.500000000"), ("cast(uu as text)", "text", "123e4567-e89b-42d3-a456-426614174000"),
        ("cast(ip as text)", "text", "127.0.0.1"), ("cast(tu as date)", "date", datetime.date(2015, 7, 14)),
        ("cast(ts as date)", "date", datetime.date(2024, 2, 29)), ("cast(da as timestamp)", "timestamp", at(2024, 2, 29)),
        ("cast(ac as text)", "text", "abc"), ("cast(i as int)", "int", -7),
        # bytes
        ("intasblob(i)", "blob", b"\xff\xff\xff\xf9"), ("int_as_blob(1)", "blob", b"\0\0\0\1"), ("blobasint(0x00000005)", "int", 5),
        ("blob_as_text(bl)", "text", InvalidRequest("In call to function system.blob_as_text, value 0xcafe is not a valid binary representation for type text")),
        ("varcharasblob(tx)", "blob", "tëxt".encode()), ("blobasbigint(bigintasblob(b))", "bigint", 9000000000),
        ("octet_length(tx)", "int", 5), ("length(tx)", "int", 4), ("octet_length(i)", "int", 4), ("length('😀')", "int", 2),
        # collections
        ("map_keys(m)", "set<text>", {"x", "y"}), ("map_values(m)", "list<int>", [1, 2]), ("collection_count(m)", "int", 2),
        ("collection_count(l)", "int", 3), ("collection_min(l)", "int", 1), ("collection_max(st)", "double", 2.5),
        ("collection_sum(l)", "int", 6), ("collection_avg(l)", "int", 2), ("collection_avg(st)", "double", 2.0),
        # JSON
        ("to_json(m)", "text", '{"x": 1, "y": 2}'), ("toJson(nothing)", "text", "null"), ("toJson(tx)", "text", '"tëxt"'),
        # masks
        ("mask_null(i)", "int", None), ("mask_default(i)", "int", 0), ("mask_default(tx)", "text", "****"),
        ("mask_default(l)", "list<int>", []), ("mask_default(ts)", "timestamp", at(1970, 1, 1)), ("mask_default(ip)", "inet", "0.0.0.0"),
        ("mask_default(da)", "date", datetime.date(1970, 1, 1)), ("mask_default(de)", "decimal", Decimal(0)),
        ("mask_default(v2)", "vector<float, 2>", [0.0, 0.0]),
        ("mask_replace(i, 42)", "int", 42), ("mask_replace(tx, 'no')", "text", "no"), ("mask_replace(i, null)", "int", None),
        ("mask_inner('12345', 1, 2)", "ascii", "1**45"), ("mask_inner('12345', 1, null)", "ascii", "1****"),
        ("mask_inner('12345', 2, 1, '#')", "ascii", "12##5"), ("mask_outer('12345', 1, 2)", "ascii", "*23**"),
        ("mask_outer(tx, null, 1, '-')", "text", "tëx-"), ("mask_inner(ac, 5, 5)", "ascii", "abc"),
        ("mask_hash(ac, 'MD5')", "blob", bytes.fromhex("900150983cd24fb0d6963f7d28e17f72")),
        ("mask_hash(ac)", "blob", bytes.fromhex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")),
        # vectors
        ("similarity_cosine(v2, [0, 1])", "float", 0.5), ("similarity_euclidean(v2, v2)", "float", 1.0),
        ("similarity_dot_product(v3, [0, 1, 1])", "float", 4.0), ("similarity_euclidean([0, 3, 1], v3)", "float", pytest.approx(0.1)),
        # null in, null out
        ("abs(nothing)", "int", None), ("nothing + i", "int", None), ("cast(nothing as text)", "text", None),
        ("token(nothing)", "bigint", None), ("token(k)", "bigint", -4069959284402364209),
    ],
)  # fmt: skip
def test_results(session: Session, expression: str, type_name: str, wanted: Any) -> None:
    if isinstance(wanted, InvalidRequest):
        with pytest.raises(InvalidRequest) as error:
            value(session, expression)
        assert error.value.message == wanted.message
        return
    assert type_of(session, expression) == type_name
    assert value(session, expression) == wanted


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("cast(tx as int)", "text cannot be cast to int"),
        ("cast(i as boolean)", "int cannot be cast to boolean"),
        ("map_keys(l)", "Function system.map_keys requires a map argument, but found argument l of type list<int>"),
        ("mask_hash(ac, 'ROT13')", "Hash algorithm ROT13 is not supported."),
        ("mask_inner(ac, 1, 1, '##')", "The padding argument of function system.mask_inner should be single-character text, but '##' has 2 characters."),
        ("similarity_cosine(v2, v3)", "All arguments must have the same vector dimensions, but found vector<float, 2> and vector<float, 3>"),
        ("similarity_cosine(v2, [0, 0])", "Function system.similarity_cosine doesn't support all-zero vectors."),
        ("floor(ts, -1h)", "Negative durations are not supported by the floor function"),
        ("floor(ts, 1h, '2025-01-01')", "The floor function starting time is greater than the provided time"),
        ("floor(tm, 2d)", "For time values, the floor can only be computed for durations smaller that a day"),
        ("todate(i)", "Invalid call to function todate, none of its type signatures match (known type signatures: system.todate : (timeuuid) -> date, system.todate : (timestamp) -> date)"),
        ("now(i)", "Invalid number of arguments in call to function system.now: 0 required but 1 provided"),
        ("length(i)", "Type error: i cannot be passed as argument 0 of function system.length of type text"),
        ("intasblob(tx)", "Type error: tx cannot be passed as argument 0 of function system.intasblob of type int"),
        ("ts + 5", "the '+' operation is not supported between ts and 5"),
        ("bo + bo", "the '+' operation is not supported between bo and bo"),
        ("abs(tx)", None),
    ],
)  # fmt: skip
def test_errors(session: Session, expression: str, message: str | None) -> None:
    with pytest.raises(InvalidRequest) as error:
        value(session, expression)
    assert message is None or error.value.message == message


@pytest.mark.parametrize("expression", ["i / 0", "b % 0", "de / 0", "vi / 0", "1 / 0"])
def test_division_by_zero_is_a_failed_function(session: Session, expression: str) -> None:
    with pytest.raises(FunctionFailure, match="failed: / by zero"):
        value(session, expression)


def test_from_json_takes_its_type_from_the_column(session: Session) -> None:
    run(session, "INSERT INTO t (k, m, de) VALUES (2, from_json('{\"a\": 3}'), fromJson('1.20'))")
    result = run(session, "SELECT m, de FROM t WHERE k = 2")
    assert isinstance(result, Rows)
    assert decoded(result) == [({"a": 3}, Decimal("1.20"))]
    with pytest.raises(CQLError, match="Could not decode JSON string 'nonsense'"):
        run(session, "INSERT INTO t (k, m) VALUES (2, from_json('nonsense'))")


def test_time_and_randomness_come_from_the_execution(session: Session) -> None:
    micros = session.access.clock
    now = value(session, "now()")
    assert now.version == 1
    assert (now.time - 0x01B21DD213814000) // 10 - micros in range(1, 20)
    assert value(session, "current_timestamp()") == at(2001, 9, 9, 1, 46, 40)
    assert value(session, "currentdate()") == datetime.date(2001, 9, 9)
    assert value(session, "current_time()") == ((1 * 60 + 46) * 60 + 40) * 10**9
    assert value(session, "uuid()").version == 4
    assert value(session, "uuid()") != value(session, "uuid()")
    assert value(session, "current_timeuuid()") < value(session, "currenttimeuuid()")


def test_bounds_of_time_uuids_enclose_their_millisecond(session: Session) -> None:
    low, high = value(session, "min_timeuuid(ts)"), value(session, "max_timeuuid(ts)")
    assert str(low) == "c180fbb0-d708-11ee-8080-808080808080"
    keys = [TIMEUUID.to_key(uuid.bytes) for uuid in (low, high)]
    assert keys[0] < keys[1]
    middle = low.bytes[:3] + bytes([low.bytes[3] + 5]) + low.bytes[4:8] + bytes(8)
    assert keys[0] < TIMEUUID.to_key(middle) < keys[1]


def test_every_native_type_has_blob_conversions() -> None:
    for name in (*NATIVE_TYPES, "varchar"):
        if name != "blob":
            type_ = NATIVE_TYPES["text" if name == "varchar" else name]
            found = lookup(f"{name}asblob", [TypedArgument(type_)])
            assert found.return_type.name == "blob"
            assert lookup(f"blob_as_{name}", [TypedArgument(parse_type("blob"))]).return_type == type_


def test_fit_of_types() -> None:
    text, ascii_ = parse_type("text"), parse_type("ascii")
    assert fit_types(text, text) is Fit.EXACT
    assert fit_types(ascii_, text) is Fit.WEAK
    assert fit_types(text, ascii_) is Fit.NONE
    assert fit_types(parse_type("list<int>"), parse_type("frozen<list<int>>")) is Fit.EXACT
