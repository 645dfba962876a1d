"""The filter of a view over columns: the same answers as the tests that `ImageMaker` asks row by row."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from belvedere.cql.parser import parse_where
from belvedere.model.schema import Table
from belvedere.model.types import CQLType
from belvedere.pipeline.keys import order_keys
from belvedere.query.access import Execution
from belvedere.query.schema_view import SchemaView
from belvedere.query.terms.values import BindCollector
from belvedere.query.where.filters import comparable
from belvedere.query.where.relations import Relations, read_relations
from belvedere.storage.columns import from_arrow, to_arrow
from belvedere.storage.sstable_format import Layout

Flags = NDArray[np.bool_]
ColumnTest = Callable[[pa.Table], Flags]

#: Types that Arrow compares as CQL does.
_ALIKE: Final = frozenset(
    ("tinyint", "smallint", "int", "bigint", "timestamp", "date", "time", "text", "ascii", "blob")
)
_ARROW: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_PYTHON: Final[dict[str, Callable[[bytes, bytes], bool]]] = {
    "=": lambda found, wanted: found == wanted,
    "<": lambda found, wanted: found < wanted,
    "<=": lambda found, wanted: found <= wanted,
    ">": lambda found, wanted: found > wanted,
    ">=": lambda found, wanted: found >= wanted,
}


class ViewFilter:
    """What a view's WHERE asks of the base's rows."""

    def __init__(self, layout: Layout, where: str, schema: SchemaView) -> None:
        base: Table = layout.table
        collector = BindCollector(schema, base.keyspace)
        found = read_relations(base, parse_where(where), collector, for_view=True)
        #: Columns of the base that the filter looks at.
        self.named = {column.name for one in found.comparisons for column in one.columns}
        self.named |= {column.name for one in found.filters for column in one.columns}
        self.named |= {column.name for column in found.not_null}
        #: None if rows must be looked at one by one.
        self.tests = _tests(layout, found)

    def passes(self, table: pa.Table) -> Flags:
        assert self.tests is not None
        passing = np.ones(table.num_rows, np.bool_)
        for test in self.tests:
            passing &= test(table)
        return passing


def _tests(layout: Layout, found: Relations) -> list[ColumnTest] | None:
    if found.filters or any(one.is_tuple or one.columns[0].type.is_multicell for one in found.comparisons):
        return None
    names = {stored.column.name: stored.name for stored in (*layout.keys, *layout.values)}
    tests = [_is_there(names[column.name]) for column in found.not_null]
    execution = Execution(None)  # type: ignore[arg-type]  # Literals need nothing of it.
    for one in found.comparisons:
        column = one.columns[0]
        wanted = [values[0] for values in one.source.tuples(execution)]
        tests.append(_compares(names[column.name], column.type, one.operator, wanted))
    return tests


def _is_there(name: str) -> ColumnTest:
    return lambda table: flags(table.column(name).combine_chunks().is_valid())


def _compares(name: str, kind: CQLType, operator: str, wanted: Sequence[bytes]) -> ColumnTest:
    def test(table: pa.Table) -> Flags:
        column = table.column(name).combine_chunks()
        passing = np.zeros(len(column), np.bool_)
        for value in wanted:  # several only of IN
            passing |= _compared(column, kind, "=" if operator == "IN" else operator, value)
        return passing

    return test


def _compared(column: pa.Array, kind: CQLType, operator: str, wanted: bytes) -> Flags:
    if kind.name in _ALIKE:
        compare = _ARROW[operator]
        return flags(pc.fill_null(compare(column, to_arrow(kind, [wanted])[0]), False))
    there = np.flatnonzero(flags(column.is_valid()))
    present = column.take(pa.array(there))
    keys = order_keys(kind, present)
    if keys is not None:
        scalar = pa.scalar(kind.to_key(wanted), pa.binary())
        result = flags(_ARROW[operator](keys, scalar))
    else:
        key, decide = comparable(kind), _PYTHON[operator]
        limit = key(wanted)
        values = from_arrow(kind, present).to_list()
        result = np.array([decide(key(value), limit) for value in values], np.bool_)  # type: ignore[arg-type]
    passing = np.zeros(len(column), np.bool_)
    passing[there[result]] = True
    return passing


def flags(array: pa.Array) -> Flags:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.bool_)
