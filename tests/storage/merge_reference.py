"""What several sources of a partition say together, worked out row by row: the reference for compaction."""

from collections.abc import Sequence

from belvedere.model.mutations import RangeDeletion
from belvedere.model.rows import Deletion, cut
from belvedere.storage.deletions import disjoint
from belvedere.storage.merge import Rows, coverage_of, merged_rows, merged_static
from belvedere.storage.partitions import StoredPartition


def merge_stored(sources: Sequence[StoredPartition]) -> StoredPartition:
    """One source that says the same as all of them, with everything covered cut away."""
    first = sources[0]
    coverage = coverage_of(sources)
    ranges = [
        r
        for r in disjoint(found for source in sources for found in source.ranges)
        if _outlives(r, coverage.partition)
    ]
    rows: Rows = []
    for key, row in merged_rows(sources):
        deletion = coverage.of(key)
        left = row if deletion is None else cut(row, deletion)
        if left is not None:
            rows.append((key, left))
    static = merged_static(sources, coverage.partition)
    return StoredPartition(first.token, first.key, coverage.partition, ranges, static, rows)


def _outlives(found: RangeDeletion, partition: Deletion | None) -> bool:
    return partition is None or found.deletion > partition
