"""The procedures of materialized views: `CALL verify('ks.view')` and `CALL repair('ks.view')`."""

import json
from collections.abc import Sequence
from typing import Any, Protocol

from belvedere.cql.errors import CQLSyntaxError
from belvedere.cql.parser import parse_table_name
from belvedere.meta.state import ClusterState
from belvedere.model.schema import Table
from belvedere.model.types import BIGINT, TEXT
from belvedere.query.database import Database
from belvedere.query.errors import InvalidRequest
from belvedere.query.procedures import Parameter, Perform, Procedure
from belvedere.views.verify import Finding, Report

#: Columns of the result that are counts, in a Report's own names.
COUNTS = (
    *("base_rows", "view_rows", "missing", "orphaned", "different"),
    *("repaired", "unrepaired", "unexamined"),
)

_PARAMETERS = (Parameter("view", TEXT),)
_RETURNS = (*((name, BIGINT) for name in COUNTS), ("examples", TEXT))


class Proving(Protocol):
    async def verify(self, view: Table, *, repair: bool = False) -> Report: ...


def view_procedures(database: Database, views: Proving) -> tuple[Procedure, ...]:
    def perform(repair: bool) -> Perform:
        async def run(arguments: Sequence[Any]) -> Sequence[Sequence[Any]]:
            view = named_view(database.state, arguments[0])
            return [_row(await views.verify(view, repair=repair))]

        return run

    return (
        Procedure(
            *("verify", _PARAMETERS, _RETURNS, perform(repair=False)),
            comment="compare a materialized view with its base, while writes go on",
        ),
        Procedure(
            *("repair", _PARAMETERS, _RETURNS, perform(repair=True)),
            comment="compare a materialized view with its base, and put right what is wrong",
        ),
    )


def named_view(state: ClusterState, text: str) -> Table:
    """The view that a client calls `keyspace.view`, quoted as in CQL."""
    found = named_table(state, text, "materialized view")
    if found.view is None:
        raise InvalidRequest(f"{found.full_name} is a table, not a materialized view")
    return found


def named_table(state: ClusterState, text: str, what: str = "table") -> Table:
    """The table or view that a client calls `keyspace.name`, quoted as in CQL."""
    try:
        name = parse_table_name(text)
    except CQLSyntaxError:
        name = None
    if name is None or name.keyspace is None:
        raise InvalidRequest(
            f"A {what} is named keyspace.name, with double quotes where CQL has them: {text!r}"
        )
    found = state.table(name.keyspace, name.name)
    if found is None:
        raise InvalidRequest(f"{what} {name.keyspace}.{name.name} does not exist")
    return found


def _row(report: Report) -> tuple[Any, ...]:
    examples = [_as_json(finding) for finding in report.examples]
    return (*(getattr(report, name) for name in COUNTS), json.dumps(examples, ensure_ascii=False))


def _as_json(finding: Finding) -> dict[str, Any]:
    """Columns' values as text; a side is null if there is, or should be, no row."""
    return {
        "kind": finding.kind,
        "key": dict(finding.key),
        "expected": None if finding.kind == "orphaned" else dict(finding.expected),
        "found": None if finding.kind == "missing" else dict(finding.found),
    }
