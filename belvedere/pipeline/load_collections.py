"""Collections and user types with a cell for each element, as an INSERT of the whole value leaves them: what
was there is deleted, then each element is written."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from belvedere.model.rows import NO_TIMESTAMP, Cell, Complex
from belvedere.model.types import CQLType, ListType, MapType, SetType, UserType
from belvedere.query.modify.assignments import field_path
from belvedere.query.modify.list_paths import list_position
from belvedere.query.select.collections_out import cell_path, element_type
from belvedere.storage.columns import from_arrow, to_arrow
from belvedere.storage.sstable_derived import readable_value
from belvedere.storage.sstable_format import StoredColumn
from belvedere.storage.sstable_rows import Bounds

#: Bytes of a path, as with INSERT.
_MAX_PATH: Final = 65535

#: Write time (µs), ttl (s), expiry (s), and the second of writing.
Stamp = tuple[int, int, int, int]
Elements = Callable[[bytes], list[tuple[bytes, bytes]]]

_encode = msgspec.msgpack.Encoder().encode


def collection_columns(
    stored: StoredColumn, array: pa.Array, stamp: Stamp, bounds: Bounds
) -> dict[str, pa.Array]:
    """The columns of a file for one column of whole values; null ones are not written."""
    timestamp, ttl, expiry, now = stamp
    frozen = stored.column.type.frozen()
    split = _splitter(stored.column.type, timestamp)
    deletion = (max(timestamp - 1, NO_TIMESTAMP), now)
    exact: list[bytes | None] = []
    shown: list[bool] = []
    readable: list[bytes | None] | None = [] if _paths_differ(stored.column.type) else None
    for wire in from_arrow(frozen, array).to_list():
        if wire is None:
            exact.append(None)
            shown.append(False)
            cell = None
        else:
            items: dict[bytes, Cell] = {path: (value, timestamp, ttl, expiry) for path, value in split(wire)}
            cell = Complex(deletion, items)
            exact.append(_encode(cell))
            shown.append(bool(items))
        if readable is not None:
            readable.append(None if cell is None else readable_value(frozen, cell))
    if any(one is not None for one in exact):
        bounds.add_deletion(deletion)
        bounds.add_timestamps(timestamp, timestamp)
        if expiry:
            bounds.add_seconds(expiry, expiry)
    visible = pa.array(shown, pa.bool_())
    # One without elements reads as null.
    if readable is not None:
        array = to_arrow(frozen, readable)
    made = {
        stored.name: pc.if_else(visible, array, pa.scalar(None, array.type)),
        stored.elements: pa.array(exact, pa.binary()),
    }
    if expiry:
        made[stored.exp] = pc.if_else(visible, pa.scalar(expiry, pa.int64()), pa.scalar(None, pa.int64()))
    return made


def _paths_differ(kind: CQLType) -> bool:
    """Whether a path may be written otherwise than the element or key that it stands for."""
    if not isinstance(kind, SetType | MapType):
        return False
    return any(inner.name == "decimal" for inner in element_type(kind).walk())


def long_paths(kind: CQLType, array: pa.Array) -> dict[int, str]:
    """Rows with an element of a set, or a key of a map, that is too long to tell cells apart by."""
    if not isinstance(kind, SetType | MapType):
        return {}
    paths = array.keys if isinstance(kind, MapType) else array.values
    if not pa.types.is_binary(paths.type) and not pa.types.is_string(paths.type):
        return {}
    if (pc.max(pc.binary_length(paths)).as_py() or 0) <= _MAX_PATH // 4:
        return {}
    split = _splitter(kind, 0)
    wrong: dict[int, str] = {}
    for row, wire in enumerate(from_arrow(kind.frozen(), array).to_list()):
        longest = max((len(path) for path, _ in split(wire)), default=0) if wire is not None else 0
        if longest > _MAX_PATH:
            what = "map key" if isinstance(kind, MapType) else "set element"
            wrong[row] = f"a {what} of {longest} bytes is longer than {_MAX_PATH}"
    return wrong


def _splitter(kind: CQLType, timestamp: int) -> Elements:
    """How wire bytes of a whole value come apart into paths and values."""
    match kind:
        case ListType():
            elements = kind.elements
            return lambda wire: list(zip(_positions(wire, timestamp), elements(wire), strict=False))
        case SetType():
            members = kind.elements
            return lambda wire: [(cell_path(kind.element, element), b"") for element in members(wire)]
        case MapType():
            pairs = kind.elements
            return lambda wire: [(cell_path(kind.key, key), value) for key, value in pairs(wire)]
    assert isinstance(kind, UserType)
    fields = kind.elements
    return lambda wire: [
        (field_path(index), value) for index, value in enumerate(fields(wire)) if value is not None
    ]


def _positions(wire: bytes, timestamp: int) -> Iterator[bytes]:
    """Where the elements of a list lie. Equal lists of one load lie in the same places, so that a row loaded
    twice is one; different ones do not overwrite each other's elements."""
    node = xxhash.xxh3_64_digest(wire)[:3]
    return (list_position(timestamp, index, node) for index in count())
