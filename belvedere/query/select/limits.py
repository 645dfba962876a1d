"""LIMIT and PER PARTITION LIMIT."""

from belvedere.cql.syntax import Term
from belvedere.model.schema import Table
from belvedere.model.types import INT
from belvedere.query.access import Execution
from belvedere.query.errors import InvalidRequest
from belvedere.query.results import ResultColumn
from belvedere.query.terms.values import BindCollector, ConstantTerm, TermValue, prepare_term

#: For evaluating terms that depend on nothing but themselves.
_NOTHING = Execution(access=None)  # type: ignore[arg-type]


def prepare_limit(table: Table, node: Term | None, name: str, collector: BindCollector) -> TermValue | None:
    if node is None:
        return None
    receiver = ResultColumn(table.keyspace, table.name, name, INT)
    term = prepare_term(node, receiver, collector)
    if isinstance(term, ConstantTerm):
        limit_value(term, _NOTHING)
    return term


def limit_value(term: TermValue | None, execution: Execution) -> int:
    """0 means no limit: none was given, or its variable was left unset."""
    if term is None:
        return 0
    value = term.evaluate(execution)
    if value is None:
        raise InvalidRequest("Invalid null value of limit")
    if not isinstance(value, bytes):
        return 0
    limit = int.from_bytes(value, "big", signed=True)
    if limit <= 0:
        raise InvalidRequest("LIMIT must be strictly positive")
    return limit
