"""WRITETIME, MAXWRITETIME and TTL: what is stored beside a value."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from belvedere.cql.syntax import (
    CellInfo,
    ColumnRef,
    ElementAccess,
    Expression,
    FieldAccess,
    SliceAccess,
)
from belvedere.cql.text import to_text
from belvedere.model.rows import Cell, Complex, stamped
from belvedere.model.schema import Column, Table
from belvedere.model.types import BIGINT, INT, CQLType, ListType, MapType, SetType, UserType
from belvedere.query.access import Execution
from belvedere.query.errors import InvalidRequest
from belvedere.query.results import ResultColumn
from belvedere.query.schema_view import existing_column
from belvedere.query.select.collections_out import cell_path, sorted_items
from belvedere.query.select.row_views import RowView, cell_reader
from belvedere.query.select.selectors import FirstRow, GroupState, Selector, TermSelector, TimedSelector
from belvedere.query.terms.values import BindCollector, prepare_term

Wire = bytes | None
_NULL = b"\xff\xff\xff\xff"


def prepare_cell_info(table: Table, node: CellInfo, collector: BindCollector) -> Selector:
    column = _target_column(table, node)
    unit = INT if node.kind == "ttl" else BIGINT
    name = f"{node.kind}({_name(node.target)})"
    plain = isinstance(node.target, ColumnRef) or not column.type.is_multicell
    if plain and not column.type.is_multicell:
        return TimedSelector(unit, name, _single_reader(column, node.kind))
    single = isinstance(node.target, (ElementAccess, FieldAccess)) or node.kind == "maxwritetime"
    if plain:
        reader = _all_reader(column, node.kind)
        return TimedSelector(unit if single else StampList(unit), name, reader)
    return _part_selector(table, column, node, name, unit if single else StampList(unit), collector)


def _target_column(table: Table, node: CellInfo) -> Column:
    target = node.target
    while isinstance(target, (ElementAccess, FieldAccess, SliceAccess)):
        target = target.target
    if not isinstance(target, ColumnRef):
        raise InvalidRequest(f"Cannot use selection function {node.kind} on {to_text(node.target)}")
    column = existing_column(table, target.name)
    if column.is_key:
        raise InvalidRequest(f"Cannot use selection function {node.kind} on PRIMARY KEY part {column.name}")
    return column


def _name(node: Expression | None) -> str:
    """As result columns are called: names without quotes."""
    match node:
        case None:
            return ""
        case ColumnRef():
            return node.name
        case FieldAccess():
            return f"{_name(node.target)}.{node.field}"
        case ElementAccess():
            return f"{_name(node.target)}[{_name(node.key)}]"
        case SliceAccess():
            return f"{_name(node.target)}[{_name(node.start)}..{_name(node.stop)}]"
    return to_text(node)


class StampList(ListType):
    """A list with nulls in it, for elements without a TTL and fields without a value."""

    def elements(self, wire: bytes) -> list[bytes]:
        found: list[Wire] = []
        offset = 4
        for _ in range(int.from_bytes(wire[:4], "big")):
            length = int.from_bytes(wire[offset : offset + 4], "big", signed=True)
            offset += 4
            found.append(None if length < 0 else wire[offset : offset + length])
            offset += max(length, 0)
        return found  # type: ignore[return-value]

    def decode(self, wire: bytes) -> list[object]:
        return [None if part is None else self.element.decode(part) for part in self.elements(wire)]

    def _texts(self, wire: bytes) -> str:
        parts = ("null" if part is None else self.element.to_text(part) for part in self.elements(wire))
        return "[" + ", ".join(parts) + "]"

    to_text = to_json_text = _texts


def _stamp(kind: str, cell: Cell, now: int) -> Wire:
    """One cell's write time in µs, or the seconds that it still lives."""
    if kind != "ttl":
        return cell[1].to_bytes(8, "big", signed=True)
    return (cell[3] - now).to_bytes(4, "big", signed=True) if cell[2] else None


def _single_reader(column: Column, kind: str) -> Callable[[RowView, int], Wire]:
    read_cell = cell_reader(column)

    def read(view: RowView, now: int) -> Wire:
        row, cell = read_cell(view)
        if row is None or cell is None or isinstance(cell, Complex):
            return None
        return _stamp(kind, stamped(row, cell), now)

    return read


def _all_reader(column: Column, kind: str) -> Callable[[RowView, int], Wire]:
    """Of a whole collection: a list with one stamp per element, or the newest."""
    read_cell, type_ = cell_reader(column), column.type

    def read(view: RowView, now: int) -> Wire:
        cell = read_cell(view)[1]
        if not isinstance(cell, Complex) or not cell.items:
            return None
        return _combine(kind, _in_order(type_, cell), now)

    return read


def _in_order(type_: CQLType, cell: Complex) -> list[Cell | None]:
    if isinstance(type_, UserType):
        return [cell.items.get(index.to_bytes(2, "big")) for index in range(len(type_.types))]
    return [item for _, item in sorted_items(type_, cell)]


def _combine(kind: str, cells: Sequence[Cell | None], now: int) -> Wire:
    if kind == "maxwritetime":
        newest = max((cell[1] for cell in cells if cell is not None), default=None)
        return None if newest is None else newest.to_bytes(8, "big", signed=True)
    stamps = [None if cell is None else _stamp(kind, cell, now) for cell in cells]
    if not stamps:
        return None
    parts = [_NULL if stamp is None else len(stamp).to_bytes(4, "big") + stamp for stamp in stamps]
    return len(parts).to_bytes(4, "big") + b"".join(parts)


def _part_selector(
    table: Table, column: Column, node: CellInfo, name: str, type_: CQLType, collector: BindCollector
) -> Selector:
    """Of a field, an element or a slice of a non-frozen column."""
    pick, bounds = _picker(table, column, node, collector)
    read_cell, kind = cell_reader(column), node.kind
    single = isinstance(node.target, (ElementAccess, FieldAccess))

    def read(view: RowView, execution: Execution) -> Wire:
        cell = read_cell(view)[1]
        if not isinstance(cell, Complex):
            return None
        picked = pick(cell, [bound.read(view, execution) if bound else None for bound in bounds])
        if single and kind != "maxwritetime":
            return _stamp(kind, picked[0], execution.now) if picked else None
        return _combine(kind, picked, execution.now) if picked else None

    return _PartSelector(type_, name, read)


@dataclass(frozen=True, slots=True)
class _PartSelector:
    """Reads the row and evaluates the bounds itself."""

    type: CQLType
    name: str
    reader: Callable[[RowView, Execution], Wire]
    has_aggregate = False

    def read(self, view: RowView, execution: Execution) -> Wire:
        return self.reader(view, execution)

    def group(self, execution: Execution) -> GroupState:
        return FirstRow(self, execution)


#: Picks the cells that the target means; arguments are its bounds.
Pick = Callable[[Complex, Sequence[Wire]], list[Cell]]


def _picker(
    table: Table, column: Column, node: CellInfo, collector: BindCollector
) -> tuple[Pick, list[Selector | None]]:
    target, type_ = node.target, column.type
    if isinstance(target, FieldAccess):
        if not isinstance(type_, UserType) or target.field not in type_.field_names:
            raise InvalidRequest(f"{column.name} of type {type_.name} has no field {target.field}")
        path = type_.field_names.index(target.field).to_bytes(2, "big")
        return (lambda cell, bounds: [cell.items[path]] if path in cell.items else []), []
    if not isinstance(type_, (SetType, MapType)):
        raise InvalidRequest(
            f"Element selection is only allowed on sets and maps, but {column.name} is a list"
        )
    key_type = type_.key if isinstance(type_, MapType) else type_.element
    receiver = ResultColumn(table.keyspace, table.name, f"key({column.name})", key_type)

    def bound(expression: object) -> Selector | None:
        if expression is None:
            return None
        term = prepare_term(expression, receiver, collector)  # type: ignore[arg-type]
        return TermSelector(key_type, "", term)

    as_key = key_type.to_key
    if isinstance(target, ElementAccess):

        def pick_one(cell: Complex, bounds: Sequence[Wire]) -> list[Cell]:
            key = None if bounds[0] is None else cell_path(key_type, bounds[0])
            return [cell.items[key]] if key is not None and key in cell.items else []

        return pick_one, [bound(target.key)]
    assert isinstance(target, SliceAccess)

    def pick_slice(cell: Complex, bounds: Sequence[Wire]) -> list[Cell]:
        low, high = (None if value is None else as_key(value) for value in bounds)
        return [
            item
            for path, item in sorted_items(type_, cell)
            if (low is None or as_key(path) >= low) and (high is None or as_key(path) <= high)
        ]

    return pick_slice, [bound(target.start), bound(target.stop)]
