"""INSERT … JSON: the object's members become the values of an INSERT into all columns."""

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from belvedere.cql import syntax
from belvedere.model.schema import Table
from belvedere.model.types import TEXT, InvalidValue, fold_json_name
from belvedere.query.access import UNSET, BoundValue, Execution, Unset
from belvedere.query.errors import InvalidRequest
from belvedere.query.modify.insert import insertable_table, plan_values
from belvedere.query.modify.plan import Modification
from belvedere.query.results import part_of
from belvedere.query.terms.values import BindCollector, ConstantTerm, MarkerTerm, TermValue, prepare_term


def plan_insert_json(node: syntax.InsertJson, collector: BindCollector) -> Modification:
    """The members are appended to the values that the client sent; the columns count from the end."""
    table = insertable_table(node.table, collector.schema, collector.keyspace)
    source = prepare_term(node.json, part_of(table, "[json]", TEXT), collector)
    missing: BoundValue = UNSET if node.default_unset else None
    count = len(table.columns)
    terms: list[tuple[str, TermValue]] = [
        (column.name, MarkerTerm(column.type, index - count)) for index, column in enumerate(table.columns)
    ]
    plan = plan_values(table, [(table.by_name[name], term) for name, term in terms], node, collector)
    plan.expand = _expander(table, source, missing)
    plan.fast = None
    plan.partition_key_bindings = ()
    return plan


def _expander(table: Table, source: TermValue, missing: BoundValue) -> Callable[[Execution], Execution]:
    if isinstance(source, ConstantTerm):
        # A constant is read, and its errors found, while planning.
        fixed = column_values(table, source.value, missing)
        return lambda execution: replace(execution, values=[*execution.values, *fixed])

    def expand(execution: Execution) -> Execution:
        text = source.evaluate(execution)
        if isinstance(text, Unset):
            raise InvalidRequest("Cannot INSERT JSON with an unset value")
        return replace(execution, values=[*execution.values, *column_values(table, text, missing)])

    return expand


def column_values(table: Table, text: bytes | None, missing: BoundValue) -> list[BoundValue]:
    """One value for each column of the table, in the order of its definition."""
    members = json_members(text)
    values: list[BoundValue] = []
    for column in table.columns:
        if column.name not in members:
            values.append(missing)
            continue
        member = members.pop(column.name)
        try:
            values.append(None if member is None else column.type.from_json(member))
        except InvalidValue as error:
            raise InvalidRequest(f"Error decoding JSON value for {column.name}: {error}") from None
    if members:
        raise InvalidRequest(f"JSON values map contains unrecognized column: {next(iter(members))}")
    return values


def json_members(text: bytes | None) -> dict[str, Any]:
    """The object's members by column name: case counts only inside extra double quotes."""
    if text is None:
        raise InvalidRequest("Got null for INSERT JSON values")
    try:
        decoded = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(
            f"Could not decode JSON string as a map: {error}. (String was: {text.decode()})"
        ) from None
    if decoded is None:
        raise InvalidRequest("Got null for INSERT JSON values")
    if not isinstance(decoded, Mapping):
        raise InvalidRequest(
            f"Could not decode JSON string as a map: not an object. (String was: {text.decode()})"
        )
    return {fold_json_name(name): value for name, value in decoded.items()}
