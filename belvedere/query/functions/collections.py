"""Functions of collections: keys and values of maps, how many, smallest, largest, sum and average."""

from collections.abc import Callable, Sequence

from belvedere.model.types import INT, CQLType, ListType, MapType, SetType
from belvedere.query.errors import InvalidRequest
from belvedere.query.functions.aggregates import FLOATS, INTEGERS, total_of
from belvedere.query.functions.registry import (
    AnyFunction,
    Function,
    Request,
    check_count,
    known_types,
    no_nulls,
    register_factory,
)


def _argument(request: Request, wanted: str, allowed: tuple[type[CQLType], ...]) -> CQLType:
    check_count(request, 1, takes=wanted)
    (type_,) = known_types(request)
    if not isinstance(type_, allowed):
        raise InvalidRequest(
            f"Function system.{request.name} requires a {wanted} argument, "
            f"but found argument {request.arguments[0].text} of type {type_.name}"
        )
    return type_


def _map_part(request: Request) -> Sequence[AnyFunction]:
    type_ = _argument(request, "map", (MapType,))
    assert isinstance(type_, MapType)
    keys = request.name == "map_keys"
    result: SetType | ListType = SetType(type_.key) if keys else ListType(type_.value)
    part = 0 if keys else 1

    def call(value: bytes) -> bytes:
        return result.build([entry[part] for entry in type_.elements(value)])

    return (Function(request.name, (type_,), result, no_nulls(call)),)


def _count(request: Request) -> Sequence[AnyFunction]:
    type_ = _argument(request, "collection", (ListType, SetType, MapType))
    return (Function(request.name, (type_,), INT, no_nulls(lambda value: value[:4])),)


def _extreme(request: Request) -> Sequence[AnyFunction]:
    type_ = _argument(request, "set or list", (ListType, SetType))
    assert isinstance(type_, (ListType, SetType))
    pick: Callable[..., bytes] = max if request.name == "collection_max" else min
    key = type_.element.to_key

    def call(value: bytes) -> bytes | None:
        elements = type_.elements(value)
        return pick(elements, key=key) if elements else None

    return (Function(request.name, (type_,), type_.element, no_nulls(call)),)


def _total(request: Request) -> Sequence[AnyFunction]:
    wanted = "numeric set or list"
    type_ = _argument(request, wanted, (ListType, SetType))
    assert isinstance(type_, (ListType, SetType))
    element = type_.element
    if element.name not in (*INTEGERS, *FLOATS, "decimal"):
        raise InvalidRequest(
            f"Function system.{request.name} requires a {wanted} argument, "
            f"but found argument {request.arguments[0].text} of type {type_.name}"
        )
    start = total_of(request.name.removeprefix("collection_"), element)

    def call(value: bytes) -> bytes | None:
        state = start()
        for part in type_.elements(value):
            state.add((part,))
        return state.result()

    return (Function(request.name, (type_,), element, no_nulls(call)),)


register_factory(_map_part, "map_keys", "map_values")
register_factory(_count, "collection_count")
register_factory(_extreme, "collection_min", "collection_max")
register_factory(_total, "collection_sum", "collection_avg")
