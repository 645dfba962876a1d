"""A read from its beginning to its end: a snapshot of a table, handed out tablet by tablet."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.model.ordering import join_partition_key
from belvedere.model.schema import Column, Table
from belvedere.model.token import tokens_of
from belvedere.model.types import InvalidValue
from belvedere.pipeline.read import ReadDescription, TabletScan, visible_columns
from belvedere.runtime.plain_files import PlainFiles
from belvedere.spark.calls import SparkFaceError
from belvedere.spark.columns import as_spark
from belvedere.spark.options import SourceOptions
from belvedere.storage.columns import from_arrow, to_arrow

#: Rows of one Arrow batch on its way to Spark.
_BATCH_ROWS: Final = 1 << 16
#: Partitions that can be asked for at once.
_MOST_KEYS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """Some partitions: every combination of these values of the columns of the partition key."""

    #: Wire bytes, by column in the order of the key.
    values: tuple[tuple[bytes, ...], ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BegunRead:
    id: str
    description: ReadDescription
    #: None for all partitions.
    wanted: Wanted | None = None


@dataclass(frozen=True, slots=True)
class TabletWork:
    """One tablet's share, as JSON; travels to a worker by pickle."""

    description: bytes
    tablet: int
    names: tuple[str, ...]
    wanted: Wanted | None


def begin(options: SourceOptions) -> BegunRead:
    answer = options.address.call("begin_read", options.table)
    description = msgspec.json.decode(answer["description"], type=ReadDescription)
    read = BegunRead(answer["read"], description)
    if options.keys is None:
        return read
    try:
        return replace(read, wanted=wanted_partitions(description.the_table(), options.keys))
    except SparkFaceError:
        end(options, read)
        raise


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
        wanted = read.wanted
        if wanted is not None:
            tokens = tuple(token for token in wanted.tokens if tablet.holds(token))
            wanted = replace(wanted, tokens=tokens)
        if tablet.inputs and (wanted is None or wanted.tokens):
            one = ReadDescription(description.schema, description.table, description.now, [tablet])
            found.append(TabletWork(msgspec.json.encode(one), tablet.tablet, tuple(names), wanted))
    return found


def rows_of(work: TabletWork, target: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows of one tablet in the schema that Spark expects."""
    description = msgspec.json.decode(work.description, type=ReadDescription)
    table = description.the_table()
    columns = [table.by_name[name] for name in work.names]
    keys = () if work.wanted is None else table.partition_key
    tokens = None if work.wanted is None else np.array(work.wanted.tokens, np.int64)
    scan = TabletScan(table, [*columns, *keys], description.now, tokens)
    try:
        for part in scan.rows(description.tablets[0], PlainFiles("")):
            for batch in part.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS):
                if work.wanted is not None:
                    batch = batch.filter(_is_wanted(table, batch.columns[len(columns) :], work.wanted))
                arrays = [
                    as_spark(column.type.frozen(), array, field.type)
                    for column, array, field in zip(columns, batch.columns, target, strict=False)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=target)
    except FileNotFoundError as error:
        raise SparkFaceError(
            f"the snapshot of {table.full_name} that this DataFrame reads is gone ({error.filename}): a node "
            "keeps it for an hour, until it restarts at most. Make the DataFrame anew"
        ) from None


# -- which partitions ------------------------------------------------------------------------------


def wanted_partitions(table: Table, keys: Mapping[str, Sequence[Any]]) -> Wanted:
    """Raises SparkFaceError if these are no values of the partition key."""
    names = [column.name for column in table.partition_key]
    if set(keys) != set(names):
        raise SparkFaceError(
            f"option keys names the columns of the partition key of {table.full_name}, {', '.join(names)}; "
            f"not {', '.join(keys) or 'none'}"
        )
    values = tuple(_wires(column, keys[column.name]) for column in table.partition_key)
    if prod(map(len, values)) > _MOST_KEYS:
        raise SparkFaceError(f"option keys asks for more than {_MOST_KEYS:,} partitions: read all, and join")
    joined = [join_partition_key(list(parts)) for parts in product(*values)]
    return Wanted(values, tuple(sorted(set(tokens_of(joined).tolist()))) if joined else ())


def _wires(column: Column, values: Sequence[Any]) -> tuple[bytes, ...]:
    found: dict[bytes, None] = {}
    for value in values:
        try:
            found[column.type.normalise(column.type.from_json(value))] = None
        except InvalidValue as error:
            raise SparkFaceError(f"option keys: {column.name}: {error}") from None
    return tuple(found)


def _is_wanted(table: Table, arrays: Sequence[pa.Array], wanted: Wanted) -> pa.Array:
    """Whether rows are of wanted partitions: others may have the same token."""
    flags = np.ones(len(arrays[0]), np.bool_)
    for column, array, values in zip(table.partition_key, arrays, wanted.values, strict=True):
        kind = column.type.frozen()
        if pa.types.is_nested(array.type):
            known = set(values)
            flags &= np.array([wire in known for wire in from_arrow(kind, array).to_list()], np.bool_)
        else:
            flags &= np.asarray(pc.is_in(array, to_arrow(kind, list(values))))
    return pa.array(flags)
