"""Reading `WITH name = value AND …`: what values look like, with Cassandra's wording when they do not."""

from collections.abc import Iterable, Mapping

from belvedere.cql.syntax import Properties, PropertyMap
from belvedere.query.errors import SyntaxException

PropertyValue = str | PropertyMap

_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")


def known_properties(properties: Properties, known: Iterable[str]) -> Mapping[str, PropertyValue]:
    allowed = frozenset(known)
    for found in properties:
        if found.name not in allowed:
            raise SyntaxException(f"Unknown property '{found.name}'")
    return {found.name: found.value for found in properties}


def as_text(name: str, value: PropertyValue) -> str:
    if isinstance(value, PropertyMap):
        raise SyntaxException(f"Invalid value for property '{name}'. It should be a string")
    return value


def as_map(name: str, value: PropertyValue) -> dict[str, str]:
    if not isinstance(value, PropertyMap):
        raise SyntaxException(f"Invalid value for property '{name}'. It should be a map.")
    return value.as_dict()


def as_boolean(name: str, value: PropertyValue) -> bool:
    text = as_text(name, value)
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise SyntaxException(f"Invalid boolean value {text} for '{name}'")


def as_integer(name: str, value: PropertyValue) -> int:
    """A 32-bit integer."""
    text = as_text(name, value)
    try:
        number = int(text)
    except ValueError:
        number = 2**31
    if not -(2**31) <= number < 2**31 or "_" in text:
        raise SyntaxException(f"Invalid integer value {text} for '{name}'")
    return number


def as_double(name: str, value: PropertyValue) -> float:
    text = as_text(name, value)
    try:
        return float(text)
    except ValueError:
        raise SyntaxException(f"Invalid double value {text} for '{name}'") from None
