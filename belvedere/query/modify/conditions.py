"""IF conditions: planned once, tested against the row as it stands."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from belvedere.cql import syntax
from belvedere.model.rows import Complex
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.model.types import INT, CQLType, ListType, MapType, SetType, UserType
from belvedere.query.access import BoundValue, Execution, Unset
from belvedere.query.errors import InvalidRequest
from belvedere.query.modify.assignments import field_path
from belvedere.query.modify.assignments_plan import field_index
from belvedere.query.modify.conditions_compare import compare, contains
from belvedere.query.results import ResultColumn, bound_to, part_of
from belvedere.query.schema_view import existing_column
from belvedere.query.select.collections_out import cell_path, sorted_items
from belvedere.query.select.row_views import RowView, cell_reader, column_reader
from belvedere.query.terms.values import BindCollector, TermValue, not_null, prepare_term

Wire = bytes | None


class Existence(Enum):
    """What IF EXISTS and IF NOT EXISTS demand of the row."""

    EXISTS = "exists"
    NOT_EXISTS = "not exists"


#: Reads the value that a condition is about from a row.
Subject = Callable[[RowView, Execution], Wire]


@dataclass(frozen=True, slots=True)
class ColumnCondition:
    column: Column
    operator: str
    #: What is compared: the column, one of its elements or fields.
    subject: Subject
    type: CQLType
    #: One term; several for IN (…).
    terms: tuple[TermValue, ...]
    #: Whether the only term is a whole list of values: IN ?.
    listed: bool = False

    def holds(self, view: RowView, execution: Execution) -> bool:
        values = self._values(execution)
        found = self.subject(view, execution)
        if self.operator == "IN":
            return any(compare(self.type, "=", found, value) for value in values)
        if self.operator in ("CONTAINS", "CONTAINS KEY"):
            return contains(self.column.type, self.operator, found, values[0])
        return compare(self.type, self.operator, found, values[0])

    def _values(self, execution: Execution) -> list[Wire]:
        values = [_set_value(term.evaluate(execution)) for term in self.terms]
        if not self.listed:
            return values
        (whole,) = values
        if whole is None:
            raise InvalidRequest("Invalid null list in IN condition")
        type_ = self.terms[0].type
        assert isinstance(type_, ListType)
        return list(type_.elements(whole))


def _set_value(value: BoundValue) -> Wire:
    if isinstance(value, Unset):
        raise InvalidRequest("Invalid 'unset' value in condition")
    return value


@dataclass(frozen=True, slots=True)
class Conditions:
    """All that one statement demands, of its row and of the partition's static cells."""

    existence: Existence | None = None
    columns: tuple[ColumnCondition, ...] = ()

    @property
    def on_regular(self) -> bool:
        return any(condition.column.kind is ColumnKind.REGULAR for condition in self.columns)

    @property
    def on_static(self) -> bool:
        return any(condition.column.kind is ColumnKind.STATIC for condition in self.columns)

    @property
    def only_static(self) -> bool:
        return self.existence is None and not self.on_regular

    def hold(self, view: RowView, execution: Execution) -> bool:
        return all(condition.holds(view, execution) for condition in self.columns)


IF_NOT_EXISTS = Conditions(Existence.NOT_EXISTS)
IF_EXISTS = Conditions(Existence.EXISTS)


def prepare_conditions(
    table: Table, nodes: Sequence[syntax.Condition], if_exists: bool, collector: BindCollector
) -> Conditions | None:
    if if_exists:
        return IF_EXISTS
    if not nodes:
        return None
    return Conditions(None, tuple(_prepare(table, node, collector) for node in nodes))


def _prepare(table: Table, node: syntax.Condition, collector: BindCollector) -> ColumnCondition:
    column = existing_column(table, node.column)
    if column.is_key:
        raise InvalidRequest(f"PRIMARY KEY column '{column.name}' cannot have IF conditions")
    if table.is_counter:
        raise InvalidRequest("Conditions on counters are not supported")
    if node.key is not None:
        return _on_element(table, column, node, node.key, collector)
    if node.field is not None:
        return _on_field(table, column, node, node.field, collector)
    read = column_reader(column)
    subject: Subject = lambda view, _: read(view)  # noqa: E731
    return _finish(table, column, node, subject, column.type, column.name, collector)


def _on_element(
    table: Table, column: Column, node: syntax.Condition, key: syntax.Term, collector: BindCollector
) -> ColumnCondition:
    type_ = column.type
    if isinstance(type_, ListType):
        index = prepare_term(key, part_of(table, f"idx({column.name})", INT), collector)
        subject, value_type = _list_element(column, type_, index), type_.element
    elif isinstance(type_, MapType):
        map_key = prepare_term(key, part_of(table, f"key({column.name})", type_.key), collector)
        subject, value_type = _map_element(column, type_, map_key), type_.value
    elif isinstance(type_, SetType):
        raise InvalidRequest(f"Invalid element access syntax for set column {column.name}")
    else:
        raise InvalidRequest(f"Invalid element access syntax for non-collection column {column.name}")
    return _finish(table, column, node, subject, value_type, f"value({column.name})", collector)


def _list_element(column: Column, type_: ListType, index: TermValue) -> Subject:
    read_cell = cell_reader(column)
    read = column_reader(column)

    def subject(view: RowView, execution: Execution) -> Wire:
        wire = not_null(
            index.evaluate(execution),
            "Invalid null value for list element access",
            "Invalid unset value for list element access",
        )
        place = int.from_bytes(wire, "big", signed=True)
        if place < 0:
            raise InvalidRequest(f"Invalid negative list index {place}")
        cell = read_cell(view)[1]
        if isinstance(cell, Complex):
            items = sorted_items(type_, cell)
            return items[place][1][0] if place < len(items) else None
        whole = read(view)
        elements = [] if whole is None else type_.elements(whole)
        return elements[place] if place < len(elements) else None

    return subject


def _map_element(column: Column, type_: MapType, key: TermValue) -> Subject:
    read_cell = cell_reader(column)
    read = column_reader(column)

    def subject(view: RowView, execution: Execution) -> Wire:
        wanted = not_null(
            key.evaluate(execution),
            "Invalid null value for map element access",
            "Invalid unset value for map element access",
        )
        cell = read_cell(view)[1]
        if isinstance(cell, Complex):
            item = cell.items.get(cell_path(type_.key, wanted))
            return None if item is None else item[0]
        whole = read(view)
        if whole is None:
            return None
        path = cell_path(type_.key, wanted)
        return next(
            (value for key, value in type_.elements(whole) if cell_path(type_.key, key) == path), None
        )

    return subject


def _on_field(
    table: Table, column: Column, node: syntax.Condition, name: str, collector: BindCollector
) -> ColumnCondition:
    type_ = column.type
    if not isinstance(type_, UserType):
        raise InvalidRequest(f"Invalid field access syntax for non-UDT column {column.name}")
    if name not in type_.field_names:
        raise InvalidRequest(f"Unknown field {name} for column {column.name}")
    index = field_index(column, type_, name)
    read_cell = cell_reader(column)
    read = column_reader(column)

    def subject(view: RowView, execution: Execution) -> Wire:
        cell = read_cell(view)[1]
        if isinstance(cell, Complex):
            item = cell.items.get(field_path(index))
            return None if item is None else item[0]
        whole = read(view)
        return None if whole is None else type_.all_elements(whole)[index]

    return _finish(table, column, node, subject, type_.types[index], f"{column.name}.{name}", collector)


def _finish(
    table: Table,
    column: Column,
    node: syntax.Condition,
    subject: Subject,
    type_: CQLType,
    name: str,
    collector: BindCollector,
) -> ColumnCondition:
    """The right side, for whatever is compared with it."""
    operator, value = node.operator, node.value
    if operator in ("<", "<=", ">", ">=") and not type_.is_orderable:
        on = "durations" if type_.name == "duration" else f"{_noun(type_)} containing durations"
        raise InvalidRequest(f"Slice conditions ( {operator} ) are not supported on {on}")
    match operator, value:
        case "IN", syntax.InList(values):
            receiver = part_of(table, name, type_)
            terms = tuple(prepare_term(one, receiver, collector) for one in values)
            return ColumnCondition(column, operator, subject, type_, terms)
        case "IN", _:
            assert not isinstance(value, syntax.InList | syntax.Between)
            term = prepare_term(value, part_of(table, f"in({name})", ListType(type_, True)), collector)
            return ColumnCondition(column, operator, subject, type_, (term,), listed=True)
        case (("=" | "!=" | "<" | "<=" | ">" | ">="), _):
            assert not isinstance(value, syntax.InList | syntax.Between)
            receiver = bound_to(table, column) if type_ is column.type else part_of(table, name, type_)
            return ColumnCondition(
                column, operator, subject, type_, (prepare_term(value, receiver, collector),)
            )
        case (("CONTAINS" | "CONTAINS KEY"), _):
            assert not isinstance(value, syntax.InList | syntax.Between)
            part = _contained(table, column, operator)
            return ColumnCondition(column, operator, subject, type_, (prepare_term(value, part, collector),))
    raise InvalidRequest(f"{operator} is not supported in IF conditions")


def _contained(table: Table, column: Column, operator: str) -> ResultColumn:
    match column.type, operator:
        case MapType(), "CONTAINS KEY":
            return part_of(table, f"key({column.name})", column.type.key)
        case MapType(), _:
            return part_of(table, f"value({column.name})", column.type.value)
        case ((ListType() | SetType()), "CONTAINS"):
            return part_of(table, f"value({column.name})", column.type.element)
    raise InvalidRequest(f"Cannot use {operator} on column {column.name} of type {column.type.name}")


def _noun(type_: CQLType) -> str:
    match type_:
        case UserType():
            return "UDTs"
        case ListType() | SetType() | MapType():
            return "collections"
    return "tuples"
