"""Belvedere inside a Python process: no socket, no second process, the same database.

    import belvedere
    with belvedere.open("data") as db:
        db.execute("CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        ...
        db.execute("SELECT * FROM shop.orders WHERE id = ?", [7]).to_pandas()

The database lives on an event loop in a thread of its own; every method may be called from any thread, and
the `…_async` forms from any event loop.
"""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from belvedere.model.types import InvalidValue
from belvedere.query.access import UNSET, BoundValue
from belvedere.query.database import Database, DatabaseOptions, PreparedStatement
from belvedere.query.errors import InvalidRequest
from belvedere.query.options import QueryOptions
from belvedere.query.results import Result, ResultColumn, Rows, SetKeyspace
from belvedere.runtime.background import BackgroundRuntime
from belvedere.server.node import Node
from belvedere.server.resultset import ResultSet

Parameters = Sequence[Any] | Mapping[str, Any]

_PAGE_SIZE = 5000


class Statement:
    """A prepared statement of one EmbeddedDatabase; call `execute` on the database with it."""

    __slots__ = ("prepared",)

    def __init__(self, prepared: PreparedStatement) -> None:
        self.prepared = prepared

    @property
    def bindings(self) -> tuple[ResultColumn, ...]:
        return self.prepared.plan.bindings


class EmbeddedDatabase:
    def __init__(self, path: str, options: DatabaseOptions | None = None) -> None:
        self._background = BackgroundRuntime(log_level="warning")
        try:
            self._node = self._background.call(
                Node.start(self._background.runtime, path, options or DatabaseOptions())
            )
        except BaseException:
            self._background.close()
            raise
        self._keyspace: str | None = None
        self._closed = False

    # --- statements ------------------------------------------------------------------------------------

    def execute(
        self,
        statement: str | Statement,
        parameters: Parameters = (),
        *,
        page_size: int = _PAGE_SIZE,
        timestamp: int | None = None,
    ) -> ResultSet:
        """Run one statement. Parameters are Python values, by place or by name; UNSET leaves a column alone."""
        options = QueryOptions(page_size=page_size, timestamp=timestamp)
        result = self._background.call(self._run(statement, parameters, options))
        return self._result_set(result, statement, parameters, options)

    async def execute_async(
        self,
        statement: str | Statement,
        parameters: Parameters = (),
        *,
        page_size: int = 0,
        timestamp: int | None = None,
    ) -> ResultSet:
        """The same from an event loop. All rows come at once unless a page size is given."""
        options = QueryOptions(page_size=page_size, timestamp=timestamp)
        result = await self._background.call_from_loop(self._run(statement, parameters, options))
        return self._result_set(result, statement, parameters, options)

    def prepare(self, text: str) -> Statement:
        return self._background.call(self._prepare(text))

    async def prepare_async(self, text: str) -> Statement:
        return await self._background.call_from_loop(self._prepare(text))

    # --- life ------------------------------------------------------------------------------------------

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            try:
                self._background.call(self._node.stop())
            finally:
                self._background.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- on the background loop ------------------------------------------------------------------------

    @property
    def _database(self) -> Database:
        return self._node.database

    async def _prepare(self, text: str) -> Statement:
        return Statement(self._database.prepare(text, self._keyspace))

    async def _run(self, statement: str | Statement, parameters: Parameters, options: QueryOptions) -> Result:
        database = self._database
        if isinstance(statement, str):
            plan = database.plan(statement, self._keyspace)
        else:
            plan = database.current(statement.prepared).plan
        options.values = bind(plan.bindings, parameters)
        result = await database.run(plan, options)
        if isinstance(result, SetKeyspace):
            self._keyspace = result.keyspace
        return result

    def _result_set(
        self, result: Result, statement: str | Statement, parameters: Parameters, options: QueryOptions
    ) -> ResultSet:
        def next_page(paging_state: bytes) -> Rows:
            further = QueryOptions(
                page_size=options.page_size, timestamp=options.timestamp, paging_state=paging_state
            )
            page = self._background.call(self._run(statement, parameters, further))
            assert isinstance(page, Rows)
            return page

        return ResultSet(result, next_page)


def bind(bindings: tuple[ResultColumn, ...], parameters: Parameters) -> list[BoundValue]:
    """Python values to wire values, in the order of the bind variables."""
    if isinstance(parameters, Mapping):
        missing = [column.name for column in bindings if column.name not in parameters]
        if missing:
            raise InvalidRequest(f"No value given for bind variable {missing[0]}")
        values: Sequence[Any] = [parameters[column.name] for column in bindings]
    else:
        values = parameters
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
