"""A tablet as SELECT would show it, in columns: files of a snapshot in, rows out.

Everything is merged as of one second: what was deleted or has expired by then is not there. Only the columns
that are asked for are decoded where that cannot change which rows there are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.model.token import Tokens
from belvedere.pipeline.inputs import OpenInput, Stream, windows
from belvedere.pipeline.schema_of import table_of
from belvedere.pipeline.tasks import InputFile, TaskFiles
from belvedere.storage import sstable_format as fmt
from belvedere.storage.compaction_input import InputShape
from belvedere.storage.compaction_merge import WindowMerger, sort
from belvedere.storage.compaction_purge import Purge
from belvedere.storage.sstable_format import Layout
from belvedere.storage.sstable_write import with_schema

#: Entries of looked-up partitions that are merged at once; beyond, the tablet is read from end to end.
_LOOKED_UP: Final = 1 << 20
_ALL: Final = 2**63 - 1


class ReadTablet(msgspec.Struct, frozen=True):
    """The files of one tablet in a snapshot."""

    tablet: int
    first_token: int | str
    last_token: int | str
    inputs: list[InputFile]

    def holds(self, token: int) -> bool:
        return int(self.first_token) <= token <= int(self.last_token)


class ReadDescription(msgspec.Struct, frozen=True):
    """What a reader is told when its read begins."""

    #: Entries of the metadata store: key to JSON.
    schema: dict[str, str]
    #: Id of the table, hex.
    table: str
    #: The second as of which rows are looked at.
    now: int
    tablets: list[ReadTablet]

    def the_table(self) -> Table:
        return table_of(self.schema, self.table)


def visible_columns(table: Table) -> tuple[Column, ...]:
    """In the order of `SELECT *`."""
    return tuple(column for column in table.select_order if not column.hidden)


@dataclass(frozen=True)
class TabletScan:
    """One tablet's rows; `columns` as asked for, `tokens` if only these partitions are wanted."""

    table: Table
    columns: Sequence[Column]
    now: int
    tokens: Tokens | None = None

    def rows(self, tablet: ReadTablet, files: TaskFiles) -> Iterator[pa.Table]:
        """Tables with the columns asked for, under the names that files have, in the order of files."""
        inputs = [OpenInput(files, given) for given in tablet.inputs]
        layout = Layout(self._needed(inputs))
        shape = _Shape(layout, self.columns)
        merger = WindowMerger(
            layout,
            Purge(self.now, _ALL, _ALL),
            look_into_collections=any(s.is_multicell for s in layout.values),
        )
        for parts in self._parts(layout, inputs, files):
            merged = merger.merge([part for part in parts if part.num_rows])
            if merged is not None and merged.num_rows:
                yield from self._wanted(shape, merged)
        yield from shape.rest()

    def _needed(self, inputs: Sequence[OpenInput]) -> Table:
        """The table with the columns that must be read. A row that was not inserted is there as long as any
        of its cells is: then all cells must be looked at."""
        if self.table.view is None and not all(one.lasts_for_ever() for one in inputs):
            return self.table
        wanted = {column.name for column in self.columns}
        chosen = tuple(c for c in self.table.columns if c.is_key or c.name in wanted)
        return replace(self.table, columns=chosen)

    def _parts(
        self, layout: Layout, inputs: Sequence[OpenInput], files: TaskFiles
    ) -> Iterator[list[pa.Table]]:
        if self.tokens is not None:
            found = self._looked_up(layout, inputs)
            if found is not None:
                yield found
                return
        streams = [Stream(layout, opened) for opened in inputs]
        for parts in windows(streams, files.progress):
            yield [part for part in parts if part is not None]

    def _looked_up(self, layout: Layout, inputs: Sequence[OpenInput]) -> list[pa.Table] | None:
        """The entries of the wanted partitions; None if they are too many for one window."""
        assert self.tokens is not None
        wanted = pa.array(self.tokens)
        found = []
        rows = 0
        for opened in inputs:
            shape, names = InputShape(layout, opened.description), opened.names_for(layout)
            for number, (low, high) in enumerate(opened.token_bounds()):
                if not ((self.tokens >= low) & (self.tokens <= high)).any():
                    continue
                group = opened.read([number], names)
                part = shape.fit(group.filter(pc.is_in(group.column(fmt.TOKEN), wanted)))
                rows += part.num_rows
                if rows > _LOOKED_UP:
                    return None
                found.append((opened, part))
        whole = [[part for one, part in found if one is opened] for opened in inputs]
        return [pa.concat_tables(parts, promote_options="default") for parts in whole if parts]

    def _wanted(self, shape: "_Shape", merged: pa.Table) -> Iterator[pa.Table]:
        if self.tokens is not None:
            merged = merged.filter(pc.is_in(merged.column(fmt.TOKEN), pa.array(self.tokens)))
        if merged.num_rows:
            yield shape.rows(merged)


class _Shape:
    """Merged entries as rows: static cells stand in every row of their partition, or in one of their own.
    Keeps from window to window the static entry of the partition that the last one ended in."""

    def __init__(self, layout: Layout, columns: Sequence[Column]) -> None:
        self._layout = layout
        stored = {s.column.name: s for s in (*layout.keys, *layout.values)}
        self._stored = [stored[column.name] for column in columns]
        self._carried: pa.Table | None = None
        #: Whether rows of its partition were given out.
        self._has_rows = False

    @cached_property
    def _has_statics(self) -> bool:
        return bool(self._layout.statics)

    def rows(self, merged: pa.Table) -> pa.Table:
        if not self._has_statics:
            kinds = np.asarray(merged.column(fmt.KIND))
            if (kinds != fmt.ROW).any():
                merged = merged.filter(pa.array(kinds == fmt.ROW))
            return merged.select([stored.name for stored in self._stored])
        carried = self._carried
        if carried is not None:
            schema = self._layout.schema({*carried.column_names, *merged.column_names})
            merged = pa.concat_tables([with_schema(carried, schema), with_schema(merged, schema)])
        return self._joined(merged.combine_chunks(), carried is not None and self._has_rows)

    def rest(self) -> Iterator[pa.Table]:
        """What is left when all windows were given."""
        if self._carried is not None and not self._has_rows:
            yield self._carried.select([stored.name for stored in self._stored])

    def _joined(self, table: pa.Table, first_is_told: bool) -> pa.Table:
        window = sort(self._layout, table, True)
        places = np.arange(table.num_rows)
        is_static = window.kinds == fmt.STATIC_ROW
        begins = np.maximum.accumulate(np.where(window.new_partition, places, 0))
        static = np.maximum.accumulate(np.where(is_static, places, -1))
        has_static = static >= begins
        last = len(places) - 1
        # A static entry alone in its partition is a row; of the last partition more may follow.
        alone = is_static & np.append(window.new_partition[1:], False)
        if first_is_told and is_static[0]:
            alone[0] = False
        told_before = first_is_told and begins[last] == 0
        self._carried = table.slice(int(static[last]), 1) if has_static[last] else None
        self._has_rows = bool((window.kinds[begins[last] :] == fmt.ROW).any()) or told_before
        chosen = np.flatnonzero((window.kinds == fmt.ROW) | alone)
        own = pa.array(chosen)
        shared = pa.array(static[chosen], mask=~has_static[chosen])
        columns = [
            table.column(stored.name).take(shared if stored.column.kind is ColumnKind.STATIC else own)
            for stored in self._stored
        ]
        return pa.table(columns, names=[stored.name for stored in self._stored])
