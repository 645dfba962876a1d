"""Writing one sstable: Arrow tables in, a Parquet file and its facts out. Pure: bytes, no disk."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from belvedere.model.ordering import join_partition_key
from belvedere.model.schema import Table
from belvedere.storage import sstable_format as fmt
from belvedere.storage.columns import from_arrow
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.sstable_format import (
    GROUP_BYTES,
    GROUP_ROWS,
    BuiltSSTable,
    EntryPosition,
    GroupFacts,
    Layout,
    SSTableFacts,
)
from belvedere.storage.sstable_rows import Bounds, to_table

#: Nominal; rounding the filter up to a power of two makes it about 0.02.
_FALSE_POSITIVES: Final = 0.05
#: Rows turned into one Arrow table at a time.
_BATCH: Final = GROUP_ROWS
#: A dictionary pays when values repeat at least this often on average.
_REPEATS: Final = 4


def build_sstable(
    table: Table,
    partitions: Iterable[StoredPartition],
    *,
    first_version: int = 0,
    last_version: int = 0,
) -> BuiltSSTable:
    """One file of all these partitions, which come in the order (token, key), each once."""
    layout = Layout(table)
    bounds = Bounds()
    parts: list[pa.Table] = []
    for batch in _batches(partitions):
        part, more = to_table(layout, batch)
        parts.append(part)
        bounds.add(more)
    if not parts:
        parts.append(to_table(layout, [])[0])
    present = {name for part in parts for name in part.column_names}
    schema = layout.schema(present)
    whole = pa.concat_tables([with_schema(part, schema) for part in parts])
    writer = SSTableWriter(layout, schema, bounds, first_version=first_version, last_version=last_version)
    writer.write(whole)
    return writer.finish()


def _batches(partitions: Iterable[StoredPartition]) -> Iterator[list[StoredPartition]]:
    """So few rows at a time that the objects stay in the processor's cache while columns are gathered."""
    batch: list[StoredPartition] = []
    rows = 0
    for partition in partitions:
        batch.append(partition)
        rows += len(partition.rows) + 1
        if rows >= _BATCH:
            yield batch
            batch, rows = [], 0
    if batch:
        yield batch


def with_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same rows with every column of the schema; what the table lacks is null."""
    if table.schema.equals(schema, check_metadata=True):
        return table
    have = set(table.column_names)
    columns = [table.column(f.name) if f.name in have else pa.nulls(table.num_rows, f.type) for f in schema]
    return pa.table(columns, schema=schema)


class SSTableWriter:
    """Takes sorted tables of one schema, piece by piece, and cuts them into row groups."""

    def __init__(
        self,
        layout: Layout,
        schema: pa.Schema,
        bounds: Bounds,
        *,
        first_version: int = 0,
        last_version: int = 0,
    ) -> None:
        """`bounds` holds what the columns do not show: the stamps inside collections."""
        self._layout = layout
        self._schema = schema
        self._bounds = bounds
        self._versions = (first_version, last_version)
        self._sink = pa.BufferOutputStream()
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._firsts: list[EntryPosition] = []
        self._last_tokens: list[int] = []
        self._sizes: list[int] = []
        self._rows = self._partitions = self._heads = self._tombstones = 0
        self._last_token: int | None = None

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return int(self._sink.tell())

    @property
    def rows(self) -> int:
        return self._rows + self._waiting_rows

    def write(self, table: pa.Table) -> None:
        self._waiting.append(table)
        self._waiting_rows += table.num_rows
        self._waiting_bytes += table.nbytes
        if self._waiting_rows >= GROUP_ROWS or self._waiting_bytes > GROUP_BYTES:
            waiting = pa.concat_tables(self._waiting)
            sizes = group_sizes(waiting)
            last = sizes[-1]
            if last < GROUP_ROWS:  # More may follow.
                sizes.pop()
            whole = sum(sizes)
            if sizes:
                self._put(waiting.slice(0, whole), sizes)
            left = waiting.slice(whole)
            self._waiting, self._waiting_rows, self._waiting_bytes = [left], left.num_rows, left.nbytes

    def finish(self) -> BuiltSSTable:
        if self._waiting_rows:
            waiting = pa.concat_tables(self._waiting)
            self._put(waiting, group_sizes(waiting))
        if self._writer is None:
            self._writer = self._open(self._schema.empty_table(), [])
        self._writer.close()
        data = self._sink.getvalue().to_pybytes()
        groups, tail_offset = self._group_facts(data)
        bounds = self._bounds
        timed = bounds.min_timestamp <= bounds.max_timestamp
        facts = SSTableFacts(
            format=fmt.FORMAT_VERSION,
            rows=self._rows,
            partitions=self._partitions,
            heads=self._heads,
            tombstones=self._tombstones,
            min_token=self._firsts[0][0] if self._firsts else 0,
            max_token=self._last_tokens[-1] if self._last_tokens else 0,
            min_timestamp=bounds.min_timestamp if timed else 0,
            max_timestamp=bounds.max_timestamp if timed else 0,
            min_second=bounds.min_second if bounds.max_second else 0,
            max_second=bounds.max_second,
            first_version=self._versions[0],
            last_version=self._versions[1],
            size=len(data),
            crc32c=crc32c.crc32c(data),
            tail_offset=tail_offset,
            tail_crc32c=crc32c.crc32c(memoryview(data)[tail_offset:]),
            groups=groups,
        )
        return BuiltSSTable(data, facts)

    def _put(self, table: pa.Table, sizes: Sequence[int]) -> None:
        """Write row groups of so many rows."""
        table = table.combine_chunks()
        if self._writer is None:
            self._writer = self._open(table, sizes)
        ends = np.cumsum(sizes)
        starts = ends - sizes
        for start, size in zip(starts.tolist(), sizes, strict=True):
            self._writer.write_table(table.slice(start, size), row_group_size=size)
        tokens = np.asarray(table.column(fmt.TOKEN))
        self._firsts += positions(self._layout, table.take(pa.array(starts)))
        self._last_tokens += tokens[ends - 1].tolist()
        self._sizes += sizes
        self._count(table, tokens)

    def _count(self, table: pa.Table, tokens: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> None:
        self._rows += table.num_rows
        self._partitions += int(np.count_nonzero(tokens[1:] != tokens[:-1]))
        self._partitions += int(self._last_token != int(tokens[0]))
        self._last_token = int(tokens[-1])
        kinds = np.asarray(table.column(fmt.KIND))
        self._heads += int(np.count_nonzero(kinds != fmt.ROW))
        self._tombstones += int(np.count_nonzero(tombstones_of(self._layout, table)))
        self._bounds.add(bounds_of(self._layout, table))

    def _open(self, first: pa.Table, sizes: Sequence[int]) -> pq.ParquetWriter:
        sample = first.slice(0, GROUP_ROWS)
        return pq.ParquetWriter(
            self._sink,
            self._schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=_repetitive(sample),
            write_statistics=self._columns_with_statistics(),
            sorting_columns=[pq.SortingColumn(0)],
            bloom_filter_options={fmt.TOKEN: {"ndv": _most_tokens(first, sizes), "fpp": _FALSE_POSITIVES}},
        )

    def _columns_with_statistics(self) -> list[str]:
        """Those that users filter by."""
        users = [stored.name for stored in (*self._layout.keys, *self._layout.values)]
        return [fmt.TOKEN, fmt.KIND, fmt.UNTIL, fmt.TS, *users]

    def _group_facts(self, data: bytes) -> tuple[tuple[GroupFacts, ...], int]:
        """Where each row group lies, and where the filters and the footer begin."""
        metadata = pq.read_metadata(pa.BufferReader(data))
        view = memoryview(data)
        groups = []
        end = 4  # behind the magic number
        for number, (rows, position) in enumerate(zip(self._sizes, self._firsts, strict=True)):
            start, end = end, _end_of_group(metadata.row_group(number))
            crc = crc32c.crc32c(view[start:end])
            token, key, kind, ck = position
            last_token = self._last_tokens[number]
            groups.append(GroupFacts(rows, start, end - start, crc, token, last_token, key, kind, ck))
        return tuple(groups), end


def _end_of_group(group: "pq.RowGroupMetaData") -> int:
    """Column chunks follow each other without gaps."""
    last = group.column(group.num_columns - 1)
    start = last.dictionary_page_offset if last.has_dictionary_page else last.data_page_offset
    return int(start + last.total_compressed_size)


def group_sizes(table: pa.Table) -> list[int]:
    """Into row groups of how many rows a table is cut: halves, until no group has too many bytes."""
    sizes: list[int] = []

    def cut(start: int, rows: int) -> None:
        if rows == 1 or table.slice(start, rows).nbytes <= GROUP_BYTES:
            sizes.append(rows)
        else:
            cut(start, rows // 2)
            cut(start + rows // 2, rows - rows // 2)

    for start in range(0, table.num_rows, GROUP_ROWS):
        cut(start, min(GROUP_ROWS, table.num_rows - start))
    return sizes


def _most_tokens(table: pa.Table, sizes: Sequence[int]) -> int:
    """Distinct tokens of the fullest row group: every group's filter gets room for so many."""
    if not sizes:
        return 1
    tokens = np.asarray(table.column(fmt.TOKEN))
    changes = np.cumsum(np.concatenate(([0], tokens[1:] != tokens[:-1])))
    ends = np.cumsum(sizes)
    return int((changes[ends - 1] - changes[ends - sizes]).max()) + 1


def _repetitive(sample: pa.Table) -> list[str]:
    """Columns for which a dictionary saves more than it costs; of the others zstd sees to repetition."""
    if not sample.num_rows:
        return []
    names = []
    for f in sample.schema:
        if not pa.types.is_nested(f.type) and not pa.types.is_boolean(f.type):
            distinct = pc.count_distinct(sample.column(f.name), mode="all").as_py()
            if distinct * _REPEATS <= sample.num_rows:
                names.append(f.name)
    return names


def positions(layout: Layout, table: pa.Table) -> list[EntryPosition]:
    """Where the entries of a (small) table stand."""
    tokens = table.column(fmt.TOKEN).to_pylist()
    kinds = table.column(fmt.KIND).to_pylist()
    cks = table.column(fmt.CK).to_pylist() if layout.clustering else [b""] * len(kinds)
    return list(zip(tokens, partition_keys(layout, table), kinds, cks, strict=True))


def partition_keys(layout: Layout, table: pa.Table) -> Sequence[bytes]:
    """The partition keys' bytes, one for each entry."""
    if layout.has_key_column:
        return table.column(fmt.KEY).to_pylist()  # type: ignore[no-any-return]
    parts = []
    for stored in layout.partition_key:
        column = from_arrow(stored.column.type, table.column(stored.name).combine_chunks())
        parts.append(column.to_list())
    return [join_partition_key(values) for values in zip(*parts, strict=True)]


def tombstones_of(layout: Layout, table: pa.Table) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Which entries are deletions, hold deleted cells (those inside collections are not seen), or end by
    themselves, which makes them as good as deleted by the file's last second."""
    names = set(table.column_names)
    found = np.zeros(table.num_rows, np.bool_)
    found |= np.asarray(table.column(fmt.UNTIL)) != fmt.FOREVER
    if fmt.DEL_TS in names:
        found |= np.asarray(pc.is_valid(table.column(fmt.DEL_TS)))
    for stored in layout.values:
        if not stored.is_multicell and stored.ts in names:
            stamped = pc.is_valid(table.column(stored.ts))
            found |= np.asarray(pc.and_(stamped, pc.is_null(table.column(stored.name))))
    return found


def bounds_of(layout: Layout, table: pa.Table) -> Bounds:
    """The widest stamps in the columns."""
    bounds = Bounds()
    names = set(table.column_names)
    plain = [stored for stored in layout.values if not stored.is_multicell]
    for name in (fmt.TS, fmt.DEL_TS, *(stored.ts for stored in plain)):
        if name in names:
            low_high = pc.min_max(table.column(name)).as_py()
            if low_high["min"] is not None:
                bounds.add_timestamps(low_high["min"], low_high["max"])
    for name in (fmt.EXP, fmt.DEL_AT, *(stored.exp for stored in layout.values)):
        if name in names:
            low_high = pc.min_max(table.column(name)).as_py()
            if low_high["min"] is not None:
                bounds.add_seconds(low_high["min"], low_high["max"])
    return bounds
