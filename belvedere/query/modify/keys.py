"""Which partitions and rows a modification touches, from its VALUES or its WHERE clause."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from belvedere.model.ordering import join_partition_key
from belvedere.model.schema import Column, Table
from belvedere.model.token import token_of
from belvedere.query.access import Execution
from belvedere.query.errors import InvalidRequest
from belvedere.query.terms.values import MarkerTerm, TermValue, not_null
from belvedere.query.where.restrictions import MAX_KEY, Restrictions, check_key
from belvedere.query.where.sources import check_combinations
from belvedere.storage.reads import KeySlice


@dataclass(frozen=True, slots=True)
class Target:
    """One partition and what of it is touched: full clustering keys, or ranges of them."""

    token: int
    key: bytes
    rows: Sequence[bytes] = ()
    slices: Sequence[KeySlice] = ()


class KeySource(Protocol):
    @property
    def has_clustering(self) -> bool:
        """Whether rows or ranges are named, not the partition alone."""

    @property
    def is_full_row(self) -> bool: ...

    @property
    def partition_has_in(self) -> bool: ...

    @property
    def clustering_has_in(self) -> bool: ...

    @property
    def key_terms(self) -> Sequence[TermValue]:
        """One term per partition key column, () if there may be several keys."""

    @property
    def row_terms(self) -> Sequence[TermValue]:
        """One term per clustering column, () if there may be several rows (or none)."""

    def targets(self, execution: Execution) -> list[Target]: ...


@dataclass(frozen=True, slots=True)
class SingleKey:
    """Every key column given one value: INSERT."""

    table: Table
    key_terms: tuple[TermValue, ...]
    #: () for writes to static columns alone.
    row_terms: tuple[TermValue, ...]
    partition_has_in = False
    clustering_has_in = False

    @property
    def has_clustering(self) -> bool:
        return bool(self.row_terms)

    @property
    def is_full_row(self) -> bool:
        return len(self.row_terms) == len(self.table.clustering)

    def targets(self, execution: Execution) -> list[Target]:
        parts = _key_values(self.table.partition_key, self.key_terms, execution)
        key = partition_key(parts)
        if not self.is_full_row:
            return [Target(token_of(key), key)]
        values = _key_values(self.table.clustering, self.row_terms, execution)
        return [Target(token_of(key), key, (clustering_key(self.table, values),))]


@dataclass(frozen=True, slots=True)
class WhereKeys:
    """The keys of a WHERE clause: UPDATE and DELETE."""

    table: Table
    where: Restrictions

    @property
    def has_clustering(self) -> bool:
        return self.where.has_clustering

    @property
    def is_full_row(self) -> bool:
        return self.where.is_full_row

    @property
    def partition_has_in(self) -> bool:
        return self.where.partition_has_in

    @property
    def clustering_has_in(self) -> bool:
        return self.where.clustering_has_in

    @property
    def key_terms(self) -> Sequence[TermValue]:
        return self.where.key_terms

    @property
    def row_terms(self) -> Sequence[TermValue]:
        return self.where.row_terms

    def targets(self, execution: Execution) -> list[Target]:
        rows: Sequence[bytes] | None = None
        slices: Sequence[KeySlice] = ()
        if not self.table.clustering:
            rows = (b"",)
        elif self.where.has_clustering:
            rows = self.where.row_keys(execution)
            if rows is None:
                slices = self.where.slices(execution)
        try:
            keys = self.where.partition_keys(execution)
        except OverflowError:
            raise InvalidRequest(f"Key length is longer than maximum of {MAX_KEY}") from None
        check_combinations("primary key", keys, slices if rows is None else rows)
        for row in rows or ():
            if len(row) > MAX_KEY:
                _check_total(self.table.clustering_order.decode(row))
        return [Target(token_of(key), key, () if rows is None else rows, slices) for key in keys]


def partition_key(parts: list[bytes]) -> bytes:
    """The bytes of a partition key, if they are not too long."""
    if len(parts) > 1 and max(map(len, parts)) > MAX_KEY:
        length = sum(len(part) + 3 for part in parts)
        raise InvalidRequest(f"Key length of {length} is longer than maximum of {MAX_KEY}")
    key = join_partition_key(parts)
    check_key(key)
    return key


def clustering_key(table: Table, values: list[bytes]) -> bytes:
    _check_total(values)
    return table.clustering_order.encode(values)


def _check_total(values: list[bytes]) -> None:
    total = sum(map(len, values))
    if total > MAX_KEY:
        raise InvalidRequest(f"The sum of all clustering columns is too long ({total} > {MAX_KEY})")


def _key_values(columns: Sequence[Column], terms: Sequence[TermValue], execution: Execution) -> list[bytes]:
    return [
        not_null(
            term.evaluate(execution),
            f"Invalid null value in condition for column {column.name}",
            f"Invalid unset value for column {column.name}",
        )
        for column, term in zip(columns, terms, strict=True)
    ]


def marker_indexes(terms: Sequence[TermValue]) -> tuple[int, ...]:
    """The bind variables behind the terms, () unless all of them are bind variables."""
    indexes = tuple(term.index for term in terms if isinstance(term, MarkerTerm))
    return indexes if len(indexes) == len(terms) else ()
