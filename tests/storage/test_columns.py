"""Columns keep every value, through real Parquet files, and other readers see what was meant."""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from belvedere.model.types import (
    BIGINT,
    BLOB,
    BOOLEAN,
    DATE,
    DECIMAL,
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
    ListType,
    MapType,
    SetType,
    TupleType,
    UserType,
    VectorType,
)
from belvedere.storage.columns import FixedColumn, arrow_type, from_arrow, to_arrow

COMPOSITES: list[CQLType] = [
    ListType(INT),
    ListType(TEXT, True),
    SetType(BLOB, True),
    MapType(TEXT, BIGINT),
    MapType(INT, ListType(DECIMAL, True), True),
    TupleType([INT, TEXT, DURATION]),
    UserType("ks", "t", [("a", TEXT), ("b", MapType(INT, BOOLEAN)), ("c", VARINT)], True),
    VectorType(FLOAT, 3),
    VectorType(BOOLEAN, 2),
    VectorType(TEXT, 2),
    VectorType(SMALLINT, 2),
    VectorType(VectorType(INT, 2), 2),
    ListType(VectorType(FLOAT, 2), True),
    TupleType([VectorType(UUID, 2), ListType(TupleType([INET, DATE]))]),
    ListType(ListType(ListType(TINYINT)), True),
]
ALL_TYPES = [*NATIVE_TYPES.values(), *COMPOSITES]
by_type = pytest.mark.parametrize("cql_type", ALL_TYPES, ids=lambda t: t.name)

durations = st.builds(
    lambda sign, parts: Duration(*(sign * part for part in parts)),
    st.sampled_from([1, -1]),
    st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)),
)
SPECIAL: dict[CQLType, st.SearchStrategy[bytes]] = {
    BLOB: st.binary(max_size=10),
    BOOLEAN: st.booleans().map(BOOLEAN.encode),
    DECIMAL: st.builds(
        lambda scale, unscaled: scale.to_bytes(4, "big", signed=True) + VARINT.encode(unscaled),
        st.one_of(st.integers(-5, 5), st.integers(-(2**31), 2**31 - 1)),
        st.integers(-(10**30), 10**30),
    ),
    DURATION: durations.map(DURATION.encode),
    INET: st.ip_addresses().map(lambda a: a.packed),
    TEXT: st.text(max_size=5).map(str.encode),
    NATIVE_TYPES["ascii"]: st.text(st.characters(max_codepoint=127), max_size=5).map(str.encode),
    TIME: st.integers(0, 86_400 * 10**9 - 1).map(TIME.encode),
    TIMEUUID: st.binary(min_size=16, max_size=16).map(lambda w: w[:6] + bytes((0x10 | w[6] & 15,)) + w[7:]),
    VARINT: st.integers(-(2**90), 2**90).map(VARINT.encode),
}


def wires(cql_type: Any) -> st.SearchStrategy[bytes]:
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
            return st.tuples(*(st.none() | wires(t) for t in cql_type.types)).map(cql_type.build)
    if cql_type in SPECIAL:
        return SPECIAL[cql_type]
    # All bytes are values of the remaining ones, the many NaNs included.
    return st.binary(min_size=cql_type.fixed_width, max_size=cql_type.fixed_width)


def columns(cql_type: CQLType) -> st.SearchStrategy[list[bytes | None]]:
    return st.lists(wires(cql_type), max_size=12) | st.lists(st.none() | wires(cql_type), max_size=12)


@by_type
def test_values_survive_a_parquet_file(cql_type: CQLType, tmp_path: Path) -> None:
    path = tmp_path / "column.parquet"

    @settings(suppress_health_check=[*HealthCheck])
    @given(columns(cql_type))
    def survive(values: list[bytes | None]) -> None:
        array = to_arrow(cql_type, values)
        array.validate(full=True)
        assert array.type == arrow_type(cql_type)
        assert array.null_count == values.count(None)
        assert from_arrow(cql_type, array).to_list() == values
        pq.write_table(pa.table({"v": array}), path, compression="zstd", row_group_size=5)
        with pq.ParquetFile(path) as file:
            assert from_arrow(cql_type, file.read().column("v")).to_list() == values
            for group in range(file.num_row_groups):
                column = from_arrow(cql_type, file.read_row_group(group).column("v"))
                assert column.to_list() == values[group * 5 : group * 5 + 5]

    survive()


@by_type
def test_parts_of_columns(cql_type: CQLType) -> None:
    @given(columns(cql_type), st.data())
    def agree(values: list[bytes | None], data: st.DataObject) -> None:
        size = len(values)
        start = data.draw(st.integers(0, size))
        stop = data.draw(st.integers(start, size))
        array = to_arrow(cql_type, values)
        column = from_arrow(cql_type, array)
        assert len(column) == size
        assert [column.get(index) for index in range(size)] == values
        assert column.slice(start, stop) == values[start:stop]
        indices = data.draw(st.lists(st.integers(0, size - 1), max_size=30)) if size else []
        assert column.take(indices) == [values[index] for index in indices]
        assert column.take(np.array(indices, dtype=np.int64)) == [values[index] for index in indices]
        assert column.nbytes >= sum(len(value) for value in values if value is not None)
        # Arrow's own slices share buffers and begin at an offset.
        assert from_arrow(cql_type, array.slice(start, stop - start)).to_list() == values[start:stop]
        pieces = pa.chunked_array([array.slice(0, start), array.slice(start)])
        assert from_arrow(cql_type, pieces).to_list() == values

    agree()


def test_dictionaries_and_large_text_are_read_too() -> None:
    values = [b"a", None, b"b", b"a"]
    array = to_arrow(TEXT, values)
    assert from_arrow(TEXT, array.dictionary_encode()).to_list() == values
    assert from_arrow(TEXT, array.cast(pa.large_string())).to_list() == values


def test_a_user_type_may_have_grown() -> None:
    old = UserType("ks", "t", [("a", INT)], True)
    new = UserType("ks", "t", [("renamed", INT), ("b", ListType(TEXT))], True)
    array = to_arrow(old, [old.encode({"a": 1}), None])
    assert from_arrow(new, array).to_list() == [new.encode({"renamed": 1}), None]


def test_missing_trailing_fields_become_nulls() -> None:
    pair = TupleType([INT, TEXT])
    short = pair.build([INT.encode(1)])
    assert from_arrow(pair, to_arrow(pair, [short])).to_list() == [pair.normalise(short)]


def test_values_of_a_wrong_width_are_refused() -> None:
    for cql_type, values in ((INT, [b"123"]), (UUID, [b"1", None]), (VectorType(FLOAT, 2), [b"1234"])):
        with pytest.raises(InvalidValue, match="bytes long"):
            to_arrow(cql_type, values)


def test_columns_of_fixed_width_are_compact() -> None:
    column = from_arrow(BIGINT, to_arrow(BIGINT, [bytes(8)] * 1000))
    assert isinstance(column, FixedColumn)
    assert column.nbytes == 8000
    assert isinstance(
        from_arrow(VectorType(FLOAT, 4), to_arrow(VectorType(FLOAT, 4), [bytes(16)])), FixedColumn
    )


READABLE: list[tuple[CQLType, Any, Any]] = [
    (INT, -5, -5),
    (TINYINT, -128, -128),
    (BIGINT, 2**60, 2**60),
    (BOOLEAN, True, True),
    (FLOAT, 0.5, 0.5),
    (TEXT, "grüß", "grüß"),
    (BLOB, b"\x00\xff", b"\x00\xff"),
    (DATE, datetime.date(1960, 2, 29), datetime.date(1960, 2, 29)),
    (TIME, 3_600_000_001_000, datetime.time(1, 0, 0, 1)),
    (
        TIMESTAMP,
        datetime.datetime(2024, 1, 2, 3, 4, 5, 6000),
        datetime.datetime(2024, 1, 2, 3, 4, 5, 6000, datetime.UTC),
    ),
    (DECIMAL, Decimal("12.50"), "12.50"),
    (VARINT, 2**80, str(2**80)),
    (INET, "::1", "::1"),
    (ListType(INT), [1, 2], [1, 2]),
    (MapType(TEXT, INT), {"a": 1}, {"a": 1}),
    (VectorType(FLOAT, 2), [1.0, 2.0], [1.0, 2.0]),
    (UserType("k", "t", [("a", INT), ("b", TEXT)]), {"a": 1, "b": "x"}, {"a": 1, "b": "x"}),
    (TupleType([INT, TEXT]), (1, "x"), {"field_1": 1, "field_2": "x"}),
    (DURATION, Duration(1, 2, 3), {"months": 1, "days": 2, "nanoseconds": 3}),
]


@pytest.mark.parametrize(("cql_type", "value", "seen"), READABLE, ids=[case[0].name for case in READABLE])
def test_duckdb_and_pyarrow_read_the_values(cql_type: CQLType, value: Any, seen: Any, tmp_path: Path) -> None:
    path = tmp_path / "column.parquet"
    array = to_arrow(cql_type, [cql_type.encode(value), None])
    pq.write_table(pa.table({"v": array}), path, compression="zstd")
    by_arrow = pq.read_table(path).column("v").to_pylist()
    assert by_arrow[1] is None
    assert dict(by_arrow[0]) == seen if isinstance(cql_type, MapType) else by_arrow[0] == seen
    with duckdb.connect() as connection:
        # pytz is not among our packages: DuckDB hands out times with a zone only as text.
        column = "epoch_ms(v)" if cql_type is TIMESTAMP else "v"
        (first,), (second,) = connection.execute(
            f"select {column} from read_parquet(?)", [str(path)]
        ).fetchall()
    if cql_type is TIMESTAMP:
        seen = int(seen.timestamp() * 1000)
    assert second is None
    assert first == seen
