"""What time does to stored cells: tombstones, and what has expired, go when nothing needs them.

A tombstone may go when it is older than gc_grace *and* nothing outside of the compaction could hold anything
that it deletes. An expired cell goes like a tombstone from when the cell was written, so its grace may
already be over. Until then it stays what it was: a tombstone in its place would win over a cell of the same
write time that lives on, and what readers see would change with a compaction.
"""

from dataclasses import dataclass

from belvedere.model.rows import AnyCell, Cell, Complex, Deletion, Row, stamped


@dataclass(frozen=True, slots=True)
class Purge:
    #: The present second.
    now: int
    #: Tombstones written before this second may go,
    gc_before: int
    #: if their timestamp is less than that of everything outside of the compaction.
    older_than: int

    def may_go(self, timestamp: int, second: int) -> bool:
        return second < self.gc_before and timestamp < self.older_than

    def deletion(self, deletion: Deletion | None) -> Deletion | None:
        if deletion is None or self.may_go(*deletion):
            return None
        return deletion

    def cell(self, cell: Cell) -> Cell | None:
        value, timestamp, ttl, expiry = cell
        if value is not None and (not ttl or expiry > self.now):
            return cell
        return None if self.may_go(timestamp, expiry - ttl) else cell

    def complex(self, cell: Complex) -> Complex | None:
        deletion = self.deletion(cell.deletion)
        items = {path: kept for path, item in cell.items.items() if (kept := self.cell(item)) is not None}
        return Complex(deletion, items) if items or deletion is not None else None

    def row(self, row: Row) -> Row | None:
        """What is left of a row; None if nothing is."""
        deletion = self.deletion(row.deletion)
        expired = bool(row.ttl) and row.expiry <= self.now
        live = row.live and not (expired and self.may_go(row.timestamp, row.expiry))
        left = live or deletion is not None
        cells: list[AnyCell] = []
        for cell in row.cells:
            kept = self._any_cell(row, cell, expired)
            left = left or kept is not None
            cells.append(kept)
        return Row(row.timestamp, row.ttl, row.expiry, live, deletion, cells) if left else None

    def _any_cell(self, row: Row, cell: AnyCell, expired: bool) -> AnyCell:
        if cell is None or (type(cell) is bytes and not expired):
            return cell
        if isinstance(cell, Complex):
            return self.complex(cell)
        return None if self.cell(stamped(row, cell)) is None else cell
