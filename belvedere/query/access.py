"""The query floor's way to rows, on one node or (later) many, and how a statement is run.

Calls come in pairs: the `_now` form answers at once when everything needed is in memory and returns None
when it must wait (disk, a locked partition, backpressure); the async form always answers. Hot statements try
the first and fall back to the second.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from enum import Enum
from typing import Protocol

import msgspec

from belvedere.model.mutations import Mutation, ViewUpdate
from belvedere.model.schema import Table
from belvedere.query.results import Result, ResultColumn
from belvedere.storage.reads import PartitionRead, PartitionRows, RangeRead, ScanPage
from belvedere.storage.tablet_changes import RowChange


class Unset(Enum):
    """A bind variable that the client left unset: the column is not touched."""

    UNSET = "unset"


UNSET = Unset.UNSET
BoundValue = bytes | None | Unset


class LockedPartitions(Protocol):
    """Partitions held for read-modify-write: no other write to them is ordered in between."""

    async def read(self, table: Table, read: PartitionRead, now: int) -> PartitionRows: ...
    async def write(self, mutations: Sequence[tuple[Table, Mutation]]) -> int: ...


class ViewMakers(Protocol):
    """Knows what becomes of a table's views when one of its rows changes."""

    def __len__(self) -> int:
        """How many views there are."""

    def updates(self, token: int, key: bytes, change: RowChange, version: int) -> list[ViewUpdate]: ...


class ViewKeeper(Protocol):
    """Whoever looks after materialized views, as far as writing and reading must know of them."""

    def makers(self, table: Table) -> ViewMakers:
        """For the views that the table has now; the same object as long as nothing changes."""

    def is_synchronous(self, table: Table) -> bool:
        """Whether a write is to be answered only when it is in the views, if these come behind it."""

    def warnings(self, view: Table) -> tuple[str, ...]:
        """For whoever reads the view; raises InvalidRequest if that is not allowed yet."""

    async def created(self, view: Table) -> None:
        """A view was made: return when its client may go on."""

    async def truncate(self, base: Table, truncate: Callable[[], Awaitable[None]]) -> None:
        """Empty a table that has views, and them."""


class Admission(Protocol):
    """Whether this node may serve, and what is in flight: `cluster.operations.Operations`. A node that is
    alone has none."""

    def check(self) -> None:
        """Raises Fenced."""

    def begin(self, revision: int) -> None: ...
    def end(self, revision: int) -> None: ...


class SchemaBarrier(Protocol):
    """How a node makes sure that the others know of a change before its client does. A node that is alone
    has none."""

    async def passed(self, revision: int) -> str | None:
        """Return when no node goes by older metadata, or after a while: with what to tell the client."""


class DataAccess(Protocol):
    def read_now(self, table: Table, read: PartitionRead, now: int) -> PartitionRows | None: ...
    async def read(self, table: Table, read: PartitionRead, now: int) -> PartitionRows: ...
    async def scan(self, table: Table, read: RangeRead, now: int) -> ScanPage: ...
    async def pause(self) -> None:
        """Let others run, in between the parts of something long that may not wait for anything else."""

    def write_now(self, table: Table, mutation: Mutation) -> int | None:
        """Order and log one mutation; returns the log position to wait for, None if that must wait."""

    async def write(self, mutations: Sequence[tuple[Table, Mutation]]) -> int:
        """Order and log mutations, at most one for each partition, that survive a crash all or none."""

    def lock(
        self, partitions: Sequence[tuple[Table, bytes]]
    ) -> AbstractAsyncContextManager[LockedPartitions]:
        """Hold the partitions with these keys (in an order that cannot deadlock) for read-modify-write."""

    async def durable(self, position: int) -> None: ...
    async def truncate(self, table: Table) -> None: ...
    def view_warnings(self, view: Table) -> tuple[str, ...]:
        """For whoever reads a view; raises InvalidRequest if it may not be read yet."""

    def next_timestamp(self) -> int:
        """A write timestamp in µs, unique and increasing on this node."""


class Execution(msgspec.Struct, gc=False):
    """One run of a planned statement: the values and options the client sent."""

    access: DataAccess
    values: Sequence[BoundValue] = ()
    #: Seconds; what TTLs and expiries are judged by.
    now: int = 0
    #: The client's default write timestamp in µs, None to let the server choose.
    timestamp: int | None = None
    consistency: int = 1
    serial_consistency: int = 8
    #: Rows per page; 0 means all at once.
    page_size: int = 0
    paging_state: bytes | None = None
    #: For functions such as uuid(); each call takes fresh ones from the runtime.
    random_bytes: "RandomBytes" = None  # type: ignore[assignment]


class RandomBytes(Protocol):
    def __call__(self, count: int) -> bytes: ...


class Plan(Protocol):
    """A statement checked against one schema snapshot, ready to run many times."""

    @property
    def bindings(self) -> tuple[ResultColumn, ...]: ...

    @property
    def partition_key_bindings(self) -> tuple[int, ...]:
        """Which bind variables make up the partition key, in key order; () if not all are bound."""

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """() for statements that answer without rows, or whose columns depend on the outcome."""

    def execute(self, execution: Execution) -> Result | Awaitable[Result]: ...
