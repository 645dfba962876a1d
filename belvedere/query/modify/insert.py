"""INSERT … VALUES."""

from collections.abc import Sequence

from belvedere.cql import syntax
from belvedere.model.schema import Column, Table
from belvedere.query.errors import InvalidRequest
from belvedere.query.modify.assignments_plan import assign
from belvedere.query.modify.attributes import prepare_attributes
from belvedere.query.modify.checks import check_options, check_writable
from belvedere.query.modify.conditions import IF_NOT_EXISTS
from belvedere.query.modify.fast import compile_fast
from belvedere.query.modify.keys import SingleKey
from belvedere.query.modify.plan import Modification, split_operations
from belvedere.query.results import bound_to
from belvedere.query.schema_view import SchemaView, existing_column, find_table
from belvedere.query.terms.values import BindCollector, TermValue, prepare_term


def plan_insert(node: syntax.Insert, collector: BindCollector) -> Modification:
    table = insertable_table(node.table, collector.schema, collector.keyspace)
    if not node.columns:
        raise InvalidRequest("No columns provided to INSERT")
    if len(node.columns) != len(node.values):
        raise InvalidRequest("Unmatched column names/values")
    if len(set(node.columns)) != len(node.columns):
        raise InvalidRequest("The column names contains duplicates")
    columns = [existing_column(table, name) for name in node.columns]
    terms = [
        (column, prepare_term(value, bound_to(table, column), collector))
        for column, value in zip(columns, node.values, strict=True)
    ]
    return plan_values(table, terms, node, collector)


def insertable_table(name: syntax.TableName, schema: SchemaView, keyspace: str | None) -> Table:
    table = find_table(schema, name.keyspace, keyspace, name.name)
    check_writable(table)
    if table.is_counter:
        raise InvalidRequest("INSERT statements are not allowed on counter tables, use UPDATE instead")
    return table


def plan_values(
    table: Table,
    terms: Sequence[tuple[Column, TermValue]],
    node: syntax.Insert | syntax.InsertJson,
    collector: BindCollector,
) -> Modification:
    key_terms = {column.name: term for column, term in terms if column.is_key}
    operations = [assign(column, term) for column, term in terms if not column.is_key]
    regular, static = split_operations(operations)
    keys = _keys(table, key_terms, static_only=bool(static) and not regular)
    attributes = prepare_attributes(table, node.timestamp, node.ttl, collector)
    plan = Modification(
        table,
        "INSERT",
        collector.bindings,
        keys,
        attributes,
        regular,
        static,
        IF_NOT_EXISTS if node.if_not_exists else None,
    )
    check_options(plan)
    plan.fast = compile_fast(plan)
    return plan


def _keys(table: Table, terms: dict[str, TermValue], *, static_only: bool) -> SingleKey:
    missing = [column.name for column in table.partition_key if column.name not in terms]
    if missing:
        raise InvalidRequest(f"Some partition key parts are missing: {', '.join(missing)}")
    partition = tuple(terms[column.name] for column in table.partition_key)
    missing = [column.name for column in table.clustering if column.name not in terms]
    if len(missing) == len(table.clustering) and static_only:
        return SingleKey(table, partition, ())
    if missing:
        raise InvalidRequest(f"Some clustering keys are missing: {', '.join(missing)}")
    return SingleKey(table, partition, tuple(terms[column.name] for column in table.clustering))
