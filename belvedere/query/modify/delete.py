"""DELETE: columns, elements, rows, ranges of rows, partitions."""

from belvedere.cql import syntax
from belvedere.query.errors import InvalidRequest
from belvedere.query.modify.assignments_plan import prepare_deletion
from belvedere.query.modify.attributes import prepare_attributes
from belvedere.query.modify.checks import check_condition_keys, check_options, check_writable
from belvedere.query.modify.conditions import prepare_conditions
from belvedere.query.modify.keys import WhereKeys
from belvedere.query.modify.plan import Modification, split_operations
from belvedere.query.schema_view import find_table
from belvedere.query.terms.values import BindCollector
from belvedere.query.where.restrictions import Purpose, analyse

_ALL_KEYS = "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to "


def plan_delete(node: syntax.Delete, collector: BindCollector) -> Modification:
    table = find_table(collector.schema, node.table.keyspace, collector.keyspace, node.table.name)
    check_writable(table)
    attributes = prepare_attributes(table, node.timestamp, None, collector)
    operations = [prepare_deletion(table, target, collector) for target in node.targets]
    regular, static = split_operations(operations)
    conditions = prepare_conditions(table, node.conditions, node.if_exists, collector)
    # Without columns it is rows that go, with all they have.
    on_regular = bool(regular) or not static or (conditions is not None and conditions.on_regular)
    on_static = bool(static) or (conditions is not None and conditions.on_static)
    where = analyse(
        table, node.where, collector, purpose=Purpose.DELETE, only_static=on_static and not on_regular
    )
    plan = Modification(
        table, "DELETE", collector.bindings, WhereKeys(table, where), attributes, regular, static, conditions
    )
    check_options(plan)
    check_condition_keys(plan)
    if conditions is not None and not plan.keys.is_full_row:
        if regular or not static:
            raise InvalidRequest(_ALL_KEYS + "delete non static columns")
        if conditions.on_regular:
            raise InvalidRequest(_ALL_KEYS + "use IF condition on non static columns")
    if regular and not plan.keys.is_full_row:
        raise InvalidRequest("Range deletions are not supported for specific columns")
    return plan
