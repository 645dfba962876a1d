"""What a table is: columns, keys, options. Immutable; a schema change makes new objects.

Static and regular columns have an *ordinal*, their index in a `Row`'s cells. Ordinals are never used twice
in the life of a table, so a column dropped and added again under the same name starts empty.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from types import MappingProxyType

from belvedere.model.ordering import ClusteringOrder
from belvedere.model.types import CQLType, UserType


class ColumnKind(Enum):
    PARTITION_KEY = "partition_key"
    CLUSTERING = "clustering"
    STATIC = "static"
    REGULAR = "regular"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: CQLType
    kind: ColumnKind
    #: Place among the key columns of its kind, or the ordinal of a static or regular column.
    position: int
    descending: bool = False
    #: Kept in rows and files, never shown to clients.
    hidden: bool = False

    @property
    def is_key(self) -> bool:
        return self.kind in (ColumnKind.PARTITION_KEY, ColumnKind.CLUSTERING)


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """What makes a table a materialized view: of which table, and which of its rows."""

    base: str
    base_id: bytes
    #: The filter in CQL, without the word WHERE.
    where: str
    #: Declared with `SELECT *`: columns added to the base later join the view.
    selects_all: bool = False


#: A view's last column: the base's write times and expiries of the cells in the row.
WRITE_TIMES = "_write_times"


@dataclass(frozen=True)
class Table:
    """A table's definition. `columns` is in the order of creation."""

    id: bytes
    keyspace: str
    name: str
    columns: tuple[Column, ...]
    options: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    #: How many ordinals were ever given out, per kind: new columns continue from here.
    regular_ordinals: int = 0
    static_ordinals: int = 0
    #: (name, type as text, kind, µs when dropped), for system_schema.dropped_columns.
    dropped: tuple[tuple[str, str, str, int], ...] = ()
    #: None for an ordinary table.
    view: ViewDefinition | None = None

    @cached_property
    def by_name(self) -> Mapping[str, Column]:
        return MappingProxyType({column.name: column for column in self.columns})

    @cached_property
    def partition_key(self) -> tuple[Column, ...]:
        return self._of(ColumnKind.PARTITION_KEY)

    @cached_property
    def clustering(self) -> tuple[Column, ...]:
        return self._of(ColumnKind.CLUSTERING)

    @cached_property
    def statics(self) -> tuple[Column, ...]:
        return self._of(ColumnKind.STATIC)

    @cached_property
    def regulars(self) -> tuple[Column, ...]:
        return self._of(ColumnKind.REGULAR)

    @cached_property
    def clustering_order(self) -> ClusteringOrder:
        return ClusteringOrder(
            tuple(column.type for column in self.clustering),
            tuple(column.descending for column in self.clustering),
        )

    @cached_property
    def select_order(self) -> tuple[Column, ...]:
        """The order of `SELECT *`: partition key, clustering, then statics and regulars by name."""
        by_name = lambda column: column.name  # noqa: E731
        return (
            *self.partition_key,
            *self.clustering,
            *sorted(self.statics, key=by_name),
            *sorted((column for column in self.regulars if not column.hidden), key=by_name),
        )

    @cached_property
    def is_counter(self) -> bool:
        return any(column.type.name == "counter" for column in self.columns)

    @property
    def default_ttl(self) -> int:
        return int(self.options.get("default_time_to_live", 0))  # type: ignore[call-overload, no-any-return]

    @property
    def gc_grace_seconds(self) -> int:
        return int(self.options.get("gc_grace_seconds", 864_000))  # type: ignore[call-overload, no-any-return]

    @property
    def full_name(self) -> str:
        return f"{self.keyspace}.{self.name}"

    def _of(self, kind: ColumnKind) -> tuple[Column, ...]:
        return tuple(sorted((c for c in self.columns if c.kind is kind), key=lambda c: c.position))


@dataclass(frozen=True)
class Keyspace:
    name: str
    replication: Mapping[str, str]
    durable_writes: bool = True
    types: Mapping[str, UserType] = field(default_factory=lambda: MappingProxyType({}))
    #: Views too: they share the names of tables.
    tables: Mapping[str, Table] = field(default_factory=lambda: MappingProxyType({}))

    def views_of(self, base: Table) -> tuple[Table, ...]:
        """The materialized views of a table."""
        return tuple(
            table
            for table in self.tables.values()
            if table.view is not None and table.view.base_id == base.id
        )


def column_names(columns: Iterable[Column]) -> tuple[str, ...]:
    return tuple(column.name for column in columns)
