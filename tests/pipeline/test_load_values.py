"""Columns of any Arrow type as columns of CQL types: what fits is what the type itself makes of each value,
and what does not is told row by row."""

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.model.types import NATIVE_TYPES, CQLType, InvalidValue, parse_type
from belvedere.pipeline.load_values import CannotFit, check_fits, convert
from belvedere.storage.columns import from_arrow, to_arrow
from tests.pipeline.load_samples import disguise
from tests.storage.sstable_samples import USER_TYPES, VALUE_TYPES, random_wire

NAMES = [*dict.fromkeys([*VALUE_TYPES, *(n for n in NATIVE_TYPES if n != "counter")])]
NAMES += ["list<frozen<map<uuid, frozen<set<decimal>>>>>", "vector<frozen<vector<int, 2>>, 2>"]


@pytest.mark.parametrize("name", NAMES)
def test_values_come_through_in_any_words(name: str) -> None:
    kind = parse_type(name, USER_TYPES).frozen()

    @given(st.integers(0, 2**32), st.integers(0, 6))
    def check(seed: int, count: int) -> None:
        rnd = random.Random(seed)
        values = [random_wire(rnd, kind) if rnd.random() < 0.8 else None for _ in range(count)]
        array = disguise(rnd, kind, values)
        skip = rnd.randrange(count + 1)
        check_fits(kind, array.type)
        made = convert(kind, array.slice(skip))
        made.array.validate(full=True)
        assert made.problems == {}
        assert made.array.type == to_arrow(kind, []).type
        assert from_arrow(kind, made.array).to_list() == values[skip:]

    check()


TEXTS = st.one_of(
    st.text("0123456789+-.eEx:TZ _abfNI", max_size=12),
    st.sampled_from(
        [
            *(
                "",
                "0",
                "-0",
                "+7",
                "007",
                "1e3",
                "1E400",
                "-1e-400",
                ".5",
                "5.",
                "NaN",
                "Infinity",
                "inf",
                "0x1F",
            ),
            *(
                "1_000",
                " 1",
                "127",
                "128",
                "-32769",
                "2147483648",
                "9223372036854775807",
                "9223372036854775808",
            ),
            *("true", "FALSE", "yes", "1.0", "1.50", "-0.00", "0.0000001", "00.5", "123456789012345678901"),
            *("2024-02-29", "2023-02-29", "24-1-1", "2024-02-29 23:59:59", "2024-02-29T23:59:59.123Z"),
            *("2024-01-01T00:00:60Z", "2024-02-29T23:59:59.1234+02:00", "10:11:12.5", "25:00:00", "-1"),
            *("127.0.0.1", "::1", "256.1.1.1", "fe80::1%eth0", "00000000-0000-0000-0000-00000000000g"),
            *("f81d4fae-7dec-11d0-A765-00a0c91e6bf6", "6ecd8c99-4036-403d-bf84-cf8400f67836", "1h30m", "P1Y"),
            *("ß", "\ud7ff", "[1, 2]", '{"a": 1}', "null", '["a", null]'),
        ]
    ),
)


@pytest.mark.parametrize("name", NAMES)
def test_text_means_what_cql_makes_of_it(name: str) -> None:
    kind = parse_type(name, USER_TYPES).frozen()

    @given(st.lists(st.none() | TEXTS, max_size=8))
    def check(texts: list[str | None]) -> None:
        made = convert(kind, pa.array(texts, pa.string()))
        wanted: list[bytes | None] = []
        wrong = []
        for row, text in enumerate(texts):
            try:
                wanted.append(None if text is None else kind.normalise(kind.parse_text(text)))
            except InvalidValue:
                wanted.append(None)
                wrong.append(row)
        assert from_arrow(kind, made.array).to_list() == wanted
        assert sorted(made.problems) == wrong

    check()


@pytest.mark.parametrize(
    ("name", "array", "reasons"),
    [
        ("double", pa.array(["1.5", "abc"]), {1: "'abc' is not a double"}),
        ("int", pa.array([1, 2**31], pa.int64()), {1: "Value 2147483648 is out of range for type int"}),
        (
            "int",
            pa.array([1.0, 1.5, float("nan")]),
            {1: "1.5 is not a whole number", 2: "nan is not a whole number"},
        ),
        ("bigint", pa.array([2**63], pa.uint64()), {0: f"Value {2**63} is out of range for type bigint"}),
        (
            "tinyint",
            pa.array([Decimal("3"), Decimal("300")]),
            {1: "Value 300 is out of range for type tinyint"},
        ),
        ("uuid", pa.array([b"short"]), {0: "UUID should be 16 or 0 bytes (5)"}),
        ("timeuuid", pa.array([bytes(16)], pa.binary(16)), {0: "Invalid version for TimeUUID type."}),
        ("ascii", pa.array(["a", "ä"]), {1: "'ä' is not an ascii"}),
        (
            "list<int>",
            pa.array([["1"], ["x"], [None], None]),
            {1: "element: 'x' is not an int", 2: "element: null"},
        ),
        ("vector<float, 2>", pa.array([[1.0, 2.0], [1.0]]), {1: "1 elements, but vector<float, 2> has 2"}),
        (
            "map<text, int>",
            pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string())),
            {0: "value: 'b' is not an int"},
        ),
        ("point", pa.array([{"x": "?", "label": "l"}]), {0: "field x: '?' is not an int"}),
        ("time", pa.array([-1]), None),
        ("text", pa.array([b"\xff"]).view(pa.string()), None),
    ],
)
def test_what_does_not_fit_is_told(name: str, array: pa.Array, reasons: dict[int, str] | None) -> None:
    kind = parse_type(name, USER_TYPES).frozen()
    check_fits(kind, array.type)
    made = convert(kind, array)
    made.array.validate(full=True)
    if reasons is None:
        assert list(made.problems) == [0]
    else:
        assert made.problems == reasons
    assert all(not made.array[row].is_valid for row in made.problems)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("int", pa.bool_()),
        ("text", pa.int32()),
        ("boolean", pa.int8()),
        ("list<int>", pa.list_(pa.bool_())),
        ("point", pa.struct([("z", pa.int32())])),
        ("frozen<tuple<int, text>>", pa.struct([("a", pa.int32())])),
        ("vector<float, 3>", pa.list_(pa.float32(), 2)),
        ("duration", pa.struct([("months", pa.int32())])),
        ("map<text, int>", pa.list_(pa.int32())),
        ("uuid", pa.int64()),
    ],
)
def test_types_that_never_fit_are_refused(name: str, kind: pa.DataType) -> None:
    with pytest.raises(CannotFit):
        check_fits(parse_type(name, USER_TYPES).frozen(), kind)


@given(st.lists(st.none() | st.integers(-(2**66), 2**66).map(lambda ns: ns // 16), max_size=5))
def test_times_are_cut_to_milliseconds(values: list[int | None]) -> None:
    kind: CQLType = NATIVE_TYPES["timestamp"]
    inside = [v if v is None or abs(v) < 2**62 else v % 2**62 for v in values]
    for unit, per_milli in (("us", 10**3), ("ns", 10**6)):
        made: Any = convert(kind, pa.array(inside, pa.timestamp(unit)))
        assert made.array.view(pa.int64()).to_pylist() == [
            None if v is None else v // per_milli for v in inside
        ]
