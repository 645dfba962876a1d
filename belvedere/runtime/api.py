"""What product code may know of the world.

Everything outside `runtime/` reaches time, disks, sockets, randomness and threads through one `Runtime`
object per node incarnation. The real side is `runtime.real`, the simulated one lives in `belvedere.sim`;
one contract suite runs both. Protocol steps stay synchronous between awaits, so that a simulated schedule
interleaves at the same points as a real one.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    def wall_micros(self) -> int:
        """Microseconds since the epoch; may jump. For default write timestamps only, never for leases."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary, large origin; never goes back. For timeouts and leases."""

    async def sleep(self, seconds: float) -> None: ...


class Random(Protocol):
    def random(self) -> float: ...
    def randint(self, low: int, high: int) -> int:
        """Both ends included."""

    def bytes(self, count: int) -> bytes: ...
    def uuid_bytes(self) -> bytes:
        """Sixteen bytes of a version 4 UUID."""


class AppendFile(Protocol):
    """A file written at its end by one writer. `write` may be torn by a crash until `sync` returns."""

    @property
    def path(self) -> str: ...
    async def write(self, data: bytes) -> None: ...
    async def write_and_sync(self, data: bytes) -> None:
        """One round trip for the commit log: append, then make durable (fdatasync)."""

    async def sync(self) -> None: ...
    async def close(self) -> None: ...


class Disk(Protocol):
    """Paths are plain strings with '/' separators. Failures raise `runtime.errors.DiskError` kinds."""

    async def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes: ...
    async def write(self, path: str, data: bytes) -> None:
        """Create or replace a file and make its content durable. Not atomic: write aside, then `rename`."""

    async def append(self, path: str, *, preallocate: int = 0) -> AppendFile:
        """Open for appending; a new file gets `preallocate` bytes reserved, so that later writes cannot hit
        a full disk (raises DiskFull here instead). Preallocated bytes read back as zeros."""

    async def rename(self, source: str, target: str) -> None:
        """Atomic replace; durable after `sync_directory` of the target's directory."""

    async def link(self, source: str, target: str) -> None:
        """Hard link."""

    async def remove(self, path: str) -> None: ...
    async def remove_tree(self, path: str) -> None: ...
    async def make_directory(self, path: str) -> None:
        """With parents; fine if it exists."""

    async def sync_directory(self, path: str) -> None: ...
    async def list(self, path: str) -> list[str]:
        """Sorted names; empty if the directory does not exist."""

    async def size(self, path: str) -> int: ...
    async def exists(self, path: str) -> bool: ...
    async def lock(self, path: str) -> "Lock":
        """Exclusive advisory lock held until released or the process dies; raises AlreadyLocked."""


class Lock(Protocol):
    async def release(self) -> None: ...


class Connection(Protocol):
    """One side of a byte stream, push style: data arrives at the handler without an await per chunk."""

    @property
    def peer(self) -> str: ...
    def send(self, data: bytes) -> None:
        """Queue bytes; never blocks. Watch `pending` (bytes not yet given to the network)."""

    @property
    def pending(self) -> int: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None:
        """Flush what was sent, then close."""

    def abort(self) -> None: ...


class ConnectionHandler(Protocol):
    def on_open(self, connection: Connection) -> None: ...
    def on_data(self, data: bytes) -> None: ...
    def on_drained(self) -> None:
        """`pending` has fallen low enough again after it went over the transport's high-water mark."""

    def on_close(self, error: Exception | None) -> None:
        """Called once; error is None when the peer closed in order."""


class Listener(Protocol):
    @property
    def address(self) -> tuple[str, int]: ...
    async def close(self) -> None:
        """Stop accepting; open connections stay open."""


class Network(Protocol):
    async def listen(
        self, host: str, port: int, make_handler: Callable[[], ConnectionHandler]
    ) -> Listener: ...
    async def connect(self, host: str, port: int, handler: ConnectionHandler) -> Connection: ...


class TaskHandle(Protocol):
    def cancel(self) -> None: ...
    def done(self) -> bool: ...
    async def wait(self) -> None:
        """Wait until finished; re-raises its failure, returns on cancellation."""


class Runtime(Protocol):
    @property
    def clock(self) -> Clock: ...
    @property
    def random(self) -> Random: ...
    @property
    def disk(self) -> Disk: ...
    @property
    def network(self) -> Network: ...

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> TaskHandle:
        """Start a background task. A failure nobody waits for is reported through `log`."""

    def call_soon(self, callback: Callable[[], None]) -> None: ...
    def call_later(self, seconds: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Returns a function that cancels the call."""

    async def compute(self, work: Callable[[], T]) -> T:
        """Run CPU-heavy pure work off the event loop (a thread; inline with virtual cost in simulation)."""

    def log(self, level: str, event: str, **fields: object) -> None:
        """One structured line. Levels: debug, info, warning, error."""

    def buggify(self, name: str) -> Awaitable[None] | None:
        """A named point where simulation may delay: `if (pause := rt.buggify("flush.manifest")): await pause`.
        Always None in production."""

    def sometimes(self, name: str, condition: bool = True) -> None:
        """Mark that an interesting state was reached; simulation counts, production ignores."""
