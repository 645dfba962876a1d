"""How a stored value is compared with the value of a condition."""

from belvedere.model.types import CQLType, ListType, MapType, SetType
from belvedere.query.errors import InvalidRequest

Wire = bytes | None


def compare(type_: CQLType, operator: str, found: Wire, wanted: Wire) -> bool:
    """Null equals null and nothing else; it has no order."""
    if type_.is_multicell:
        found, wanted = _or_nothing(type_, found), _or_nothing(type_, wanted)
    if wanted is None:
        if operator == "=":
            return found is None
        if operator == "!=":
            return found is not None
        raise InvalidRequest(f'Invalid comparison with null for operator "{operator}"')
    if found is None:
        return operator == "!="
    if not type_.is_orderable:
        return (type_.normalise(found) == type_.normalise(wanted)) is (operator == "=")
    order = type_.compare(found, wanted)
    match operator:
        case "=":
            return order == 0
        case "!=":
            return order != 0
        case "<":
            return order < 0
        case "<=":
            return order <= 0
        case ">":
            return order > 0
    return order >= 0


def _or_nothing(type_: CQLType, value: Wire) -> Wire:
    """A collection of many cells without a cell is the same as null."""
    if value is None or not isinstance(type_, ListType | SetType | MapType):
        return value
    return value if type_.elements(value) else None


def contains(type_: CQLType, operator: str, found: Wire, wanted: Wire) -> bool:
    if wanted is None:
        raise InvalidRequest(f"Invalid comparison with null for operator {operator}")
    if found is None:
        return False
    if isinstance(type_, MapType):
        part = type_.key if operator == "CONTAINS KEY" else type_.value
        index = 0 if operator == "CONTAINS KEY" else 1
        return any(compare(part, "=", pair[index], wanted) for pair in type_.elements(found))
    assert isinstance(type_, ListType | SetType)
    return any(compare(type_.element, "=", element, wanted) for element in type_.elements(found))
