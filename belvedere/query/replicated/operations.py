"""What nodes ask of a tablet's replicas: the bodies of requests, and what comes back."""

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
    """Answered when all that was written before has reached the tablets of views, and of other partitions;
    with NOT_YET after a while: whoever waits on asks again."""


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
    #: An outbox brings it.
    delivered: bool = False
    #: Of the tablets that the others are for.
    targets: list[int] = []


class RangePage(msgspec.Struct, array_like=True):
    page: ScanPage
    #: Everything that this tablet was written up to this commit version is in the page.
    version: int


Operation = ReadPartition | ReadRange | ReadDate | AwaitDelivery | Change

#: Results of a Change, and of AwaitDelivery.
CHANGED, NOT_AS_SEEN = b"+", b"!"
NOT_YET = b"?"

encode = msgspec.msgpack.Encoder().encode
_decode_operation = msgspec.msgpack.Decoder(Operation).decode
decode_rows = msgspec.msgpack.Decoder(PartitionRows).decode
decode_date = msgspec.msgpack.Decoder(int).decode
decode_page = msgspec.msgpack.Decoder(RangePage).decode


def decode_operation(body: bytes) -> Operation:
    found: Operation = _decode_operation(body)
    return found


#: Pages are cut so that they have about so many bytes: a frame between nodes holds no more than twice that.
_PAGE_BYTES = 8 << 20


def encode_rows(found: PartitionRows) -> bytes:
    """As many of the rows as fit into a frame: `more` says that there are others."""
    data = encode(found)
    while len(data) > _PAGE_BYTES and len(found.rows) > 1:
        found = msgspec.structs.replace(found, rows=found.rows[: len(found.rows) // 2], more=True)
        data = encode(found)
    return data


def encode_page(found: RangePage) -> bytes:
    """As many of the partitions as fit, and of the first one's rows: `next` says where to go on."""
    data = encode(found)
    while len(data) > _PAGE_BYTES:
        partitions = found.page.partitions
        if len(partitions) > 1:
            kept, after = partitions[: len(partitions) // 2], partitions[len(partitions) // 2]
        elif partitions and len(partitions[0].rows) > 1:
            after = partitions[0]
            rows = after.rows[: len(after.rows) // 2]
            kept = [msgspec.structs.replace(after, rows=rows, more=True)]
        else:
            break
        found = RangePage(ScanPage(kept, (after.token, after.key)), found.version)
        data = encode(found)
    return data


def digest(found: PartitionRows) -> bytes:
    """Equal for equal rows that are stored in the same way."""
    return xxh3_128_digest(encode((found.static, found.rows, found.more)))
