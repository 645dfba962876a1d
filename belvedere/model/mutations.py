"""What a write does to one partition of one table: the unit of the commit log and of replication.

Everything time-dependent (timestamps, expiries, `now()`, list positions) is fixed in the mutation before it
is logged, so that replaying it anywhere gives the same rows. None of this is ever in a cycle, so the
collector need not look at it.
"""

import msgspec

from belvedere.model.rows import Deletion, Row


class RangeDeletion(msgspec.Struct, array_like=True, frozen=True):
    """Deletes rows with start <= clustering key < end (order-preserving key bytes, see model.ordering)."""

    start: bytes
    end: bytes
    deletion: Deletion


class Mutation(msgspec.Struct, array_like=True, gc=False):
    """Changes to one partition, in no order among themselves: they merge like any rows."""

    table: bytes  # the table's id, 16 bytes
    token: int
    key: bytes  # partition key, wire bytes
    rows: list[tuple[bytes, Row]]  # by order-preserving clustering key; b"" for tables without clustering
    static: Row | None = None
    deletion: Deletion | None = None
    ranges: list[RangeDeletion] = []

    @property
    def is_empty(self) -> bool:
        return not (self.rows or self.ranges) and self.static is None and self.deletion is None


class ViewUpdate(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One change that a base write causes in a view; travels in the base's log record until delivered."""

    view: bytes
    mutation: Mutation
    #: Digest of the image that this takes away from its place in the view (docs/decisions/0008); b"": none.
    gone: bytes = b""


class LogRecord(msgspec.Struct, array_like=True, gc=False):
    """What the commit log keeps of one committed write."""

    tablet: int
    epoch: int
    version: int  # commit version: strictly increasing per tablet, across epochs
    mutation: Mutation
    views: list[ViewUpdate] = []


class ReplicatedWrite(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The data of one record of a replicated tablet's log (`model.positions.Record`)."""

    #: None: the record changes nothing here.
    mutation: Mutation | None = None
    #: What it does to views, to be delivered to their tablets. Not stamped yet: that is done by the record's
    #: version, which it gets with its place in the log.
    views: list[ViewUpdate] = []
    #: Other parts of a batch, to be delivered to the tablets that they belong to.
    others: list[Mutation] = []
    #: What the records of this tablet up to this version had to deliver, was delivered.
    delivered: int = 0
    #: Of the tablets that the others are for: if one is emptied, it has another tablet there.
    targets: list[int] = []


_encoder = msgspec.msgpack.Encoder()
_record_decoder = msgspec.msgpack.Decoder(LogRecord)


def encode_record(record: LogRecord) -> bytes:
    return _encoder.encode(record)


def decode_record(data: bytes) -> LogRecord:
    return _record_decoder.decode(data)


encode_replicated = msgspec.msgpack.Encoder().encode
decode_replicated = msgspec.msgpack.Decoder(ReplicatedWrite).decode
