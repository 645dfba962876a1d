"""The commit log's files: one is always reserved ahead, and those that nobody needs go, oldest first."""

import asyncio
from array import array
from collections import deque
from collections.abc import Iterator

from belvedere.runtime.api import AppendFile, Runtime, TaskHandle
from belvedere.runtime.errors import DiskError, FileMissing
from belvedere.storage.errors import LogFull, LogUnavailable
from belvedere.storage.logformat import segment_name

FIRST_RETRY_SECONDS = 0.25
LAST_RETRY_SECONDS = 5.0


class Segment:
    """A file of the log. `last` is the last frame number in it, known once it is closed."""

    __slots__ = ("end", "file", "first", "last", "number", "offsets", "path")

    def __init__(self, number: int, path: str, file: AppendFile | None, last: int = 0) -> None:
        self.number = number
        self.path = path
        self.file = file
        self.last = last
        #: The number of the first frame that was written to it, and where each begins.
        self.first = 0
        self.offsets = array("L")
        self.end = 0

    def wrote(self, frame: int, size: int) -> None:
        if not self.offsets:
            self.first = frame
        self.offsets.append(self.end)
        self.end += size

    def stretch(self, first: int, last: int) -> tuple[int, int]:
        """From where to where the frames with these numbers lie, both included."""
        after = last - self.first + 1
        return self.offsets[first - self.first], self.offsets[after] if after < len(
            self.offsets
        ) else self.end


class SegmentSupply:
    """Reserves the next segment before it is needed; on a full disk it tries again until there is room."""

    def __init__(self, runtime: Runtime, directory: str, segment_bytes: int) -> None:
        self.next_number = 1
        #: Why the next segment could not be reserved, as long as that is so.
        self.full: LogFull | None = None
        self._runtime = runtime
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._spare: Segment | None = None
        self._stopped = False
        self._task: TaskHandle | None = None
        self._waiters: list[asyncio.Future[None]] = []

    async def first(self) -> Segment | None:
        """None if the disk is full."""
        try:
            return await self._create()
        except LogFull as error:
            self._set_full(error)
            return None

    def take(self) -> Segment | None:
        """The spare one; None if it is still being reserved. Raises LogFull."""
        if not self.has_spare():
            return None
        segment, self._spare = self._spare, None
        self.reserve_soon()
        return segment

    def has_spare(self) -> bool:
        if self._spare is not None:
            return True
        if self.full is not None:
            raise self.full
        self.reserve_soon()
        return False

    async def changed(self) -> None:
        """Wait until there may be a spare one; raises if there will not be one soon."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(future)
        await future

    def reserve_soon(self) -> None:
        if self._spare is None and not self._stopped and (self._task is None or self._task.done()):
            self._task = self._runtime.spawn("commitlog.allocate", self._reserve())

    async def _reserve(self) -> None:
        pause = FIRST_RETRY_SECONDS
        while not self._stopped and self._spare is None:
            try:
                self._spare = await self._create()
            except LogFull as error:
                self._set_full(error)
                await self._runtime.clock.sleep(pause)
                pause = min(2 * pause, LAST_RETRY_SECONDS)
        self.full = None
        for future in self._take_waiters():
            future.set_result(None)

    async def _create(self) -> Segment:
        number = self.next_number
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
        self.next_number = number + 1
        return Segment(number, path, file)

    async def _remove_quietly(self, path: str) -> None:
        try:
            await self._runtime.disk.remove(path)
        except DiskError as error:
            self._runtime.log("debug", "log.leftover", path=path, cause=str(error))

    def _set_full(self, error: LogFull) -> None:
        if self.full is None:
            self._runtime.log("error", "log.full", cause=str(error))
        self.full = error
        self._fail_waiters(error)

    def _take_waiters(self) -> list[asyncio.Future[None]]:
        waiters, self._waiters = self._waiters, []
        return [future for future in waiters if not future.done()]

    def _fail_waiters(self, error: LogUnavailable) -> None:
        for future in self._take_waiters():
            future.set_exception(error)

    def stop(self, error: LogUnavailable) -> None:
        """Reserve no more."""
        self._stopped = True
        self._fail_waiters(error)

    async def close(self, error: LogUnavailable) -> None:
        self._stopped = True
        if self._task is not None:
            if self.full is not None:
                self._task.cancel()
            await self._task.wait()
        if self._spare is not None and self._spare.file is not None:
            await self._spare.file.close()
        self._fail_waiters(error)


class ClosedSegments:
    """Full ones, oldest first, until nobody needs them."""

    def __init__(self, runtime: Runtime, directory: str) -> None:
        self._runtime = runtime
        self._directory = directory
        self._segments: deque[Segment] = deque()
        self._task: TaskHandle | None = None

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def add(self, segment: Segment) -> None:
        self._segments.append(segment)

    def last_before_newest(self, keep: int) -> int | None:
        """The last position of the newest segment but `keep`."""
        return self._segments[-keep - 1].last if len(self._segments) > keep else None

    def retire(self, position: int) -> None:
        """Those with nothing from `position` on go."""
        idle = self._task is None or self._task.done()
        if idle and self._segments and self._segments[0].last < position:
            self._task = self._runtime.spawn("commitlog.retire", self._retire(position))

    async def _retire(self, position: int) -> None:
        """Oldest first, each made durable: a crash must not bring back one whose successor is gone."""
        disk, segments = self._runtime.disk, self._segments
        try:
            while segments and segments[0].last < position and segments[0].file is None:
                try:
                    await disk.remove(segments[0].path)
                except FileMissing:
                    self._runtime.log("warning", "log.segment_missing", path=segments[0].path)
                segments.popleft()
                await disk.sync_directory(self._directory)
        except DiskError as error:
            self._runtime.log("warning", "log.retire_failed", cause=str(error))

    async def retired(self) -> None:
        """Wait for those that are being removed."""
        if self._task is not None:
            await self._task.wait()
