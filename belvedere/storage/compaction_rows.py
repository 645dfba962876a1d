"""The rows of a compaction that are merged one by one: touched collections and ties."""

import numpy as np
import pyarrow as pa

from belvedere.model.rows import NO_TIMESTAMP, Row, cut, merge_rows
from belvedere.storage import sstable_format as fmt
from belvedere.storage.compaction_cells import Ints, Touched
from belvedere.storage.compaction_purge import Purge
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.sstable_format import Layout
from belvedere.storage.sstable_group import DecodedGroup
from belvedere.storage.sstable_plan import ReadPlan
from belvedere.storage.sstable_rows import to_table


def merge_by_rows(layout: Layout, part: Touched, numbers: Ints, purge: Purge) -> tuple[Ints, pa.Table]:
    """Merge the entries with these numbers; those that are left, and their numbers."""
    members = np.concatenate([np.arange(part.starts[n], part.starts[n] + part.sizes[n]) for n in numbers])
    table = part.table.take(pa.array(members))
    group = DecodedGroup(ReadPlan.of_layout(layout), table)
    kinds = np.asarray(table.column(fmt.KIND).combine_chunks()).tolist()
    kept: list[int] = []
    partitions: list[StoredPartition] = []
    place = 0
    for number in numbers.tolist():
        is_static = kinds[place] == fmt.STATIC_ROW
        token, key, ck = group.token(place), group.key(place), group.ck(place)
        row: Row | None = None
        for index in range(place, place + int(part.sizes[number])):
            more = group.static_row(index) if is_static else group.row(index)
            row = more if row is None else merge_rows(row, more)
        place += int(part.sizes[number])
        floor = int(part.floors[number])
        if row is not None and floor > NO_TIMESTAMP:
            row = cut(row, (floor, 0))
        if row is not None:
            row = purge.row(row)
        if row is None:
            continue
        kept.append(number)
        # One partition object for each entry: only their order counts here.
        stored = StoredPartition(token, key)
        if is_static:
            stored.static = row
        else:
            stored.rows = [(ck, row)]
        partitions.append(stored)
    return np.array(kept, np.int64), to_table(layout, partitions)[0]
