"""What nodes ask of a tablet's replicas: the bodies of requests, and what comes back."""

from collections.abc import Sequence

import msgspec
from xxhash import xxh3_128_digest

from belvedere.model.mutations import Mutation
from belvedere.query.replicated.dates import Chosen
from belvedere.storage.reads import PartitionRead, PartitionRows, RangeRead, ScanPage


class ReadPartition(msgspec.Struct, array_like=True, frozen=True, tag="partition"):
    read: PartitionRead
    now: int


class ReadRange(msgspec.Struct, array_like=True, frozen=True, tag="range"):
    """Answered with a RangePage."""

    read: RangeRead
    now: int


class AwaitDelivery(msgspec.Struct, array_like=True, frozen=True, tag="delivered"):
    """Answered when all that was written before has reached the tablets of views, and of other partitions."""


class ReadDate(msgspec.Struct, array_like=True, frozen=True, tag="date"):
    """Answered with a number: no write time that nodes chose is later, of all that was ordered before."""


class Seen(msgspec.Struct, array_like=True, frozen=True):
    """What somebody read of the partition that is to be changed."""

    read: PartitionRead
    now: int
    digest: bytes


class Change(msgspec.Struct, array_like=True, frozen=True, tag="change"):
    """A write, or, if it was decided by what was `seen`, an update."""

    #: None changes nothing: only what was delivered is written down.
    mutation: Mutation | None
    #: Parts of the same batch for other partitions.
    others: list[Mutation] = []
    seen: list[Seen] = []
    #: Write times that were chosen by the node that asks: the primary may choose later ones, so that they are
    #: later than those of all writes ordered before.
    chosen: Chosen | None = None
    #: Write times are later than this, and so are those of what is ordered later: other primaries know times
    #: up to here, of parts of the same batch.
    least: int = 0


class RangePage(msgspec.Struct, array_like=True):
    page: ScanPage
    #: Everything that this tablet was written up to this commit version is in the page.
    version: int


Operation = ReadPartition | ReadRange | ReadDate | AwaitDelivery | Change

#: Results of a Change.
CHANGED, NOT_AS_SEEN = b"+", b"!"

encode = msgspec.msgpack.Encoder().encode
_decode_operation = msgspec.msgpack.Decoder(Operation).decode
decode_rows = msgspec.msgpack.Decoder(PartitionRows).decode
decode_date = msgspec.msgpack.Decoder(int).decode
decode_page = msgspec.msgpack.Decoder(RangePage).decode


def decode_operation(body: bytes) -> Operation:
    found: Operation = _decode_operation(body)
    return found


def digest(found: PartitionRows) -> bytes:
    """Equal for equal rows that are stored in the same way."""
    return xxh3_128_digest(encode((found.static, found.rows, found.more)))


def changes(
    first: Mutation, others: Sequence[Mutation], seen: Sequence[Seen], chosen: Chosen | None, least: int
) -> bytes:
    return encode(Change(first, list(others), list(seen), chosen, least))
