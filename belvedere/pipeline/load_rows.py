"""Rows of a DataFrame, or of any Arrow batches, as rows of a table: columns found by name, values converted,
rows that do not fit set aside with the reason."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.pipeline.load_collections import long_paths
from belvedere.pipeline.load_values import CannotFit, check_fits, convert
from belvedere.storage.columns import from_arrow, to_arrow
from belvedere.storage.sstable_format import Layout, StoredColumn

#: Bytes of a partition key, and of all clustering columns together; CQL's limit.
_MAX_KEY: Final = 65535
#: Types with equal values that differ in bytes.
_ALIKE: Final = frozenset(("decimal", "float", "double"))


class LoadRefused(Exception):
    """These rows cannot be loaded into this table at all; the message is for people."""


@dataclass(frozen=True, slots=True)
class BadRow:
    #: Its place in the batch.
    row: int
    reason: str


class RowFitter:
    """Knows which column of the incoming rows is which of the table; raises LoadRefused if that cannot be."""

    def __init__(self, table: Table, incoming: pa.Schema) -> None:
        _check_table(table)
        self._layout = Layout(table)
        #: Of each incoming column, in their order.
        self._columns = _match(table, incoming)
        names = {stored.column.name: stored for stored in (*self._layout.keys, *self._layout.values)}
        self._stored = [names[column.name] for column in self._columns]
        for column, incoming_field in zip(self._columns, incoming, strict=True):
            try:
                check_fits(column.type.frozen(), incoming_field.type)
            except CannotFit as error:
                raise LoadRefused(f"column {incoming_field.name}: {error}") from None

    @property
    def stored(self) -> Sequence[StoredColumn]:
        """The table's columns that rows come with."""
        return self._stored

    def fit(self, batch: pa.RecordBatch | pa.Table) -> tuple[pa.Table, list[BadRow]]:
        """The good rows under the names and types that files have, and the others' places and reasons."""
        columns: dict[str, pa.Array] = {}
        reasons: dict[int, list[str]] = {}
        for stored, array in zip(self._stored, batch.columns, strict=True):
            converted = convert(stored.column.type.frozen(), array)
            columns[stored.name] = _as_key(stored.column, converted.array)
            for row, what in converted.problems.items():
                reasons.setdefault(row, []).append(f"column {stored.column.name}: {what}")
            if stored.is_multicell:
                for row, what in long_paths(stored.column.type, converted.array).items():
                    reasons.setdefault(row, []).append(f"column {stored.column.name}: {what}")
            if stored.column.is_key and converted.array.null_count:
                for row in np.flatnonzero(_flags(converted.array.is_null())).tolist():
                    if row not in converted.problems:
                        what = f"column {stored.column.name}: null, but part of the primary key"
                        reasons.setdefault(row, []).append(what)
        for row, what in _wrong_keys(self._layout, columns, batch.num_rows):
            reasons.setdefault(row, []).append(what)
        table = pa.table(columns)
        if reasons:
            good = np.ones(batch.num_rows, np.bool_)
            good[list(reasons)] = False
            table = table.filter(pa.array(good))
        return table, [BadRow(row, "; ".join(reasons[row])) for row in sorted(reasons)]


def _check_table(table: Table) -> None:
    if table.view is not None:
        raise LoadRefused(
            f"{table.full_name} is a materialized view: load into {table.keyspace}.{table.view.base}"
        )
    if table.is_counter:
        raise LoadRefused(f"{table.full_name} has counters, which can only be counted up and down by UPDATE")


def _match(table: Table, incoming: pa.Schema) -> list[Column]:
    """The table's column for each incoming one: of the same name, or else the same but for case."""
    visible = [column for column in table.select_order if not column.hidden]
    matched: list[Column] = []
    for name in incoming.names:
        column = _named(visible, name)
        if column is None:
            known = ", ".join(one.name for one in visible)
            raise LoadRefused(f"{table.full_name} has no column {name}; it has {known}")
        if column in matched:
            raise LoadRefused(f"two columns of the rows are {column.name} of {table.full_name}")
        if column.kind is ColumnKind.STATIC:
            raise LoadRefused(
                f"{column.name} of {table.full_name} is static: static columns cannot be loaded; "
                "leave it out, and write it with INSERT or UPDATE"
            )
        matched.append(column)
    missing = [one.name for one in visible if one.is_key and one not in matched]
    if missing:
        raise LoadRefused(f"the rows lack {', '.join(missing)} of the primary key of {table.full_name}")
    return matched


def _named(columns: Iterable[Column], name: str) -> Column | None:
    columns = list(columns)
    for column in columns:
        if column.name == name:
            return column
    alike = [column for column in columns if column.name.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def _wrong_keys(layout: Layout, columns: dict[str, pa.Array], rows: int) -> list[tuple[int, str]]:
    """Keys that CQL refuses for their length."""
    wrong: list[tuple[int, str]] = []
    keys = layout.partition_key
    total = _lengths(keys, columns, rows) + (3 * len(keys) if len(keys) > 1 else 0)
    for row in np.flatnonzero(total > _MAX_KEY).tolist():
        wrong.append((row, f"a partition key of {total[row]} bytes is longer than {_MAX_KEY}"))
    if len(keys) == 1:
        valid = _flags(columns[keys[0].name].is_valid())
        for row in np.flatnonzero((total == 0) & valid).tolist():
            wrong.append((row, f"column {keys[0].column.name}: an empty partition key"))
    if layout.clustering:
        total = _lengths(layout.clustering, columns, rows)
        for row in np.flatnonzero(total > _MAX_KEY).tolist():
            wrong.append((row, f"clustering columns of {total[row]} bytes are longer than {_MAX_KEY}"))
    return wrong


def _lengths(stored: Sequence[StoredColumn], columns: dict[str, pa.Array], rows: int) -> NDArray[np.int64]:
    """How many bytes the values of these columns take together."""
    total = np.zeros(rows, np.int64)
    for one in stored:
        kind, array = one.column.type, columns[one.name]
        if kind.fixed_width is not None:
            total += kind.fixed_width
        elif kind.name in ("text", "ascii", "blob"):
            total += np.asarray(pc.fill_null(pc.binary_length(array), 0))
        else:
            wires = from_arrow(kind, array).to_list()
            total += np.fromiter((len(wire or b"") for wire in wires), np.int64, rows)
    return total


def _as_key(column: Column, array: pa.Array) -> pa.Array:
    """Clustering values that are equal are written alike (1.0 and 1.00, every NaN), as INSERT keeps them."""
    kind = column.type
    if column.kind is not ColumnKind.CLUSTERING or not _ALIKE.intersection(one.name for one in kind.walk()):
        return array
    wires = from_arrow(kind, array).to_list()
    return to_arrow(kind, [None if w is None else kind.from_key(kind.to_key(w), 0)[0] for w in wires])


def _flags(array: pa.Array) -> NDArray[np.bool_]:
    return np.array(array.to_numpy(zero_copy_only=False), np.bool_)
