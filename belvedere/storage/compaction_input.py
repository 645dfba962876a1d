"""Row groups of files of any age in the shape of the table as it is now."""

from bisect import bisect_left

import pyarrow as pa

from belvedere.storage.columns import from_arrow, to_arrow
from belvedere.storage.sstable_format import EntryPosition, FileDescription, Layout, StoredColumn, column_key
from belvedere.storage.sstable_write import positions


class InputShape:
    """How the columns of one file become those of a layout: renamed, left out, or converted."""

    def __init__(self, layout: Layout, description: FileDescription) -> None:
        self._layout = layout
        current = {(s.column.kind, s.column.position): s for s in (*layout.keys, *layout.values)}
        #: The layout's column for each of the file's that still exists.
        self._stored: dict[str, StoredColumn] = {}
        self._dropped: set[str] = set()
        for facts in description.columns:
            now = current.get(column_key(facts))
            if now is not None:
                self._stored[facts.stored] = now
            else:
                self._dropped |= {
                    facts.stored,
                    *(f"{p}.{facts.stored}" for p in ("_ts", "_ttl", "_exp", "_el")),
                }

    def fit(self, table: pa.Table) -> pa.Table:
        """With the columns that the table has; those it does not know of are added."""
        columns: dict[str, pa.ChunkedArray] = {}
        for name in table.column_names:
            if name in self._dropped:
                continue
            prefix, dot, rest = name.partition(".")
            stored = self._stored.get(name)
            if stored is not None:
                columns[stored.name] = _converted(self._layout, stored, table.column(name))
            elif dot and rest in self._stored and prefix in ("_ts", "_ttl", "_exp", "_el"):
                columns[f"{prefix}.{self._stored[rest].name}"] = table.column(name)
            else:
                columns[name] = table.column(name)
        schema = self._layout.schema(columns)
        missing = [f for f in schema if f.name not in columns]
        columns |= {f.name: pa.chunked_array([pa.nulls(table.num_rows, f.type)]) for f in missing}
        return pa.table([columns[f.name] for f in schema], schema=schema)


def _converted(layout: Layout, stored: StoredColumn, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A user type may have got fields since the file was written."""
    kind = stored.column.type.frozen()
    wanted = next(f.type for f in layout.all_fields if f.name == stored.name)
    if column.type == wanted:
        return column
    return pa.chunked_array([to_arrow(kind, from_arrow(kind, column.combine_chunks()).to_list())])


def split_at(layout: Layout, table: pa.Table, position: EntryPosition) -> int:
    """How many entries of a sorted table stand before a position."""
    return bisect_left(range(table.num_rows), position, key=lambda i: positions(layout, table.slice(i, 1))[0])
