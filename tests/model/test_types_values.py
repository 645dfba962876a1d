"""Values of the native types: wire bytes, Python values, text, JSON, and what is refused."""

import datetime
import ipaddress
import json
import math
import pickle
import uuid
from decimal import Decimal
from typing import Any

import pytest
from cassandra import cqltypes
from cassandra.util import Date as DriverDate
from cassandra.util import Duration as DriverDuration
from cassandra.util import Time as DriverTime
from hypothesis import given
from hypothesis import strategies as st

from belvedere.model.types import (
    ASCII,
    BIGINT,
    BLOB,
    BOOLEAN,
    COUNTER,
    DATE,
    DECIMAL,
    DOUBLE,
    DURATION,
    FLOAT,
    INET,
    INT,
    NATIVE_TYPES,
    SMALLINT,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMEUUID,
    TINYINT,
    UUID,
    VARINT,
    CQLType,
    Duration,
    InvalidValue,
    native,
)

V1 = uuid.UUID("f9c2e5d0-8b1d-11ee-b9d1-0242ac120002")
V4 = uuid.UUID("0f14d0ab-9605-4a62-a9e4-5ed26688389b")


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


durations = st.builds(
    lambda sign, parts: Duration(*(sign * part for part in parts)),
    st.sampled_from([1, -1]),
    st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)),
)
decimals = st.builds(
    lambda unscaled, scale: Decimal(unscaled).scaleb(-scale),
    st.integers(-(10**20), 10**20),
    st.integers(-9, 9),
)
time_uuids = st.uuids().map(lambda u: uuid.UUID(int=u.int & ~(0xF << 76) | 1 << 76))

PYTHON_VALUES: dict[CQLType, st.SearchStrategy[Any]] = {
    ASCII: st.text(st.characters(max_codepoint=127)),
    BIGINT: integers(64),
    BLOB: st.binary(),
    BOOLEAN: st.booleans(),
    COUNTER: integers(64),
    DATE: st.dates(),
    DECIMAL: decimals,
    DOUBLE: st.floats(allow_nan=False),
    DURATION: durations,
    FLOAT: st.floats(width=32, allow_nan=False),
    INET: st.ip_addresses().map(str),
    INT: integers(32),
    SMALLINT: integers(16),
    TEXT: st.text(),
    TIME: st.integers(0, 86_400 * 10**9 - 1),
    TIMESTAMP: st.datetimes().map(lambda d: d.replace(microsecond=d.microsecond // 1000 * 1000)),
    TIMEUUID: time_uuids,
    TINYINT: integers(8),
    UUID: st.uuids(),
    VARINT: st.integers(-(2**100), 2**100),
}

any_typed_value = st.sampled_from(list(PYTHON_VALUES)).flatmap(
    lambda cql_type: st.tuples(st.just(cql_type), PYTHON_VALUES[cql_type])
)


def test_every_native_type_is_tested() -> None:
    assert set(PYTHON_VALUES) == set(NATIVE_TYPES.values())


@pytest.mark.parametrize("cql_type", PYTHON_VALUES, ids=lambda t: t.name)
def test_values_survive_every_form(cql_type: CQLType) -> None:
    @given(PYTHON_VALUES[cql_type])
    def survives(value: Any) -> None:
        wire = cql_type.encode(value)
        cql_type.validate(wire)
        assert cql_type.decode(wire) == value
        assert cql_type.normalise(wire) == wire
        assert cql_type.parse_text(cql_type.to_string(wire)) == wire
        if not isinstance(value, float) or math.isfinite(value):
            parsed = json.loads(cql_type.to_json_text(wire), parse_float=Decimal)
            assert cql_type.from_json(parsed) == wire
            json.dumps(cql_type.to_json(wire))
        if cql_type.fixed_width is not None:
            assert len(wire) == cql_type.fixed_width

    survives()


DRIVER_TYPES = {
    ASCII: cqltypes.AsciiType,
    BIGINT: cqltypes.LongType,
    BLOB: cqltypes.BytesType,
    BOOLEAN: cqltypes.BooleanType,
    DECIMAL: cqltypes.DecimalType,
    DOUBLE: cqltypes.DoubleType,
    FLOAT: cqltypes.FloatType,
    INT: cqltypes.Int32Type,
    SMALLINT: cqltypes.ShortType,
    TEXT: cqltypes.UTF8Type,
    TINYINT: cqltypes.ByteType,
    UUID: cqltypes.UUIDType,
    TIMEUUID: cqltypes.TimeUUIDType,
    VARINT: cqltypes.IntegerType,
}


@pytest.mark.parametrize("cql_type", DRIVER_TYPES, ids=lambda t: t.name)
def test_the_wire_form_is_the_drivers(cql_type: CQLType) -> None:
    driver_type = DRIVER_TYPES[cql_type]

    @given(PYTHON_VALUES[cql_type])
    def agrees(value: Any) -> None:
        wire = cql_type.encode(value)
        assert driver_type.serialize(value, 5) == wire
        assert driver_type.deserialize(wire, 5) == value

    agrees()


@given(st.ip_addresses())
def test_addresses_are_the_drivers(value: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    wire = INET.encode(value)
    assert cqltypes.InetAddressType.serialize(str(value), 5) == wire
    # The texts may differ: ::ffff:0:0 or ::ffff:0.0.0.0.
    assert ipaddress.ip_address(cqltypes.InetAddressType.deserialize(wire, 5)) == value
    assert INET.decode(wire) == str(value)


@given(durations)
def test_durations_are_the_drivers(value: Duration) -> None:
    driver_value = DriverDuration(*value)
    wire = cqltypes.DurationType.serialize(driver_value, 5)
    assert DURATION.encode(value) == DURATION.encode(driver_value) == wire


@given(st.dates())
def test_dates_are_the_drivers(value: datetime.date) -> None:
    wire = cqltypes.SimpleDateType.serialize(value, 5)
    assert DATE.encode(value) == DATE.encode(DriverDate(value)) == wire


@given(st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)))
def test_timestamps_are_the_drivers(value: datetime.datetime) -> None:
    value = value.replace(microsecond=value.microsecond // 1000 * 1000)
    assert cqltypes.DateType.deserialize(TIMESTAMP.encode(value), 5) == value


def test_what_python_offers_is_taken() -> None:
    aware = datetime.datetime(2024, 2, 29, 13, 30, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))
    assert TIMESTAMP.decode(TIMESTAMP.encode(aware)) == datetime.datetime(2024, 2, 29, 12, 30)
    assert TIMESTAMP.encode(1000) == (1000).to_bytes(8, "big")
    assert TIME.encode(datetime.time(0, 0, 1, 5)) == TIME.encode(DriverTime(1_000_005_000))
    assert DATE.encode(0) == b"\x80\x00\x00\x00"
    assert INET.encode(ipaddress.ip_address("::1")) == bytes(15) + b"\x01"
    assert DECIMAL.encode(12) == bytes(4) + b"\x0c"
    assert DECIMAL.decode(DECIMAL.encode(0.1)) == Decimal("0.1")
    assert FLOAT.decode(FLOAT.encode(1e300)) == math.inf
    assert BLOB.encode(bytearray(b"ab")) == b"ab"


def test_values_beyond_pythons_calendar_come_as_numbers() -> None:
    assert TIMESTAMP.decode(b"\x7f" + b"\xff" * 7) == 2**63 - 1
    assert DATE.decode(b"\x00\x00\x00\x00") == -(2**31)
    assert DATE.to_string(b"\x00\x00\x00\x00") == "-5877641-06-23"
    assert DATE.to_string(b"\xff\xff\xff\xff") == "+5881580-07-11"
    assert DATE.parse_text("-5877641-06-23") == b"\x00\x00\x00\x00"


def test_a_decimal_keeps_its_scale() -> None:
    for text in ("1.00", "1E+3", "-0.001", "0.00", "12345678901234567890.123456789"):
        assert DECIMAL.to_string(DECIMAL.parse_text(text)) == text


def test_numbers_of_many_digits() -> None:
    text = "-" + "7" * 9000
    assert VARINT.to_string(VARINT.parse_text(text)) == text
    assert DECIMAL.to_string(DECIMAL.parse_text(text)) == text


@pytest.mark.parametrize(
    ("cql_type", "wire", "message"),
    [
        (INT, b"12345", r"Expected 4 or 0 byte int \(5\)"),
        (INT, b"", "Empty"),
        (BIGINT, b"123", r"Expected 8 or 0 byte long \(3\)"),
        (SMALLINT, b"1", r"Expected 2 bytes for a smallint \(1\)"),
        (TINYINT, b"12", r"Expected 1 byte for a tinyint \(2\)"),
        (FLOAT, b"12", r"Expected 4 or 0 byte value for a float \(2\)"),
        (DOUBLE, b"12", r"Expected 8 or 0 byte value for a double \(2\)"),
        (BOOLEAN, b"12", r"Expected 1 or 0 byte value \(2\)"),
        (VARINT, b"", "Empty"),
        (DECIMAL, b"1234", "Expected 0 or at least"),
        (TIMESTAMP, b"1", r"Expected 8 or 0 byte long for date \(1\)"),
        (DATE, b"1", r"Expected 4 byte long for date \(1\)"),
        (TIME, b"1", r"Expected 8 byte long for time \(1\)"),
        (TIME, (86_400 * 10**9).to_bytes(8, "big"), "Input long out of bounds: 86400000000000"),
        (TIME, b"\xff" * 8, "Input long out of bounds: -1"),
        (DURATION, b"12", "Expected at least 3 bytes for a duration"),
        (DURATION, b"\x01\x02\x00", "must be all of the same sign"),
        (DURATION, b"\x00\x00\x00\x00", "extraneous bytes"),
        (DURATION, b"\x00\x00\xff", "Not enough bytes"),
        (TEXT, b"\xff", r"String didn't validate\."),
        (TEXT, b"\xed\xa0\x80", r"String didn't validate\."),
        (ASCII, b"a\x80", "Invalid byte for ascii: -128"),
        (INET, b"12345", "Expected 4 or 16 byte inetaddress; got 5"),
        (UUID, b"1", r"UUID should be 16 or 0 bytes \(1\)"),
        (TIMEUUID, b"1", r"TimeUUID should be 16 or 0 bytes \(1\)"),
        (TIMEUUID, V4.bytes, "Invalid version for TimeUUID type"),
    ],
)
def test_wrong_bytes_are_refused(cql_type: CQLType, wire: bytes, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        cql_type.validate(wire)


def test_texts_and_blobs_may_be_empty() -> None:
    for cql_type in (TEXT, ASCII, BLOB):
        cql_type.validate(b"")


@pytest.mark.parametrize(
    ("cql_type", "value"),
    [
        (INT, "1"), (INT, 2**31), (INT, 1.0), (BIGINT, -(2**63) - 1), (TINYINT, 128), (VARINT, 1.5),
        (DOUBLE, "x"), (BOOLEAN, 1), (TEXT, b"x"), (TEXT, "\ud800"), (ASCII, "é"), (BLOB, "x"),
        (INET, "1.2.3"), (INET, 5), (UUID, str(V4)), (TIMEUUID, V4), (TIMESTAMP, "now"), (TIMESTAMP, 2**63),
        (DATE, 2**31), (TIME, -1), (TIME, 86_400 * 10**9), (DURATION, 5), (DURATION, Duration(1, -1, 0)),
        (DURATION, Duration(2**31, 0, 0)), (DECIMAL, "1"), (DECIMAL, Decimal("NaN")),
        (DECIMAL, Decimal("1E+3000000000")),
    ],
)  # fmt: skip
def test_wrong_python_values_are_refused(cql_type: CQLType, value: Any) -> None:
    with pytest.raises(InvalidValue):
        cql_type.encode(value)


@pytest.mark.parametrize(
    ("cql_type", "text", "same_as"),
    [
        (TIMESTAMP, "2011-02-03 04:05+0000", "2011-02-03T04:05:00.000Z"),
        (TIMESTAMP, "2011-02-03 04:05:06.789+01:00", "2011-02-03T03:05:06.789Z"),
        (TIMESTAMP, "2011-02-03T04:05:06-08", "2011-02-03T12:05:06.000Z"),
        (TIMESTAMP, "2011-02-03", "2011-02-03T00:00:00.000Z"),
        (TIMESTAMP, "2011-02-03+0100", "2011-02-02T23:00:00.000Z"),
        (TIMESTAMP, "2011-02-03 04:05:06.1 UTC", "2011-02-03T04:05:06.100Z"),
        (TIMESTAMP, "1234", "1970-01-01T00:00:01.234Z"),
        (TIMESTAMP, "-1", "1969-12-31T23:59:59.999Z"),
        (DATE, "2147483648", "1970-01-01"),
        (DATE, "2012-02-29", "2012-02-29"),
        (TIME, "08:12:54.123", "08:12:54.123000000"),
        (TIME, "1000", "00:00:00.000001000"),
        (DURATION, "1y2mo3w4d5h6m7s8ms9us10ns", "1y2mo25d5h6m7s8ms9us10ns"),
        (DURATION, "P1Y2M3DT4H5M6S", "1y2mo3d4h5m6s"),
        (DURATION, "-P5W", "-35d"),
        (DURATION, "P0001-02-03T04:05:06", "1y2mo3d4h5m6s"),
        (DURATION, "89H4M48S", "89h4m48s"),
        (DURATION, "0s", "0ns"),
        (INET, "::FFFF:0:1", "::ffff:0:1"),
        (BLOB, "0xCAFE", "0xcafe"),
        (BLOB, "", "0x"),
        (BOOLEAN, "TRUE", "true"),
        (UUID, str(V4).upper(), str(V4)),
        (DOUBLE, "-infinity", "-Infinity"),
        (DOUBLE, "nan", "NaN"),
        (DOUBLE, "1e10", "1.0E10"),
        (DOUBLE, "100", "100.0"),
        (DOUBLE, "0.001", "0.001"),
        (DOUBLE, "0.0001", "1.0E-4"),
        (DOUBLE, "-0", "-0.0"),
        (DOUBLE, "1234567.5", "1234567.5"),
        (FLOAT, "0.1", "0.1"),
        (FLOAT, "3.4028235e38", "3.4028235E38"),
        (FLOAT, "1.4e-45", "1.4E-45"),
        (INT, "+5", "5"),
    ],
)  # fmt: skip
def test_text_is_read_as_cassandra_reads_it(cql_type: CQLType, text: str, same_as: str) -> None:
    assert cql_type.to_string(cql_type.parse_text(text)) == same_as


@pytest.mark.parametrize(
    ("cql_type", "text"),
    [
        (INT, "1.0"), (INT, ""), (INT, "2147483648"), (INT, "1_0"), (INT, "٣"), (VARINT, "1e3"),
        (DOUBLE, "1_0"), (DOUBLE, "inf"), (DOUBLE, ""), (DECIMAL, "NaN"), (DECIMAL, "1_0"), (DECIMAL, " 1"),
        (BOOLEAN, "yes"), (TIMESTAMP, "2011-02-30"), (TIMESTAMP, "2011-02-03 24:00"), (TIMESTAMP, "soon"),
        (TIMESTAMP, "99999999999999999999"), (DATE, "2011-13-01"), (DATE, "-1"), (DATE, "5881580-07-12"),
        (TIME, "24:00:00"), (TIME, "1:2"), (TIME, "-5"), (DURATION, ""), (DURATION, "-"), (DURATION, "P"),
        (DURATION, "1x"), (DURATION, "1s1m"), (DURATION, "9999999999y"), (UUID, "abc"), (TIMEUUID, str(V4)),
        (UUID, str(V4).replace("-", "")), (INET, "fe80::1%eth0"), (INET, "example"), (BLOB, "0xabc"),
        (BLOB, "0xzz"), (BLOB, "ab cd"), (ASCII, "é"),
    ],
)  # fmt: skip
def test_wrong_text_is_refused(cql_type: CQLType, text: str) -> None:
    with pytest.raises(InvalidValue):
        cql_type.parse_text(text)


@pytest.mark.parametrize(
    ("cql_type", "value", "literal", "json_text"),
    [
        (TEXT, "it's", "'it''s'", '"it\'s"'),
        (TEXT, 'ü"\n', "'ü\"\n'", '"ü\\"\\n"'),
        (BLOB, b"\xca\xfe", "0xcafe", '"0xcafe"'),
        (UUID, V4, str(V4), f'"{V4}"'),
        (INET, "127.0.0.1", "'127.0.0.1'", '"127.0.0.1"'),
        (TIMESTAMP, 0, "'1970-01-01T00:00:00.000Z'", '"1970-01-01 00:00:00.000Z"'),
        (DATE, 0, "'1970-01-01'", '"1970-01-01"'),
        (TIME, 0, "'00:00:00.000000000'", '"00:00:00.000000000"'),
        (DURATION, Duration(1, 2, 3), "1mo2d3ns", '"1mo2d3ns"'),
        (DOUBLE, math.nan, "NaN", "null"),
        (DOUBLE, math.inf, "Infinity", "null"),
        (DECIMAL, Decimal("1.10"), "1.10", "1.10"),
        (VARINT, 2**70, str(2**70), str(2**70)),
        (BOOLEAN, True, "true", "true"),
    ],
)
def test_literals_and_json(cql_type: CQLType, value: Any, literal: str, json_text: str) -> None:
    wire = cql_type.encode(value)
    assert cql_type.to_text(wire) == literal
    assert cql_type.to_json_text(wire) == json_text


@pytest.mark.parametrize(
    ("cql_type", "value", "message"),
    [
        (INT, 1.5, "Expected an int value, but got a Double: 1.5"),
        (INT, 2**40, "Expected an int value, but got a Long: 1099511627776"),
        (INT, True, "Expected an int value, but got a Boolean"),
        (INT, "x", "Unable to make int from 'x'"),
        (BIGINT, [], "Expected a long value, but got a ArrayList"),
        (DOUBLE, {}, "Expected a double value, but got a LinkedHashMap"),
        (BOOLEAN, 1, "Expected a boolean value, but got a Integer: 1"),
        (TEXT, 1, "Expected a UTF-8 string, but got a Integer: 1"),
        (BLOB, "cafe", "missing 0x prefix"),
        (BLOB, "0xabc", "not a valid blob"),
        (UUID, 1, "Expected a string representation of a uuid, but got a Integer"),
        (DATE, 1, "Expected a string representation of a date value"),
        (DECIMAL, None, "not a valid representation of a decimal"),
    ],
)
def test_wrong_json_is_refused_in_cassandras_words(cql_type: CQLType, value: Any, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        cql_type.from_json(value)


def test_json_numbers_may_come_as_strings() -> None:
    assert INT.from_json("5") == INT.encode(5)
    assert DECIMAL.from_json("1.50") == DECIMAL.encode(Decimal("1.50"))
    assert BOOLEAN.from_json("true") == b"\x01"


def test_equal_values_get_one_representation() -> None:
    assert VARINT.normalise(b"\x00\x00\x05") == b"\x05"
    assert VARINT.normalise(b"\xff\xff") == b"\xff"
    assert VARINT.normalise(b"\x00\x80") == b"\x00\x80"
    assert BOOLEAN.normalise(b"\x02") == b"\x01"
    assert DECIMAL.normalise(b"\x00\x00\x00\x02\x00\x64") == b"\x00\x00\x00\x02\x64"
    assert DURATION.normalise(b"\x80\x02\x02\x02") == b"\x02\x02\x02"


@given(st.binary(max_size=24), st.sampled_from(list(PYTHON_VALUES)))
def test_random_bytes_are_valid_or_refused_but_never_crash(wire: bytes, cql_type: CQLType) -> None:
    try:
        cql_type.validate(wire)
    except InvalidValue:
        return
    normal = cql_type.normalise(wire)
    cql_type.validate(normal)
    assert cql_type.normalise(normal) == normal
    cql_type.decode(wire)
    cql_type.to_text(wire)
    json.loads(cql_type.to_json_text(wire))


@given(st.text(max_size=30), st.sampled_from(list(PYTHON_VALUES)))
def test_random_text_is_read_or_refused_but_never_crashes(text: str, cql_type: CQLType) -> None:
    try:
        wire = cql_type.parse_text(text)
    except InvalidValue:
        return
    cql_type.validate(wire)


def test_native_types_are_singletons() -> None:
    for name, cql_type in NATIVE_TYPES.items():
        assert native(name) is cql_type
        assert type(cql_type)() is cql_type
        assert pickle.loads(pickle.dumps(cql_type)) is cql_type
    assert native("varchar") is TEXT
    with pytest.raises(InvalidValue, match="Unknown type strange"):
        native("strange")
    with pytest.raises(AttributeError):
        INT.name = "other"
