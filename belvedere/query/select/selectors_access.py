"""Parts of values in a SELECT clause: a user type's field, a map's or set's element or slice."""

from collections.abc import Sequence

from belvedere.model.types import MapType, SetType, UserType
from belvedere.query.access import Execution
from belvedere.query.errors import InvalidRequest
from belvedere.query.select.selectors import CallSelector, Selector

Wire = bytes | None


def field_selector(target: Selector, field: str) -> Selector:
    type_ = target.type
    if not isinstance(type_, UserType):
        raise InvalidRequest(
            f"Invalid field selection: {target.name} of type {type_.name} is not a user type"
        )
    if field not in type_.field_names:
        raise InvalidRequest(f"{target.name} of type {type_.name} has no field {field}")
    index = type_.field_names.index(field)

    def call(values: Sequence[Wire], execution: Execution) -> Wire:
        value = values[0]
        return None if value is None else type_.all_elements(value)[index]

    return CallSelector(type_.types[index], f"{target.name}.{field}", call, (target,))


def element_selector(target: Selector, key: Selector, key_text: str) -> Selector:
    """`m[key]`: the value of a map's entry, or the element itself if a set has it."""
    type_ = target.type
    assert isinstance(type_, (MapType, SetType))
    as_key = (type_.key if isinstance(type_, MapType) else type_.element).to_key

    def call(values: Sequence[Wire], execution: Execution) -> Wire:
        collection, wanted = values
        if collection is None or wanted is None:
            return None
        sought = as_key(wanted)
        if isinstance(type_, MapType):
            return next((v for k, v in type_.elements(collection) if as_key(k) == sought), None)
        return next((e for e in type_.elements(collection) if as_key(e) == sought), None)

    result = type_.value if isinstance(type_, MapType) else type_.element
    return CallSelector(result, f"{target.name}[{key_text}]", call, (target, key))


def slice_selector(target: Selector, start: Selector | None, stop: Selector | None, text: str) -> Selector:
    """`m[start..stop]`: the entries whose keys lie between, both ends included."""
    type_ = target.type
    assert isinstance(type_, (MapType, SetType))
    as_key = (type_.key if isinstance(type_, MapType) else type_.element).to_key

    def call(values: Sequence[Wire], execution: Execution) -> Wire:
        collection, *bounds = values
        if collection is None:
            return None
        given = iter(bounds)
        low = next(given) if start is not None else None
        high = next(given) if stop is not None else None
        low_key = None if low is None else as_key(low)
        high_key = None if high is None else as_key(high)

        def inside(key: bytes) -> bool:
            sort_key = as_key(key)
            return (low_key is None or sort_key >= low_key) and (high_key is None or sort_key <= high_key)

        if isinstance(type_, MapType):
            pairs = [(k, v) for k, v in type_.elements(collection) if inside(k)]
            return type_.build(pairs) if pairs or not type_.is_multicell else None
        elements = [e for e in type_.elements(collection) if inside(e)]
        return type_.build(elements) if elements or not type_.is_multicell else None

    arguments = tuple(selector for selector in (target, start, stop) if selector is not None)
    return CallSelector(type_, f"{target.name}[{text}]", call, arguments)
