"""The kernel of a verification: one tablet of a view against images made anew.

Both sides are merged as readers would merge them. What differs is only suspected: rows are looked at again
one by one, under the lock of their base row. So this may suspect too many, but never too few.
"""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from belvedere.model.rows import Complex
from belvedere.pipeline.filters import flags
from belvedere.pipeline.inputs import KEEP_ALIVE, OpenInput, Rows, Stream, merged_rows, windows
from belvedere.pipeline.outputs import Pace
from belvedere.pipeline.schema_of import table_of
from belvedere.pipeline.tasks import CompareReport, CompareTask, Suspect, TaskFiles, TaskResult
from belvedere.storage import sstable_format as fmt
from belvedere.storage.columns import from_arrow
from belvedere.storage.compaction_cells import filled, valid
from belvedere.storage.compaction_merge import WindowMerger, sort
from belvedere.storage.sstable_derived import until_of
from belvedere.storage.sstable_format import Layout, StoredColumn
from belvedere.storage.sstable_write import positions, with_schema

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

_decode_elements = msgspec.msgpack.Decoder(Complex).decode


def compare(task: CompareTask, files: TaskFiles) -> TaskResult:
    layout = Layout(table_of(task.schema, task.view))
    sides = [[OpenInput(files, given) for given in some] for some in (task.expected, task.actual)]
    streams = [Stream(layout, opened) for side in sides for opened in side]
    mergers = [WindowMerger(layout, KEEP_ALIVE, look_into_collections=True) for _ in sides]
    count = len(task.expected)
    rows = [0, 0]
    suspects: list[Suspect] = []
    untold = 0
    for parts in windows(streams, Pace(files).on_read):
        seen = []
        for number, (merger, some) in enumerate(zip(mergers, (parts[:count], parts[count:]), strict=True)):
            seen.append(_alive(layout, merged_rows(merger, some), task.now))
            rows[number] += seen[-1].num_rows
        found = _differing(layout, *seen)
        room = task.most - len(suspects)
        untold += max(0, found.num_rows - room)
        told = positions(layout, found.slice(0, room)) if found.num_rows else []
        suspects += [Suspect(token, key, ck) for token, key, _, ck in told]
    report = msgspec.json.encode(CompareReport(rows[0], rows[1], suspects, untold))
    size = sum(given.size for given in (*task.expected, *task.actual))
    return TaskResult([], sum(rows), size, msgspec.Raw(report))


def _alive(layout: Layout, rows: Rows, now: int) -> pa.Table:
    """The rows that a reader sees at this second."""
    table = rows.table
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    alive = rows.chosen & (np.asarray(until_of(layout, columns, table.num_rows)) > now)
    return table if alive.all() else table.filter(pa.array(alive))


def _differing(layout: Layout, expected: pa.Table, actual: pa.Table) -> pa.Table:
    """Rows of either side that the other one has not, or has different, in the order of files."""
    schema = layout.schema({*expected.column_names, *actual.column_names})
    whole = pa.concat_tables([with_schema(side, schema) for side in (expected, actual)]).combine_chunks()
    if not whole.num_rows:
        return whole
    entries = sort(layout, whole, False)
    starts = np.flatnonzero(entries.new_entry)
    paired = np.diff(np.append(starts, entries.size)) == 2
    suspected = ~paired
    ones, others = entries.order[starts[paired]], entries.order[starts[paired] + 1]
    suspected[np.flatnonzero(paired)] = _rows_differ(layout, whole, ones, others)
    return whole.take(pa.array(entries.order[starts[suspected]]))


def _rows_differ(layout: Layout, table: pa.Table, ones: Ints, others: Ints) -> Flags:
    """Whether rows at these places differ in anything that a reader can learn, now or later. The stamps of
    images say only at which version they were made."""
    sides = table.take(pa.array(ones)), table.take(pa.array(others))
    live, ends = ([part(side) for side in sides] for part in (_live, _row_ends))
    differs: Flags = (live[0] != live[1]) | (ends[0] != ends[1])
    for stored in layout.regulars:
        if stored.is_multicell:
            differs |= _unlike(sides, stored.elements, _elements)
        elif stored.column.hidden:
            differs |= _unlike(sides, stored.name, _decoded)
        else:
            differs |= _cells_differ(sides, stored)
    return differs


def _live(side: pa.Table) -> Flags:
    return flags(side.column(fmt.LIVE).combine_chunks())


def _row_ends(side: pa.Table) -> Ints:
    return np.where(filled(side, fmt.TTL, 0) > 0, filled(side, fmt.EXP, 0), 0)


def _cells_differ(sides: Sequence[pa.Table], stored: StoredColumn) -> Flags:
    present = [valid(side, stored.name) for side in sides]
    differs: Flags = present[0] != present[1]
    ends = []
    for side in sides:
        own = valid(side, stored.ts)
        expiry = np.where(own, filled(side, stored.exp, 0), filled(side, fmt.EXP, 0))
        ttl = np.where(own, filled(side, stored.ttl, 0), filled(side, fmt.TTL, 0))
        ends.append(np.where(ttl > 0, expiry, 0))
    both = present[0] & present[1]
    differs |= both & (ends[0] != ends[1])
    values = [side.column(stored.name).combine_chunks() for side in sides]
    kind = values[0].type
    if pa.types.is_nested(kind):
        wires = [from_arrow(stored.column.type, column).to_list() for column in values]
        unequal = np.array([one != other for one, other in zip(*wires, strict=True)], np.bool_)
        return differs | unequal
    if pa.types.is_floating(kind):  # bit by bit
        values = [column.view(pa.int32() if kind.bit_width == 32 else pa.int64()) for column in values]
    same = flags(pc.fill_null(pc.equal(values[0], values[1]), True))
    return differs | (both & ~same)


def _unlike(sides: Sequence[pa.Table], name: str, meaning: Callable[[bytes], object]) -> Flags:
    """Where encoded values differ, not in spelling alone."""
    one, other = (side.column(name).combine_chunks() for side in sides)
    there = [flags(column.is_valid()) for column in (one, other)]
    differs: Flags = there[0] != there[1]
    unequal = np.flatnonzero(flags(pc.fill_null(pc.not_equal(one, other), False)))
    chosen = pa.array(unequal)
    pairs = zip(one.take(chosen).to_pylist(), other.take(chosen).to_pylist(), strict=True)
    differs[unequal] = [_means(left, meaning) != _means(right, meaning) for left, right in pairs]
    return differs


def _means(value: bytes, meaning: Callable[[bytes], object]) -> object:
    try:
        return meaning(value)
    except msgspec.MsgspecError:  # damaged: only equal to itself
        return value


def _decoded(value: bytes) -> object:
    return msgspec.msgpack.decode(value)


def _elements(value: bytes) -> object:
    """What can be read of a collection: its values, and when they end."""
    items = _decode_elements(value).items
    return {path: (cell[0], cell[3] if cell[2] else 0) for path, cell in items.items()}
