"""Columns that follow from others: readable values of collections, and until when a row lives."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from belvedere.model.rows import Complex
from belvedere.model.types import CQLType, ListType, MapType, SetType
from belvedere.storage import sstable_format as fmt
from belvedere.storage.sstable_format import Layout


def readable_value(frozen: CQLType, cell: Complex) -> bytes | None:
    """Live elements as one frozen value, for readers that know nothing of cells; None if there is none."""
    live = [(path, item[0]) for path, item in cell.items.items() if item[0] is not None]
    if not live:
        return None
    if isinstance(frozen, ListType):
        return frozen.build([value for _, value in sorted(live, key=lambda pair: _time_order(pair[0]))])
    if isinstance(frozen, SetType):
        to_key = frozen.element.to_key
        return frozen.build(sorted((path for path, _ in live), key=to_key))
    if isinstance(frozen, MapType):
        key_of = frozen.key.to_key
        return frozen.build(sorted(live, key=lambda pair: key_of(pair[0])))
    fields: list[bytes | None] = [None] * len(frozen.children())
    for path, value in live:
        index = int.from_bytes(path, "big")
        if index < len(fields):
            fields[index] = value
    return frozen.build(fields)  # type: ignore[attr-defined, no-any-return]


def _time_order(path: bytes) -> tuple[int, bytes]:
    """List positions are time UUIDs: by their 60-bit time, then by bytes."""
    if len(path) != 16:
        return 0, path
    high = int.from_bytes(path[6:8], "big") & 0x0FFF
    return (high << 48) | (int.from_bytes(path[4:6], "big") << 32) | int.from_bytes(path[:4], "big"), path[8:]


def last_expiry(cell: Complex) -> int | None:
    """The second at which the last element expires; None if one stays, or nothing is alive."""
    last = 0
    for value, _, ttl, expiry in cell.items.values():
        if value is not None:
            if not ttl:
                return None
            last = max(last, expiry)
    return last or None


def until_of(layout: Layout, columns: dict[str, pa.Array], size: int) -> pa.Array:
    """For each entry the second from which nothing of it is alive any more; 0 if nothing is now."""
    until = np.where(_flags(columns[fmt.LIVE]), _expiry(columns, fmt.EXP, size), 0)
    for stored in layout.values:
        values = columns[stored.name]
        if values.null_count == size:
            continue
        expiry = _expiry(columns, stored.exp, size)
        if not stored.is_multicell and fmt.EXP in columns:
            shares_stamp = True if stored.ts not in columns else ~_flags(columns[stored.ts].is_valid())
            expiry = np.where(shares_stamp, _expiry(columns, fmt.EXP, size), expiry)
        until = np.maximum(until, np.where(_flags(values.is_valid()), expiry, 0))
    return pa.array(until)


def _expiry(columns: dict[str, pa.Array], name: str, size: int) -> NDArray[np.int64]:
    found = columns.get(name)
    if found is None:
        return np.full(size, fmt.FOREVER)
    return np.asarray(pc.fill_null(found, fmt.FOREVER))


def _flags(array: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.bool_)
