"""Columns of a table's values in other words: the many Arrow types that rows may come in."""

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from belvedere.model.types import (
    CQLType,
    ListType,
    MapType,
    SetType,
    TupleType,
    UserType,
    VectorType,
)
from belvedere.storage.columns import to_arrow

Values = Sequence[bytes | None]


def disguise(rnd: random.Random, kind: CQLType, values: Values) -> pa.Array:
    """The values as rows could bring them."""
    kind = kind.frozen()
    nested = isinstance(kind, ListType | SetType | MapType | VectorType | TupleType | UserType)
    choice = rnd.randrange(4)
    if choice == 0:
        return to_arrow(kind, values)
    if choice == 1 and not _holds(kind, ("double", "float")):  # JSON has no word for NaN
        return pa.array([None if w is None else _text(kind, w) for w in values], pa.string())
    if choice == 2 and not nested:
        return _other(rnd, kind, values)
    if nested and choice >= 2:
        return _nested(rnd, kind, values)
    array = to_arrow(kind, values)
    return array.dictionary_encode() if kind.name in ("text", "int") else array


def _holds(kind: CQLType, names: Sequence[str]) -> bool:
    return any(one.name in names for one in kind.walk())


def _text(kind: CQLType, wire: bytes) -> str:
    nested = isinstance(kind, ListType | SetType | MapType | VectorType | TupleType | UserType)
    return kind.to_json_text(wire) if nested else kind.to_string(wire)


_WIDER: dict[str, list[pa.DataType]] = {
    "tinyint": [pa.int64(), pa.float64(), pa.decimal128(10, 0)],
    "smallint": [pa.int32(), pa.float32(), pa.decimal128(10, 0)],
    "int": [pa.int64(), pa.float64(), pa.decimal128(20, 0)],
    "bigint": [pa.decimal128(38, 0), pa.int64()],
    "text": [pa.large_string(), pa.string_view()],
    "blob": [pa.large_binary()],
    "uuid": [pa.binary()],
    "timeuuid": [pa.binary()],
    "timestamp": [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.timestamp("ms", "Asia/Tokyo")],
    "float": [pa.float64()],
    "time": [pa.int64()],
}


def _other(rnd: random.Random, kind: CQLType, values: Values) -> pa.Array:
    array = to_arrow(kind, values)
    wider = _WIDER.get(kind.name)
    return array if wider is None else array.cast(rnd.choice(wider))


def _nested(rnd: random.Random, kind: Any, values: Values) -> pa.Array:
    """Taken apart, each part in words of its own, and put together with null rows that hold something."""
    missing = pa.array([w is None for w in values], pa.bool_())
    match kind:
        case ListType() | SetType() | VectorType():
            groups = [[] if w is None else kind.elements(w) for w in values]
            flat = disguise(rnd, kind.element, [part for group in groups for part in group])
            return pa.ListArray.from_arrays(_offsets(groups), _plain(flat), mask=missing)
        case MapType():
            pairs = [[] if w is None else kind.elements(w) for w in values]
            keys = disguise(rnd, kind.key, [k for group in pairs for k, _ in group])
            items = disguise(rnd, kind.value, [v for group in pairs for _, v in group])
            return pa.MapArray.from_arrays(_offsets(pairs), _plain(keys), _plain(items), mask=missing)
    rows = [[None] * len(kind.types) if w is None else kind.all_elements(w) for w in values]
    parts = [_plain(disguise(rnd, t, [row[i] for row in rows])) for i, t in enumerate(kind.types)]
    names = list(kind.field_names) if isinstance(kind, UserType) else [f"_{i}" for i in range(len(parts))]
    if isinstance(kind, UserType):
        order = rnd.sample(range(len(names)), len(names))
        names, parts = [names[i] for i in order], [parts[i] for i in order]
    return pa.StructArray.from_arrays(parts, names=names, mask=missing)


def _plain(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array


def _offsets(groups: Sequence[Sequence[Any]]) -> pa.Array:
    offsets = [0]
    for group in groups:
        offsets.append(offsets[-1] + len(group))
    return pa.array(offsets, pa.int32())
