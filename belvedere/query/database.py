"""One node's database: statements in, results out. No sockets; the server and the embedded API stand on it.

A statement is planned against one ClusterState. Prepared statements are planned again, lazily, after a
schema change, so that a plan never meets a table it was not made for.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self
from uuid import UUID

from belvedere.cql import syntax
from belvedere.cql.errors import CQLSyntaxError
from belvedere.cql.parser import parse_statement
from belvedere.meta import records
from belvedere.meta.metadata import Metadata, Proposal
from belvedere.meta.state import ClusterState
from belvedere.meta.store import Absent, Put, Unchanged
from belvedere.query.access import Admission, BoundValue, Execution, Plan, ViewKeeper
from belvedere.query.errors import SyntaxException, Unprepared
from belvedere.query.local_access import LocalAccess, tablets_of
from belvedere.query.modify.batch import plan_batch
from belvedere.query.options import QueryOptions
from belvedere.query.procedures import CallPlan, Procedure, Procedures, plan_call
from belvedere.query.results import Result, SchemaChange
from belvedere.query.schema.events import schema_changes
from belvedere.query.schema.plans import SchemaPlan, plan_schema_statement
from belvedere.query.schema_view import KeyspacesView
from belvedere.query.statements import plan_statement
from belvedere.query.system.local import host_id_of
from belvedere.query.system.node_status import node_facts, table_facts
from belvedere.query.system.tables import LocalNode, SystemSources, SystemTables
from belvedere.query.system.virtual import VirtualRow
from belvedere.runtime.api import Runtime
from belvedere.runtime.errors import DiskError
from belvedere.runtime.version import VERSION
from belvedere.storage.engine import EngineOptions, StorageEngine
from belvedere.storage.errors import StorageError

#: Prepared statements kept; the longest known go first, and their users prepare again.
_MAX_PREPARED = 10_000

BatchChild = tuple[str | bytes, Sequence[BoundValue]]


@dataclass(slots=True)
class DatabaseOptions:
    storage: EngineOptions = field(default_factory=EngineOptions)
    cluster_name: str = "belvedere"
    #: The node's name in its cluster; None for one that is alone, which has a UUID of its own.
    node: str | None = None
    datacenter: str = "datacenter1"
    rack: str = "rack1"


@dataclass(slots=True)
class PreparedStatement:
    id: bytes
    text: str
    keyspace: str | None
    plan: Plan
    #: Changes whenever the result's columns do, so that clients notice.
    result_metadata_id: bytes
    #: The schema that `plan` was made for.
    schema_version: int


class Database:
    def __init__(
        self,
        runtime: Runtime,
        node_id: str,
        metadata: Metadata,
        engine: StorageEngine,
        options: DatabaseOptions,
    ) -> None:
        self.runtime = runtime
        #: This node's UUID, as text.
        self.node_id = node_id
        self.metadata = metadata
        self.engine = engine
        self.options = options
        self.access = LocalAccess(runtime, metadata, engine, options.node)
        self.procedures = Procedures(runtime)
        self._prepared: OrderedDict[bytes, PreparedStatement] = OrderedDict()
        self._schema_version = 0
        self._schema_view: KeyspacesView | None = None
        self._schema_listeners: list[Callable[[SchemaChange], None]] = []
        self._admission: Admission | None = None
        local = LocalNode(
            host_id_of(node_id),
            options.cluster_name,
            datacenter=options.datacenter,
            rack=options.rack,
            node_id=node_id,
        )
        self._system = SystemTables(
            SystemSources(
                local,
                lambda: self.state,
                status=lambda: node_facts(node_id, self.state, engine, len(self._prepared)),
                table_status=lambda: table_facts(self.state, engine),
                procedures=self.procedures.rows,
            )
        )

    @classmethod
    async def open(
        cls, runtime: Runtime, directory: str, metadata: Metadata, options: DatabaseOptions
    ) -> Self:
        state = metadata.state
        engine = await StorageEngine.open(
            runtime, directory, state.tables_by_id, tablets_of(state, options.node), options.storage
        )
        try:
            node_id = options.node or await _node_id(runtime, directory)
            database = cls(runtime, node_id, metadata, engine, options)
            await database.access.align()
        except BaseException:
            await engine.close()
            raise
        metadata.listen(database._on_state)
        return database

    async def close(self) -> None:
        """Flush, so that the next start has nothing to replay and the files hold everything."""
        await self.procedures.stop()
        await self.access.close()
        try:
            await self.engine.flush()
        except (DiskError, StorageError) as error:
            # The commit log has it all: the next start replays it.
            self.runtime.log("warning", "database.flush_at_close_failed", error=str(error))
        await self.engine.close()

    # --- what the outside may look at ----------------------------------------------------------------

    @property
    def state(self) -> ClusterState:
        return self.metadata.state

    @property
    def durable_position(self) -> int:
        return self.engine.durable_position

    def on_durable(self, position: int, callback: Callable[[BaseException | None], None]) -> None:
        """Call back once everything up to a log position is durable, in the order of registration."""
        self.engine.on_durable(position, callback)

    @property
    def schema(self) -> KeyspacesView:
        """Users' and system keyspaces together."""
        if self._schema_view is None:
            self._schema_view = KeyspacesView(self._system.with_users(self.state.keyspaces))
        return self._schema_view

    def on_schema_change(self, listener: Callable[[SchemaChange], None]) -> None:
        self._schema_listeners.append(listener)

    async def announce(self, host: str, port: int) -> None:
        """Let the cluster know where this node answers CQL."""
        record = records.encode(records.NodeRecord(host, port, version=VERSION))
        key = records.node_key(self.node_id)

        def propose(state: ClusterState) -> Proposal | None:
            known = state.entries.get(key)
            if known is not None and known.value == record:
                return None
            held = Absent(key) if known is None else Unchanged(key, known.revision)
            return (held,), (Put(key, record),)

        await self.metadata.commit(propose)
        self.answers_at(host, port)

    def answers_at(self, host: str, port: int) -> None:
        """Where clients reach this node."""
        sources = self._system.sources
        sources.local = replace(sources.local, host=host, port=port)

    def admit_by(self, admission: Admission) -> None:
        """Read and write only while this allows it, and tell it what is in flight."""
        self._admission = self.access.admission = admission

    def show_server(
        self,
        clients: Callable[[], Iterable[VirtualRow]],
        settings: Callable[[], Iterable[tuple[str, str]]],
    ) -> None:
        """What the protocol server tells of itself in system_views.clients and system_views.settings."""
        self._system.sources.clients = clients
        self._system.sources.settings = settings

    def keep_views(self, keeper: ViewKeeper, status: Callable[[], Iterable[VirtualRow]]) -> None:
        """Who looks after materialized views from now on, and the rows of system_views.view_builds."""
        self.access.keeper = keeper
        self._system.sources.view_builds = status

    def offer(self, procedure: Procedure) -> None:
        """Let clients CALL it from now on."""
        self.procedures.add(procedure)

    # --- planning --------------------------------------------------------------------------------------

    def plan(self, text: str, keyspace: str | None) -> Plan:
        try:
            statement = parse_statement(text)
        except CQLSyntaxError as error:
            raise SyntaxException(str(error)) from error
        return self._plan(statement, keyspace)

    def prepare(self, text: str, keyspace: str | None) -> PreparedStatement:
        statement_id = hashlib.md5(f"{keyspace or ''}\0{text}".encode(), usedforsecurity=False).digest()
        known = self._prepared.get(statement_id)
        if known is not None:
            return self.current(known)
        plan = self.plan(text, keyspace)
        prepared = PreparedStatement(
            statement_id, text, keyspace, plan, _metadata_id(plan), self._schema_version
        )
        self._prepared[statement_id] = prepared
        if len(self._prepared) > _MAX_PREPARED:
            self._prepared.popitem(last=False)
        return prepared

    def prepared(self, statement_id: bytes) -> PreparedStatement | None:
        found = self._prepared.get(statement_id)
        return None if found is None else self.current(found)

    def current(self, prepared: PreparedStatement) -> PreparedStatement:
        """The same statement, planned for the schema of now."""
        if prepared.schema_version != self._schema_version:
            prepared.plan = self.plan(prepared.text, prepared.keyspace)
            prepared.result_metadata_id = _metadata_id(prepared.plan)
            prepared.schema_version = self._schema_version
        return prepared

    # --- running ---------------------------------------------------------------------------------------

    def execute(self, prepared: PreparedStatement, options: QueryOptions) -> Result | Awaitable[Result]:
        """Answers at once when everything needed is in memory. `result.after` still has to become durable."""
        plan = self.current(prepared).plan
        result = plan.execute(self._execution(options))
        # What is answered within this step is never in flight when somebody looks.
        if self._admission is None or isinstance(result, Result):
            return result
        return self._counted(plan, result)

    async def query(self, text: str, keyspace: str | None, options: QueryOptions) -> Result:
        plan = self.plan(text, options.keyspace or keyspace)
        options.values = options.values_for(plan.bindings)
        return await self._finished(plan, plan.execute(self._execution(options)))

    async def batch(
        self,
        kind: syntax.BatchKind,
        children: Sequence[BatchChild],
        keyspace: str | None,
        options: QueryOptions,
    ) -> Result:
        planned = [
            (self._child_plan(statement, options.keyspace or keyspace), values)
            for statement, values in children
        ]
        plan = plan_batch(planned, kind)
        return await self._finished(plan, plan.execute(self._execution(options)))

    async def run(self, plan: Plan, options: QueryOptions) -> Result:
        """Execute and wait until the result may be told to a client."""
        result = await self._finished(plan, plan.execute(self._execution(options)))
        await self.access.durable(result.after)
        return result

    def _child_plan(self, statement: str | bytes, keyspace: str | None) -> Plan:
        if isinstance(statement, str):
            return self.plan(statement, keyspace)
        prepared = self.prepared(statement)
        if prepared is None:
            raise Unprepared(statement)
        return prepared.plan

    def _execution(self, options: QueryOptions) -> Execution:
        now = options.now_seconds
        return Execution(
            self.access,
            options.values,
            self.runtime.clock.wall_micros() // 1_000_000 if now is None else now,
            options.timestamp,
            options.consistency,
            options.serial_consistency,
            options.page_size,
            options.paging_state,
            self.runtime.random.bytes,
        )

    async def _finished(self, plan: Plan, result: Result | Awaitable[Result]) -> Result:
        if isinstance(result, Result):
            return result
        return await (result if self._admission is None else self._counted(plan, result))

    def _counted(self, plan: Plan, work: Awaitable[Result]) -> Awaitable[Result]:
        """As an operation in flight, from now on. Not what changes the schema or is called by name: that may
        itself wait until nothing older is in flight."""
        admission = self._admission
        if admission is None or isinstance(plan, SchemaPlan | CallPlan):
            return work
        revision = self.state.revision
        admission.begin(revision)

        async def counted() -> Result:
            try:
                return await work
            finally:
                admission.end(revision)

        return counted()

    def _plan(self, statement: syntax.Statement, keyspace: str | None) -> Plan:
        if isinstance(statement, syntax.Call):
            return plan_call(statement, self.procedures, self.schema, keyspace)
        plan = plan_schema_statement(statement, keyspace, self)
        return plan if plan is not None else plan_statement(statement, self.schema, keyspace)

    def _on_state(self, before: ClusterState, after: ClusterState) -> None:
        self.access.follow()
        changes = schema_changes(before, after)
        if changes:
            self._schema_version += 1
            self._schema_view = None
            for change in changes:
                for listener in self._schema_listeners:
                    listener(change)


def _metadata_id(plan: Plan) -> bytes:
    described = hashlib.md5(usedforsecurity=False)
    for column in plan.result_columns:
        described.update(f"{column.keyspace}\0{column.table}\0{column.name}\0".encode())
        # Not the type's name: a user type keeps its name when it gets another field.
        described.update(column.type.encode_option())
    return described.digest()


async def _node_id(runtime: Runtime, directory: str) -> str:
    """Made at the first start, kept for good."""
    path = f"{directory}/node_id"
    if await runtime.disk.exists(path):
        return (await runtime.disk.read(path)).decode()
    node_id = str(UUID(bytes=runtime.random.uuid_bytes()))
    await runtime.disk.write(f"{path}.new", node_id.encode())
    await runtime.disk.rename(f"{path}.new", path)
    await runtime.disk.sync_directory(directory)
    return node_id
