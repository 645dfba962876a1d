"""to_json and from_json."""

import json
from collections.abc import Callable, Sequence
from decimal import Decimal

from belvedere.model.types import TEXT, CQLType, InvalidValue
from belvedere.query.errors import FunctionFailure, InvalidRequest
from belvedere.query.functions.registry import (
    AnyFunction,
    Function,
    Request,
    Wire,
    check_count,
    known_types,
    register_factory,
)


def _to_json(request: Request) -> Sequence[AnyFunction]:
    check_count(request, 1)
    (type_,) = known_types(request)

    def call(values: Sequence[Wire], execution: object) -> Wire:
        value = values[0]
        return b"null" if value is None else type_.to_json_text(value).encode()

    return (Function(request.name, (type_,), TEXT, call),)


def _from_json(request: Request) -> Sequence[AnyFunction]:
    check_count(request, 1, takes="text")
    if request.receiver is None:
        raise InvalidRequest(f"{request.name}() cannot be used in the selection clause")
    return (Function(request.name, (TEXT,), request.receiver, _parser(request.name, request.receiver)),)


def _parser(name: str, type_: CQLType) -> Callable[[Sequence[Wire], object], Wire]:
    def call(values: Sequence[Wire], execution: object) -> Wire:
        value = values[0]
        if value is None:
            return None
        text = value.decode()
        try:
            parsed = json.loads(text, parse_float=Decimal)
            return None if parsed is None else type_.from_json(parsed)
        except (InvalidValue, ValueError, RecursionError) as error:
            raise FunctionFailure(
                f"Could not decode JSON string '{text}': {error}", "system", name, ("text",)
            ) from None

    return call


register_factory(_to_json, "to_json", "tojson")
register_factory(_from_json, "from_json", "fromjson")
