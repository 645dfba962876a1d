"""From rows to sstables: what one worker of a load does.

Rows are gathered into runs of a bounded size. Each run is stamped, keyed, sorted and cut by tablet; every
part becomes one file. All rows of a load have one write time, so what two files, or a file and a retry of it,
say of one row is the same in any order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from belvedere.meta.state import Tablet
from belvedere.model.rows import NO_TIMESTAMP
from belvedere.model.schema import Table
from belvedere.pipeline.keys import key_columns
from belvedere.pipeline.load_collections import collection_columns
from belvedere.pipeline.load_rows import BadRow, LoadRefused, RowFitter
from belvedere.pipeline.runs import cut_by_tablet, sorted_run, write_run
from belvedere.pipeline.schema_of import table_of
from belvedere.pipeline.tasks import OutputFile
from belvedere.storage import sstable_format as fmt
from belvedere.storage.compaction_merge import WindowMerger
from belvedere.storage.compaction_purge import Purge
from belvedere.storage.sstable_derived import until_of
from belvedere.storage.sstable_format import Layout
from belvedere.storage.sstable_rows import Bounds
from belvedere.storage.sstable_write import with_schema

__all__ = ["BadRow", "LoadDescription", "LoadRefused", "RunWriter"]

#: A run ends with the batch that reaches one of these.
RUN_ROWS: Final = 1_000_000
RUN_BYTES: Final = 128 << 20

#: Of a merge in which time changes nothing and every deletion stays.
_NOTHING_GOES: Final = Purge(NO_TIMESTAMP, NO_TIMESTAMP, NO_TIMESTAMP)


class LoadDescription(msgspec.Struct, frozen=True):
    """What a loader is told when its load begins."""

    #: Entries of the metadata store: key to JSON.
    schema: dict[str, str]
    #: Id of the table, hex.
    table: str
    #: Of each tablet the id, and the first and last token as text.
    tablets: list[tuple[int, str, str]]
    #: The write time of every row, µs.
    timestamp: int
    #: Seconds; None: what the table has by default, 0: none.
    ttl: int | None = None
    #: The second from which TTLs count; 0: that of the timestamp.
    now: int = 0


#: Where a finished file goes: its name and content; returns the path.
Save = Callable[[str, bytes], str]


@dataclass(slots=True)
class RunWriter:
    """Takes fitted rows (`RowFitter.fit`), writes files of them."""

    description: LoadDescription
    table: Table
    save: Save
    run_rows: int = RUN_ROWS
    run_bytes: int = RUN_BYTES
    outputs: list[OutputFile] = field(default_factory=list)
    rows: int = 0
    _waiting: list[pa.Table] = field(default_factory=list)
    _waiting_rows: int = 0
    _waiting_bytes: int = 0
    _files: int = 0

    @classmethod
    def of(cls, description: LoadDescription, save: Save) -> "RunWriter":
        return cls(description, table_of(description.schema, description.table), save)

    def fitter(self, incoming: pa.Schema) -> RowFitter:
        return RowFitter(self.table, incoming)

    def add(self, rows: pa.Table) -> None:
        self.rows += rows.num_rows
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._waiting_rows >= self.run_rows or self._waiting_bytes >= self.run_bytes:
            self._write()

    def finish(self) -> list[OutputFile]:
        if self._waiting_rows:
            self._write()
        return self.outputs

    def _write(self) -> None:
        rows = pa.concat_tables(self._waiting).combine_chunks()
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        layout = Layout(self.table)
        run, bounds = stamped_run(layout, rows, self.description)
        for tablet, part in cut_by_tablet(run, self._tablets()):
            built = write_run(layout, part, bounds=bounds)
            path = self.save(f"{self._files:05d}-{tablet.id}.parquet", built.data)
            self.outputs.append(OutputFile(path, self.description.table, tablet.id, built.facts))
            self._files += 1

    def _tablets(self) -> list[Tablet]:
        table = self.table.id
        return [
            Tablet(number, table, int(first), int(last), 1, "", ())
            for number, first, last in self.description.tablets
        ]


def stamped_run(layout: Layout, rows: pa.Table, description: LoadDescription) -> tuple[pa.Table, Bounds]:
    """Fitted rows in the shape and the order of a file, no row twice; and the stamps inside collections."""
    count = rows.num_rows
    ttl = layout.table.default_ttl if description.ttl is None else description.ttl
    now = description.now or description.timestamp // 1_000_000
    columns = {name: rows.column(name).combine_chunks() for name in rows.column_names}
    columns[fmt.KIND] = pa.array(np.full(count, fmt.ROW, np.int8))
    columns[fmt.LIVE] = pa.repeat(True, count)
    columns[fmt.TS] = pa.repeat(pa.scalar(description.timestamp, pa.int64()), count)
    if ttl:
        columns[fmt.TTL] = pa.repeat(pa.scalar(ttl, pa.int32()), count)
        columns[fmt.EXP] = pa.repeat(pa.scalar(now + ttl, pa.int64()), count)
    bounds = Bounds()
    types = {f.name: f.type for f in layout.all_fields}
    for stored in layout.values:
        array = columns.get(stored.name)
        if array is None:
            columns[stored.name] = pa.nulls(count, types[stored.name])
        elif stored.is_multicell:
            stamp = (description.timestamp, ttl, now + ttl if ttl else 0, now)
            columns |= collection_columns(stored, array, stamp, bounds)
    columns[fmt.UNTIL] = until_of(layout, columns, count)
    table = pa.table(columns)
    schema = layout.schema(set(table.column_names) - {fmt.END})
    run = sorted_run(layout, with_schema(key_columns(layout, table), schema))
    return _without_duplicates(layout, run), bounds


def _without_duplicates(layout: Layout, run: pa.Table) -> pa.Table:
    """Rows of one key become one by the rules of every merge: what INSERTs with one write time leave."""
    copies = _copies(layout, run)
    most = int(copies.max()) if len(copies) else 0
    if not most:
        return run
    layers = [run.filter(pa.array(copies == number)) for number in range(most + 1)]
    merged = WindowMerger(layout, _NOTHING_GOES, look_into_collections=False).merge(layers)
    assert merged is not None
    return merged


def _copies(layout: Layout, run: pa.Table) -> NDArray[np.int64]:
    """How many rows of the same key stand before each row."""
    same = _like_the_one_before(layout, run)
    starts = np.flatnonzero(~same)
    return np.arange(run.num_rows) - np.repeat(starts, np.diff(np.append(starts, run.num_rows)))


def _like_the_one_before(layout: Layout, run: pa.Table) -> NDArray[np.bool_]:
    tokens = np.asarray(run.column(fmt.TOKEN))
    same = np.concatenate(([False], tokens[1:] == tokens[:-1]))
    names = [fmt.KEY] if layout.has_key_column else [stored.name for stored in layout.partition_key]
    if layout.clustering:
        names.append(fmt.CK)
    for name in names:
        rows = np.flatnonzero(same)
        if not len(rows):
            break
        column = run.column(name).combine_chunks()
        if pa.types.is_floating(column.type):  # of bits, not of numbers
            column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
        equal = _equal(column.take(pa.array(rows)), column.take(pa.array(rows - 1)))
        same[rows] = equal
    return same


def _equal(left: pa.Array, right: pa.Array) -> NDArray[np.bool_]:
    return np.array(pc.equal(left, right).to_numpy(zero_copy_only=False), np.bool_)


def files_of(outputs: Sequence[OutputFile]) -> bytes:
    """`load.json`: what a load tells the node when it is complete."""
    return msgspec.json.encode({"outputs": list(outputs)})
