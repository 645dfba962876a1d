"""What one source, a memtable or a file, stores of a partition.

Deletions are kept beside the rows and not applied across sources: only a merge of all sources knows what a
reader sees. Within one source the rows are already cut by that source's own deletions where that is cheap,
but nobody may rely on it.
"""

import msgspec

from belvedere.model.mutations import RangeDeletion
from belvedere.model.rows import Deletion, Row


class StoredPartition(msgspec.Struct):
    """Rows ascend by clustering key; tables without clustering columns have one row under b""."""

    token: int
    key: bytes
    deletion: Deletion | None = None
    ranges: list[RangeDeletion] = []
    static: Row | None = None
    rows: list[tuple[bytes, Row]] = []
