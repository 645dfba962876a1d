"""SELECT of the model: its text, and the rows it must give."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from belvedere.sim.model.kinds import Kind, ListKind, MapKind, SetKind
from belvedere.sim.model.restrictions import Restriction, Text, compare
from belvedere.sim.model.schema import Table
from belvedere.sim.model.state import Key, SeenRow, State, clustering_order, see_partition, token
from belvedere.sim.model.state import _Directed as Directed
from belvedere.sim.model.writes import partition_text

WireRow = list[bytes | None]


@dataclass(frozen=True)
class Filter:
    """A restriction that needs ALLOW FILTERING."""

    column: str
    op: str
    value: Any

    def kind(self, table: Table) -> Kind:
        kind = table.column(self.column).kind
        if self.op == "CONTAINS":
            if isinstance(kind, MapKind):
                return kind.value
            assert isinstance(kind, ListKind)
            return kind.element
        if self.op == "CONTAINS KEY":
            assert isinstance(kind, MapKind)
            return kind.key
        return kind

    def text(self, table: Table, out: Text) -> str:
        return f"{self.column} {self.op} {out.value(self.kind(table), self.value)}"

    def holds(self, table: Table, row: SeenRow) -> bool:
        value = value_of(table, row, self.column)
        if value is None:
            return False
        if self.op == "CONTAINS":
            if isinstance(table.column(self.column).kind, MapKind):
                return any(one == self.value for _, one in value)
            return self.value in value
        if self.op == "CONTAINS KEY":
            return any(one == self.value for one, _ in value)
        kind = self.kind(table)
        return compare(kind.order(value), self.op, kind.order(self.value))


@dataclass(frozen=True)
class TokenBound:
    op: str
    key: Key
    as_number: bool

    def text(self, table: Table, out: Text) -> str:
        names = ", ".join(column.name for column in table.partition)
        if self.as_number:
            return f"token({names}) {self.op} {out.number(token(table, self.key), 8)}"
        values = [out.value(c.kind, v) for c, v in zip(table.partition, self.key, strict=True)]
        return f"token({names}) {self.op} token({', '.join(values)})"


@dataclass(frozen=True)
class Item:
    """A selected column, or a function of one."""

    what: str
    column: str = ""

    @property
    def text(self) -> str:
        if self.what == "column":
            return self.column
        return f"{self.what}({self.column})"

    @property
    def aggregates(self) -> bool:
        return self.what in ("count", "min", "max")


@dataclass(frozen=True)
class Select:
    table: str
    life: int
    items: tuple[Item, ...] | None = None
    distinct: bool = False
    keys: tuple[Key, ...] | None = None
    tokens: tuple[TokenBound, ...] = ()
    where: tuple[Restriction, ...] = ()
    filters: tuple[Filter, ...] = ()
    #: Columns of ORDER BY and whether they go against the table's order.
    order_by: int = 0
    reverse: bool = False
    group_by: int = 0
    limit: int | None = None
    partition_limit: int | None = None
    page_size: int = 0
    bound: bool = False

    @property
    def tables(self) -> list[str]:
        return [self.table]

    def fits(self, state: State) -> bool:
        table = state.tables.get(self.table)
        if table is None or table.life != self.life:
            return False
        keys = {column.name for column in (*table.partition, *table.clustering)}
        used = [item.column for item in self.items or () if item.column != "*"]
        used += [one.column for one in self.filters]
        return all(name in keys or table.has(name) for name in used)

    # ---------------------------------------------------------------------------------------------- text

    def text(self, state: State, out: Text) -> str:
        table = state.tables[self.table]
        what = "*" if self.items is None else ", ".join(item.text for item in self.items)
        text = f"SELECT {'DISTINCT ' if self.distinct else ''}{what} FROM ks.{table.name}"
        where = [] if self.keys is None else partition_text(table, self.keys, out)
        where += [bound.text(table, out) for bound in self.tokens]
        where += [one.text(table, out) for one in self.where]
        where += [one.text(table, out) for one in self.filters]
        if where:
            text += f" WHERE {' AND '.join(where)}"
        if self.group_by:
            names = [c.name for c in (*table.partition, *table.clustering)][: self.group_by]
            text += f" GROUP BY {', '.join(names)}"
        if self.order_by:
            orders = zip(table.clustering[: self.order_by], table.descending, strict=False)
            text += " ORDER BY " + ", ".join(
                f"{column.name} {'DESC' if down != self.reverse else 'ASC'}" for column, down in orders
            )
        if self.partition_limit is not None:
            text += f" PER PARTITION LIMIT {out.number(self.partition_limit, 4)}"
        if self.limit is not None:
            text += f" LIMIT {out.number(self.limit, 4)}"
        if self.filters or (self.where and self.keys is None):
            text += " ALLOW FILTERING"
        return text

    # ------------------------------------------------------------------------------------------- meaning

    def expected(self, state: State, now: int) -> list[WireRow]:
        table = state.tables[self.table]
        partitions = [self._partition(state, table, key, now) for key in self._keys(state, table)]
        if self.distinct:
            groups = [[rows[0]] for rows in partitions if rows]
        elif self.group_by:
            groups = [group for rows in partitions for group in self._groups(table, rows)]
        elif self.items is not None and any(item.aggregates for item in self.items):
            groups = [[row for rows in partitions for row in rows]]
        else:
            groups = [[row] for rows in partitions for row in rows[: self.partition_limit]]
            if self.order_by and self.keys is not None and len(self.keys) > 1:
                groups.sort(key=lambda group: self._sort_key(table, group[0]))
        if self.limit is not None:
            groups = groups[: self.limit]
        return [self._output(table, group, now) for group in groups]

    def _keys(self, state: State, table: Table) -> list[Key]:
        data = state.data[table.name]
        if self.keys is not None:
            return sorted(
                {key: None for key in self.keys if key in data},
                key=lambda key: [c.kind.order(v) for c, v in zip(table.partition, key, strict=True)],
            )
        keys = sorted(data, key=lambda key: (token(table, key), key_wire(table, key)))
        return [
            key
            for key in keys
            if all(compare(token(table, key), b.op, token(table, b.key)) for b in self.tokens)
        ]

    def _partition(self, state: State, table: Table, key: Key, now: int) -> list[SeenRow]:
        rows = see_partition(table, key, state.data[table.name][key], now)
        kept = []
        for row in rows:
            if row.clustering is None:
                if self.where or any(not self._static_filter(table, one) for one in self.filters):
                    continue
            elif not all(one.holds(table, row.clustering) for one in self.where):
                continue
            if all(one.holds(table, row) for one in self.filters):
                kept.append(row)
        return kept[::-1] if self.reverse else kept

    def _static_filter(self, table: Table, one: Filter) -> bool:
        column = table.column(one.column)
        return column.static or column in table.partition

    def _groups(self, table: Table, rows: list[SeenRow]) -> list[list[SeenRow]]:
        """Of one partition: GROUP BY names the whole partition key at least."""
        width = self.group_by - len(table.partition)
        groups: dict[Any, list[SeenRow]] = {}
        for row in rows:
            prefix = None if row.clustering is None else row.clustering[:width]
            groups.setdefault(prefix, []).append(row)
        return list(groups.values())[: self.partition_limit]

    def _sort_key(self, table: Table, row: SeenRow) -> tuple[int, list[Directed]]:
        if row.clustering is None:
            # Null comes before everything in the table's order.
            return (1 if self.reverse else -1, [])
        order = clustering_order(table, row.clustering)[: self.order_by]
        if self.reverse:
            order = [Directed(one.value, not one.descending) for one in order]
        return (0, order)

    def _output(self, table: Table, group: Sequence[SeenRow], now: int) -> WireRow:
        if self.items is None:
            return [wire_of(table, group[0], column.name) for column in table.select_order]
        return [self._item(table, item, group, now) for item in self.items]

    def _item(self, table: Table, item: Item, group: Sequence[SeenRow], now: int) -> bytes | None:
        if item.what == "count":
            counted = [r for r in group if item.column == "*" or value_of(table, r, item.column) is not None]
            return len(counted).to_bytes(8, "big")
        if item.what in ("min", "max"):
            values = [v for row in group if (v := value_of(table, row, item.column)) is not None]
            kind = table.column(item.column).kind
            choose = min if item.what == "min" else max
            return kind.wire(choose(values, key=kind.order)) if values else None
        row = group[0]
        if item.what == "column":
            return wire_of(table, row, item.column)
        cell = row.cells.get(item.column)
        if cell is None:
            return None
        if item.what == "writetime":
            return cell.timestamp.to_bytes(8, "big", signed=True)
        assert item.what == "ttl", item
        return (cell.expiry - now).to_bytes(4, "big") if cell.ttl else None


def key_wire(table: Table, key: Key) -> list[bytes]:
    return [column.kind.wire(value) for column, value in zip(table.partition, key, strict=True)]


def value_of(table: Table, row: SeenRow, name: str) -> Any:
    for column, value in zip(table.partition, row.partition, strict=True):
        if column.name == name:
            return value
    for column, value in zip(table.clustering, row.clustering or (), strict=False):
        if column.name == name:
            return value
    cell = row.cells.get(name)
    return None if cell is None else cell.value


def wire_of(table: Table, row: SeenRow, name: str) -> bytes | None:
    value = value_of(table, row, name)
    return None if value is None else table.column(name).kind.wire(value)


__all__ = ["Filter", "Item", "Select", "SetKind", "TokenBound", "WireRow"]
