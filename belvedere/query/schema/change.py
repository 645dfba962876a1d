"""Schema changes: decided on one snapshot, committed if that snapshot still holds, else decided anew."""

from collections.abc import Callable
from typing import Any

from belvedere.cql import syntax
from belvedere.meta.metadata import Metadata, Proposal
from belvedere.meta.state import ClusterState
from belvedere.meta.store import OutcomeUnknown, StoreUnavailable
from belvedere.query.errors import ServerError
from belvedere.query.results import Result, Void
from belvedere.query.schema.alter_table import alter_table
from belvedere.query.schema.edits import DdlContext, Decision
from belvedere.query.schema.keyspaces import alter_keyspace, create_keyspace, drop_keyspace
from belvedere.query.schema.tables import create_table, drop_table
from belvedere.query.schema.truncate import truncating
from belvedere.query.schema.user_types import alter_type, create_type, drop_type
from belvedere.query.schema.views import alter_view, create_view, drop_view
from belvedere.runtime.api import Runtime

Decide = Callable[[Any, ClusterState, DdlContext], Decision | None]

_DECIDERS: dict[type, Decide] = {
    syntax.CreateKeyspace: create_keyspace,
    syntax.AlterKeyspace: alter_keyspace,
    syntax.DropKeyspace: drop_keyspace,
    syntax.CreateTable: create_table,
    syntax.AlterTable: alter_table,
    syntax.DropTable: drop_table,
    syntax.CreateType: create_type,
    syntax.AlterType: alter_type,
    syntax.DropType: drop_type,
    syntax.CreateMaterializedView: create_view,
    syntax.AlterMaterializedView: alter_view,
    syntax.DropMaterializedView: drop_view,
}


def is_ddl(statement: syntax.Statement) -> bool:
    return type(statement) in _DECIDERS


def decide(statement: syntax.Statement, state: ClusterState, context: DdlContext) -> Decision | None:
    """What a statement changes in this state; None if nothing. Raises what the client is to be told."""
    return _DECIDERS[type(statement)](statement, state, context)


def new_context(
    keyspace: str | None, runtime: Runtime, node_id: str, *, replicated: bool = False
) -> DdlContext:
    return DdlContext(keyspace, runtime.random.uuid_bytes(), node_id, runtime.clock.wall_micros(), replicated)


async def execute_ddl(
    statement: syntax.Statement, metadata: Metadata, context: DdlContext
) -> tuple[Result, int]:
    """The answer is a SchemaChange, or Void when the schema was as asked already (IF NOT EXISTS and such);
    and a revision in which it is so."""
    result: Result = Void()

    def propose(state: ClusterState) -> Any:
        nonlocal result
        decision = decide(statement, state, context)
        if decision is None:
            result = Void()
            return None
        result = decision.result
        return decision.proposal

    revision = await _committed(metadata, propose, "schema was not changed", "schema change was made")
    return result, revision


async def execute_truncate(keyspace: str, name: str, metadata: Metadata) -> int:
    """Returns a revision in which the table is truncated."""

    def propose(state: ClusterState) -> Proposal:
        return truncating(state, keyspace, name)

    return await _committed(metadata, propose, "table was not truncated", "table was truncated")


async def _committed(
    metadata: Metadata, propose: Callable[[ClusterState], Proposal | None], not_done: str, done: str
) -> int:
    try:
        return (await metadata.commit(propose)).revision
    except OutcomeUnknown as error:
        raise ServerError(f"It is not known whether the {done}: {error}") from error
    except StoreUnavailable as error:
        raise ServerError(f"The {not_done}: {error}") from error
