"""Constants: which types they may stand for, and their wire bytes, with Cassandra's messages."""

from decimal import Decimal, InvalidOperation

from belvedere.cql.syntax import Constant
from belvedere.model.types import CQLType, InvalidValue, native
from belvedere.query.errors import InvalidRequest
from belvedere.query.functions.registry import Fit
from belvedere.query.results import ResultColumn

KIND_NAMES = {
    "integer": "INTEGER",
    "float": "FLOAT",
    "string": "STRING",
    "boolean": "BOOLEAN",
    "uuid": "UUID",
    "blob": "HEX",
    "duration": "DURATION",
}

#: The native types each kind of constant may be written for.
ACCEPTED = {
    "integer": frozenset(
        "bigint counter date decimal double duration float int smallint time timestamp tinyint varint".split()
    ),
    "float": frozenset({"decimal", "double", "float"}),
    "string": frozenset({"ascii", "text", "inet", "timestamp", "date", "time"}),
    "boolean": frozenset({"boolean"}),
    "uuid": frozenset({"uuid", "timeuuid"}),
    "blob": frozenset({"blob"}),
    "duration": frozenset({"duration"}),
}


def preferred_type(constant: Constant) -> CQLType:
    """The type a constant has when nothing around it says more."""
    text = constant.text
    match constant.kind:
        case "integer":
            value = int(Decimal(text))
            if -(2**31) <= value < 2**31:
                return native("int")
            return native("bigint") if -(2**63) <= value < 2**63 else native("varint")
        case "float":
            return native("double") if _is_double(text) else native("decimal")
        case "string":
            return native("ascii") if text.isascii() else native("text")
        case other:
            return native(other)


def _is_double(text: str) -> bool:
    """Whether a double holds the number without losing digits that were written."""
    try:
        number = Decimal(text)
        return not number.is_finite() or Decimal(repr(float(text))) == number
    except InvalidOperation:
        return True


def constant_fit(node: Constant, expected: CQLType) -> Fit:
    if expected.name not in ACCEPTED[node.kind]:
        return Fit.NONE
    return Fit.EXACT if preferred_type(node) == expected else Fit.WEAK


def constant_value(node: Constant, receiver: ResultColumn) -> bytes:
    """The wire bytes of a constant written for a column."""
    type_ = receiver.type
    if type_.name not in ACCEPTED[node.kind]:
        raise InvalidRequest(
            f"Invalid {KIND_NAMES[node.kind]} constant ({node.text}) "
            f'for "{receiver.name}" of type {type_.name}'
        )
    try:
        return type_.parse_text(node.text)
    except InvalidValue as error:
        raise InvalidRequest(str(error)) from None
