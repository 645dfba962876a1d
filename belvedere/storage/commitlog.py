"""The node's commit log: records are appended in memory and made durable in groups.

A *position* is the number of the frame that a record travels in; all records appended while a frame is being
written and synced leave together in the next one. Space is reserved in whole segments before any record is
taken for it, so a full disk is met by refusing a write, never after one was applied.

What happens when the disk fails a write or a sync: nobody can know what the file holds, so the log is broken
until it is read again at the next start. Everyone who waits, and every later write, gets LogBroken.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from enum import Enum

from belvedere.runtime.api import AppendFile, Runtime, TaskHandle
from belvedere.runtime.errors import DiskError, FileMissing
from belvedere.storage.commitlog_replay import LogReader, log_identity
from belvedere.storage.errors import LogBroken, LogFull, LogUnavailable, MutationTooLarge
from belvedere.storage.logformat import (
    FRAME_BYTES,
    RECORD_BYTES,
    encode_frame,
    segment_name,
)

SEGMENT_BYTES = 32 << 20
PERIODIC_SECONDS = 0.01
FIRST_RETRY_SECONDS = 0.25
LAST_RETRY_SECONDS = 5.0

DurableCallback = Callable[[LogUnavailable | None], None]


class SyncPolicy(Enum):
    #: Answer after fdatasync; one sync serves all that came meanwhile.
    GROUP = "group"
    #: Answer at once, sync every 10 ms: a crash may lose the last instants.
    PERIODIC = "periodic"
    #: Answer at once, never sync. A killed process may lose the last instants, a power failure much: the log
    #: may even be refused.
    NONE = "none"


class _Segment:
    """A file of the log. `last` is the last frame number in it, known once it is closed."""

    __slots__ = ("file", "last", "number", "path")

    def __init__(self, number: int, path: str, file: AppendFile | None, last: int = 0) -> None:
        self.number = number
        self.path = path
        self.file = file
        self.last = last


class _Pending:
    """A frame being filled: where it goes is settled from the start."""

    __slots__ = ("number", "records", "segment")

    def __init__(self, number: int, segment: _Segment) -> None:
        self.number = number
        self.segment = segment
        self.records: list[bytes] = []


class CommitLog:
    """Use: `open`, consume `replay()` to its end, then `start()`, then append."""

    def __init__(
        self, runtime: Runtime, directory: str, policy: SyncPolicy, segment_bytes: int, log_id: bytes
    ) -> None:
        self._runtime = runtime
        self._directory = directory
        self._policy = policy
        self._answer_at_once = policy is not SyncPolicy.GROUP
        self._segment_bytes = segment_bytes
        self._largest = segment_bytes // 2
        self._id = log_id
        #: Positions up to this one may be acknowledged.
        self.durable = 0
        #: Positions up to this one were written, and synced unless the policy is to never sync.
        self._written = 0
        self.broken: LogBroken | None = None
        self._full: LogFull | None = None
        self._closed: deque[_Segment] = deque()
        self._spare: _Segment | None = None
        self._next_segment = 1
        #: The frame being filled; None until there is a segment for it.
        self._open: _Pending | None = None
        self._sealed: deque[_Pending] = deque()
        #: Bytes of records that the open frame's segment still takes; below 0 when nothing may be appended.
        self._room = -1
        #: Called when a segment was filled: a time to see what of the log is still needed.
        self.on_segment_closed: Callable[[], None] | None = None
        self._waiters: dict[int, list[DurableCallback]] = {}
        self._space_waiters: list[asyncio.Future[None]] = []
        self._idle: asyncio.Future[None] | None = None
        self._allocator: TaskHandle | None = None
        self._retirer: TaskHandle | None = None
        self._started = False
        self._stopping = False
        self._writer: TaskHandle | None = None
        self._frames_written = 0
        self._bytes_written = 0

    # ------------------------------------------------------------------------------------------ opening

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        directory: str,
        policy: SyncPolicy = SyncPolicy.GROUP,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> "CommitLog":
        await runtime.disk.make_directory(directory)
        log_id = await log_identity(runtime, directory)
        return cls(runtime, directory, policy, segment_bytes, log_id)

    async def replay(self) -> AsyncIterator[tuple[int, list[bytes]]]:
        """Every durable frame, oldest first: (position, records). Raises LogCorrupt."""
        reader = LogReader(self._runtime, self._directory, self._id)
        async for segment in reader.segments():
            self._closed.append(_Segment(segment.number, segment.path, None, segment.last))
            self.durable = self._written = segment.last
            for frame in segment.frames:
                yield frame.number, frame.records
        self._next_segment = reader.next_segment

    async def start(self) -> None:
        """Begin writing. On a full disk the log starts all the same, and takes records when there is room."""
        self._started = True
        try:
            self._open_frame(self._written + 1, await self._create_segment())
        except LogFull as error:
            self._set_full(error)
        self._writer = self._runtime.spawn("commitlog.write", self._write_frames())
        self._allocate_soon()

    async def close(self) -> None:
        """Write and sync what was appended, then stop."""
        self._stopping = True
        self._room = -1
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)
        if self._writer is not None:
            await self._writer.wait()
        if self._allocator is not None:
            if self._full is not None:
                self._allocator.cancel()
            await self._allocator.wait()
        if self._retirer is not None:
            await self._retirer.wait()
        for segment in (self._spare, self._open.segment if self._open else None):
            if segment is not None and segment.file is not None:
                await segment.file.close()
        self._fail_space_waiters(LogUnavailable("the commit log is closed"))

    # ---------------------------------------------------------------------------------------- appending

    @property
    def position(self) -> int:
        """Where the next record would go; every record appended so far has at most this position."""
        return self._open.number if self._open is not None else self._written + 1

    def append(self, record: bytes) -> int | None:
        """Take one record and return its position, or None if it must wait for `space`."""
        size = len(record) + 4
        if (size > self._room or size > self._largest) and not self._roll(size):
            return None
        self._room -= size
        pending: _Pending = self._open  # type: ignore[assignment]
        pending.records.append(record)
        idle = self._idle
        if idle is not None:
            self._idle = None
            idle.set_result(None)
        if self._answer_at_once:
            self.durable = pending.number
        return pending.number

    def append_many(self, records: Sequence[bytes]) -> int | None:
        """Take records that survive a crash all or none: they share one frame."""
        size = sum(map(len, records)) + RECORD_BYTES * len(records)
        if (size > self._room or size > self._largest) and not self._roll(size):
            return None
        position: int | None = None
        for record in records:
            position = self.append(record)
        return position

    def _roll(self, size: int) -> bool:
        """Make room in the next segment. Raises when that is hopeless for now."""
        if self.broken is not None:
            raise self.broken
        if not self._started or self._stopping:
            raise LogUnavailable("the commit log is not open")
        self.check_size(size)
        segment = self._spare
        if segment is None:
            if self._full is not None:
                raise self._full
            self._allocate_soon()
            return False
        self._spare = None
        number = self.position
        if self._open is not None:
            if self._open.records:
                self._sealed.append(self._open)
                number += 1
            self._close_segment(self._open.segment, number - 1)
        self._open_frame(number, segment)
        self._allocate_soon()
        if self.on_segment_closed is not None:
            self._runtime.call_soon(self.on_segment_closed)
        return True

    def _open_frame(self, number: int, segment: _Segment) -> None:
        self._open = _Pending(number, segment)
        self._room = self._segment_bytes - FRAME_BYTES

    def _close_segment(self, segment: _Segment, last: int) -> None:
        segment.last = last
        self._closed.append(segment)
        if last <= self._written:
            self._close_file(segment)

    def _close_file(self, segment: _Segment) -> None:
        if segment.file is not None:
            file, segment.file = segment.file, None
            self._runtime.spawn("commitlog.close", file.close())

    def check_size(self, size: int) -> None:
        """A frame must fit into one segment."""
        if size > self._largest:
            raise MutationTooLarge(
                f"Mutation of {size} bytes is too large for the maximum size of {self._largest}"
            )

    async def space(self, size: int) -> None:
        """Wait until `append` of a record of this many bytes has a chance; raises what `append` would."""
        while not self.has_room(size):
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._space_waiters.append(future)
            await future

    def has_room(self, size: int) -> bool:
        if self.broken is not None:
            raise self.broken
        self.check_size(size)
        if size + RECORD_BYTES <= self._room or self._spare is not None:
            return True
        if self._full is not None:
            raise self._full
        self._allocate_soon()
        return False

    # --------------------------------------------------------------------------------------- durability

    def on_durable(self, position: int, callback: DurableCallback) -> None:
        """Call back once `position` may be acknowledged (None) or is lost to this process (the error)."""
        if position <= self.durable:
            callback(None)
        else:
            self._on_written(position, callback)

    def _on_written(self, position: int, callback: DurableCallback) -> None:
        if self.broken is not None:
            callback(self.broken)
            return
        waiting = self._waiters.get(position)
        if waiting is None:
            self._waiters[position] = [callback]
        else:
            waiting.append(callback)

    async def wait(self, position: int) -> None:
        """Return once `position` may be acknowledged; raises LogBroken."""
        if position > self.durable:
            await self.wait_written(position)

    async def wait_written(self, position: int) -> None:
        """Return once `position` was written and synced, whatever the policy acknowledges."""
        if position <= self._written:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def answer(error: LogUnavailable | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self._on_written(position, answer)
        await future

    async def _write_frames(self) -> None:
        while True:
            frame = await self._next_frame()
            if frame is None:
                return
            file = frame.segment.file
            assert file is not None
            try:
                data = encode_frame(self._id, frame.segment.number, frame.number, frame.records)
                if self._policy is SyncPolicy.NONE:
                    await file.write(data)
                else:
                    await file.write_and_sync(data)
            except Exception as error:
                self._break(error)
                return
            self._frames_written += 1
            self._bytes_written += len(data)
            self._done(frame)

    async def _next_frame(self) -> _Pending | None:
        if self._policy is SyncPolicy.PERIODIC and not self._stopping:
            await self._runtime.clock.sleep(PERIODIC_SECONDS)
        while True:
            if self._sealed:
                return self._sealed.popleft()
            frame = self._open
            if frame is not None and frame.records:
                self._open = _Pending(frame.number + 1, frame.segment)
                self._room -= FRAME_BYTES
                return frame
            if self._stopping:
                return None
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle

    def _done(self, frame: _Pending) -> None:
        self._written = frame.number
        if not self._answer_at_once:
            self.durable = frame.number
        if frame.segment.last == frame.number:
            self._close_file(frame.segment)
        self._call_back(self._waiters.pop(frame.number, ()), None)

    def _call_back(self, callbacks: Sequence[DurableCallback], error: LogUnavailable | None) -> None:
        for callback in callbacks:
            try:
                callback(error)
            except Exception as failure:  # Its owner's bug must not stop the log for everybody.
                self._runtime.log("error", "log.callback_failed", error=repr(failure))

    def _break(self, cause: Exception) -> None:
        self.broken = LogBroken(f"the commit log failed and takes no more writes until a restart: {cause}")
        self.broken.__cause__ = cause
        self._room = -1
        self._runtime.log("error", "log.broken", cause=str(cause))
        waiters, self._waiters = self._waiters, {}
        for callbacks in waiters.values():
            self._call_back(callbacks, self.broken)
        self._fail_space_waiters(self.broken)

    # ----------------------------------------------------------------------------------------- segments

    async def _create_segment(self) -> _Segment:
        number = self._next_segment
        path = f"{self._directory}/{segment_name(number)}"
        disk = self._runtime.disk
        try:
            file = await disk.append(path, preallocate=self._segment_bytes, position=0)
        except DiskError as error:
            await self._remove_quietly(path)
            raise LogFull(f"no room for the commit log: {error}") from error
        try:
            await disk.sync_directory(self._directory)
        except DiskError as error:
            await file.close()
            raise LogFull(f"no room for the commit log: {error}") from error
        self._next_segment = number + 1
        return _Segment(number, path, file)

    async def _remove_quietly(self, path: str) -> None:
        try:
            await self._runtime.disk.remove(path)
        except DiskError as error:
            self._runtime.log("debug", "log.leftover", path=path, cause=str(error))

    def _allocate_soon(self) -> None:
        if self._spare is None and not self._stopping and (self._allocator is None or self._allocator.done()):
            self._allocator = self._runtime.spawn("commitlog.allocate", self._allocate())

    async def _allocate(self) -> None:
        pause = FIRST_RETRY_SECONDS
        while self.broken is None and not self._stopping and self._spare is None:
            try:
                self._spare = await self._create_segment()
            except LogFull as error:
                self._set_full(error)
                await self._runtime.clock.sleep(pause)
                pause = min(2 * pause, LAST_RETRY_SECONDS)
        self._full = None
        for future in self._take_space_waiters():
            future.set_result(None)

    def _set_full(self, error: LogFull) -> None:
        if self._full is None:
            self._runtime.log("error", "log.full", cause=str(error))
        self._full = error
        self._fail_space_waiters(error)

    def _take_space_waiters(self) -> list[asyncio.Future[None]]:
        waiters, self._space_waiters = self._space_waiters, []
        return [future for future in waiters if not future.done()]

    def _fail_space_waiters(self, error: LogUnavailable) -> None:
        for future in self._take_space_waiters():
            future.set_exception(error)

    def retire(self, position: int) -> None:
        """No record before `position` is needed any more: whole segments before it go."""
        idle = self._retirer is None or self._retirer.done()
        if idle and self._closed and self._closed[0].last < position:
            self._retirer = self._runtime.spawn("commitlog.retire", self._retire(position))

    async def _retire(self, position: int) -> None:
        """Oldest first, each made durable: a crash must not bring back one whose successor is gone."""
        disk = self._runtime.disk
        try:
            while self._closed and self._closed[0].last < position and self._closed[0].file is None:
                segment = self._closed[0]
                try:
                    await disk.remove(segment.path)
                except FileMissing:
                    self._runtime.log("warning", "log.segment_missing", path=segment.path)
                self._closed.popleft()
                await disk.sync_directory(self._directory)
        except DiskError as error:
            self._runtime.log("warning", "log.retire_failed", cause=str(error))

    # ------------------------------------------------------------------------------------------- status

    @property
    def full(self) -> LogFull | None:
        """Why the next segment could not be reserved, as long as that is so."""
        return self._full

    def oldest_surplus(self, keep: int) -> int | None:
        """The last position of the newest segment that is beyond `keep` closed ones: to shrink the log, what
        was written up to there must be flushed."""
        return self._closed[-keep - 1].last if len(self._closed) > keep else None

    def statistics(self) -> dict[str, int]:
        return {
            "position": self.position,
            "durable": self.durable,
            "bytes_reserved": (len(self._closed) + 2) * self._segment_bytes,
            "segments": len(self._closed) + 1,
            "frames_written": self._frames_written,
            "bytes_written": self._bytes_written,
        }
