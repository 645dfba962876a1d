"""Images of many base rows at once, in the columns of the view's files.

`views.images.ImageMaker` says what an image is; what is common is done here column by column, and what is not
(collections, filters that look inside of values) goes through it row by row.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from belvedere.meta.state import ClusterState
from belvedere.model.rows import Row
from belvedere.model.schema import Table
from belvedere.model.token import token_of
from belvedere.pipeline.filters import ViewFilter, flags
from belvedere.pipeline.inputs import KEEP_ALIVE, OpenInput, Rows
from belvedere.pipeline.keys import key_columns
from belvedere.pipeline.runs import order_of, sorted_run
from belvedere.pipeline.write_times import CellTimes, encode_numbers, encode_times
from belvedere.query.schema_view import KeyspacesView, SchemaView
from belvedere.storage import sstable_format as fmt
from belvedere.storage.compaction_cells import filled, valid
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.sstable_derived import until_of
from belvedere.storage.sstable_format import Layout, StoredColumn
from belvedere.storage.sstable_group import DecodedGroup
from belvedere.storage.sstable_plan import ReadPlan
from belvedere.storage.sstable_rows import Bounds, to_table
from belvedere.storage.sstable_write import with_schema
from belvedere.views.images import NEVER, Image, ImageMaker, Place

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

#: Rows in Python objects at a time.
_ROWS_AT_A_TIME: Final = 4096


def image_makers(
    state: ClusterState, base_id: str, view_ids: Sequence[str], inputs: Sequence[OpenInput]
) -> "tuple[Layout, list[ImageColumns]]":
    """Makers of the views' images, and the layout in which they want the rows of the base."""
    base, *views = (state.tables_by_id[bytes.fromhex(table_id)] for table_id in (base_id, *view_ids))
    schema = KeyspacesView(state.keyspaces)
    needed = needed_columns(base, views, schema)
    # Until when a row exists may depend on any of its cells; not if all rows exist by themselves.
    if len(needed.columns) == len(base.columns) or not all(one.lasts_for_ever() for one in inputs):
        needed = base
    layout = Layout(needed)
    return layout, [ImageColumns(layout, view, schema) for view in views]


def needed_columns(base: Table, views: Sequence[Table], schema: SchemaView) -> Table:
    """The base without the columns that none of the views looks at."""
    whole = Layout(base)
    names: set[str] = set()
    for view in views:
        assert view.view is not None
        names |= {column.name for column in view.columns if not column.hidden}
        names |= ViewFilter(whole, view.view.where, schema).named
    columns = tuple(c for c in base.columns if c.is_key or c.name in names)
    return replace(base, columns=columns)


class ImageColumns:
    """Makes the images of rows of one base in one view."""

    def __init__(self, layout: Layout, view: Table, schema: SchemaView) -> None:
        """`layout` is that of the rows to come: of the base, perhaps without columns that nobody needs."""
        assert view.view is not None
        base = layout.table
        self.layout = Layout(view)
        self._base = layout
        self._maker = ImageMaker(base, view, schema)
        self._filter = ViewFilter(layout, view.view.where, schema)
        stored = {s.column.name: s for s in (*layout.keys, *layout.values)}
        #: (the view's column, the base's) of the key, and of the cells that are shown.
        self._keys = [(one, stored[one.column.name]) for one in self.layout.keys]
        shown = [one for one in self.layout.regulars if not one.column.hidden]
        self._cells = [(one, stored[one.column.name]) for one in shown]
        self._hidden = next(one for one in self.layout.regulars if one.column.hidden)
        key_names = {one.column.name for one in self.layout.keys}
        restricted = key_names | self._filter.named
        #: Cells of the base without which the row is not in the view.
        self._needed = [one for one in layout.regulars if one.column.name in restricted]

    def images(self, rows: Rows, version: int) -> tuple[pa.Table, Bounds]:
        """The images of the rows as a sorted run; and the stamps inside of their collections. Nothing of the
        rows is deleted, but for elements of collections."""
        until = self._until(rows.table)
        in_columns = self._in_columns(rows.table)
        alone = rows.chosen & in_columns & (until > 0)
        if self._filter.tests is not None:
            alone &= self._passing(rows.table)
        made = self._image_columns(rows.table, alone, until, version)
        others = rows.chosen & ~in_columns
        if not others.any():
            return made, Bounds()
        by_rows, bounds = self._by_rows(rows.table.filter(pa.array(others)), version)
        return sorted_run(self.layout, _concat(self.layout, [made, by_rows])), bounds

    def places(self, rows: Rows) -> pa.Table:
        """Where the rows stand in the view, as key columns, in the order of files."""
        table = rows.table
        if self._filter.tests is None:
            seen = self._seen(table.filter(pa.array(rows.chosen)))
            found = [self._maker.place(*one) for one in seen]
            return self._place_table([place for place in found if place is not None])
        chosen = rows.chosen & self._passing(table) & (self._until(table) > 0)
        return self._placed(table, chosen)[1]

    def removals(self, places: pa.Table, version: int) -> pa.Table:
        """That no row stands at these places any more, since the version."""
        size = places.num_rows
        made = {name: places.column(name) for name in places.column_names}
        made[fmt.KIND] = _constant(fmt.ROW, pa.int8(), size)
        made[fmt.LIVE] = _constant(False, pa.bool_(), size)
        made[fmt.UNTIL] = _constant(0, pa.int64(), size)
        made[fmt.TS] = _constant(0, pa.int64(), size)
        made[fmt.DEL_TS] = _constant(2 * version + 1, pa.int64(), size)
        made[fmt.DEL_AT] = _constant(version // 1_000_000, pa.int64(), size)
        schema = self.layout.schema(made)
        columns = {f.name: made.get(f.name, pa.nulls(size, f.type)) for f in schema}
        return pa.table(columns, schema=schema)

    # -- which rows, and where ---------------------------------------------------------------------

    def _in_columns(self, rows: pa.Table) -> Flags:
        """Which rows need no look at each."""
        if self._filter.tests is None:
            return np.zeros(rows.num_rows, np.bool_)
        simple = np.ones(rows.num_rows, np.bool_)
        for _, source in self._cells:
            if source.is_multicell:
                simple &= ~valid(rows, source.elements)
        return simple

    def _passing(self, rows: pa.Table) -> Flags:
        passing = self._filter.passes(rows)
        for _, source in self._keys:
            if not source.column.is_key:
                passing &= valid(rows, source.name)
        return passing

    def _placed(self, rows: pa.Table, chosen: Flags) -> tuple[Ints, pa.Table]:
        """The chosen rows in the order of the view's files: their indices, and their keys in the view."""
        indices = np.flatnonzero(chosen)
        keys = pa.table({one.name: rows.column(source.name) for one, source in self._keys})
        if len(indices) < rows.num_rows:
            keys = keys.take(pa.array(indices))
        keys = key_columns(self.layout, keys)
        order = order_of(self.layout, keys)
        if order is None:
            return indices, keys
        return indices[order], keys.take(pa.array(order))

    # -- in columns --------------------------------------------------------------------------------

    def _until(self, rows: pa.Table) -> Ints:
        """The second at which each row is no longer in the view; 0 if nothing of it is alive."""
        until: Ints = self._exists(rows)
        for needed in self._needed:
            if needed.exp not in rows.column_names and fmt.EXP not in rows.column_names:
                continue
            if needed.is_multicell:
                ends = filled(rows, needed.exp, NEVER)
            else:
                times = _times(rows, needed)
                ends = np.where(times.ttl > 0, times.expiry, NEVER)
            until = np.where(valid(rows, needed.name), np.minimum(until, ends), until)
        return until

    def _exists(self, rows: pa.Table) -> Ints:
        """Until when each row exists in the base."""
        if fmt.EXP not in rows.column_names and flags(rows.column(fmt.LIVE).combine_chunks()).all():
            return np.full(rows.num_rows, NEVER)
        # Anew: what a file says of it may be owed to columns that were dropped since.
        columns = {name: rows.column(name).combine_chunks() for name in rows.column_names}
        until: Ints = np.asarray(until_of(self._base, columns, rows.num_rows))
        return np.minimum(until, NEVER)

    def _image_columns(self, rows: pa.Table, chosen: Flags, until: Ints, version: int) -> pa.Table:
        indices, columns = self._placed(rows, chosen)
        names = set(rows.column_names)
        wanted = [fmt.TS, fmt.TTL, fmt.EXP]
        for _, source in self._cells:
            wanted += [source.name, source.ts, source.ttl, source.exp]
        taken = rows.select([name for name in dict.fromkeys(wanted) if name in names])
        if len(indices) < rows.num_rows or not _ascending(indices):
            taken = taken.take(pa.array(indices))
        size, until = len(indices), until[indices]
        stamp = 2 * version + 1
        made: dict[str, pa.Array | pa.ChunkedArray] = {
            name: columns.column(name) for name in columns.column_names
        }
        made[fmt.KIND] = _constant(fmt.ROW, pa.int8(), size)
        made[fmt.LIVE] = _constant(True, pa.bool_(), size)
        made[fmt.TS] = _constant(stamp, pa.int64(), size)
        made[fmt.DEL_TS] = _constant(stamp - 1, pa.int64(), size)
        made[fmt.DEL_AT] = _constant(version // 1_000_000, pa.int64(), size)
        ending = until < NEVER
        made[fmt.UNTIL] = pa.array(np.where(ending, until, fmt.FOREVER))
        if ending.any():
            made[fmt.TTL] = pa.array(np.ones(size, np.int32), mask=~ending)
            made[fmt.EXP] = pa.array(until, mask=~ending)
        for one, source in self._cells:
            made[one.name] = taken.column(source.name)
            if one.is_multicell:
                made[one.elements] = pa.nulls(size, pa.binary())
            elif fmt.EXP in names or source.exp in names:
                made |= _own_stamps(one, _times(taken, source), until, stamp)
        made[self._hidden.name] = self._write_times(taken)
        schema = self.layout.schema(made)
        return pa.table([made[name] for name in schema.names], schema=schema)

    def _write_times(self, taken: pa.Table) -> pa.Array:
        size = taken.num_rows
        single = [(one, source) for one, source in self._cells if not source.is_multicell]
        if not any(name in taken.column_names for _, s in single for name in (s.ts, fmt.TTL)):
            stamps = filled(taken, fmt.TS, 0)
            if not any(taken.column(source.name).null_count == 0 for _, source in single):
                given = np.zeros(size, np.bool_)
                for _, source in single:
                    given |= valid(taken, source.name)
                stamps[~given] = 0
            return encode_numbers(stamps)
        times = {one.column.position: _times(taken, source) for one, source in single}
        return encode_times(times, self.layout.table.regular_ordinals, size)

    # -- row by row --------------------------------------------------------------------------------

    def _seen(self, rows: pa.Table) -> "list[tuple[int, bytes, bytes, Row | None]]":
        found: list[tuple[int, bytes, bytes, Row | None]] = []
        plan = ReadPlan.of_layout(self._base)
        for start in range(0, rows.num_rows, _ROWS_AT_A_TIME):
            group = DecodedGroup(plan, rows.slice(start, _ROWS_AT_A_TIME))
            for index, (ck, row) in enumerate(group.keyed_rows(0, group.size)):
                found.append((group.token(index), group.key(index), ck, KEEP_ALIVE.row(row)))
        return found

    def _by_rows(self, rows: pa.Table, version: int) -> tuple[pa.Table, Bounds]:
        images: list[Image] = []
        for seen in self._seen(rows):
            image = self._maker.image(*seen, version)
            if image is not None:
                images.append(image)
        images.sort(key=lambda image: (image.token, image.key, image.clustering))
        stored = [_stored(image.token, image.key, image.clustering, image.row) for image in images]
        return to_table(self.layout, stored)

    def _place_table(self, places: Sequence[Place]) -> pa.Table:
        nothing = Row(0, 0, 0, False, None, [])
        found = sorted((token_of(key), key, ck) for key, ck in places)
        table, _ = to_table(self.layout, [_stored(*place, nothing) for place in found])
        names = [fmt.TOKEN, fmt.KEY, fmt.CK, *(one.name for one, _ in self._keys)]
        return table.select([name for name in table.column_names if name in names])


def _stored(token: int, key: bytes, clustering: bytes, row: Row) -> StoredPartition:
    return StoredPartition(token, key, None, [], None, [(clustering, row)])


def _times(rows: pa.Table, stored: StoredColumn) -> CellTimes:
    """The stamps of a column's cells: their own or their row's."""
    present = valid(rows, stored.name)
    timestamp, ttl, expiry = (filled(rows, name, 0) for name in (fmt.TS, fmt.TTL, fmt.EXP))
    if stored.ts in rows.column_names:
        own = valid(rows, stored.ts)
        timestamp = np.where(own, filled(rows, stored.ts, 0), timestamp)
        ttl = np.where(own, filled(rows, stored.ttl, 0), ttl)
        expiry = np.where(own, filled(rows, stored.exp, 0), expiry)
    return CellTimes(present, timestamp, ttl, expiry)


def _own_stamps(one: StoredColumn, times: CellTimes, until: Ints, stamp: int) -> dict[str, pa.Array]:
    """Cells that end before their row does carry their own end, under the image's stamp."""
    own = times.present & (times.ttl > 0) & (times.expiry < until)
    if not own.any():
        return {}
    return {
        one.ts: pa.array(np.full(len(own), stamp), mask=~own),
        one.ttl: pa.array(times.ttl.astype(np.int32), mask=~own),
        one.exp: pa.array(times.expiry, mask=~own),
    }


def _constant(value: int | bool, kind: pa.DataType, size: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), size)


def _concat(layout: Layout, tables: Sequence[pa.Table]) -> pa.Table:
    schema = layout.schema({name for table in tables for name in table.column_names})
    return pa.concat_tables([with_schema(table, schema) for table in tables])


def _ascending(indices: Ints) -> bool:
    return bool((indices[1:] > indices[:-1]).all())
