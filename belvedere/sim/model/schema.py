"""Random tables of the model."""

import random
from dataclasses import dataclass, field, replace

from belvedere.sim.model.kinds import COUNTER, Kind, draw_key_kind, draw_value_kind


@dataclass(frozen=True)
class Column:
    name: str
    kind: Kind
    static: bool = False


@dataclass(frozen=True)
class Table:
    """The key columns never change; `values` are the static and regular columns there are now."""

    name: str
    partition: tuple[Column, ...]
    clustering: tuple[Column, ...]
    descending: tuple[bool, ...]
    values: tuple[Column, ...]
    gc_grace: int = 864_000
    default_ttl: int = 0
    #: Distinguishes a table from one dropped before it under the same name.
    life: int = 0
    options: tuple[str, ...] = field(default=())

    @property
    def statics(self) -> list[Column]:
        return [column for column in self.values if column.static]

    @property
    def regulars(self) -> list[Column]:
        return [column for column in self.values if not column.static]

    @property
    def is_counter(self) -> bool:
        return any(column.kind is COUNTER for column in self.values)

    @property
    def prompt_purge(self) -> bool:
        """Deletions may be forgotten soon, so late writes must not lie before them."""
        return self.gc_grace < 100_000

    def column(self, name: str) -> Column:
        return next(c for c in (*self.partition, *self.clustering, *self.values) if c.name == name)

    def has(self, name: str) -> bool:
        return any(column.name == name for column in self.values)

    @property
    def select_order(self) -> list[Column]:
        by_name = sorted(self.values, key=lambda column: (not column.static, column.name))
        return [*self.partition, *self.clustering, *by_name]

    def create(self) -> str:
        columns = [f"{c.name} {c.kind.cql}" for c in (*self.partition, *self.clustering)]
        columns += [f"{c.name} {c.kind.cql}{' static' if c.static else ''}" for c in self.values]
        partition = ", ".join(c.name for c in self.partition)
        key = ", ".join([f"({partition})", *(c.name for c in self.clustering)])
        options = [f"gc_grace_seconds = {self.gc_grace}"]
        if self.default_ttl:
            options.append(f"default_time_to_live = {self.default_ttl}")
        if self.clustering:
            orders = [
                f"{c.name} {'DESC' if down else 'ASC'}"
                for c, down in zip(self.clustering, self.descending, strict=True)
            ]
            options.append(f"CLUSTERING ORDER BY ({', '.join(orders)})")
        return (
            f"CREATE TABLE ks.{self.name} ({', '.join(columns)}, PRIMARY KEY ({key})) "
            f"WITH {' AND '.join(options)}"
        )

    def with_column(self, column: Column) -> "Table":
        return replace(self, values=(*self.values, column))

    def without_column(self, name: str) -> "Table":
        return replace(self, values=tuple(c for c in self.values if c.name != name))


def draw_table(rng: random.Random, name: str, life: int = 0) -> Table:
    partition = [Column(f"p{i}", draw_key_kind(rng)) for i in range(rng.choice((1, 1, 1, 2)))]
    clustering = [Column(f"c{i}", draw_key_kind(rng)) for i in range(rng.choice((0, 1, 1, 2, 2, 3)))]
    gc_grace = rng.choice((864_000, 864_000, 0, 2))
    if rng.random() < 0.1:
        values = [Column(f"v{i}", COUNTER, bool(clustering) and i == 2) for i in range(rng.choice((1, 2, 3)))]
        default_ttl = 0
    else:
        values = [Column(f"v{i}", draw_value_kind(rng)) for i in range(rng.choice((0, 1, 2, 3, 4)))]
        if clustering:
            values += [Column(f"s{i}", draw_value_kind(rng), True) for i in range(rng.choice((0, 0, 1, 2)))]
        default_ttl = rng.choice((0, 0, 0, 0, 0, 3))
    descending = tuple(rng.random() < 0.4 for _ in clustering)
    return Table(
        name, tuple(partition), tuple(clustering), descending, tuple(values), gc_grace, default_ttl, life
    )


def draw_new_column(rng: random.Random, table: Table, number: int) -> Column:
    """For ALTER TABLE ADD."""
    static = bool(table.clustering) and rng.random() < 0.3
    kind = COUNTER if table.is_counter else draw_value_kind(rng)
    return Column(f"n{number}", kind, static)
