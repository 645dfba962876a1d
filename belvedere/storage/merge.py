"""Many sources of one partition merged into what a reader sees.

Every source gives its stored rows and deletions for the same slices. A deletion in one source may cover rows
of another, so all are gathered first; merging cell by cell and cutting by deletions may happen in any order.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from belvedere.model.rows import Deletion, Row, cut, merge_rows, newer_deletion, visible
from belvedere.model.schema import Column, Table
from belvedere.storage.deletions import Coverage
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.reads import KeySlice

Rows = list[tuple[bytes, Row]]


class LiveColumns:
    """Which ordinals are still columns: cells of dropped ones are not there for readers."""

    __slots__ = ("_complete", "_regular", "_static", "static_columns")

    def __init__(self, table: Table) -> None:
        self._regular = _alive(table.regulars, table.regular_ordinals)
        self._static = _alive(table.statics, table.static_ordinals)
        self.static_columns = bool(table.statics)
        #: Ordinals that a row must have to need no other source; None if no row can be complete.
        self._complete: tuple[int, ...] | None = None
        if not self.static_columns and not any(column.type.is_multicell for column in table.regulars):
            self._complete = tuple(column.position for column in table.regulars)

    @property
    def masking(self) -> bool:
        """True if columns were dropped."""
        return self._regular is not None or self._static is not None

    def regular(self, row: Row) -> Row:
        return row if self._regular is None else _masked(row, self._regular)

    def static(self, row: Row) -> Row:
        return row if self._static is None else _masked(row, self._static)

    def complete(self, row: Row) -> bool:
        """True if nothing older in another source could add to the row."""
        ordinals = self._complete
        if ordinals is None or not row.live or row.deletion is not None:
            return False
        cells = row.cells
        width = len(cells)
        return all(ordinal < width and type(cells[ordinal]) is bytes for ordinal in ordinals)


def _alive(columns: Sequence[Column], ordinals: int) -> tuple[bool, ...] | None:
    """None if no ordinal was given up, the ordinary case."""
    positions = {column.position for column in columns}
    width = max([ordinals, *(position + 1 for position in positions)])
    flags = tuple(index in positions for index in range(width))
    return None if all(flags) else flags


def _masked(row: Row, alive: tuple[bool, ...]) -> Row:
    if all(cell is None or keep for cell, keep in zip(row.cells, alive, strict=False)):
        return row
    cells = [cell if keep else None for cell, keep in zip(row.cells, alive, strict=False)]
    return Row(row.timestamp, row.ttl, row.expiry, row.live, row.deletion, cells)


# ------------------------------------------------------------------------------------- what is stored


def coverage_of(sources: Sequence[StoredPartition]) -> Coverage:
    partition: Deletion | None = None
    for source in sources:
        partition = newer_deletion(partition, source.deletion)
    return Coverage(partition, [found for source in sources for found in source.ranges])


def merged_static(sources: Iterable[StoredPartition], deletion: Deletion | None) -> Row | None:
    static: Row | None = None
    for source in sources:
        if source.static is not None:
            static = source.static if static is None else merge_rows(static, source.static)
    return static if static is None or deletion is None else cut(static, deletion)


def merged_rows(sources: Sequence[StoredPartition]) -> Rows:
    """All rows in ascending order, merged where several sources have one."""
    filled = [source.rows for source in sources if source.rows]
    if not filled:
        return []
    if len(filled) == 1:
        return filled[0]
    merged = dict(filled[0])
    for rows in filled[1:]:
        for key, row in rows:
            old = merged.get(key)
            merged[key] = row if old is None else merge_rows(old, row)
    return sorted(merged.items(), key=_by_key)


def _by_key(item: tuple[bytes, Row]) -> bytes:
    return item[0]


# --------------------------------------------------------------------------------- what a reader sees


def visible_static(
    sources: Sequence[StoredPartition], deletion: Deletion | None, now: int, columns: LiveColumns
) -> Row | None:
    static = merged_static(sources, deletion)
    return None if static is None else visible(columns.static(static), now)


def visible_rows(
    rows: Iterable[tuple[bytes, Row]], coverage: Coverage, now: int, columns: LiveColumns, limit: int
) -> tuple[Rows, int]:
    """The live ones among merged rows, in the order given, and how many rows were looked at. Stops right
    after the row that makes `limit` (0: no limit)."""
    found: Rows = []
    looked = 0
    covers = coverage.partition is not None or coverage.has_ranges
    for key, row in rows:
        looked += 1
        if covers:
            deletion = coverage.of(key)
            if deletion is not None:
                left = cut(row, deletion)
                if left is None:
                    continue
                row = left
        seen = visible(columns.regular(row), now)
        if seen is not None:
            found.append((key, seen))
            if len(found) == limit:
                break
    return found, looked


def in_slices(rows: Rows, slices: Sequence[KeySlice]) -> Rows:
    """The rows of ascending slices."""
    if len(slices) == 1 and not slices[0].start and slices[0].end is None:
        return rows
    found: Rows = []
    for part in slices:
        low = bisect_left(rows, part.start, key=_by_key)
        high = len(rows) if part.end is None else bisect_left(rows, part.end, key=_by_key)
        found.extend(rows[low:high])
    return found


def slices_after(slices: Sequence[KeySlice], key: bytes, reverse: bool) -> tuple[KeySlice, ...]:
    """What is left to read of the slices once everything up to `key`, included, was read."""
    left: list[KeySlice] = []
    if reverse:
        for part in slices:
            if part.start < key:
                left.append(KeySlice(part.start, key if part.end is None else min(part.end, key)))
        return tuple(left)
    beyond = key + b"\0"
    for part in slices:
        if part.end is None or part.end > beyond:
            left.append(KeySlice(max(part.start, beyond), part.end))
    return tuple(left)
