"""Belvedere inside a Python process: no socket, no second process, the same database.

The database lives on an event loop in a thread of its own; every method may be called from any thread, and
the `…_async` forms from any event loop.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from os import PathLike, fspath
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from belvedere.model.types import InvalidValue
from belvedere.query.access import UNSET, BoundValue, Plan
from belvedere.query.database import Database, DatabaseOptions, PreparedStatement
from belvedere.query.errors import InvalidRequest
from belvedere.query.modify.batch import plan_batch
from belvedere.query.options import QueryOptions
from belvedere.query.results import Result, ResultColumn, Rows, SetKeyspace
from belvedere.runtime.background import BackgroundRuntime
from belvedere.server.node import Node
from belvedere.server.resultset import Pages, ResultSet
from belvedere.server.settings import PipelineSettings
from belvedere.storage.commitlog import SyncPolicy
from belvedere.storage.engine import EngineOptions

T = TypeVar("T")

#: Values of bind variables: in their order, or by name. UNSET leaves a column as it is, None deletes it.
Parameters = Sequence[Any] | Mapping[str, Any]
Fsync = Literal["group", "periodic", "none"]
BatchKind = Literal["LOGGED", "UNLOGGED", "COUNTER"]

_PAGE_SIZE = 5000


class DatabaseClosed(Exception):
    """The database was closed before, or while, it was asked."""


class Statement:
    """A prepared statement. Give it to `execute` in place of text; it outlives changes of the schema."""

    __slots__ = ("_prepared",)

    def __init__(self, prepared: PreparedStatement) -> None:
        self._prepared = prepared

    @property
    def text(self) -> str:
        return self._prepared.text

    @property
    def bindings(self) -> tuple[ResultColumn, ...]:
        """The bind variables with their names and types."""
        return self._prepared.plan.bindings

    def __repr__(self) -> str:
        return f"<Statement {self.text!r}>"


class EmbeddedDatabase:
    """An open database; made by `belvedere.open`."""

    def __init__(
        self,
        path: str | PathLike[str],
        options: DatabaseOptions | None = None,
        keyspace: str | None = None,
        pipeline: PipelineSettings | None = None,
    ) -> None:
        self._prepare_to_open(path)
        try:
            self._node = self._background.call(self._start(options, keyspace, pipeline))
        except BaseException:
            self._background.close()
            raise

    @classmethod
    async def open_async(
        cls,
        path: str | PathLike[str],
        options: DatabaseOptions | None = None,
        keyspace: str | None = None,
        pipeline: PipelineSettings | None = None,
    ) -> Self:
        database = cls.__new__(cls)
        database._prepare_to_open(path)
        try:
            starting = database._start(options, keyspace, pipeline)
            database._node = await database._background.call_from_loop(starting)
        except BaseException:
            database._background.close()
            raise
        return database

    def _prepare_to_open(self, path: str | PathLike[str]) -> None:
        self._path = fspath(path)
        if not isinstance(self._path, str) or not self._path:
            raise ValueError(f"the path of a database must be a non-empty string, not {path!r}")
        self._keyspace: str | None = None
        self._closed = False
        #: Calls on the background loop, and what tells `close` that the last one is done.
        self._running = 0
        self._idle: asyncio.Event | None = None
        self._background = BackgroundRuntime(log_level="warning")

    async def _start(
        self, options: DatabaseOptions | None, keyspace: str | None, pipeline: PipelineSettings | None
    ) -> Node:
        node = await Node.start(self._background.runtime, self._path, options, pipeline)
        if keyspace is not None:
            if keyspace not in node.database.schema.keyspaces:
                await node.stop()
                raise InvalidRequest(f"Keyspace '{keyspace}' does not exist")
            self._keyspace = keyspace
        return node

    # --- statements ------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        return self._path

    @property
    def keyspace(self) -> str | None:
        """Where names without a keyspace are looked up; USE changes it for all users of this object."""
        return self._keyspace

    def execute(
        self,
        statement: str | Statement,
        parameters: Parameters = (),
        *,
        page_size: int = _PAGE_SIZE,
        timestamp: int | None = None,
    ) -> ResultSet:
        """Run one statement, return its rows.

        `parameters` are values for `?` (in order) or `:name` (a mapping). Of a SELECT, `page_size` rows are
        read at a time as the result is iterated, 0 for all at once. `timestamp` is the write time in µs.
        A write is as durable as the database's fsync setting says when this returns.
        """
        options = QueryOptions(page_size=page_size, timestamp=timestamp)
        result = self._call(self._run(statement, parameters, options))
        return self._result_set(result, statement, parameters, options)

    async def execute_async(
        self,
        statement: str | Statement,
        parameters: Parameters = (),
        *,
        page_size: int = _PAGE_SIZE,
        timestamp: int | None = None,
    ) -> ResultSet:
        """The same from an event loop: read rows with `async for`, `one_async`, `all_async`."""
        options = QueryOptions(page_size=page_size, timestamp=timestamp)
        result = await self._call_async(self._run(statement, parameters, options))
        return self._result_set(result, statement, parameters, options)

    def execute_batch(
        self,
        statements: Iterable[str | Statement | tuple[str | Statement, Parameters]],
        *,
        kind: BatchKind = "LOGGED",
        timestamp: int | None = None,
    ) -> ResultSet:
        """Run INSERTs, UPDATEs and DELETEs as one BATCH: all or none, with one write time.

        Each is a statement or a pair of a statement and its parameters.
        """
        work = self._run_batch(statements, kind, QueryOptions(timestamp=timestamp))
        return ResultSet(self._call(work))

    async def execute_batch_async(
        self,
        statements: Iterable[str | Statement | tuple[str | Statement, Parameters]],
        *,
        kind: BatchKind = "LOGGED",
        timestamp: int | None = None,
    ) -> ResultSet:
        """`execute_batch` from an event loop."""
        work = self._run_batch(statements, kind, QueryOptions(timestamp=timestamp))
        return ResultSet(await self._call_async(work))

    def prepare(self, text: str) -> Statement:
        """Parse and plan once what is executed often."""
        return self._call(self._prepare(text))

    async def prepare_async(self, text: str) -> Statement:
        """`prepare` from an event loop."""
        return await self._call_async(self._prepare(text))

    # --- life ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Finish what runs, write what is in memory to files, give the directory free. Twice does nothing."""
        if not self._closed:
            self._closed = True
            try:
                self._background.call(self._stop())
            finally:
                self._background.close()

    async def close_async(self) -> None:
        """`close` from an event loop."""
        if not self._closed:
            self._closed = True
            try:
                await self._background.call_from_loop(self._stop())
            finally:
                self._background.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close_async()

    def __repr__(self) -> str:
        return f"<EmbeddedDatabase {self._path!r}{', closed' if self._closed else ''}>"

    # --- on the background loop ------------------------------------------------------------------------

    @property
    def _database(self) -> Database:
        return self._node.database

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        self._check_open(work)
        return self._background.call(self._counted(work))

    async def _call_async(self, work: Coroutine[Any, Any, T]) -> T:
        self._check_open(work)
        return await self._background.call_from_loop(self._counted(work))

    def _check_open(self, work: Coroutine[Any, Any, Any]) -> None:
        if self._closed:
            work.close()
            raise self._closed_error()

    def _closed_error(self) -> DatabaseClosed:
        return DatabaseClosed(f"the database {self._path} is closed")

    async def _counted(self, work: Coroutine[Any, Any, T]) -> T:
        if self._idle is not None:  # another thread's close() came first
            work.close()
            raise self._closed_error()
        self._running += 1
        try:
            return await work
        finally:
            self._end_call()

    def _end_call(self) -> None:
        self._running -= 1
        if self._idle is not None and self._running == 0:
            self._idle.set()

    async def _stop(self) -> None:
        self._idle = asyncio.Event()
        if self._running:
            await self._idle.wait()
        await self._node.stop()

    async def _prepare(self, text: str) -> Statement:
        return Statement(self._database.prepare(text, self._keyspace))

    def _plan(self, statement: str | Statement) -> Plan:
        if isinstance(statement, Statement):
            return self._database.current(statement._prepared).plan
        if isinstance(statement, str):
            return self._database.plan(statement, self._keyspace)
        raise TypeError(f"a statement is text or what prepare() returned, not {type(statement).__name__}")

    async def _run(self, statement: str | Statement, parameters: Parameters, options: QueryOptions) -> Result:
        plan = self._plan(statement)
        options.values = bind(plan.bindings, parameters)
        result = await self._database.run(plan, options)
        if isinstance(result, SetKeyspace):
            self._keyspace = result.keyspace
        return result

    async def _run_batch(
        self,
        statements: Iterable[str | Statement | tuple[str | Statement, Parameters]],
        kind: BatchKind,
        options: QueryOptions,
    ) -> Result:
        if kind not in ("LOGGED", "UNLOGGED", "COUNTER"):
            raise ValueError(f"a batch is LOGGED, UNLOGGED or COUNTER, not {kind!r}")
        children = []
        for item in statements:
            statement, parameters = item if isinstance(item, tuple) else (item, ())
            plan = self._plan(statement)
            children.append((plan, bind(plan.bindings, parameters)))
        return await self._database.run(plan_batch(children, kind), options)

    def _result_set(
        self, result: Result, statement: str | Statement, parameters: Parameters, options: QueryOptions
    ) -> ResultSet:
        if not isinstance(result, Rows) or result.paging_state is None:
            return ResultSet(result)

        async def page(paging_state: bytes) -> Rows:
            further = QueryOptions(
                page_size=options.page_size, timestamp=options.timestamp, paging_state=paging_state
            )
            rows = await self._run(statement, parameters, further)
            assert isinstance(rows, Rows)
            return rows

        pages = Pages(lambda state: self._call(page(state)), lambda state: self._call_async(page(state)))
        return ResultSet(result, pages)


def embedded_options(fsync: Fsync, memtable_mb: int, cache_mb: int) -> DatabaseOptions:
    """What `belvedere.open` was told, checked."""
    try:
        policy = SyncPolicy(fsync)
    except ValueError:
        raise ValueError(f"fsync is 'group', 'periodic' or 'none', not {fsync!r}") from None
    if memtable_mb < 1 or cache_mb < 0:
        raise ValueError("memtable_mb must be at least 1, and cache_mb not negative")
    return DatabaseOptions(
        EngineOptions(policy, memtable_bytes=memtable_mb << 20, cache_bytes=cache_mb << 20)
    )


def bind(bindings: tuple[ResultColumn, ...], parameters: Parameters) -> list[BoundValue]:
    """Python values to wire values, in the order of the bind variables."""
    if isinstance(parameters, Mapping):
        missing = [column.name for column in bindings if column.name not in parameters]
        if missing:
            raise InvalidRequest(f"No value given for bind variable {missing[0]}")
        values: Sequence[Any] = [parameters[column.name] for column in bindings]
    elif isinstance(parameters, Sequence) and not isinstance(parameters, str | bytes | bytearray):
        values = parameters
    else:
        # Above all a lone value: execute(query, "abc") must not bind "a", "b" and "c".
        raise TypeError(f"parameters are a list, a tuple or a mapping, not {type(parameters).__name__}")
    if len(values) != len(bindings):
        raise InvalidRequest(
            f"Invalid amount of bind variables: {len(values)} given, {len(bindings)} expected"
        )
    return [_encoded(column, value) for column, value in zip(bindings, values, strict=True)]


def _encoded(column: ResultColumn, value: Any) -> BoundValue:
    if value is None or value is UNSET:
        return value
    try:
        return column.type.encode(value)
    except (InvalidValue, TypeError, ValueError, OverflowError) as error:
        raise InvalidRequest(f"Invalid value for {column.name} ({column.type.name}): {error}") from error
