"""From a parsed data statement to a plan."""

from belvedere.cql import syntax
from belvedere.query.access import Plan
from belvedere.query.errors import InvalidRequest
from belvedere.query.modify.batch import plan_batch_statement
from belvedere.query.modify.delete import plan_delete
from belvedere.query.modify.insert import plan_insert
from belvedere.query.modify.insert_json import plan_insert_json
from belvedere.query.modify.plan import Modification
from belvedere.query.modify.update import plan_update
from belvedere.query.schema_view import SchemaView
from belvedere.query.select.plan import plan_select
from belvedere.query.terms.values import BindCollector


def plan_statement(node: syntax.Statement, schema: SchemaView, keyspace: str | None) -> Plan:
    """Check a SELECT, INSERT, UPDATE, DELETE or BATCH against the schema."""
    if isinstance(node, syntax.Select):
        return plan_select(node, schema, keyspace)
    collector = BindCollector(schema, keyspace)
    if isinstance(node, syntax.Batch):
        return plan_batch_statement(
            node, collector, [plan_modification(child, collector) for child in node.statements]
        )
    if isinstance(node, syntax.Insert | syntax.InsertJson | syntax.Update | syntax.Delete):
        plan = plan_modification(node, collector)
        plan.bindings = collector.bindings
        return plan
    raise InvalidRequest(f"{type(node).__name__} is not a data statement")


def plan_modification(node: syntax.Modification, collector: BindCollector) -> Modification:
    match node:
        case syntax.Insert():
            return plan_insert(node, collector)
        case syntax.InsertJson():
            return plan_insert_json(node, collector)
        case syntax.Update():
            return plan_update(node, collector)
        case syntax.Delete():
            return plan_delete(node, collector)
