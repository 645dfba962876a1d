"""A dumb DataAccess over dicts, and a session that runs CQL text against it without storage."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from belvedere.model.mutations import Mutation, RangeDeletion
from belvedere.model.rows import Deletion, Row, cut, merge_rows, newer_deletion, visible
from belvedere.model.schema import Column, ColumnKind, Keyspace, Table
from belvedere.model.types import CQLType, UserType, parse_type
from belvedere.query.access import UNSET, BoundValue, Execution, Plan
from belvedere.query.errors import SyntaxException
from belvedere.query.partition_locks import PartitionLocks
from belvedere.query.results import Result, Rows
from belvedere.query.schema_view import KeyspacesView
from belvedere.query.select.row_views import RowView, column_reader
from belvedere.storage.reads import PartitionRead, PartitionRows, RangeRead, ScanPage


@dataclass
class FakePartition:
    token: int
    key: bytes
    rows: dict[bytes, Row] = field(default_factory=dict)
    static: Row | None = None
    deletion: Deletion | None = None
    ranges: list[RangeDeletion] = field(default_factory=list)

    def apply(self, mutation: Mutation) -> None:
        self.deletion = newer_deletion(self.deletion, mutation.deletion)
        self.ranges.extend(mutation.ranges)
        if mutation.static is not None:
            self.static = mutation.static if self.static is None else merge_rows(self.static, mutation.static)
        for key, row in mutation.rows:
            self.rows[key] = merge_rows(self.rows[key], row) if key in self.rows else row

    def seen(self, key: bytes, row: Row, now: int) -> Row | None:
        left: Row | None = row
        for deletion in [self.deletion, *(r.deletion for r in self.ranges if r.start <= key < r.end)]:
            if left is not None and deletion is not None:
                left = cut(left, deletion)
        return None if left is None else visible(left, now)

    def seen_static(self, now: int) -> Row | None:
        left = self.static
        if left is not None and self.deletion is not None:
            left = cut(left, self.deletion)
        return None if left is None else visible(left, now)

    def read(
        self, slices: Sequence[Any], row: bytes | None, reverse: bool, limit: int, now: int
    ) -> PartitionRows:
        found = []
        for key in sorted(self.rows, reverse=reverse):
            if key == row if row is not None else any(s.holds(key) for s in slices):
                seen = self.seen(key, self.rows[key], now)
                if seen is not None:
                    found.append((key, seen))
        more = bool(limit) and len(found) >= limit
        return PartitionRows(
            self.token, self.key, self.seen_static(now), found[:limit] if limit else found, 0, more
        )


class FakeAccess:
    """Keeps everything; `log` is every batch of mutations in order."""

    def __init__(self) -> None:
        self.tables: dict[bytes, dict[bytes, FakePartition]] = {}
        self.log: list[list[tuple[Table, Mutation]]] = []
        #: Each partition that was ever held.
        self.locked: list[tuple[str, bytes]] = []
        self.locks = PartitionLocks()
        self.clock = 1_000_000_000_000_000
        #: Make the `_now` calls answer None, as a store that must wait does.
        self.busy = False

    def partition(self, table: Table, token: int, key: bytes) -> FakePartition:
        return self.tables.setdefault(table.id, {}).get(key) or FakePartition(token, key)

    def read_now(self, table: Table, read: PartitionRead, now: int) -> PartitionRows | None:
        if self.busy:
            return None
        partition = self.partition(table, read.token, read.key)
        answer = partition.read(read.slices, read.row, read.reverse, read.limit, now)
        answer.after = len(self.log)
        return answer

    async def read(self, table: Table, read: PartitionRead, now: int) -> PartitionRows:
        partition = self.partition(table, read.token, read.key)
        answer = partition.read(read.slices, read.row, read.reverse, read.limit, now)
        answer.after = len(self.log)
        return answer

    async def scan(self, table: Table, read: RangeRead, now: int) -> ScanPage:
        """One partition after the other until the limit is passed."""
        page = ScanPage(after=len(self.log))
        partitions = sorted(self.tables.get(table.id, {}).values(), key=lambda p: (p.token, p.key))
        seen = 0
        for partition in partitions:
            position = (partition.token, partition.key)
            if position < read.start or partition.token > read.end_token:
                continue
            if seen >= read.limit:
                page.next = position
                break
            first = position == read.start and read.first_slices is not None
            slices = read.first_slices if first and read.first_slices is not None else read.slices
            limit = min(filter(None, (read.partition_limit, read.limit - seen)), default=0)
            answer = partition.read(slices, None, read.reverse, limit, now)
            if read.partition_limit and len(answer.rows) >= read.partition_limit:
                answer.more = False
            if answer.rows or answer.static is not None:
                page.partitions.append(answer)
                seen += len(answer.rows)
            if answer.more:
                page.next = position
                break
        return page

    async def pause(self) -> None:
        await asyncio.sleep(0)

    def write_now(self, table: Table, mutation: Mutation) -> int | None:
        if self.busy or self.locks.is_held((table.id, mutation.key)):
            return None
        return self._apply([(table, mutation)])

    async def write(self, mutations: Sequence[tuple[Table, Mutation]]) -> int:
        async with self.locks.hold((table.id, mutation.key) for table, mutation in mutations):
            return self._apply(list(mutations))

    def _apply(self, mutations: list[tuple[Table, Mutation]]) -> int:
        for table, mutation in mutations:
            assert mutation.table == table.id
            partitions = self.tables.setdefault(table.id, {})
            partition = partitions.setdefault(mutation.key, FakePartition(mutation.token, mutation.key))
            partition.apply(mutation)
        self.log.append(mutations)
        return len(self.log)

    @asynccontextmanager
    async def lock(self, partitions: Sequence[tuple[Table, bytes]]) -> AsyncIterator["FakeLocked"]:
        self.locked.extend(dict.fromkeys((table.name, key) for table, key in partitions))
        async with self.locks.hold((table.id, key) for table, key in partitions):
            yield FakeLocked(self)

    async def durable(self, position: int) -> None:
        assert position <= len(self.log)

    def view_warnings(self, view: Table) -> tuple[str, ...]:
        return ()

    async def truncate(self, table: Table) -> None:
        self.tables.pop(table.id, None)

    def next_timestamp(self) -> int:
        self.clock += 1
        return self.clock


class FakeLocked:
    def __init__(self, access: FakeAccess) -> None:
        self.access = access

    async def read(self, table: Table, read: PartitionRead, now: int) -> PartitionRows:
        # Others get a chance to break in between the read and the write.
        await asyncio.sleep(0)
        found = await self.access.read(table, read, now)
        await asyncio.sleep(0)
        return found

    async def write(self, mutations: Sequence[tuple[Table, Mutation]]) -> int:
        return self.access._apply(list(mutations))


def make_type(
    keyspace: str, name: str, *fields: tuple[str, str], types: dict[str, UserType] | None = None
) -> UserType:
    return UserType(
        keyspace, name, [(field_name, parse_type(text, types or {})) for field_name, text in fields]
    )


def make_table(
    name: str, definition: str, *, types: dict[str, UserType] | None = None, **options: object
) -> Table:
    """`definition` is like "k int, c text, v list<int>, s int static, key (k, c desc)"."""
    body, _, key = definition.rpartition(", key ")
    inner = key.strip()[1:-1]
    partition, clustering = _split_key(inner)
    columns, ordinals = [], {ColumnKind.REGULAR: 0, ColumnKind.STATIC: 0}
    for part in _split(body):
        column_name, type_text = part.split(" ", 1)
        static = type_text.endswith(" static")
        column_type: CQLType = parse_type(type_text.removesuffix(" static"), types or {})
        if column_name in partition:
            kind, position = ColumnKind.PARTITION_KEY, partition.index(column_name)
        elif column_name in clustering:
            kind, position = ColumnKind.CLUSTERING, list(clustering).index(column_name)
        else:
            kind = ColumnKind.STATIC if static else ColumnKind.REGULAR
            position = ordinals[kind]
            ordinals[kind] += 1
        if kind in (ColumnKind.PARTITION_KEY, ColumnKind.CLUSTERING):
            column_type = column_type.frozen()
        columns.append(Column(column_name, column_type, kind, position, clustering.get(column_name, False)))
    return Table(
        id=name.encode().ljust(16, b"\0"),
        keyspace="ks",
        name=name,
        columns=tuple(columns),
        options=options,
        regular_ordinals=ordinals[ColumnKind.REGULAR],
        static_ordinals=ordinals[ColumnKind.STATIC],
    )


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [*parts, text[start:].strip()]


def _split_key(inner: str) -> tuple[list[str], dict[str, bool]]:
    first, *rest = _split(inner)
    partition = [name.strip() for name in first.strip("()").split(",")]
    return partition, {part.split()[0]: part.lower().endswith(" desc") for part in rest}


class Session:
    """Runs statements against tables made with make_table."""

    def __init__(self, *tables: Table, types: dict[str, UserType] | None = None) -> None:
        self.access = FakeAccess()
        self.keyspace = Keyspace("ks", {}, True, types or {}, {table.name: table for table in tables})
        self.schema = KeyspacesView({"ks": self.keyspace})
        self.now = 1_000_000_000
        self._random = 0

    def plan(self, text: str) -> Plan:
        from belvedere.cql.errors import CQLSyntaxError
        from belvedere.cql.parser import parse_statement
        from belvedere.query.statements import plan_statement

        try:
            statement = parse_statement(text)
        except CQLSyntaxError as error:
            raise SyntaxException(str(error)) from error
        return plan_statement(statement, self.schema, "ks")

    def execution(self, values: Sequence[BoundValue] = (), **options: Any) -> Execution:
        return Execution(self.access, values, self.now, random_bytes=self.random_bytes, **options)

    def random_bytes(self, count: int) -> bytes:
        self._random += 1
        return self._random.to_bytes(count, "big")

    def run_plan(self, plan: Plan, values: Sequence[BoundValue] = (), **options: Any) -> Result:
        answer = plan.execute(self.execution(values, **options))
        return answer if isinstance(answer, Result) else asyncio.run(_wait(answer))


async def _wait(answer: Any) -> Result:
    result: Result = await answer
    return result


def run(session: Session, text: str, values: Sequence[Any] = (), **options: Any) -> Result:
    """Plan and execute; Python values are encoded by the types of the bind variables."""
    plan = session.plan(text)
    assert len(plan.bindings) == len(values), f"{len(plan.bindings)} bind variables, {len(values)} values"
    wire = [
        value if value is None or value is UNSET else column.type.encode(value)
        for column, value in zip(plan.bindings, values, strict=True)
    ]
    return session.run_plan(plan, wire, **options)


def rows(session: Session, text: str, values: Sequence[Any] = (), **options: Any) -> list[tuple[Any, ...]]:
    """The rows of a statement as Python values."""
    result = run(session, text, values, **options)
    assert isinstance(result, Rows)
    return decoded(result)


def decoded(result: Rows) -> list[tuple[Any, ...]]:
    return [
        tuple(
            None if value is None else column.type.decode(value)
            for column, value in zip(result.columns, row, strict=True)
        )
        for row in result.rows
    ]


def contents(session: Session, name: str) -> list[dict[str, Any]]:
    """All rows of a table as Python values by column name, without nulls; no SELECT involved."""
    table = session.keyspace.tables[name]
    found = []
    for partition in asyncio.run(
        session.access.scan(table, RangeRead(limit=1_000_000), session.now)
    ).partitions:
        views = [
            RowView(table, partition.token, partition.key, partition.static, key, row)
            for key, row in partition.rows
        ]
        if not views:
            views = [RowView(table, partition.token, partition.key, partition.static, None, None)]
        for view in views:
            wire = {column: column_reader(column)(view) for column in table.columns}
            found.append({c.name: c.type.decode(value) for c, value in wire.items() if value is not None})
    return sorted(found, key=repr)
