"""CAST(value AS type): which types turn into which, and how. Functions are called `castas<type>`."""

from collections.abc import Callable, Sequence

from belvedere.model.types import (
    ASCII,
    DATE,
    NATIVE_TYPES,
    TEXT,
    TIMESTAMP,
    TIMEUUID,
    CQLType,
)
from belvedere.query.errors import InvalidRequest
from belvedere.query.functions.numbers import NUMBERS, encode_number
from belvedere.query.functions.registry import (
    AnyFunction,
    Function,
    Request,
    known_types,
    no_nulls,
    register_factory,
)
from belvedere.query.functions.time import (
    date_to_timestamp,
    timestamp_to_date,
    uuid_to_date,
    uuid_to_timestamp,
)

PREFIX = "castas"
Convert = Callable[[bytes], bytes]

_TO_TEXT = frozenset(
    {*NUMBERS, "boolean", "timeuuid", "uuid", "timestamp", "date", "time", "inet", "ascii", "text"}
)
_TIMES: dict[tuple[CQLType, CQLType], Convert] = {
    (TIMEUUID, TIMESTAMP): uuid_to_timestamp,
    (TIMEUUID, DATE): uuid_to_date,
    (TIMESTAMP, DATE): timestamp_to_date,
    (DATE, TIMESTAMP): date_to_timestamp,
}


def _make(request: Request) -> Sequence[AnyFunction]:
    target = NATIVE_TYPES[request.name.removeprefix(PREFIX)]
    (source,) = known_types(request)
    convert = conversion(source, target)
    label = f"cast({{}} as {target.name})"
    return (Function(request.name, (source,), target, no_nulls(convert), column_format=label),)


def conversion(source: CQLType, target: CQLType) -> Convert:
    if source == target:
        return lambda value: value
    if source.name in NUMBERS and target.name in NUMBERS and target.name != "counter":
        decode = source.decode
        return lambda value: encode_number(target, decode(value))
    if target in (TEXT, ASCII) and source.name in _TO_TEXT:
        return _to_text(source, target)
    found = _TIMES.get((source, target))
    if found is None:
        raise InvalidRequest(f"{source.name} cannot be cast to {target.name}")
    return found


def _to_text(source: CQLType, target: CQLType) -> Convert:
    def convert(value: bytes) -> bytes:
        return target.parse_text(source.to_string(value))

    return convert


register_factory(_make, *(PREFIX + name for name in NATIVE_TYPES))
