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

from belvedere.runtime.api import Runtime, TaskHandle
from belvedere.storage.commitlog_read import read_frames
from belvedere.storage.commitlog_replay import LogReader, log_identity
from belvedere.storage.commitlog_segments import ClosedSegments, Segment, SegmentSupply
from belvedere.storage.errors import LogBroken, LogFull, LogUnavailable, MutationTooLarge
from belvedere.storage.logformat import FRAME_BYTES, RECORD_BYTES, encode_frame

SEGMENT_BYTES = 32 << 20
PERIODIC_SECONDS = 0.01

DurableCallback = Callable[[LogUnavailable | None], None]


class SyncPolicy(Enum):
    #: Answer after fdatasync; one sync serves all that came meanwhile.
    GROUP = "group"
    #: Answer at once, sync every 10 ms: a crash may lose the last instants.
    PERIODIC = "periodic"
    #: Answer at once, never sync. A killed process may lose the last instants, a power failure much: the log
    #: may even be refused.
    NONE = "none"


class _Pending:
    """A frame being filled: where it goes is settled from the start."""

    __slots__ = ("number", "records", "segment")

    def __init__(self, number: int, segment: Segment) -> None:
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
        #: A frame of more bytes is not taken.
        self.largest = segment_bytes // 2
        self._id = log_id
        #: Positions up to this one may be acknowledged.
        self.durable = 0
        #: Positions up to this one were written, and synced unless the policy is to never sync.
        self._written = 0
        self.broken: LogBroken | None = None
        self._supply = SegmentSupply(runtime, directory, segment_bytes)
        self._closed = ClosedSegments(runtime, directory)
        #: The frame being filled; None until there is a segment for it.
        self._open: _Pending | None = None
        self._sealed: deque[_Pending] = deque()
        #: Bytes of records that the open frame's segment still takes; below 0 when nothing may be appended.
        self._room = -1
        #: Called when a segment was filled: a time to see what of the log is still needed.
        self.on_segment_closed: Callable[[], None] | None = None
        self._waiters: dict[int, list[DurableCallback]] = {}
        self._idle: asyncio.Future[None] | None = None
        #: Of the frame that is being replayed: segment and offset.
        self._replaying = 0, 0
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
        replicated: bool = False,
    ) -> "CommitLog":
        await runtime.disk.make_directory(directory)
        log_id = await log_identity(runtime, directory, replicated)
        return cls(runtime, directory, policy, segment_bytes, log_id)

    async def replay(self) -> AsyncIterator[tuple[int, list[bytes]]]:
        """Every durable frame, oldest first: (position, records). Raises LogCorrupt."""
        reader = LogReader(self._runtime, self._directory, self._id)
        async for segment in reader.segments():
            closed = Segment(segment.number, segment.path, None, segment.last)
            for frame in segment.frames:
                closed.wrote(frame.number, frame.end - frame.offset)
            self._closed.add(closed)
            self.durable = self._written = segment.last
            for frame in segment.frames:
                self._replaying = segment.number, frame.offset
                yield frame.number, frame.records
        self._supply.next_number = reader.next_segment

    def continue_after(self, position: int) -> None:
        """If nothing is left of the log that gave `position`, number new frames beyond it all the same."""
        if self._written < position and not self._closed:
            self.durable = self._written = position

    async def start(self) -> None:
        """Begin writing. On a full disk the log starts all the same, and takes records when there is room."""
        self._started = True
        first = await self._supply.first()
        if first is not None:
            self._open_frame(self._written + 1, first)
        self._writer = self._runtime.spawn("commitlog.write", self._write_frames())
        self._supply.reserve_soon()

    async def close(self) -> None:
        """Write and sync what was appended, then stop."""
        self._stopping = True
        self._room = -1
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)
        if self._writer is not None:
            await self._writer.wait()
        await self._supply.close(LogUnavailable("the commit log is closed"))
        await self._closed.retired()
        if self._open is not None and self._open.segment.file is not None:
            await self._open.segment.file.close()

    # ---------------------------------------------------------------------------------------- appending

    @property
    def position(self) -> int:
        """Where the next record would go; every record appended so far has at most this position."""
        return self._open.number if self._open is not None else self._written + 1

    def append(self, record: bytes) -> int | None:
        """Take one record and return its position, or None if it must wait for `space`."""
        size = len(record) + 4
        if (size > self._room or size > self.largest) and not self._roll(size):
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
        if (size > self._room or size > self.largest) and not self._roll(size):
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
        segment = self._supply.take()
        if segment is None:
            return False
        number = self.position
        if self._open is not None:
            if self._open.records:
                self._sealed.append(self._open)
                number += 1
            self._close_segment(self._open.segment, number - 1)
        self._open_frame(number, segment)
        if self.on_segment_closed is not None:
            self._runtime.call_soon(self.on_segment_closed)
        return True

    def _open_frame(self, number: int, segment: Segment) -> None:
        self._open = _Pending(number, segment)
        self._room = self._segment_bytes - FRAME_BYTES

    def _close_segment(self, segment: Segment, last: int) -> None:
        segment.last = last
        self._closed.add(segment)
        if last <= self._written:
            self._close_file(segment)

    def _close_file(self, segment: Segment) -> None:
        if segment.file is not None:
            file, segment.file = segment.file, None
            self._runtime.spawn("commitlog.close", file.close())

    def check_size(self, size: int) -> None:
        """A frame must fit into one segment."""
        if size > self.largest:
            raise MutationTooLarge(
                f"Mutation of {size} bytes is too large for the maximum size of {self.largest}"
            )

    async def space(self, size: int) -> None:
        """Wait until `append` of a record of this many bytes has a chance; raises what `append` would."""
        while not self.has_room(size):
            await self._supply.changed()

    def has_room(self, size: int) -> bool:
        if self.broken is not None:
            raise self.broken
        self.check_size(size)
        return size + RECORD_BYTES <= self._room or self._supply.has_spare()

    # ------------------------------------------------------------------------------------------ reading

    @property
    def written(self) -> int:
        """Positions up to this one can be read."""
        return self._written

    @property
    def newest(self) -> int:
        """The position of the record that was appended last."""
        return self._open.number if self._open is not None and self._open.records else self.position - 1

    @property
    def oldest(self) -> int:
        """The first position that is still kept."""
        return next((segment.first for segment in self._segments() if segment.offsets), self._written + 1)

    @property
    def place(self) -> tuple[int, int]:
        """Segment and offset where the next record will be, about; while replaying, those of the frame."""
        if self._open is None:
            return self._replaying
        return self._open.segment.number, self._segment_bytes - self._room

    def _segments(self) -> list[Segment]:
        return [*self._closed] if self._open is None else [*self._closed, self._open.segment]

    async def read(self, first: int, last: int) -> list[list[bytes]] | None:
        """The records of these frames, all written; None if some are gone. Raises LogCorrupt, DiskError."""
        return await read_frames(self._runtime, self._id, self._segments(), first, last)

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
            frame.segment.wrote(frame.number, len(data))
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
        self._supply.stop(self.broken)

    def retire(self, position: int) -> None:
        """No record before `position` is needed any more: whole segments before it go."""
        self._closed.retire(position)

    # ------------------------------------------------------------------------------------------- status

    @property
    def full(self) -> LogFull | None:
        """Why the next segment could not be reserved, as long as that is so."""
        return self._supply.full

    def oldest_surplus(self, keep: int) -> int | None:
        """The last position of the newest segment that is beyond `keep` closed ones: to shrink the log, what
        was written up to there must be flushed."""
        return self._closed.last_before_newest(keep)

    def statistics(self) -> dict[str, int]:
        return {
            "position": self.position,
            "durable": self.durable,
            "bytes_reserved": (len(self._closed) + 2) * self._segment_bytes,
            "segments": len(self._closed) + 1,
            "frames_written": self._frames_written,
            "bytes_written": self._bytes_written,
        }
