"""The kernel of a load's second half: what files that became part of a base's tablet change in its views.

Every row that the added files touch is looked at twice: as it was without them, and as it is. Where it stood
in a view and does not stand any more, a removal goes; where it stands now, its image.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from belvedere.pipeline.image_columns import ImageColumns, image_makers
from belvedere.pipeline.inputs import KEEP_ALIVE, OpenInput, Rows, Stream, merged_rows, windows
from belvedere.pipeline.outputs import Outputs, Pace
from belvedere.pipeline.runs import sorted_run
from belvedere.pipeline.schema_of import state_of
from belvedere.pipeline.tasks import StageTask, TaskFiles, TaskResult
from belvedere.storage import sstable_format as fmt
from belvedere.storage.compaction_merge import WindowMerger, sort
from belvedere.storage.sstable_format import Layout
from belvedere.storage.sstable_write import with_schema

#: What a stretch of keys has in the files from before and in those that were added.
Stretch = tuple[list[pa.Table], list[pa.Table]]


def stage(task: StageTask, files: TaskFiles) -> TaskResult:
    state = state_of(task.schema)
    before = [OpenInput(files, given) for given in task.before]
    added = [OpenInput(files, given) for given in task.added]
    layout, makers = image_makers(state, task.base, task.views, [*before, *added])
    pace, outputs = Pace(files), Outputs(files, state)
    # Deletions of partitions and ranges touch rows whose keys are nowhere in the added files.
    everything = any(one.least_kind() < fmt.STATIC_ROW for one in added)
    stretches = _whole if everything else _touched
    total = 0
    mergers = _Mergers(layout)
    for old, new in stretches(layout, before, added, pace):
        if not everything:
            mergers = _Mergers(layout)
        was, is_now = mergers.merge(old, new)
        total += is_now.count
        for maker in makers:
            _change(maker, was, is_now, task.version, outputs)
    size = sum(given.size for given in (*task.before, *task.added))
    return TaskResult(outputs.made, total, size)


class _Mergers:
    def __init__(self, layout: Layout) -> None:
        self._without, self._with = (
            WindowMerger(layout, KEEP_ALIVE, look_into_collections=False) for _ in range(2)
        )

    def merge(self, old: Sequence[pa.Table], new: Sequence[pa.Table]) -> tuple[Rows, Rows]:
        return merged_rows(self._without, old), merged_rows(self._with, [*old, *new])


# -- which rows ------------------------------------------------------------------------------------


def _whole(
    layout: Layout, before: Sequence[OpenInput], added: Sequence[OpenInput], pace: Pace
) -> Iterator[Stretch]:
    streams = [Stream(layout, opened) for opened in (*before, *added)]
    for parts in windows(streams, pace.on_read):
        old, new = parts[: len(before)], parts[len(before) :]
        yield [part for part in old if part is not None], [part for part in new if part is not None]


def _touched(
    layout: Layout, before: Sequence[OpenInput], added: Sequence[OpenInput], pace: Pace
) -> Iterator[Stretch]:
    """Of the files from before only what could belong to keys of the added ones."""
    known = [_Searched(layout, opened) for opened in before]
    for parts in windows([Stream(layout, opened) for opened in added], pace.on_read):
        new = [part for part in parts if part is not None]
        yield [part for one in known for part in one.having(new, pace)], new


class _Searched:
    """A file of which only some keys are wanted."""

    def __init__(self, layout: Layout, opened: OpenInput) -> None:
        self._layout = layout
        self._reader = Stream(layout, opened)
        bounds = np.array(opened.token_bounds(), np.int64).reshape(-1, 2)
        self._firsts, self._lasts = bounds[:, 0], bounds[:, 1]

    def having(self, wanted: Sequence[pa.Table], pace: Pace) -> list[pa.Table]:
        """Entries with the keys of these: all deletions of their partitions, and rows that have their tokens
        and clustering keys (some more where both occur, but not together)."""
        tokens = np.unique(np.concatenate([part.column(fmt.TOKEN).to_numpy() for part in wanted]))
        cks: pa.Array | None = None
        if self._layout.clustering:
            cks = pa.concat_arrays([c for part in wanted for c in part.column(fmt.CK).chunks])
        starts = np.searchsorted(tokens, self._firsts, "left")
        ends = np.searchsorted(tokens, self._lasts, "right")
        found = []
        for table in self._reader.pieces(np.flatnonzero(starts < ends).tolist(), pace.on_read):
            part = _with_keys(table, tokens, cks)
            if part.num_rows:
                found.append(part)
        return [pa.concat_tables(found)] if found else []


def _with_keys(table: pa.Table, tokens: NDArray[np.int64], cks: pa.Array | None) -> pa.Table:
    own = table.column(fmt.TOKEN).to_numpy()
    places = np.minimum(np.searchsorted(tokens, own), len(tokens) - 1)
    part = table.filter(pa.array(tokens[places] == own))
    if cks is None or not part.num_rows:
        return part
    head = pc.less(part.column(fmt.KIND), fmt.ROW)
    return part.filter(pc.or_(head, pc.is_in(part.column(fmt.CK), value_set=cks)))


# -- what that changes in a view -------------------------------------------------------------------


def _change(maker: ImageColumns, was: Rows, is_now: Rows, version: int, outputs: Outputs) -> None:
    images, inside = maker.images(is_now, version)
    left = _left(maker.layout, maker.places(was), images)
    run = images
    if left.num_rows:
        removals = maker.removals(left, version)
        schema = maker.layout.schema({*images.column_names, *removals.column_names})
        both = pa.concat_tables([with_schema(one, schema) for one in (images, removals)])
        run = sorted_run(maker.layout, both)
    outputs.add(maker.layout, run, inside)


def _left(layout: Layout, places: pa.Table, images: pa.Table) -> pa.Table:
    """The places where no image stands."""
    if not places.num_rows:
        return places
    both = pa.concat_tables([places, images.select(places.column_names)], promote_options="permissive")
    kinds = pa.repeat(pa.scalar(fmt.ROW, pa.int8()), both.num_rows)
    order = sort(layout, both.append_column(fmt.KIND, kinds).combine_chunks(), False)
    starts = np.flatnonzero(order.new_entry)
    alone = order.order[starts[np.diff(np.append(starts, order.size)) == 1]]
    return places.take(pa.array(np.sort(alone[alone < places.num_rows])))
