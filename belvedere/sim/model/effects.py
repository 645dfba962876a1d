"""What single assignments do to a row of the model."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from belvedere.sim.model.kinds import COUNTER, INT, Kind, ListKind, MapKind, SetKind, UserKind
from belvedere.sim.model.restrictions import UNSET, Text
from belvedere.sim.model.schema import Table
from belvedere.sim.model.state import Key, RowLog, State, floor_of, live_items, live_write


class Refused(Exception):
    """The statement is invalid for what is stored: a list index out of range."""


@dataclass(frozen=True)
class Moment:
    """When a statement runs: its write time in µs, the second that TTLs are judged by."""

    timestamp: int
    now: int
    ttl: int = 0

    @property
    def expiry(self) -> int:
        return self.now + self.ttl if self.ttl else 0

    def at(self, timestamp: int) -> "Moment":
        return replace(self, timestamp=timestamp)

    def with_ttl(self, ttl: int) -> "Moment":
        return replace(self, ttl=ttl)


@dataclass(frozen=True)
class Assign:
    """An assignment or a column of a DELETE. `path` is a map key, set element, list index or field name."""

    column: str
    op: str
    value: Any = None
    path: Any = None

    @property
    def commutes(self) -> bool:
        return self.op in ("set", "drop", "put", "field", "discard_keys", "drop_key", "drop_field")

    def text(self, table: Table, out: Text) -> str:
        kind = table.column(self.column).kind
        name = self.column
        match self.op:
            case "set":
                return f"{name} = {out.value(kind, self.value)}"
            case "add":
                return f"{name} = {name} + {out.value(kind, self.value)}"
            case "subtract" | "discard":
                return f"{name} = {name} - {out.value(kind, self.value)}"
            case "discard_keys":
                keys = SetKind("", _key_kind(kind))
                return f"{name} = {name} - {out.value(keys, self.value)}"
            case "prepend":
                return f"{name} = {out.value(kind, self.value)} + {name}"
            case "put":
                key = out.value(_key_kind(kind), self.path)
                return f"{name}[{key}] = {out.value(_value_kind(kind), self.value)}"
            case "put_index":
                index = out.value(INT, self.path)
                return f"{name}[{index}] = {out.value(_value_kind(kind), self.value)}"
            case "field":
                assert isinstance(kind, UserKind)
                part = kind.parts[kind.fields.index(self.path)]
                return f"{name}.{self.path} = {out.value(part, self.value)}"
            case "drop":
                return name
            case "drop_key":
                return f"{name}[{out.value(_key_kind(kind), self.path)}]"
            case "drop_index":
                return f"{name}[{out.value(INT, self.path)}]"
        assert self.op == "drop_field", self.op
        return f"{name}.{self.path}"


def _key_kind(kind: Kind) -> Kind:
    if isinstance(kind, MapKind):
        return kind.key
    assert isinstance(kind, SetKind)
    return kind.element


def _value_kind(kind: Kind) -> Kind:
    if isinstance(kind, MapKind):
        return kind.value
    assert isinstance(kind, ListKind)
    return kind.element


Effect = Callable[[State], None]


def add_to_row(
    state: State,
    table: Table,
    key: Key,
    clustering: Key | None,
    assigns: list[Assign],
    moment: Moment,
    insert: bool,
) -> list[Effect]:
    """One row's (None: the static cells') share of a statement."""
    effects: list[Effect] = []

    def place(state: State) -> RowLog:
        if clustering is None:
            return state.partition(table, key).static
        return state.row(table, key, clustering)

    if insert:
        effects.append(lambda state: place(state).lives.append((moment.timestamp, moment.ttl, moment.expiry)))
    partition = state.data[table.name].get(key)
    row = None
    floor = 0
    if partition is not None:
        row = partition.static if clustering is None else partition.rows.get(clustering)
        floor = floor_of(table, partition, clustering)
    for assign in assigns:
        if assign.value is not UNSET:
            effects.append(_effect(table, key, clustering, assign, moment, place, row, floor))
    return effects


def _effect(
    table: Table,
    key: Key,
    clustering: Key | None,
    assign: Assign,
    moment: Moment,
    place: Callable[[State], RowLog],
    row: RowLog | None,
    floor: int,
) -> Effect:
    column = table.column(assign.column)
    kind, name = column.kind, column.name
    visible = [] if row is None or not kind.multicell else live_items(row, column, floor, moment.now)
    written = (moment.timestamp, assign.value, moment.ttl, moment.expiry)
    gone = (moment.timestamp, None, 0, 0)

    def put_items(state: State, items: list[tuple[Any, Any]]) -> None:
        for path, value in items:
            write = gone if value is None else (moment.timestamp, value, moment.ttl, moment.expiry)
            place(state).items.setdefault(name, {}).setdefault(path, []).append(write)

    def overwrite(state: State) -> None:
        place(state).item_deletions.setdefault(name, []).append(moment.timestamp - 1)
        if assign.value is not None:
            put_items(state, elements(state, kind, assign.value))

    def set_cell(state: State) -> None:
        write = gone if assign.op == "drop" or assign.value is None else written
        place(state).cells.setdefault(name, []).append(write)

    def drop_items(state: State) -> None:
        place(state).item_deletions.setdefault(name, []).append(moment.timestamp)

    match assign.op:
        case "set":
            return overwrite if kind.multicell else set_cell
        case "drop":
            return drop_items if kind.multicell else set_cell
        case "add" | "subtract" if kind is COUNTER:
            return _count(table, key, clustering, assign, moment, place)
        case "add":
            return lambda state: put_items(state, elements(state, kind, assign.value))
        case "prepend":
            return lambda state: put_items(state, before(state, assign.value))
        case "discard":
            matching = [(path, None) for path, write in visible if write[1] in assign.value]
            return lambda state: put_items(state, matching)
        case "discard_keys":
            return lambda state: put_items(state, [(path, None) for path in assign.value])
        case "put":
            value = True if isinstance(kind, SetKind) else assign.value
            return lambda state: put_items(state, [(assign.path, value)])
        case "drop_key":
            return lambda state: put_items(state, [(assign.path, None)])
        case "put_index" | "drop_index":
            if not 0 <= assign.path < len(visible):
                raise Refused(f"index {assign.path} of a list of {len(visible)}")
            value = None if assign.op == "drop_index" else assign.value
            return lambda state: put_items(state, [(visible[assign.path][0], value)])
    assert isinstance(kind, UserKind), assign
    index = kind.fields.index(assign.path)
    value = None if assign.op == "drop_field" else assign.value
    return lambda state: put_items(state, [(index, value)])


def _count(
    table: Table,
    key: Key,
    clustering: Key | None,
    assign: Assign,
    moment: Moment,
    place: Callable[[State], RowLog],
) -> Effect:
    """An increment is a write of the new total."""
    name = assign.column

    def count(state: State) -> None:
        partition = state.partition(table, key)
        log = place(state)
        best = live_write(
            log.cells.get(name, []), floor_of(table, partition, clustering), moment.now, COUNTER
        )
        total = (0 if best is None else best[1]) + assign.value * (-1 if assign.op == "subtract" else 1)
        total = (total + 2**63) % 2**64 - 2**63
        newest = max([moment.timestamp, *(write[0] + 1 for write in log.cells.get(name, []))])
        log.cells.setdefault(name, []).append((newest, total, 0, 0))

    return count


def elements(state: State, kind: Kind, value: Any) -> list[tuple[Any, Any]]:
    """The cells of a collection's value; a list's elements go behind everything there is."""
    if isinstance(kind, SetKind):
        return [(element, True) for element in value]
    if isinstance(kind, ListKind):
        sequence = state.next_sequence()
        return [((1, sequence, index), element) for index, element in enumerate(value)]
    if isinstance(kind, MapKind):
        return list(value)
    return [(index, part) for index, part in enumerate(value) if part is not None]


def before(state: State, value: Any) -> list[tuple[Any, Any]]:
    sequence = state.next_sequence()
    return [((0, -sequence, index), element) for index, element in enumerate(value)]
