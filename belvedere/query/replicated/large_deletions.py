"""Deletions of very many rows of a table with views: in pieces, so that no record grows with their number.

Readers may see some rows gone before others; that is the price.
"""

from typing import Protocol

from belvedere.model.mutations import Mutation, RangeDeletion
from belvedere.model.ordering import ABOVE
from belvedere.model.schema import Table
from belvedere.query.errors import CQLError
from belvedere.query.keeping import ALWAYS, DELETED_AT_ONCE
from belvedere.storage.deletions import disjoint
from belvedere.storage.reads import KeySlice, PartitionRead, PartitionRows


class PieceByPiece(Protocol):
    async def read_stored(self, table: Table, read: PartitionRead, now: int) -> PartitionRows: ...
    async def write_one(self, table: Table, mutation: Mutation) -> None: ...
    def partly_written(self) -> CQLError: ...


async def delete_most(access: PieceByPiece, table: Table, mutation: Mutation) -> None:
    """Delete what a mutation deletes, but for the last few rows. The whole is still to be written."""
    ranges = disjoint(mutation.ranges)
    if mutation.deletion is not None:
        ranges = disjoint([*ranges, RangeDeletion(b"", ABOVE, mutation.deletion)])
    written = False
    for whole in ranges:
        start = whole.start
        while True:
            slices = (KeySlice(start, whole.end),)
            read = PartitionRead(mutation.token, mutation.key, slices, limit=DELETED_AT_ONCE)
            found = await access.read_stored(table, read, ALWAYS)
            if not found.more or not found.rows:
                break
            end = found.rows[-1][0] + b"\0"
            piece = RangeDeletion(start, end, whole.deletion)
            part = Mutation(table.id, mutation.token, mutation.key, [], ranges=[piece])
            try:
                await access.write_one(table, part)
            except CQLError as error:
                if written:
                    raise access.partly_written() from error
                raise
            written = True
            start = end
