"""length and octet_length."""

from collections.abc import Sequence

from belvedere.model.types import INT, TEXT
from belvedere.query.functions.registry import (
    AnyFunction,
    Function,
    Request,
    check_count,
    known_types,
    no_nulls,
    register,
    register_factory,
)


def _length(value: bytes) -> bytes:
    """In UTF-16 units, as Java counts characters."""
    return (len(value.decode().encode("utf-16-le")) // 2).to_bytes(4, "big")


def _octets(value: bytes) -> bytes:
    return len(value).to_bytes(4, "big")


def _octet_length(request: Request) -> Sequence[AnyFunction]:
    check_count(request, 1)
    return (Function("octet_length", known_types(request), INT, no_nulls(_octets)),)


register(Function("length", (TEXT,), INT, no_nulls(_length)))
register_factory(_octet_length, "octet_length")
