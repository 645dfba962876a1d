"""What may be asked of stored rows, and what comes back: the vocabulary between query and storage."""

from dataclasses import dataclass, field

import msgspec

from belvedere.model.rows import Row

MIN_TOKEN = -(2**63)
MAX_TOKEN = 2**63 - 1

#: Where a partition stands in its table: token first, then the key's bytes.
Position = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class KeySlice:
    """Rows with start <= clustering key < end, in order-preserving key bytes; end None means no bound."""

    start: bytes = b""
    end: bytes | None = None

    def holds(self, key: bytes) -> bool:
        return self.start <= key and (self.end is None or key < self.end)


EVERYTHING = (KeySlice(),)


class PartitionRead(msgspec.Struct, frozen=True):
    """Rows of one partition. Slices are ascending and disjoint, whatever the direction of reading.

    A struct, not a dataclass: one is made for every point read, in a fifth of the time.
    """

    token: int
    key: bytes
    slices: tuple[KeySlice, ...] = EVERYTHING
    reverse: bool = False
    #: Stop after this many live rows; 0 means no limit.
    limit: int = 0
    #: A single full clustering key to look up, instead of slices: the point read.
    row: bytes | None = None


@dataclass(frozen=True, slots=True)
class RangeRead:
    """Rows of many partitions in token order, a page at a time."""

    #: First partition to look at, included.
    start: Position = (MIN_TOKEN, b"")
    #: Last token to look at, included.
    end_token: int = MAX_TOKEN
    slices: tuple[KeySlice, ...] = EVERYTHING
    reverse: bool = False
    #: In the partition exactly at `start`, these slices are read instead (to resume inside a partition).
    first_slices: tuple[KeySlice, ...] | None = None
    #: Stop soon after this many live rows (at least one partition is always looked at).
    limit: int = 1000
    #: At most this many live rows of each partition; 0 means no limit.
    partition_limit: int = 0


class PartitionRows(msgspec.Struct):
    """What a reader sees of one partition: rows and static cells that are live now, in reading order."""

    token: int
    key: bytes
    static: Row | None
    rows: list[tuple[bytes, Row]]
    #: The commit log position that must be durable before anyone may be told of these rows.
    after: int = 0
    #: True if the limit ended the reading: there may be more rows.
    more: bool = False


@dataclass(slots=True)
class ScanPage:
    """A stretch of partitions (those with neither rows nor static cells are left out)."""

    partitions: list[PartitionRows] = field(default_factory=list)
    #: Where to go on, or None at the end. If the last partition has `more`, that is its own position.
    next: Position | None = None
    after: int = 0
