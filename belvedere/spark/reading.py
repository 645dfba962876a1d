"""A read from its beginning to its end: a snapshot of a table, handed out tablet by tablet."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from belvedere.model.ordering import join_partition_key
from belvedere.model.schema import Table
from belvedere.model.token import tokens_of
from belvedere.model.types import CQLType, InvalidValue
from belvedere.pipeline.load_values import CannotFit, check_fits, convert
from belvedere.pipeline.read import ReadDescription, ReadTablet, TabletScan, visible_columns
from belvedere.runtime.plain_files import PlainFiles
from belvedere.spark.calls import SparkFaceError
from belvedere.spark.columns import as_spark
from belvedere.spark.options import SourceOptions
from belvedere.storage.columns import from_arrow

#: Rows of one Arrow batch on its way to Spark.
_BATCH_ROWS: Final = 1 << 16
#: Beyond so many keys, looking them up one by one is no better than reading all.
_MOST_KEYS: Final = 10_000

#: Of partition key columns: the values that rows may have in it.
KeyValues = Mapping[str, Sequence[Any]]


@dataclass(frozen=True, slots=True)
class BegunRead:
    id: str
    description: ReadDescription
    #: Of the wanted partitions; None for all.
    tokens: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class TabletWork:
    """One tablet's share, as JSON; travels to a worker by pickle."""

    description: bytes
    tablet: int
    names: tuple[str, ...]
    tokens: tuple[int, ...] | None


def begin(options: SourceOptions, keys: KeyValues) -> BegunRead:
    answer = options.address.call("begin_read", options.table)
    description = msgspec.json.decode(answer["description"], type=ReadDescription)
    return BegunRead(answer["read"], description, key_tokens(description.the_table(), keys))


def end(options: SourceOptions, read: BegunRead) -> None:
    options.address.call("end_read", read.id)


def work_of(read: BegunRead, names: Sequence[str]) -> list[TabletWork]:
    """A piece for every tablet that can have wanted rows."""
    description = read.description
    known = {column.name for column in visible_columns(description.the_table())}
    missing = [name for name in names if name not in known]
    if missing:
        raise SparkFaceError(f"column {missing[0]} is gone since the DataFrame was made: make it anew")
    found = []
    for tablet in description.tablets:
        tokens = None
        if read.tokens is not None:
            tokens = tuple(token for token in read.tokens if tablet.holds(token))
        if tablet.inputs and tokens != ():
            one = ReadDescription(description.schema, description.table, description.now, [tablet])
            found.append(TabletWork(msgspec.json.encode(one), tablet.tablet, tuple(names), tokens))
    return found


def rows_of(work: TabletWork, target: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows of one tablet in the schema that Spark expects."""
    description = msgspec.json.decode(work.description, type=ReadDescription)
    table = description.the_table()
    columns = [table.by_name[name] for name in work.names]
    tokens = None if work.tokens is None else np.array(work.tokens, np.int64)
    scan = TabletScan(table, columns, description.now, tokens)
    tablet: ReadTablet = description.tablets[0]
    for part in scan.rows(tablet, PlainFiles("")):
        for batch in part.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS):
            arrays = [
                as_spark(column.type.frozen(), array, field.type)
                for column, array, field in zip(columns, batch.columns, target, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=target)


# -- which partitions ------------------------------------------------------------------------------


def key_tokens(table: Table, keys: KeyValues) -> tuple[int, ...] | None:
    """The tokens of the partitions that these values leave; None if they leave too many, or any."""
    columns = []
    combinations = 1
    for column in table.partition_key:
        wires = _wires(column.type, keys[column.name]) if column.name in keys else None
        if wires is None:
            return None
        columns.append(wires)
        combinations *= len(wires)
    if combinations > _MOST_KEYS:
        return None
    joined = [join_partition_key(list(parts)) for parts in product(*columns)]
    if not joined:
        return ()
    return tuple(sorted(set(tokens_of(joined).tolist())))


def _wires(kind: CQLType, values: Sequence[Any]) -> list[bytes] | None:
    """None if it is not certain which values of the table are equal to these for Spark."""
    if kind.name not in _EXACT:
        return None
    try:
        array = pa.array(values)
        check_fits(kind, array.type)
        converted = convert(kind, array)
    except (pa.ArrowException, CannotFit, InvalidValue):
        return None
    if converted.problems or converted.array.null_count:
        return None
    return [wire for wire in from_arrow(kind, converted.array).to_list() if wire is not None]


#: Types of which one value in the table at most is equal to a value in Spark.
_EXACT: Final = frozenset(
    ("tinyint", "smallint", "int", "bigint", "text", "ascii", "blob", "boolean", "date", "uuid", "timeuuid")
)
