"""The newest records of a tablet's log, in memory."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from belvedere.model.positions import NOWHERE, Position, Record


def within(records: Sequence[Record], most: int) -> tuple[Record, ...]:
    """The first of them, at least one, that have no more bytes together than this."""
    size = 0
    for index, record in enumerate(records):
        size += len(record.data)
        if size > most and index:
            return tuple(records[:index])
    return tuple(records)


class Tail:
    """`base` is the position before the oldest record that is held; what lies before that is on disk only."""

    __slots__ = ("base", "_records", "_positions", "last")

    def __init__(self, base: Position = NOWHERE, records: Sequence[Record] = ()) -> None:
        self.base = base
        self.last = base
        self._records: list[Record] = []
        self._positions: list[Position] = []
        for record in records:
            self.append(record)

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, position: Position) -> bool:
        if position == self.last or position == self.base:
            return True
        index = bisect_left(self._positions, position)
        return index < len(self._positions) and self._positions[index] == position

    def append(self, record: Record) -> None:
        if record.previous != self.last or record.position <= self.last:
            raise AssertionError(f"{record.position} after {record.previous} does not follow {self.last}")
        self._records.append(record)
        self._positions.append(record.position)
        self.last = record.position

    def floor(self, position: Position) -> Position:
        """The newest position here that is not beyond the given one; `base` if none is."""
        index = bisect_right(self._positions, position)
        return self._positions[index - 1] if index else self.base

    def after(self, position: Position, limit: int) -> tuple[Record, ...]:
        index = bisect_right(self._positions, position)
        return tuple(self._records[index : index + limit])

    def count_after(self, position: Position) -> int:
        return len(self._positions) - bisect_right(self._positions, position)

    def cut(self, position: Position) -> None:
        """Drop what is beyond `position`."""
        index = bisect_right(self._positions, position)
        del self._records[index:]
        del self._positions[index:]
        self.last = self._positions[-1] if self._positions else self.base

    def forget(self, position: Position, keep: int) -> None:
        """Drop from memory what is not beyond `position`, but for the newest `keep` records."""
        index = min(bisect_right(self._positions, position), len(self._positions) - keep)
        if index > 0:
            self.base = self._positions[index - 1]
            del self._records[:index]
            del self._positions[:index]
