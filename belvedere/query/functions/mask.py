"""mask_null, mask_default, mask_replace, mask_inner, mask_outer, mask_hash: values made unreadable."""

import hashlib
from collections.abc import Callable, Sequence

from belvedere.model.types import (
    ASCII,
    BLOB,
    DURATION,
    INT,
    TEXT,
    TIMEUUID,
    CQLType,
    ListType,
    MapType,
    SetType,
    TupleType,
    UserType,
    VectorType,
)
from belvedere.query.errors import InvalidRequest
from belvedere.query.functions.registry import (
    AnyFunction,
    Argument,
    Function,
    Request,
    Wire,
    check_count,
    known_types,
    register_factory,
)
from belvedere.query.functions.uuid import LEAST, time_uuid


def default_mask(type_: CQLType) -> bytes:
    """What stands for any value of a type."""
    if type_ in (TEXT, ASCII):
        return b"****"
    if isinstance(type_, (ListType, SetType, MapType)):
        return bytes(4)
    if isinstance(type_, (TupleType, UserType)):
        return type_.build([default_mask(field) for field in type_.types])
    if isinstance(type_, VectorType):
        return type_.build([default_mask(type_.element)] * type_.dimension)
    if type_ == TIMEUUID:
        return time_uuid(0, LEAST)
    special = {"blob": b"", "date": (2**31).to_bytes(4, "big"), "inet": bytes(4), "varint": b"\x00"}
    if type_.name in special:
        return special[type_.name]
    if type_.name == "decimal":
        return bytes(5)
    return bytes(3) if type_ == DURATION else bytes(type_.fixed_width or 0)


def _mask_null(request: Request) -> Sequence[AnyFunction]:
    check_count(request, 1)
    (type_,) = known_types(request)
    return (Function(request.name, (type_,), type_, lambda values, execution: None),)


def _mask_default(request: Request) -> Sequence[AnyFunction]:
    check_count(request, 1)
    (type_,) = known_types(request)
    mask = default_mask(type_)
    return (Function(request.name, (type_,), type_, lambda values, execution: mask),)


def _mask_replace(request: Request) -> Sequence[AnyFunction]:
    check_count(request, 2, takes="any, any")
    type_ = _known(request, request.arguments[0])
    return (Function(request.name, (type_, type_), type_, lambda values, execution: values[1]),)


def _known(request: Request, argument: Argument) -> CQLType:
    if argument.known_type is None:
        raise InvalidRequest(
            f"Cannot infer type of argument {argument.text} in call to function "
            f"system.{request.name}: use type casts to disambiguate"
        )
    return argument.known_type


def _partial(request: Request) -> Sequence[AnyFunction]:
    """mask_inner hides all but the first `begin` and last `end` characters, mask_outer these."""
    check_count(request, 3, 4, takes="text, int, int, [text]")
    type_ = _known(request, request.arguments[0])
    if type_ not in (TEXT, ASCII):
        raise InvalidRequest(
            f"Function system.{request.name} requires an argument of type [text|varchar|ascii], "
            f"but found argument {request.arguments[0].text} of type {type_.name}"
        )
    inner, name = request.name == "mask_inner", request.name

    def call(values: Sequence[Wire], execution: object) -> Wire:
        value = values[0]
        if value is None:
            return None
        begin, end = (_margin(name, label, v) for label, v in zip(("begin", "end"), values[1:3], strict=True))
        padding = _padding(name, values[3] if len(values) > 3 else None)
        text = value.decode()
        last = len(text) - end
        masked = (
            padding if (begin <= place < last) is inner else character for place, character in enumerate(text)
        )
        return "".join(masked).encode()

    types = (type_, INT, INT, TEXT)[: len(request.arguments)]
    return (Function(name, types, type_, call),)


def _margin(name: str, label: str, value: Wire) -> int:
    number = 0 if value is None else int.from_bytes(value, "big", signed=True)
    if number < 0:
        raise InvalidRequest(
            f"The {label} argument of function system.{name} should be a positive number, "
            f"but {number} was provided"
        )
    return number


def _padding(name: str, value: Wire) -> str:
    padding = "*" if value is None else value.decode()
    if len(padding) != 1:
        raise InvalidRequest(
            f"The padding argument of function system.{name} should be single-character text, "
            f"but '{padding}' has {len(padding)} characters."
        )
    return padding


#: Java's names of message digests.
DIGESTS: dict[str, Callable[[bytes], "hashlib._Hash"]] = {
    "MD5": hashlib.md5,
    "SHA": hashlib.sha1,
    "SHA1": hashlib.sha1,
    "SHA-1": hashlib.sha1,
    "SHA-224": hashlib.sha224,
    "SHA-256": hashlib.sha256,
    "SHA-384": hashlib.sha384,
    "SHA-512": hashlib.sha512,
    "SHA3-224": hashlib.sha3_224,
    "SHA3-256": hashlib.sha3_256,
    "SHA3-384": hashlib.sha3_384,
    "SHA3-512": hashlib.sha3_512,
}


def _mask_hash(request: Request) -> Sequence[AnyFunction]:
    check_count(request, 1, 2, takes="any, [text]")
    type_ = _known(request, request.arguments[0])

    def call(values: Sequence[Wire], execution: object) -> Wire:
        value = values[0]
        if value is None:
            return None
        name = "SHA-256"
        if len(values) > 1 and values[1] is not None:
            name = values[1].decode()
        digest = DIGESTS.get(name.upper())
        if digest is None:
            raise InvalidRequest(f"Hash algorithm {name} is not supported.")
        return digest(value).digest()

    types = (type_, TEXT)[: len(request.arguments)]
    return (Function(request.name, types, BLOB, call),)


register_factory(_mask_null, "mask_null")
register_factory(_mask_default, "mask_default")
register_factory(_mask_replace, "mask_replace")
register_factory(_partial, "mask_inner", "mask_outer")
register_factory(_mask_hash, "mask_hash")
