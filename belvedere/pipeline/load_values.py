"""A column of any Arrow type as a column of a CQL type. Values that do not fit are told one by one and left
null; they do not spoil the others."""

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from belvedere.model.types import (
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
from belvedere.pipeline.load_scalars import FAMILIES, family, quickly
from belvedere.storage.columns import arrow_type, from_arrow, to_arrow
from belvedere.storage.columns_types import is_flat

_COLLECTIONS = ListType | SetType | VectorType


class CannotFit(Exception):
    """No value of an Arrow type can be one of a CQL type."""


@dataclass(slots=True)
class Converted:
    #: In the arrow_type of the (frozen) CQL type.
    array: pa.Array
    #: What is wrong, by row; the array is null there.
    problems: dict[int, str] = field(default_factory=dict)


def check_fits(cql_type: CQLType, kind: pa.DataType) -> None:
    """Raise CannotFit if that can be told without looking at values."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    source = family(kind)
    if source == "null" or source == "text":
        return
    match cql_type:
        case ListType() | SetType() | VectorType() if source == "list":
            check_fits(cql_type.element, kind.value_type)
            if pa.types.is_fixed_size_list(kind) and isinstance(cql_type, VectorType):
                if kind.list_size != cql_type.dimension:
                    raise CannotFit(f"{kind} cannot become {cql_type.name}")
            return
        case MapType() if source == "map":
            check_fits(cql_type.key, kind.key_type)
            check_fits(cql_type.value, kind.item_type)
            return
        case TupleType() if source == "struct" and kind.num_fields == len(cql_type.types):
            for number, field_type in enumerate(cql_type.types):
                check_fits(field_type, kind.field(number).type)
            return
        case UserType() if source == "struct":
            _check_fields(cql_type, kind)
            return
    if source not in FAMILIES.get(cql_type.name, ()):
        raise CannotFit(f"{kind} cannot become {cql_type.name}")
    if cql_type.name == "duration" and source == "struct":
        if {kind.field(i).name for i in range(kind.num_fields)} != {"months", "days", "nanoseconds"}:
            raise CannotFit("a duration is a struct of months, days and nanoseconds")


def _check_fields(cql_type: UserType, kind: pa.StructType) -> None:
    types = dict(cql_type.fields)
    for number in range(kind.num_fields):
        one = kind.field(number)
        if one.name not in types:
            raise CannotFit(f"{cql_type.name} has no field {one.name}; it has {', '.join(types)}")
        check_fits(types[one.name], one.type)


def convert(cql_type: CQLType, array: pa.Array | pa.ChunkedArray) -> Converted:
    """The values of a column whose type `check_fits`."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    if family(array.type) == "null":
        return Converted(pa.nulls(len(array), arrow_type(cql_type)))
    match cql_type, family(array.type):
        case (ListType() | SetType() | VectorType(), "list"):
            return _lists(cql_type, array)
        case (MapType(), "map"):
            return _maps(cql_type, array)
        case (TupleType() | UserType(), "struct"):
            return _structs(cql_type, array)
    return _finish_by_value(cql_type, array, quickly(cql_type, array))


# -- value by value --------------------------------------------------------------------------------


def _finish_by_value(cql_type: CQLType, source: pa.Array, quick: pa.Array) -> Converted:
    """Look at the values that `quick` has no answer for; equal ones only once."""
    left = np.flatnonzero(_flags(pc.and_(source.is_valid(), quick.is_null())))
    if not len(left):
        return Converted(quick)
    wires: list[bytes | None] = []
    problems: dict[int, str] = {}
    seen: dict[Any, bytes | str] = {}
    for row in left.tolist():
        value = _python(source[row])
        key = value if value.__hash__ is not None else repr(value)
        if key not in seen:
            try:
                seen[key] = cql_type.normalise(_wire(cql_type, value))
            except InvalidValue as error:
                seen[key] = _complaint(cql_type, value, error)
        made = seen[key]
        wires.append(made if isinstance(made, bytes) else None)
        if isinstance(made, str):
            problems[row] = made
    parts = pa.chunked_array([quick, to_arrow(cql_type, wires)]).combine_chunks()
    places = np.arange(len(source))
    places[left] = len(source) + np.arange(len(left))
    return Converted(parts.take(pa.array(places)), problems)


def _python(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return scalar.as_buffer().to_pybytes()


def _wire(cql_type: CQLType, value: Any) -> bytes:
    match value:
        case str():
            return cql_type.parse_text(value)
        case bytes() if cql_type.name in ("uuid", "timeuuid", "inet", "text", "ascii"):
            cql_type.validate(value)
            return value
        case dict() if cql_type.name == "duration":
            if None in value.values():
                raise InvalidValue("a part of a duration is null")
            return cql_type.encode(Duration(value["months"], value["days"], value["nanoseconds"]))
        case float() | Decimal() if cql_type.name in ("tinyint", "smallint", "int", "bigint", "varint"):
            if value != value or value in (float("inf"), float("-inf")) or value != int(value):
                raise InvalidValue(f"{value} is not a whole number")
            return cql_type.encode(int(value))
    return cql_type.encode(value)


def _complaint(cql_type: CQLType, value: Any, error: InvalidValue) -> str:
    if isinstance(value, str) and not isinstance(cql_type, _COLLECTIONS | MapType | TupleType | UserType):
        article = "an" if cql_type.name[0] in "aiou" and cql_type.name[:2] != "uu" else "a"
        return f"{_shown(value)} is not {article} {cql_type.name}"
    return f"{error!s:.300}"


def _shown(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:60] + "…")


# -- nested ----------------------------------------------------------------------------------------


def _lists(cql_type: _COLLECTIONS, array: pa.Array) -> Converted:
    lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0)).astype(np.int64)
    valid = _flags(array.is_valid())
    inner = convert(cql_type.element, array.flatten())
    problems = _of_rows(lengths, inner, "element")
    if isinstance(cql_type, VectorType):
        for row in np.flatnonzero(valid & (lengths != cql_type.dimension)).tolist():
            problems[row] = f"{lengths[row]} elements, but {cql_type.name} has {cql_type.dimension}"
    valid[list(problems)] = False
    if isinstance(cql_type, VectorType) and is_flat(cql_type):
        return Converted(_flat_vectors(cql_type, inner.array, lengths, valid), problems)
    made = pa.ListArray.from_arrays(
        pa.array(_offsets(lengths)), inner.array, type=_list_type(cql_type), mask=_mask(valid)
    )
    return Converted(_in_order(cql_type, made) if isinstance(cql_type, SetType) else made, problems)


def _list_type(cql_type: _COLLECTIONS) -> pa.DataType:
    return arrow_type(cql_type)


def _flat_vectors(
    cql_type: VectorType, flat: pa.Array, lengths: NDArray[np.int64], valid: NDArray[np.bool_]
) -> pa.Array:
    size = cql_type.dimension
    if not valid.all():
        starts = np.concatenate(([0], np.cumsum(lengths)[:-1])) if len(lengths) else lengths
        places = (starts[:, None] + np.arange(size)) * valid[:, None]
        flat = flat.take(pa.array(places.ravel(), mask=np.repeat(~valid, size)))
    return pa.FixedSizeListArray.from_arrays(flat, type=arrow_type(cql_type), mask=_mask(valid))


def _maps(cql_type: MapType, array: pa.MapArray) -> Converted:
    valid = _flags(array.is_valid())
    offsets = array.offsets.to_numpy().astype(np.int64)
    lengths = np.where(valid, np.diff(offsets), 0)
    # Entries of rows that are null count for nothing.
    places = _ranges(offsets[:-1], lengths)
    keys = convert(cql_type.key, _takeable(array.keys).take(places))
    items = convert(cql_type.value, _takeable(array.items).take(places))
    problems = _of_rows(lengths, items, "value")
    problems |= _of_rows(lengths, keys, "key")
    valid[list(problems)] = False
    made = pa.MapArray.from_arrays(
        pa.array(_offsets(lengths)),
        pc.fill_null(keys.array, _filler(keys.array.type)) if keys.array.null_count else keys.array,
        items.array,
        type=arrow_type(cql_type),
        mask=_mask(valid),
    )
    return Converted(_in_order(cql_type, made), problems)


def _takeable(array: pa.Array) -> pa.Array:
    """Views cannot be picked from."""
    if pa.types.is_string_view(array.type):
        return array.cast(pa.string())
    return array.cast(pa.binary()) if pa.types.is_binary_view(array.type) else array


def _ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> pa.Array:
    """The numbers of each range, one range behind the other."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return pa.array(np.arange(total) + np.repeat(starts - (ends - lengths), lengths))


def _filler(kind: pa.DataType) -> pa.Scalar:
    """Something to stand for keys that did not fit; their rows are not read."""
    return pa.array([b"" if kind != pa.binary(16) else bytes(16)], pa.binary()).cast(kind)[0]


def _structs(cql_type: TupleType | UserType, array: pa.StructArray) -> Converted:
    names = [array.type.field(number).name for number in range(array.type.num_fields)]
    children = array.flatten()
    if isinstance(cql_type, UserType):
        given = dict(zip(names, children, strict=True))
        labels = cql_type.field_names
        parts = [given.get(name, pa.nulls(len(array))) for name in labels]
    else:
        labels = tuple(names)
        parts = children
    problems: dict[int, str] = {}
    made = []
    for label, field_type, part in zip(labels, cql_type.types, parts, strict=True):
        converted = convert(field_type, part)
        made.append(converted.array)
        for row, what in converted.problems.items():
            problems[row] = f"field {label}: {what}"
    valid = _flags(array.is_valid())
    valid[list(problems)] = False
    fields = list(arrow_type(cql_type))
    return Converted(pa.StructArray.from_arrays(made, fields=fields, mask=_mask(valid)), problems)


def _of_rows(lengths: NDArray[np.int64], inner: Converted, what: str) -> dict[int, str]:
    """The problems of elements as problems of their rows; null is one."""
    if not inner.array.null_count:
        return {}
    ends = np.cumsum(lengths)
    problems: dict[int, str] = {}
    for place in np.flatnonzero(_flags(inner.array.is_null())).tolist():
        row = int(np.searchsorted(ends, place, "right"))
        problems.setdefault(row, f"{what}: {inner.problems.get(place, 'null')}")
    return problems


def _in_order(cql_type: SetType | MapType, array: pa.Array) -> pa.Array:
    """As the store keeps it: sorted, nothing twice."""
    normalise: Callable[[bytes], bytes] = cql_type.normalise
    wires = from_arrow(cql_type, array).to_list()
    return to_arrow(cql_type, [None if wire is None else normalise(wire) for wire in wires])


# -- helpers ---------------------------------------------------------------------------------------


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int32]:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _mask(valid: NDArray[np.bool_]) -> pa.Array | None:
    return None if valid.all() else pa.array(~valid)


def _flags(array: pa.Array) -> NDArray[np.bool_]:
    return np.array(array.to_numpy(zero_copy_only=False), np.bool_)
