"""Several mutations of one partition become one."""

from collections.abc import Sequence

from belvedere.model.mutations import Mutation
from belvedere.model.rows import Row, merge_rows, newer_deletion
from belvedere.model.schema import Table


def merge_mutations(mutations: Sequence[tuple[Table, Mutation]]) -> Sequence[tuple[Table, Mutation]]:
    """One mutation for each partition, in the order in which the partitions first appear."""
    if len(mutations) < 2:
        return mutations
    groups: dict[tuple[bytes, bytes], list[Mutation]] = {}
    tables: dict[bytes, Table] = {}
    for table, mutation in mutations:
        tables[table.id] = table
        groups.setdefault((table.id, mutation.key), []).append(mutation)
    return [
        (tables[table_id], group[0] if len(group) == 1 else _merge(group))
        for (table_id, _), group in groups.items()
    ]


def _merge(group: Sequence[Mutation]) -> Mutation:
    first = group[0]
    rows: dict[bytes, Row] = {}
    merged_into = Mutation(first.table, first.token, first.key, [])
    for mutation in group:
        for key, row in mutation.rows:
            known = rows.get(key)
            rows[key] = row if known is None else merge_rows(known, row)
        merged_into.static = _merge_optional(merged_into.static, mutation.static)
        merged_into.deletion = newer_deletion(merged_into.deletion, mutation.deletion)
        merged_into.ranges.extend(mutation.ranges)
    merged_into.rows = list(rows.items())
    return merged_into


def _merge_optional(left: Row | None, right: Row | None) -> Row | None:
    if left is None or right is None:
        return right if left is None else left
    return merge_rows(left, right)
