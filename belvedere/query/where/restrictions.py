"""Which rows a WHERE clause names: partitions, key ranges inside them, and what is left to test row by row.

`analyse` does everything that does not depend on bound values, with Cassandra's errors; a `Restrictions` then
answers with keys, ranges and predicates for each execution.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import product

from belvedere.cql.syntax import Relation
from belvedere.model.ordering import join_partition_key
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.model.token import token_of
from belvedere.query.access import Execution
from belvedere.query.errors import InvalidRequest
from belvedere.query.select.row_views import RowView
from belvedere.query.terms.values import BindCollector, TermValue
from belvedere.query.where.clustering import ClusteringRestrictions
from belvedere.query.where.filters import ComparisonFilter, Filter, Predicate
from belvedere.query.where.relations import (
    Comparison,
    TokenComparison,
    check_pair,
    read_relations,
)
from belvedere.query.where.sources import TermsSource, check_combinations
from belvedere.storage.reads import MAX_TOKEN, MIN_TOKEN, KeySlice

#: Bytes of a partition key, or of the clustering columns together.
MAX_KEY = 65535

NEEDS_FILTERING = (
    "Cannot execute this query as it might involve data filtering and thus may have unpredictable "
    "performance. If you want to execute this query despite the performance "
    "unpredictability, use ALLOW FILTERING"
)


class Purpose(Enum):
    SELECT = "SELECT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


@dataclass(slots=True)
class Restrictions:
    """A checked WHERE clause."""

    table: Table
    #: One per partition key column when all are restricted by = or IN, else ().
    partition: tuple[Comparison, ...]
    tokens: tuple[TokenComparison, ...]
    clustering: ClusteringRestrictions
    filters: tuple[Filter, ...]
    #: All columns that the clause names.
    columns: frozenset[str] = frozenset()
    not_null: tuple[Column, ...] = ()
    _equal: frozenset[str] = field(default=frozenset())

    # -- facts known while planning ----------------------------------------------------------------

    @property
    def has_keys(self) -> bool:
        """Whether partitions are named, not scanned."""
        return bool(self.partition)

    @property
    def partition_has_in(self) -> bool:
        return any(comparison.operator == "IN" for comparison in self.partition)

    @property
    def clustering_has_in(self) -> bool:
        return self.clustering.has_in

    @property
    def has_clustering(self) -> bool:
        """Whether any clustering column is restricted, also by a filter."""
        return bool(self.clustering.restricted) or self._filters_on(ColumnKind.CLUSTERING)

    @property
    def is_full_row(self) -> bool:
        """Whether every clustering column is restricted by = or IN (also if there are none)."""
        return self.clustering.is_full

    @property
    def queries_full_partitions(self) -> bool:
        """Neither clustering nor regular columns are restricted: partitions of static cells alone count."""
        return not self.has_clustering and not self._filters_on(ColumnKind.REGULAR)

    def equals(self, column: Column) -> bool:
        """Whether the column is restricted to a single value."""
        return column.name in self._equal

    @property
    def key_terms(self) -> tuple[TermValue, ...]:
        """One term per partition key column if each is restricted by `=`, else ()."""
        return _single_terms(self.partition)

    @property
    def row_terms(self) -> tuple[TermValue, ...]:
        """One term per clustering column if each is restricted by its own `=`, else ()."""
        groups = self.clustering.prefix
        return _single_terms(groups) if len(groups) == len(self.table.clustering) else ()

    # -- per execution -----------------------------------------------------------------------------

    def partition_keys(self, execution: Execution) -> list[bytes]:
        """Key bytes, without duplicates, in the order of their values."""
        choices = [[values[0] for values in c.source.tuples(execution)] for c in self.partition]
        if all(len(choice) == 1 for choice in choices):
            keys = [join_partition_key([choice[0] for choice in choices])]
        else:
            keys = self._many_keys(choices)
        for key in keys:
            check_key(key)
        bounds = self.token_range(execution)
        return keys if bounds is None else _inside(keys, bounds)

    def _many_keys(self, choices: list[list[bytes]]) -> list[bytes]:
        sortable = []
        for column, choice in zip(self.table.partition_key, choices, strict=True):
            by_key = {column.type.to_key(value): value for value in choice}
            sortable.append([by_key[key] for key in sorted(by_key)])
        check_combinations("partition key", *sortable)
        return [join_partition_key(values) for values in product(*sortable)]

    def token_range(self, execution: Execution) -> tuple[int, int] | None:
        """First and last token, both included (first > last: nothing); None without token restrictions."""
        if not self.tokens:
            return None
        low, high = MIN_TOKEN, MAX_TOKEN
        for comparison in self.tokens:
            token = _token_value(comparison.term, execution)
            match comparison.operator:
                case ">":
                    low = max(low, token + 1)
                case ">=":
                    low = max(low, token)
                case "<":
                    high = min(high, _end_token(token) - (token != MIN_TOKEN))
                case "<=":
                    high = min(high, _end_token(token))
                case _:
                    low, high = max(low, token), min(high, token)
        return low, high

    def row_keys(self, execution: Execution) -> list[bytes] | None:
        """Full clustering keys in order when all clustering columns are given by value, else None."""
        return self.clustering.row_keys(execution)

    def slices(self, execution: Execution) -> tuple[KeySlice, ...]:
        """Ascending, disjoint ranges of clustering keys; () selects nothing."""
        return self.clustering.slices(execution)

    def predicate(self, execution: Execution) -> Predicate | None:
        """What rows must be tested with; None if reading alone finds the right ones."""
        predicates = [one.bind(execution) for one in self.filters]
        if not predicates:
            return None
        if len(predicates) == 1:
            return predicates[0]

        def all_match(view: RowView) -> bool:
            return all(predicate(view) for predicate in predicates)

        return all_match

    def _filters_on(self, kind: ColumnKind) -> bool:
        return any(column.kind is kind for one in self.filters for column in one.columns)


def check_key(key: bytes) -> None:
    if not key:
        raise InvalidRequest("Key may not be empty")
    if len(key) > MAX_KEY:
        raise InvalidRequest(f"Key length of {len(key)} is longer than maximum of {MAX_KEY}")


def _inside(keys: list[bytes], bounds: tuple[int, int]) -> list[bytes]:
    return [key for key in keys if bounds[0] <= token_of(key) <= bounds[1]]


def _end_token(token: int) -> int:
    """As the end of a range, the smallest token stands for the end of the ring."""
    return MAX_TOKEN if token == MIN_TOKEN else token


def _token_value(term: TermValue, execution: Execution) -> int:
    value = term.evaluate(execution)
    if not isinstance(value, bytes):
        raise InvalidRequest("Invalid null token value")
    return int.from_bytes(value, "big", signed=True)


def _single_terms(comparisons: Sequence[Comparison]) -> tuple[TermValue, ...]:
    terms = []
    for comparison in comparisons:
        source = comparison.source
        if comparison.operator != "=" or comparison.is_tuple or not isinstance(source, TermsSource):
            return ()
        terms.append(source.terms[0])
    return tuple(terms)


# -- planning ----------------------------------------------------------------------------------------


def analyse(
    table: Table,
    relations: Sequence[Relation],
    collector: BindCollector,
    *,
    purpose: Purpose = Purpose.SELECT,
    allow_filtering: bool = False,
    only_static: bool = False,
    for_view: bool = False,
) -> Restrictions:
    """Check a WHERE clause for a statement; `only_static` says that it touches nothing but static columns."""
    found = read_relations(table, relations, collector, for_view=for_view)
    partition = [c for c in found.comparisons if c.columns[0].kind is ColumnKind.PARTITION_KEY]
    clustering = [c for c in found.comparisons if c.columns[0].kind is ColumnKind.CLUSTERING]
    others = [c for c in found.comparisons if not c.columns[0].is_key]
    _check_merge(partition + others)
    if purpose is not Purpose.SELECT:
        _check_modification_partition(table, partition, found.tokens, found.filters, purpose)
    named, filters = _partition_access(table, partition, found.filters, allow_filtering or for_view)
    keys = ClusteringRestrictions.of(table, clustering, lenient=allow_filtering or for_view)
    contains_clustering = [f for f in found.filters if f.columns[0].kind is ColumnKind.CLUSTERING]
    if purpose is not Purpose.SELECT:
        _check_modification_clustering(keys, purpose, only_static=only_static)
    elif not allow_filtering and not for_view:
        _check_clustering(table, keys, bool(contains_clustering))
    filters += [ComparisonFilter(c.columns, c.operator, c.source) for c in (*keys.unused, *others)]
    filters += found.filters
    if purpose is not Purpose.SELECT and filters:
        names = ", ".join(column.name for one in filters for column in one.columns)
        raise InvalidRequest(f"Non PRIMARY KEY columns found in where clause: {names} ")
    scans = not named
    if not (allow_filtering or for_view) and (filters or (scans and keys.restricted)):
        raise InvalidRequest(NEEDS_FILTERING)
    equal = frozenset(column.name for c in found.comparisons if c.operator == "=" for column in c.columns)
    columns = {column.name for c in found.comparisons for column in c.columns}
    columns.update(column.name for one in found.filters for column in one.columns)
    return Restrictions(
        table,
        tuple(named),
        tuple(found.tokens),
        keys,
        tuple(filters),
        frozenset(columns),
        tuple(found.not_null),
        equal,
    )


def _check_merge(comparisons: Sequence[Comparison]) -> None:
    """What may not be said twice about one column (clustering columns have rules of their own)."""
    seen: dict[str, list[Comparison]] = {}
    for comparison in comparisons:
        column = comparison.columns[0]
        for other in seen.setdefault(column.name, []):
            check_pair(other, comparison)
        seen[column.name].append(comparison)


def _check_modification_partition(
    table: Table,
    partition: Sequence[Comparison],
    tokens: Sequence[TokenComparison],
    filters: Sequence[Filter],
    purpose: Purpose,
) -> None:
    if tokens:
        raise InvalidRequest(
            f"The token function cannot be used in WHERE clauses for {purpose.value} statements"
        )
    given = {column.name for comparison in partition for column in comparison.columns}
    given.update(column.name for one in filters for column in one.columns)
    missing = [column.name for column in table.partition_key if column.name not in given]
    if missing:
        raise InvalidRequest(f"Some partition key parts are missing: {', '.join(missing)}")
    contained = any(one.columns[0].kind is ColumnKind.PARTITION_KEY for one in filters)
    if contained or any(comparison.is_slice for comparison in partition):
        raise InvalidRequest(
            "Only EQ and IN relation are supported on the partition key (unless you use the token() "
            f"function) for {purpose.value} statements"
        )


def _partition_access(
    table: Table, partition: Sequence[Comparison], filters: Sequence[Filter], lenient: bool
) -> tuple[list[Comparison], list[Filter]]:
    """The comparisons that name partitions, or else those that filter all partitions."""
    by_position = {c.columns[0].position: c for c in partition if not c.is_slice}
    complete = len(by_position) == len(table.partition_key)
    contained = any(one.columns[0].kind is ColumnKind.PARTITION_KEY for one in filters)
    if not lenient and ((partition and not complete) or contained):
        raise InvalidRequest(NEEDS_FILTERING)
    if complete:
        return [by_position[position] for position in sorted(by_position)], []
    return [], [ComparisonFilter(c.columns, c.operator, c.source) for c in partition]


def _check_modification_clustering(
    keys: ClusteringRestrictions, purpose: Purpose, *, only_static: bool
) -> None:
    if purpose is Purpose.UPDATE and keys.slice is not None:
        raise InvalidRequest(
            "Slice restrictions are not supported on the clustering columns in UPDATE statements"
        )
    keys.check_no_gap()
    if only_static and keys.restricted:
        raise InvalidRequest(
            f"Invalid restrictions on clustering columns since the {purpose.value} statement "
            "modifies only static columns"
        )
    if purpose is Purpose.UPDATE and not only_static and not keys.is_full:
        missing = ", ".join(keys.missing)
        raise InvalidRequest(f"Some clustering keys are missing: {missing}")


def _check_clustering(table: Table, keys: ClusteringRestrictions, contains: bool) -> None:
    if contains:
        raise InvalidRequest(
            "Clustering columns can only be restricted with CONTAINS with a secondary index or filtering"
        )
    keys.check_no_gap()
