"""Deletions of ranges of clustering keys: kept small, and found fast for a key."""

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from belvedere.model.mutations import RangeDeletion
from belvedere.model.rows import Deletion, newer_deletion
from belvedere.storage.reads import KeySlice


def disjoint(ranges: Iterable[RangeDeletion]) -> list[RangeDeletion]:
    """The same deletions as ascending ranges that do not overlap; neighbours of equal stamp are joined."""
    pending = sorted((r for r in ranges if r.start < r.end), key=lambda r: r.start)
    result: list[RangeDeletion] = []
    active: list[tuple[int, int, bytes]] = []  # newest first: (-timestamp, -second, end)
    at = b""
    index = 0
    while index < len(pending) or active:
        if not active:
            at = pending[index].start
        while index < len(pending) and pending[index].start <= at:
            found = pending[index]
            heapq.heappush(active, (-found.deletion[0], -found.deletion[1], found.end))
            index += 1
        while active and active[0][2] <= at:
            heapq.heappop(active)
        if not active:
            continue
        stamp = (-active[0][0], -active[0][1])
        end = active[0][2]
        if index < len(pending):
            end = min(end, pending[index].start)
        _extend(result, at, end, stamp)
        at = end
    return result


def _extend(result: list[RangeDeletion], start: bytes, end: bytes, deletion: Deletion) -> None:
    if result and result[-1].end == start and result[-1].deletion == deletion:
        result[-1] = RangeDeletion(result[-1].start, end, deletion)
    else:
        result.append(RangeDeletion(start, end, deletion))


class Coverage:
    """What deletes a clustering key: the partition's deletion and those of ranges, of all sources."""

    __slots__ = ("_ranges", "_starts", "partition")

    def __init__(self, partition: Deletion | None, ranges: Sequence[RangeDeletion]) -> None:
        self.partition = partition
        self._ranges = disjoint(ranges) if len(ranges) > 1 else ranges
        self._starts = [r.start for r in self._ranges]

    @property
    def has_ranges(self) -> bool:
        return bool(self._starts)

    def of(self, key: bytes) -> Deletion | None:
        index = bisect_right(self._starts, key) - 1
        if index >= 0:
            found = self._ranges[index]
            if key < found.end:
                return newer_deletion(self.partition, found.deletion)
        return self.partition


def touching(ranges: Iterable[RangeDeletion], slices: Sequence[KeySlice]) -> list[RangeDeletion]:
    """Those that may delete something in the slices."""
    low = slices[0].start if slices else b""
    high = slices[-1].end if slices else b""
    return [r for r in ranges if r.end > low and (high is None or r.start < high)]
