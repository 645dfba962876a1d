"""intAsBlob, blobAsInt and so on: a value's bytes, and bytes as a value."""

from collections.abc import Callable

from belvedere.model.types import BLOB, NATIVE_TYPES, CQLType, InvalidValue
from belvedere.query.errors import InvalidRequest
from belvedere.query.functions.registry import Function, no_nulls, register


def _same(value: bytes) -> bytes:
    return value


def _from_blob(name: str, type_: CQLType) -> Callable[[bytes], bytes]:
    def convert(value: bytes) -> bytes:
        try:
            type_.validate(value)
        except InvalidValue:
            raise InvalidRequest(
                f"In call to function system.{name}, value 0x{value.hex()} is not a valid binary "
                f"representation for type {type_.name}"
            ) from None
        return type_.normalise(value)

    return convert


def _register(label: str, type_: CQLType) -> None:
    for name in (f"{label}_as_blob", f"{label}asblob"):
        register(Function(name, (type_,), BLOB, no_nulls(_same)))
    for name in (f"blob_as_{label}", f"blobas{label}"):
        register(Function(name, (BLOB,), type_, no_nulls(_from_blob(name, type_))))


for _type in NATIVE_TYPES.values():
    if _type is not BLOB:
        _register(_type.name, _type)
_register("varchar", NATIVE_TYPES["text"])
