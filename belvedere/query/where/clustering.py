"""Restrictions on clustering columns: a prefix of = and IN, then at most one slice; the rest filters rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Self

from belvedere.model.ordering import ABOVE
from belvedere.model.schema import Column, Table
from belvedere.query.access import Execution
from belvedere.query.errors import InvalidRequest
from belvedere.query.where.ranges import Range, beyond, intersect, union
from belvedere.query.where.relations import Comparison, check_pair
from belvedere.query.where.sources import Values, check_combinations
from belvedere.storage.reads import EVERYTHING, KeySlice


@dataclass(frozen=True, slots=True)
class Slice:
    """One or two inequalities that begin with the same column."""

    bounds: tuple[Comparison, ...]

    @property
    def first(self) -> Column:
        return self.bounds[0].columns[0]


@dataclass(frozen=True, slots=True)
class ClusteringRestrictions:
    table: Table
    #: = and IN restrictions that cover the first clustering columns without a gap.
    prefix: tuple[Comparison, ...]
    #: The inequalities on the columns right after the prefix.
    slice: Slice | None
    #: Comparisons that key ranges cannot express.
    unused: tuple[Comparison, ...]
    #: Every clustering column that a comparison restricts, in key order.
    restricted: tuple[Column, ...]

    @classmethod
    def of(cls, table: Table, comparisons: Sequence[Comparison], *, lenient: bool) -> Self:
        by_start = sorted(comparisons, key=lambda c: c.columns[0].position)
        _check_overlaps(comparisons)
        if not lenient:
            _check_after_slice(by_start)
        prefix: list[Comparison] = []
        bounds: list[Comparison] = []
        unused: list[Comparison] = []
        position = 0
        for comparison in by_start:
            start = comparison.columns[0].position
            if bounds and start == bounds[0].columns[0].position:
                bounds.append(comparison)
            elif bounds or start != position:
                unused.append(comparison)
            elif comparison.is_slice:
                bounds.append(comparison)
            else:
                prefix.append(comparison)
                position = start + len(comparison.columns)
        names = {column.name for comparison in comparisons for column in comparison.columns}
        restricted = tuple(column for column in table.clustering if column.name in names)
        return cls(table, tuple(prefix), Slice(tuple(bounds)) if bounds else None, tuple(unused), restricted)

    @property
    def is_full(self) -> bool:
        return sum(len(comparison.columns) for comparison in self.prefix) == len(self.table.clustering)

    @property
    def has_in(self) -> bool:
        return any(comparison.operator == "IN" for comparison in self.prefix)

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.table.clustering if column not in self.restricted)

    def check_no_gap(self) -> None:
        """Columns may only be restricted when those before them are."""
        if not self.unused:
            return
        for column, restricted in zip(self.table.clustering, self.restricted, strict=False):
            if column != restricted:
                raise InvalidRequest(
                    f'PRIMARY KEY column "{restricted.name}" cannot be restricted as preceding column '
                    f'"{column.name}" is not restricted'
                )

    # -- per execution -----------------------------------------------------------------------------

    def _prefixes(self, execution: Execution) -> list[Values]:
        """All combinations of the prefix's values."""
        choices = [comparison.source.tuples(execution) for comparison in self.prefix]
        check_combinations("clustering key", *choices)
        return [tuple(value for part in parts for value in part) for parts in product(*choices)]

    def row_keys(self, execution: Execution) -> list[bytes] | None:
        if not self.is_full:
            return None
        encode = self.table.clustering_order.encode_prefix
        return sorted({encode(values) for values in self._prefixes(execution)})

    def slices(self, execution: Execution) -> tuple[KeySlice, ...]:
        if not self.prefix and self.slice is None:
            return EVERYTHING
        ranges = union(
            [piece for values in self._prefixes(execution) for piece in self._within(values, execution)]
        )
        return tuple(KeySlice(start, end) for start, end in ranges)

    def _within(self, prefix: Values, execution: Execution) -> list[Range]:
        """The ranges of keys that begin with a prefix and satisfy the slice."""
        order = self.table.clustering_order
        start = order.encode_prefix(prefix)
        found: list[Range] = [(start, start + ABOVE)]
        if self.slice is None:
            return found
        for bound in self.slice.bounds:
            (values,) = bound.source.tuples(execution)
            selected = beyond(
                order,
                prefix,
                values,
                greater=bound.operator[0] == ">",
                inclusive=bound.operator.endswith("="),
            )
            found = intersect(found, selected)
        return found


def _check_overlaps(comparisons: Sequence[Comparison]) -> None:
    seen: list[Comparison] = []
    for comparison in comparisons:
        for other in seen:
            if set(other.columns) & set(comparison.columns):
                check_pair(other, comparison)
        seen.append(comparison)


def _check_after_slice(by_start: Sequence[Comparison]) -> None:
    slices = [comparison for comparison in by_start if comparison.is_slice]
    if not slices:
        return
    first = slices[0].columns[0]
    for comparison in by_start:
        column = comparison.columns[0]
        if column.position > first.position:
            raise InvalidRequest(
                f'Clustering column "{column.name}" cannot be restricted '
                f'(preceding column "{first.name}" is restricted by a non-EQ relation)'
            )
