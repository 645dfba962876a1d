"""What product code may know of the world.

Everything outside `runtime/` reaches time, disks, sockets, randomness and threads through one `Runtime`
object per node incarnation. The real side is `runtime.real`, the simulated one lives in `belvedere.sim`;
one contract suite runs both. Protocol steps stay synchronous between awaits, so that a simulated schedule
interleaves at the same points as a real one.
"""

import builtins
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
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

    def bytes(self, count: int) -> builtins.bytes: ...
    def uuid_bytes(self) -> builtins.bytes:
        """Sixteen bytes of a version 4 UUID."""


class AppendFile(Protocol):
    """A file written at its end by one writer. `write` may be torn by a crash until `sync` returns.

    Operations happen one after the other in the order in which they were called, awaited or not; each write
    goes where the last successful one ended. After a failed write the end is back where that write began,
    though part of its bytes may be in the file. After a failed sync the file refuses everything with
    DiskBroken: what the disk dropped cannot be known, and a later sync that succeeds would not say anything
    about it.
    """

    @property
    def path(self) -> str: ...
    @property
    def position(self) -> int:
        """Where the next write goes, if those under way succeed."""

    async def write(self, data: bytes) -> None: ...
    async def write_and_sync(self, data: bytes) -> None:
        """One round trip for the commit log: append, then make durable (fdatasync)."""

    async def sync(self) -> None: ...
    async def close(self) -> None: ...


class Disk(Protocol):
    """Paths are plain strings with '/' separators. Failures raise `runtime.errors.DiskError` kinds.

    A new or removed name (file created, linked, renamed, removed) is durable only after `sync_directory`
    of its directory. Cancelling an `await` does not stop the operation: it still happens.
    """

    async def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Fewer bytes than asked for only at the end of the file."""

    async def write(self, path: str, data: bytes) -> None:
        """Create or replace a file and make its content durable. Not atomic: write aside, then `rename`."""

    async def append(self, path: str, *, preallocate: int = 0, position: int | None = None) -> AppendFile:
        """Open for appending, creating the file if needed, and make sure that `preallocate` bytes from its
        start are reserved, so that later writes there cannot hit a full disk (raises DiskFull here
        instead). Preallocated bytes read back as zeros and count in `size`. Writing starts at `position`;
        None means the end the file had before anything was reserved."""

    async def rename(self, source: str, target: str) -> None:
        """Atomic replace; durable after `sync_directory` of the target's directory."""

    async def link(self, source: str, target: str) -> None:
        """Hard link; raises FileExists when the target exists."""

    async def remove(self, path: str) -> None: ...
    async def remove_tree(self, path: str) -> None:
        """Fine if nothing is there."""

    async def make_directory(self, path: str) -> None:
        """With parents, durable on return; fine if it exists."""

    async def sync_directory(self, path: str) -> None: ...
    async def list(self, path: str) -> list[str]:
        """Sorted names; empty if the directory does not exist."""

    async def size(self, path: str) -> int: ...
    async def exists(self, path: str) -> bool: ...
    async def free_bytes(self, path: str) -> int:
        """What the file system of this path still has room for."""

    async def lock(self, path: str) -> "Lock":
        """Exclusive advisory lock held until released or the process dies; raises AlreadyLocked."""


class Lock(Protocol):
    async def release(self) -> None: ...


class Connection(Protocol):
    """One side of a byte stream, push style: data arrives at the handler without an await per chunk."""

    @property
    def peer(self) -> str: ...
    def send(self, data: bytes) -> None:
        """Queue bytes; never blocks. Watch `pending` (bytes not yet given to the network). What is sent
        within one step of the event loop leaves together. Ignored once the connection is closed."""

    @property
    def pending(self) -> int: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None:
        """Flush what was sent, then close."""

    def abort(self) -> None:
        """Drop what was not sent yet; the peer sees the connection break."""


class ConnectionHandler(Protocol):
    def on_open(self, connection: Connection) -> None: ...
    def on_data(self, data: bytes) -> None: ...
    def on_drained(self) -> None:
        """`pending` has fallen low enough again after it went over the transport's high-water mark."""

    def on_close(self, error: Exception | None) -> None:
        """Called once, always; error is None when either side closed in order. No data comes after it."""


class Listener(Protocol):
    @property
    def address(self) -> tuple[str, int]: ...
    async def close(self) -> None:
        """Stop accepting; open connections stay open."""


class Network(Protocol):
    async def listen(self, host: str, port: int, make_handler: Callable[[], ConnectionHandler]) -> Listener:
        """Port 0 picks a free one. Raises AddressInUse."""

    async def connect(self, host: str, port: int, handler: ConnectionHandler) -> Connection:
        """Returns after `on_open`. Raises ConnectionRefused or another NetworkError; put a timeout around."""


class Process(Protocol):
    """A child process that is talked to in lines. It leads a process group of its own: what it starts goes
    with it when it is killed, and a terminal's Ctrl-C does not reach it. When this process dies, however that
    happens, its standard input ends; it must take that as the order to end."""

    @property
    def id(self) -> int: ...
    @property
    def last_words(self) -> list[str]:
        """The last lines that it wrote to its standard error."""

    async def write_line(self, line: bytes) -> None:
        """Raises ProcessGone when it does not listen any more."""

    async def read_line(self) -> bytes:
        """Without the line's end; raises ProcessGone after the last one. One reader at a time."""

    def close_input(self) -> None: ...
    def kill(self) -> None:
        """The whole group, at once; fine when it is gone already."""

    async def wait(self) -> int:
        """Its exit status; minus the signal's number when a signal ended it."""


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

    def call_soon(self, callback: Callable[[], None]) -> None:
        """After the present step; calls made by one runtime run in the order they were made."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Returns a function that cancels the call."""

    async def compute(self, work: Callable[[], T]) -> T:
        """Run CPU-heavy pure work off the event loop (a thread; inline with virtual cost in simulation)."""

    async def start_process(self, arguments: Sequence[str], environment: Mapping[str, str]) -> Process:
        """`environment` is added to this process's own. Raises ProcessGone when it cannot be started. There
        are no processes in simulation."""

    def log(self, level: str, event: str, **fields: object) -> None:
        """One structured line. Levels: debug, info, warning, error."""

    def buggify(self, name: str) -> Awaitable[None] | None:
        """A named point where simulation may delay: `if pause := rt.buggify("flush.manifest"): await pause`.
        Always None in production."""

    def sometimes(self, name: str, condition: bool = True) -> None:
        """Mark that an interesting state was reached; simulation counts, production ignores."""
