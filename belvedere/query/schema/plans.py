"""Plans of statements about the schema: DDL, USE, TRUNCATE, DESCRIBE, and what is refused by name."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from belvedere.cql import syntax
from belvedere.meta.metadata import Metadata
from belvedere.meta.state import ClusterState
from belvedere.model.schema import Table
from belvedere.query.access import Execution, Plan, SchemaBarrier, ViewKeeper
from belvedere.query.errors import InvalidRequest, Unauthorized
from belvedere.query.results import Result, ResultColumn, SchemaChange, SetKeyspace, Void
from belvedere.query.schema.change import execute_ddl, execute_truncate, is_ddl, new_context
from belvedere.query.schema.describe import DescribeContext, describe, describe_columns
from belvedere.query.schema.edits import DdlContext
from belvedere.query.schema.names import check_modifiable, keyspace_of
from belvedere.query.schema.truncate import to_truncate
from belvedere.query.schema.views import check_view_statement
from belvedere.query.schema_view import KeyspacesView
from belvedere.runtime.api import Runtime

Run = Callable[[], Awaitable[Result]]


class SchemaAccess(Protocol):
    async def align(self) -> None: ...
    async def truncate(self, table: Table) -> None: ...
    @property
    def keeper(self) -> ViewKeeper: ...


class HostOptions(Protocol):
    @property
    def cluster_name(self) -> str: ...
    @property
    def node(self) -> str | None: ...


class SchemaHost(Protocol):
    """What these plans need of the database that they run in."""

    @property
    def runtime(self) -> Runtime: ...
    @property
    def metadata(self) -> Metadata: ...
    @property
    def state(self) -> ClusterState: ...
    @property
    def access(self) -> SchemaAccess: ...
    @property
    def node_id(self) -> str: ...
    @property
    def options(self) -> HostOptions: ...
    @property
    def schema(self) -> KeyspacesView:
        """Users' and system keyspaces together."""

    @property
    def barrier(self) -> SchemaBarrier | None: ...
    def knows_more(self, unknown: InvalidRequest) -> Awaitable[bool] | None:
        """Whether what was not found may be there by the newest schema; None: no."""


@dataclass(frozen=True, slots=True)
class SchemaPlan:
    run: Run
    result_columns: tuple[ResultColumn, ...] = ()
    bindings: tuple[ResultColumn, ...] = ()
    partition_key_bindings: tuple[int, ...] = ()

    def execute(self, execution: Execution) -> Awaitable[Result]:
        return self.run()


def plan_schema_statement(
    statement: syntax.Statement, keyspace: str | None, database: SchemaHost
) -> Plan | None:
    """None if the statement is about data."""
    if is_ddl(statement):
        _check_keyspace_given(statement, keyspace)
        if isinstance(statement, syntax.CreateMaterializedView):
            check_view_statement(statement)
        return SchemaPlan(lambda: _change_schema(statement, keyspace, database))
    match statement:
        case syntax.Use(name):
            return SchemaPlan(lambda: _looked_up(lambda: _use(name, database), database))
        case syntax.Truncate():
            target = keyspace_of(statement.keyspace, keyspace)
            name = statement.table.name
            return SchemaPlan(lambda: _looked_up(lambda: _truncate(target, name, database), database))
        case syntax.Describe():
            return SchemaPlan(
                lambda: _looked_up(lambda: _describe(statement, keyspace, database), database),
                describe_columns(statement, keyspace),
            )
    refuse(statement)
    return None


def _check_keyspace_given(statement: syntax.Statement, current: str | None) -> None:
    """Only the name of the keyspace must be known to plan; all else is judged when the statement runs."""
    if not isinstance(statement, syntax.CreateKeyspace | syntax.AlterKeyspace | syntax.DropKeyspace):
        keyspace_of(getattr(statement, "keyspace", None), current)


async def _change_schema(statement: syntax.Statement, keyspace: str | None, database: SchemaHost) -> Result:
    result, revision = await execute_ddl(statement, database.metadata, _context(keyspace, database))
    if isinstance(result, SchemaChange):
        await database.access.align()
    await _known_to_all(revision, result, database)
    if isinstance(result, SchemaChange):
        if isinstance(statement, syntax.CreateMaterializedView):
            view = database.state.table(result.keyspace, result.name)
            # Somebody may have dropped it again meanwhile.
            if view is not None and view.view is not None:
                await database.access.keeper.created(view)
    return result


async def _known_to_all(revision: int, result: Result, database: SchemaHost) -> None:
    """Whichever node the client asks next, with what it has just been told: that one knows, too."""
    if database.barrier is not None:
        warning = await database.barrier.passed(revision)
        if warning is not None:
            result.warnings = (*result.warnings, warning)


async def _looked_up(run: Run, database: SchemaHost) -> Result:
    """For statements that look into the schema when they run, and do nothing if they do not find."""
    try:
        return await run()
    except InvalidRequest as error:
        more = database.knows_more(error)
        if more is None or not await more:
            raise
    return await run()


def _context(keyspace: str | None, database: SchemaHost) -> DdlContext:
    replicated = is_replicated(database.options)
    return new_context(keyspace, database.runtime, database.node_id, replicated=replicated)


def is_replicated(options: HostOptions) -> bool:
    """One that is alone has nobody to keep its tables for it."""
    return options.node is not None


async def _use(name: str, database: SchemaHost) -> Result:
    if name not in database.schema.keyspaces:
        raise InvalidRequest(f"Keyspace '{name}' does not exist")
    return SetKeyspace(keyspace=name)


async def _truncate(keyspace: str, name: str, database: SchemaHost) -> Result:
    check_modifiable(keyspace)
    if not is_replicated(database.options):
        await database.access.truncate(to_truncate(database.schema, keyspace, name))
        return Void()
    revision = await execute_truncate(keyspace, name, database.metadata)
    await database.access.align()
    result = Void()
    await _known_to_all(revision, result, database)
    return result


async def _describe(statement: syntax.Describe, current: str | None, database: SchemaHost) -> Result:
    context = DescribeContext(
        database.schema.keyspaces, database.state, database.options.cluster_name, current
    )
    return describe(statement, context)


def refuse(statement: syntax.Statement) -> None:
    """Raise for the families of statements that Belvedere knows but does not have."""
    match statement:
        case syntax.RoleStatement(verb):
            raise Unauthorized(f"{verb} is not supported: there are no roles, every client may do everything")
        case syntax.FunctionStatement(verb):
            raise InvalidRequest(f"{verb} is not supported")
        case syntax.CreateIndex() | syntax.DropIndex():
            raise InvalidRequest("Secondary indexes are not supported")
