"""Cells of non-frozen collections and user types, put together into one wire value."""

from functools import lru_cache

from belvedere.model.rows import Cell, Complex
from belvedere.model.types import TIMEUUID, CQLType, ListType, MapType, SetType, UserType


@lru_cache(maxsize=4096)
def _has_decimals(type_: CQLType) -> bool:
    return any(inner.name == "decimal" for inner in type_.walk())


def element_type(type_: SetType | MapType) -> CQLType:
    """The type of what tells the cells of a set or map apart."""
    return type_.key if isinstance(type_, MapType) else type_.element


def cell_path(type_: CQLType, element: bytes) -> bytes:
    """Where the cell of a set's element or a map's key lies: equal ones (1.5 and 1.50) share one cell."""
    return type_.from_key(type_.to_key(element), 0)[0] if _has_decimals(type_) else element


def sorted_items(type_: CQLType, cell: Complex) -> list[tuple[bytes, Cell]]:
    """(path, cell) in the collection's own order."""
    items = cell.items.items()
    if isinstance(type_, ListType):
        return sorted(items, key=lambda item: TIMEUUID.to_key(item[0]))
    if isinstance(type_, SetType):
        element_key = type_.element.to_key
        return sorted(items, key=lambda item: element_key(item[0]))
    if isinstance(type_, MapType):
        map_key = type_.key.to_key
        return sorted(items, key=lambda item: map_key(item[0]))
    return sorted(items)


def assemble(type_: CQLType, cell: Complex) -> bytes | None:
    """The wire value of live cells; an empty collection is null."""
    if not cell.items:
        return None
    if isinstance(type_, UserType):
        fields: list[bytes | None] = [None] * len(type_.types)
        for path, (value, *_) in cell.items.items():
            fields[int.from_bytes(path, "big")] = value
        return type_.build(fields)
    items = sorted_items(type_, cell)
    if isinstance(type_, SetType):
        return type_.build([path for path, _ in items])
    if isinstance(type_, ListType):
        return type_.build([cell[0] or b"" for _, cell in items])
    assert isinstance(type_, MapType)
    return type_.build([(path, cell[0] or b"") for path, cell in items])
