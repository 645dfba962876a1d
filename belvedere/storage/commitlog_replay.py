"""Reading the commit log at a start: its identity, its segments, and what a crash left at its end."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec

from belvedere.runtime.api import Runtime
from belvedere.runtime.errors import FileMissing
from belvedere.storage.errors import LogCorrupt
from belvedere.storage.logformat import (
    HEADER_BYTES,
    IDENTITY_NAME,
    LOG_FORMAT,
    Frame,
    LogIdentity,
    SegmentReader,
    segment_name,
    segment_number,
)


@dataclass(frozen=True, slots=True)
class ReplayedSegment:
    number: int
    path: str
    data: bytes
    frames: list[Frame]

    @property
    def last(self) -> int:
        """Number of the last frame."""
        return self.frames[-1].number


class LogReader:
    def __init__(self, runtime: Runtime, directory: str, log_id: bytes) -> None:
        self._runtime = runtime
        self._directory = directory
        self._id = log_id
        #: The number for the first segment that is written after this.
        self.next_segment = 1

    async def segments(self) -> AsyncIterator[ReplayedSegment]:
        """Those that hold frames, oldest first, durable when they are given. At the end, the others are gone.
        Raises LogCorrupt."""
        disk = self._runtime.disk
        reader = SegmentReader(self._id)
        names = await disk.list(self._directory)
        numbers = sorted(number for name in names if (number := segment_number(name)) is not None)
        unused: list[str] = []
        before: ReplayedSegment | None = None
        for number in numbers:
            path = f"{self._directory}/{segment_name(number)}"
            data = await disk.read(path)
            frames = list(reader.frames(path, number, data))
            if not frames:
                unused.append(path)
                continue
            if before is not None:
                await self._settle(before, is_last=False)
                yield before
            before = ReplayedSegment(number, path, data, frames)
        if before is not None:
            await self._settle(before, is_last=True)
            yield before
        for path in unused:
            await disk.remove(path)
        await disk.sync_directory(self._directory)
        self.next_segment = max(numbers, default=0) + 1

    async def _settle(self, segment: ReplayedSegment, is_last: bool) -> None:
        """Make what was read durable: a killed process may have left frames in the page cache only, and from
        now on readers will see their rows.

        The log's last frame is written once more. Its sync may have failed, after which the kernel shows the
        bytes but takes them for clean, so that another sync would do nothing. All frames before it were
        synced, or it would not exist. A torn tail is wiped, so that it is judged once.
        """
        last = segment.frames[-1]
        start = last.offset if is_last else last.end
        torn = segment.data[last.end : last.end + HEADER_BYTES]
        if is_last and torn.strip(b"\0"):
            self._runtime.log("warning", "log.torn_tail", path=segment.path, offset=last.end)
        file = await self._runtime.disk.append(segment.path, position=start)
        try:
            if is_last:
                await file.write(segment.data[start : last.end] + bytes(len(torn)))
            await file.sync()
        finally:
            await file.close()


async def log_identity(runtime: Runtime, directory: str, replicated: bool) -> bytes:
    path = f"{directory}/{IDENTITY_NAME}"
    disk = runtime.disk
    try:
        identity = msgspec.json.decode(await disk.read(path), type=LogIdentity)
        if identity.format != LOG_FORMAT:
            raise LogCorrupt(f"{path} says format {identity.format}; this version reads format {LOG_FORMAT}")
        if identity.replicated != replicated:
            was, wanted = (
                ("a cluster", "a server alone") if identity.replicated else ("a server alone", "a cluster")
            )
            raise LogCorrupt(f"{path} says that this is the log of {was}: it cannot be opened by {wanted}")
        return bytes.fromhex(identity.id)
    except FileMissing:
        if any(segment_number(name) is not None for name in await disk.list(directory)):
            raise LogCorrupt(f"{path} is missing, without it the commit log cannot be read") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise LogCorrupt(f"{path} is damaged: {error}") from error
    identity = LogIdentity(LOG_FORMAT, runtime.random.bytes(8).hex(), replicated)
    await disk.write(f"{path}.new", msgspec.json.encode(identity))
    await disk.rename(f"{path}.new", path)
    await disk.sync_directory(directory)
    return bytes.fromhex(identity.id)
