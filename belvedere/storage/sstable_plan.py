"""How the columns of one file answer for a table that may have changed since the file was written."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from belvedere.model.schema import ColumnKind, Table
from belvedere.storage import sstable_format as fmt
from belvedere.storage.sstable_format import FileDescription, Layout, StoredColumn, column_key


@dataclass(frozen=True)
class ReadPlan:
    """How a file's columns answer for a table: by ordinal, None where the file lacks the column."""

    partition_key: tuple[StoredColumn, ...]
    regulars: tuple[StoredColumn | None, ...]
    statics: tuple[StoredColumn | None, ...]
    has_key_column: bool
    has_clustering: bool

    @classmethod
    def of(cls, table: Table, description: FileDescription, names: Sequence[str]) -> "ReadPlan":
        current = {(column.kind, column.position): column for column in table.columns}
        stored: dict[tuple[ColumnKind, int], StoredColumn] = {}
        for facts in description.columns:
            column = current.get(column_key(facts))
            if column is not None:
                stored[column_key(facts)] = StoredColumn(column, facts.stored)

        def by_ordinal(kind: ColumnKind, count: int) -> tuple[StoredColumn | None, ...]:
            found = [stored.get((kind, ordinal)) for ordinal in range(count)]
            while found and found[-1] is None:
                found.pop()
            return tuple(found)

        keys = [stored[ColumnKind.PARTITION_KEY, column.position] for column in table.partition_key]
        regulars = max((c.position + 1 for c in table.regulars), default=0)
        statics = max((c.position + 1 for c in table.statics), default=0)
        return cls(
            tuple(keys),
            by_ordinal(ColumnKind.REGULAR, regulars),
            by_ordinal(ColumnKind.STATIC, statics),
            fmt.KEY in names,
            fmt.CK in names,
        )

    @cached_property
    def names(self) -> frozenset[str]:
        """The columns that are needed to make rows; the others are for other readers."""
        names = {
            fmt.TOKEN,
            fmt.KIND,
            fmt.LIVE,
            fmt.TS,
            fmt.TTL,
            fmt.EXP,
            fmt.DEL_TS,
            fmt.DEL_AT,
            fmt.CK,
            fmt.END,
        }
        names |= {fmt.KEY} if self.has_key_column else {one.name for one in self.partition_key}
        for one in (*self.regulars, *self.statics):
            if one is not None:
                names |= {one.elements} if one.is_multicell else {one.name, one.ts, one.ttl, one.exp}
        return frozenset(names)

    @classmethod
    def of_layout(cls, layout: Layout) -> "ReadPlan":
        """For tables that are in the shape of the layout already."""

        def by_ordinal(columns: Sequence[StoredColumn]) -> tuple[StoredColumn | None, ...]:
            found = {one.column.position: one for one in columns}
            return tuple(found.get(ordinal) for ordinal in range(max(found, default=-1) + 1))

        return cls(
            layout.partition_key,
            by_ordinal(layout.regulars),
            by_ordinal(layout.statics),
            layout.has_key_column,
            bool(layout.clustering),
        )
