"""Clustering keys sort as Cassandra sorts the values; partition keys are laid out as Cassandra's."""

import functools
import math
import pickle
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from itertools import zip_longest
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from belvedere.model.ordering import ClusteringOrder, join_partition_key, split_partition_key
from belvedere.model.types import (
    ASCII,
    BIGINT,
    BLOB,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    DURATION,
    FLOAT,
    INET,
    INT,
    SMALLINT,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMEUUID,
    TINYINT,
    UUID,
    VARINT,
    CQLType,
    InvalidValue,
    ListType,
    MapType,
    SetType,
    TupleType,
    UserType,
    VectorType,
)

Compare = Callable[[bytes, bytes], int]


def three_way(left: Any, right: Any) -> int:
    return (left > right) - (left < right)


# -- the dumb comparators: Cassandra's rules, written down one by one ------------------------------


def compare_signed(left: bytes, right: bytes) -> int:
    return three_way(int.from_bytes(left, "big", signed=True), int.from_bytes(right, "big", signed=True))


def compare_floating(left: bytes, right: bytes) -> int:
    """Java's Double.compare: NaN is the largest, -0.0 is smaller than 0.0."""
    form = ">f" if len(left) == 4 else ">d"
    a, b = struct.unpack(form, left)[0], struct.unpack(form, right)[0]
    if math.isnan(a) or math.isnan(b):
        return three_way(math.isnan(a), math.isnan(b))
    return three_way(a, b) or three_way(math.copysign(1, a), math.copysign(1, b))


def compare_decimal(left: bytes, right: bytes) -> int:
    return three_way(DECIMAL.decode(left), DECIMAL.decode(right))


def compare_uuid(left: bytes, right: bytes) -> int:
    a, b = uuid.UUID(bytes=left), uuid.UUID(bytes=right)
    version_a, version_b = left[6] >> 4, right[6] >> 4
    if version_a != version_b:
        return three_way(version_a, version_b)
    if version_a == 1:
        return three_way(a.time, b.time) or three_way(left[8:], right[8:])
    return three_way(left, right)


def compare_timeuuid(left: bytes, right: bytes) -> int:
    a, b = uuid.UUID(bytes=left), uuid.UUID(bytes=right)
    return three_way(a.time, b.time) or three_way(
        struct.unpack("8b", left[8:]), struct.unpack("8b", right[8:])
    )


def compare_sequences(compare: Compare, left: list[Any], right: list[Any]) -> int:
    for a, b in zip(left, right, strict=False):
        if result := compare(a, b):
            return result
    return three_way(len(left), len(right))


def compare_fields(comparators: list[Compare], left: list[Any], right: list[Any]) -> int:
    """Null before any value; missing trailing fields are null."""
    for compare, (a, b) in zip(comparators, zip_longest(left, right), strict=False):
        result = three_way(a is not None, b is not None) if a is None or b is None else compare(a, b)
        if result:
            return result
    return 0


def reference(cql_type: CQLType) -> Compare:
    match cql_type:
        case ListType() | SetType() | VectorType():
            inner = reference(cql_type.element)
            return lambda a, b: compare_sequences(inner, cql_type.elements(a), cql_type.elements(b))
        case MapType():
            key, value = reference(cql_type.key), reference(cql_type.value)

            def entry(a: tuple[bytes, bytes], b: tuple[bytes, bytes]) -> int:
                return key(a[0], b[0]) or value(a[1], b[1])

            return lambda a, b: compare_sequences(entry, cql_type.elements(a), cql_type.elements(b))
        case TupleType() | UserType():
            inners = [reference(inner) for inner in cql_type.types]
            return lambda a, b: compare_fields(inners, cql_type.elements(a), cql_type.elements(b))
    if cql_type in (TINYINT, SMALLINT, INT, BIGINT, TIMESTAMP, VARINT):
        return compare_signed
    if cql_type in (FLOAT, DOUBLE):
        return compare_floating
    return {DECIMAL: compare_decimal, UUID: compare_uuid, TIMEUUID: compare_timeuuid}.get(cql_type, three_way)


# -- wire values, chosen so that neighbours, prefixes and ties are common --------------------------


def signed(width: int) -> st.SearchStrategy[bytes]:
    top = 2 ** (8 * width - 1)
    near = st.sampled_from([-top, -top + 1, -256, -255, -2, -1, 0, 1, 127, 128, 255, 256, top - 1])
    values = st.one_of(near.filter(lambda v: -top <= v < top), st.integers(-top, top - 1))
    return values.map(lambda v: v.to_bytes(width, "big", signed=True))


tricky_bytes = st.lists(st.sampled_from([0, 1, 0x40, 0x61, 0x7F, 0xFE, 0xFF]), max_size=5).map(bytes)
tricky_text = st.text(st.sampled_from("\x00\x01a@~é\U0010ffff"), max_size=4).map(str.encode)
time_uuids = st.builds(
    lambda low, high, rest: (
        (high << 112 | 1 << 76 | low << 96 | rest).to_bytes(16, "big")[:6]
        + bytes((0x10 | low & 3, high & 0xFF))
        + rest.to_bytes(8, "big")
    ),
    st.integers(0, 1),
    st.integers(0, 1),
    st.sampled_from([0, 0x80 << 56, 0x7F << 56, 0x8000000000000080, 0x800000000000007F]),
)
any_uuid = st.one_of(st.uuids().map(lambda u: u.bytes), time_uuids, st.binary(min_size=16, max_size=16))
varints = st.one_of(
    st.integers(-300, 300), st.integers(-(2**70), 2**70), st.sampled_from([256**126, 256**127, -(256**200)])
).map(VARINT.encode)
decimals = st.builds(
    lambda unscaled, scale: DECIMAL.encode(
        Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))
    ),
    st.one_of(st.integers(-120, 120), st.integers(-(10**12), 10**12)),
    st.one_of(st.integers(-3, 3), st.integers(-400, 400)),
)

WIRES: dict[CQLType, st.SearchStrategy[bytes]] = {
    TINYINT: signed(1),
    SMALLINT: signed(2),
    INT: signed(4),
    BIGINT: signed(8),
    TIMESTAMP: signed(8),
    DATE: st.binary(min_size=4, max_size=4),
    TIME: st.integers(0, 86_400 * 10**9 - 1).map(TIME.encode),
    FLOAT: st.floats(width=32).map(FLOAT.encode),
    DOUBLE: st.floats().map(DOUBLE.encode),
    BOOLEAN: st.booleans().map(BOOLEAN.encode),
    TEXT: tricky_text,
    ASCII: st.text(st.sampled_from("\x00a~"), max_size=4).map(str.encode),
    BLOB: st.one_of(tricky_bytes, st.binary(max_size=6)),
    INET: st.one_of(st.ip_addresses().map(lambda a: a.packed), st.sampled_from([bytes(4), bytes(16)])),
    UUID: any_uuid,
    TIMEUUID: time_uuids,
    VARINT: varints,
    DECIMAL: decimals,
}


def wires(cql_type: CQLType) -> st.SearchStrategy[bytes]:
    match cql_type:
        case ListType() | SetType():
            return st.lists(wires(cql_type.element), max_size=3).map(cql_type.build).map(cql_type.normalise)
        case VectorType():
            size = cql_type.dimension
            return st.lists(wires(cql_type.element), min_size=size, max_size=size).map(cql_type.build)
        case MapType():
            entries = st.tuples(wires(cql_type.key), wires(cql_type.value))
            return st.lists(entries, max_size=3).map(cql_type.build).map(cql_type.normalise)
        case TupleType() | UserType():
            fields = st.tuples(*(st.none() | wires(inner) for inner in cql_type.types))
            return st.tuples(fields, st.integers(0, len(cql_type.types))).map(
                lambda drawn: cql_type.build(drawn[0][: drawn[1]])
            )
    return WIRES[cql_type]


COMPOSITES: list[CQLType] = [
    ListType(INT, True),
    ListType(TEXT, True),
    SetType(BLOB, True),
    MapType(INT, TEXT, True),
    TupleType([INT, TEXT, BOOLEAN]),
    UserType("ks", "t", [("a", BLOB), ("b", DECIMAL)], True),
    VectorType(INT, 2),
    VectorType(TEXT, 2),
    ListType(TupleType([VARINT, ListType(TEXT)]), True),
]
ALL_TYPES = [*WIRES, *COMPOSITES]
by_name = pytest.mark.parametrize("cql_type", ALL_TYPES, ids=lambda t: t.name)


@by_name
@pytest.mark.parametrize("descending", [False, True])
def test_keys_sort_as_the_values_do(cql_type: CQLType, descending: bool) -> None:
    order = ClusteringOrder((cql_type,), (descending,))
    compare = reference(cql_type)

    @given(wires(cql_type), wires(cql_type))
    def sorts(left: bytes, right: bytes) -> None:
        expected = compare(left, right) * (-1 if descending else 1)
        left_key, right_key = order.encode((left,)), order.encode((right,))
        assert three_way(left_key, right_key) == expected
        if left_key != right_key:
            assert not right_key.startswith(left_key)
        assert cql_type.compare(left, right) == compare(left, right)

    sorts()


@by_name
@pytest.mark.parametrize("descending", [False, True])
def test_keys_give_their_values_back(cql_type: CQLType, descending: bool) -> None:
    order = ClusteringOrder((cql_type,), (descending,))

    @given(wires(cql_type))
    def comes_back(wire: bytes) -> None:
        key = order.encode((wire,))
        (back,) = order.decode(key)
        cql_type.validate(back)
        # What compares as equal (1.0 and 1.00, all NaNs, missing and null fields) comes back as one of them.
        assert order.encode((back,)) == key
        if not {DECIMAL, FLOAT, DOUBLE} & set(cql_type.walk()):
            assert back == cql_type.normalise(wire)

    comes_back()


def test_decimals_and_nans_come_back_canonical() -> None:
    for text, canonical in (
        ("1.00", "1"),
        ("100", "1E+2"),
        ("-0.10", "-0.1"),
        ("0E+9", "0"),
        ("123450", "1.2345E+5"),
    ):
        wire, _ = DECIMAL.from_key(DECIMAL.to_key(DECIMAL.parse_text(text)), 0)
        assert DECIMAL.to_string(wire) == canonical
    smallest_scale = (-(2**31)).to_bytes(4, "big", signed=True) + b"\x64"
    assert DECIMAL.from_key(DECIMAL.to_key(smallest_scale), 0)[0] == smallest_scale
    negative_nan = struct.pack(">d", -math.nan)
    assert DOUBLE.from_key(DOUBLE.to_key(negative_nan), 0)[0] == DOUBLE.encode(math.nan)


def test_uuids_of_one_moment_differ_in_how_their_bytes_compare() -> None:
    """timeuuid compares the last eight bytes as signed ones, uuid as unsigned ones."""
    moment = uuid.UUID("f9c2e5d0-8b1d-11ee-8000-000000000000").bytes[:8]
    high, low = moment + b"\x80" + bytes(7), moment + b"\x7f" + bytes(7)
    assert TIMEUUID.compare(high, low) == -1
    assert UUID.compare(high, low) == 1


def test_numbers_of_thousands_of_bytes_in_keys() -> None:
    for value in (10**5000, -(10**5000), 10**5000 + 1):
        for cql_type in (VARINT, DECIMAL):
            wire = cql_type.encode(value)
            back, _ = cql_type.from_key(cql_type.to_key(wire), 0)
            assert cql_type.decode(back) == value


SIMPLE = [INT, BIGINT, TEXT, BLOB, UUID, DECIMAL, VARINT, DATE, BOOLEAN, TupleType([INT, TEXT])]


@st.composite
def orders_and_rows(draw: st.DrawFn) -> tuple[ClusteringOrder, list[tuple[bytes, ...]]]:
    types = draw(st.lists(st.sampled_from(SIMPLE), min_size=1, max_size=4))
    order = ClusteringOrder(types, draw(st.tuples(*(st.booleans() for _ in types))))
    rows = draw(st.lists(st.tuples(*map(wires, types)), min_size=1, max_size=8))
    return order, rows


def compare_rows(order: ClusteringOrder) -> Compare:
    comparators = [reference(cql_type) for cql_type in order.types]

    def compare(left: Any, right: Any) -> int:
        for one, down, a, b in zip(comparators, order.descending, left, right, strict=False):
            if result := one(a, b):
                return -result if down else result
        return 0

    return compare


@given(orders_and_rows())
def test_rows_of_several_components_sort(case: tuple[ClusteringOrder, list[tuple[bytes, ...]]]) -> None:
    order, rows = case
    by_key = sorted(rows, key=order.encode)
    by_value = sorted(rows, key=functools.cmp_to_key(compare_rows(order)))
    assert [order.encode(row) for row in by_key] == [order.encode(row) for row in by_value]
    for row in rows:
        key = order.encode(row)
        assert order.encode(order.decode(key)) == key
        assert order.encode_prefix(row) == key


@given(orders_and_rows(), st.data())
def test_a_prefix_bounds_exactly_its_rows(
    case: tuple[ClusteringOrder, list[tuple[bytes, ...]]], data: st.DataObject
) -> None:
    order, rows = case
    compare = compare_rows(order)
    length = data.draw(st.integers(0, len(order.types)))
    values = data.draw(st.sampled_from(rows))[:length]
    prefix = order.encode_prefix(values)
    assert [order.types[i].to_key(v) for i, v in enumerate(order.decode(prefix))] == [
        order.types[i].to_key(v) for i, v in enumerate(values)
    ]
    after = order.after_prefix(prefix)
    for row in rows:
        key = order.encode(row)
        # `compare` looks at no more components than the prefix has.
        expected = compare(row, values) if values else 0
        assert (prefix <= key < after) == (expected == 0)
        assert (key >= after) == (expected > 0)


@example(bytes(3))
@given(st.binary(max_size=8))
def test_components_can_be_appended_one_by_one(blob: bytes) -> None:
    order = ClusteringOrder((BLOB, INT, TEXT), (False, True, False))
    values = (blob, b"\x00\x00\x00\x05", b"x")
    assert b"".join(order.encode_component(i, v) for i, v in enumerate(values)) == order.encode(values)


def test_no_clustering_columns() -> None:
    order = ClusteringOrder((), ())
    assert order.encode(()) == b""
    assert order.decode(b"") == []
    assert order.after_prefix(b"") > b""


def test_wrong_use_is_an_error() -> None:
    order = ClusteringOrder((INT, INT), (False, False))
    for values in ((), (bytes(4),), (bytes(4),) * 3):
        with pytest.raises(ValueError, match="values"):
            order.encode(values)
    with pytest.raises(ValueError, match="at most 2"):
        order.encode_prefix((bytes(4),) * 3)
    with pytest.raises(ValueError, match="left over"):
        order.decode(order.encode((bytes(4),) * 2) + b"x")
    with pytest.raises(ValueError, match="direction"):
        ClusteringOrder((INT,), ())
    with pytest.raises(InvalidValue, match="duration is not comparable"):
        ClusteringOrder((DURATION,), (False,))
    with pytest.raises(InvalidValue, match="not comparable"):
        DURATION.to_key(b"\x00\x00\x00")


def test_orders_can_be_sent_to_other_processes() -> None:
    order = pickle.loads(pickle.dumps(ClusteringOrder((INT, TEXT), (True, False))))
    assert order.decode(order.encode((bytes(4), b"a"))) == [bytes(4), b"a"]


# -- partition keys --------------------------------------------------------------------------------


def test_partition_keys_are_laid_out_as_cassandras() -> None:
    assert join_partition_key([b"abc"]) == b"abc"
    assert join_partition_key([b"abc", b""]) == b"\x00\x03abc\x00\x00\x00\x00"
    assert split_partition_key(b"abc", 1) == [b"abc"]


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=5))
def test_partition_keys_split_again(values: list[bytes]) -> None:
    assert split_partition_key(join_partition_key(values), len(values)) == values


@pytest.mark.parametrize("key", [b"", b"\x00", b"\x00\x05ab\x00\x00\x00\x00", b"\x00\x00\x00\x00\x00\x00x"])
def test_broken_partition_keys_are_refused(key: bytes) -> None:
    with pytest.raises(ValueError, match="partition key"):
        split_partition_key(key, 2)
