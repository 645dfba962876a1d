"""UPDATE."""

from belvedere.cql import syntax
from belvedere.query.modify.assignments_plan import check_compatible, prepare_assignment
from belvedere.query.modify.attributes import prepare_attributes
from belvedere.query.modify.checks import check_condition_keys, check_options, check_writable
from belvedere.query.modify.conditions import prepare_conditions
from belvedere.query.modify.fast import compile_fast
from belvedere.query.modify.keys import WhereKeys
from belvedere.query.modify.plan import Modification, split_operations
from belvedere.query.schema_view import find_table
from belvedere.query.terms.values import BindCollector
from belvedere.query.where.restrictions import Purpose, analyse


def plan_update(node: syntax.Update, collector: BindCollector) -> Modification:
    table = find_table(collector.schema, node.table.keyspace, collector.keyspace, node.table.name)
    check_writable(table)
    check_compatible(node.assignments)
    attributes = prepare_attributes(table, node.timestamp, node.ttl, collector)
    operations = [prepare_assignment(table, assignment, collector) for assignment in node.assignments]
    regular, static = split_operations(operations)
    conditions = prepare_conditions(table, node.conditions, node.if_exists, collector)
    only_static = not regular and not (conditions is not None and conditions.on_regular)
    where = analyse(table, node.where, collector, purpose=Purpose.UPDATE, only_static=only_static)
    plan = Modification(
        table, "UPDATE", collector.bindings, WhereKeys(table, where), attributes, regular, static, conditions
    )
    check_options(plan)
    check_condition_keys(plan)
    plan.fast = compile_fast(plan)
    return plan
