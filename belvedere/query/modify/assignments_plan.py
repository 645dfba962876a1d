"""SET clauses and DELETE targets: from the syntax tree to operations, with Cassandra's messages."""

from belvedere.cql import syntax
from belvedere.cql.text import to_text
from belvedere.model.schema import Column, Table
from belvedere.model.types import INT, ListType, MapType, SetType, UserType
from belvedere.query.errors import InvalidRequest
from belvedere.query.modify.assignments import (
    AddElements,
    DeleteValue,
    Operation,
    Overwrite,
    Prepend,
    SetValue,
)
from belvedere.query.modify.counters import AddToCounter
from belvedere.query.modify.elements import (
    DeleteField,
    DeleteListElement,
    DiscardFromList,
    RemoveKeys,
    SetListElement,
    SetMapEntry,
    SetUserField,
)
from belvedere.query.results import bound_to, part_of
from belvedere.query.schema_view import existing_column
from belvedere.query.terms.values import BindCollector, TermValue, prepare_term


def prepare_assignment(table: Table, node: syntax.Assignment, collector: BindCollector) -> Operation:
    column = existing_column(table, node.column)
    if column.is_key:
        raise InvalidRequest(f"PRIMARY KEY part {column.name} found in SET part")
    match node:
        case syntax.SetColumn():
            return assign(column, prepare_term(node.value, bound_to(table, column), collector))
        case syntax.AddToColumn():
            return _add(table, column, node, collector)
        case syntax.PrependToColumn():
            return _prepend(table, column, node, collector)
        case syntax.SubtractFromColumn():
            return _subtract(table, column, node, collector)
        case syntax.SetElement():
            return _set_element(table, column, node, collector)
        case syntax.SetField():
            return _set_field(table, column, node, collector)


def assign(column: Column, term: TermValue) -> Operation:
    """`c = term`."""
    if column.type.name == "counter":
        raise InvalidRequest(
            f"Cannot set the value of counter column {column.name} "
            "(counters can only be incremented/decremented, not set)"
        )
    return Overwrite(column, term) if column.type.is_multicell else SetValue(column, term)


def _wrong(operation: str, what: str, column: Column) -> InvalidRequest:
    return InvalidRequest(f"Invalid operation ({operation}) for {what} column {column.name}")


def _check_summand(column: Column, operation: str) -> None:
    """Adding and subtracting is for counters and for collections of many cells."""
    if not isinstance(column.type, ListType | SetType | MapType):
        raise _wrong(operation, "non counter", column)
    if not column.type.is_multicell:
        raise _wrong(operation, "frozen collection", column)


def _add(table: Table, column: Column, node: syntax.AddToColumn, collector: BindCollector) -> Operation:
    receiver = bound_to(table, column)
    if column.type.name == "counter":
        return AddToCounter(column, prepare_term(node.value, receiver, collector), subtract=False)
    _check_summand(column, f"{column.name} = {column.name} + {to_text(node.value)}")
    return AddElements(column, prepare_term(node.value, receiver, collector))


def _prepend(
    table: Table, column: Column, node: syntax.PrependToColumn, collector: BindCollector
) -> Operation:
    operation = f"{column.name} = {to_text(node.value)} - {column.name}"
    if not isinstance(column.type, ListType):
        raise _wrong(operation, "non list", column)
    if not column.type.is_multicell:
        raise _wrong(operation, "frozen list", column)
    return Prepend(column, prepare_term(node.value, bound_to(table, column), collector))


def _subtract(
    table: Table, column: Column, node: syntax.SubtractFromColumn, collector: BindCollector
) -> Operation:
    if column.type.name == "counter":
        term = prepare_term(node.value, bound_to(table, column), collector)
        return AddToCounter(column, term, subtract=True)
    _check_summand(column, f"{column.name} = {column.name} - {to_text(node.value)}")
    type_ = column.type
    if isinstance(type_, ListType):
        return DiscardFromList(column, prepare_term(node.value, bound_to(table, column), collector))
    # What is taken from a map is a set of its keys.
    keys = SetType(type_.key) if isinstance(type_, MapType) else type_
    return RemoveKeys(column, prepare_term(node.value, part_of(table, column.name, keys), collector))


def _set_element(
    table: Table, column: Column, node: syntax.SetElement, collector: BindCollector
) -> Operation:
    type_ = column.type
    operation = f"{column.name}[{to_text(node.key)}] = {to_text(node.value)}"
    if not isinstance(type_, ListType | SetType | MapType):
        raise _wrong(operation, "non collection", column)
    if not type_.is_multicell:
        raise _wrong(operation, "frozen collection", column)
    if isinstance(type_, SetType):
        raise _wrong(operation, "set", column)
    if isinstance(type_, ListType):
        index = prepare_term(node.key, part_of(table, f"idx({column.name})", INT), collector)
        element = part_of(table, f"value({column.name})", type_.element)
        return SetListElement(column, index, prepare_term(node.value, element, collector))
    key = prepare_term(node.key, part_of(table, f"key({column.name})", type_.key), collector)
    value = part_of(table, f"value({column.name})", type_.value)
    return SetMapEntry(column, key, prepare_term(node.value, value, collector))


def _set_field(table: Table, column: Column, node: syntax.SetField, collector: BindCollector) -> Operation:
    type_ = column.type
    operation = f"{column.name}.{node.field} = {to_text(node.value)}"
    if not isinstance(type_, UserType):
        raise _wrong(operation, "non-UDT", column)
    if not type_.is_multicell:
        raise _wrong(operation, "frozen UDT", column)
    index = field_index(column, type_, node.field)
    receiver = part_of(table, f"{column.name}.{node.field}", type_.types[index])
    return SetUserField(column, index, prepare_term(node.value, receiver, collector))


def field_index(column: Column, type_: UserType, name: str) -> int:
    if name not in type_.field_names:
        raise InvalidRequest(f"UDT column {column.name} does not have a field named {name}")
    return type_.field_names.index(name)


# --- DELETE ------------------------------------------------------------------------------------------


def prepare_deletion(table: Table, node: syntax.DeleteTarget, collector: BindCollector) -> Operation:
    column = existing_column(table, node.column)
    if column.is_key:
        raise InvalidRequest(
            f"Invalid identifier {column.name} for deletion (should not be a PRIMARY KEY part)"
        )
    match node:
        case syntax.DeleteColumn():
            return DeleteValue(column)
        case syntax.DeleteElement():
            return _delete_element(table, column, node, collector)
        case syntax.DeleteField():
            return _delete_field(column, node)


def _delete_element(
    table: Table, column: Column, node: syntax.DeleteElement, collector: BindCollector
) -> Operation:
    type_ = column.type
    if not isinstance(type_, ListType | SetType | MapType):
        raise InvalidRequest(f"Invalid deletion operation for non collection column {column.name}")
    if not type_.is_multicell:
        raise InvalidRequest(f"Invalid deletion operation for frozen collection column {column.name}")
    if isinstance(type_, ListType):
        index = part_of(table, f"idx({column.name})", INT)
        return DeleteListElement(column, prepare_term(node.key, index, collector))
    if isinstance(type_, SetType):
        key = part_of(table, f"value({column.name})", type_.element)
    else:
        key = part_of(table, f"key({column.name})", type_.key)
    return RemoveKeys(column, prepare_term(node.key, key, collector), single=True)


def _delete_field(column: Column, node: syntax.DeleteField) -> Operation:
    type_ = column.type
    if not isinstance(type_, UserType):
        raise InvalidRequest(f"Invalid field deletion operation for non-UDT column {column.name}")
    if not type_.is_multicell:
        raise InvalidRequest(f"Frozen UDT column {column.name} does not support field deletions")
    return DeleteField(column, field_index(column, type_, node.field))


def check_compatible(assignments: tuple[syntax.Assignment, ...]) -> None:
    """A column may be assigned twice only in parts that do not contradict each other."""
    for position, first in enumerate(assignments):
        for second in assignments[position + 1 :]:
            if first.column == second.column and _contradict(first, second):
                raise InvalidRequest(f"Multiple incompatible setting of column {first.column}")


def _contradict(first: syntax.Assignment, second: syntax.Assignment) -> bool:
    if isinstance(first, syntax.SetColumn) or isinstance(second, syntax.SetColumn):
        return True
    if isinstance(first, syntax.SetField) and isinstance(second, syntax.SetField):
        return first.field == second.field
    return False
