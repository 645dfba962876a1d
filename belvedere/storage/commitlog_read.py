"""Reading frames of the commit log while it is being written."""

from collections.abc import Sequence

from belvedere.runtime.api import Runtime
from belvedere.runtime.errors import FileMissing
from belvedere.storage.commitlog_segments import Segment
from belvedere.storage.errors import LogCorrupt
from belvedere.storage.logformat import decode_frame


async def read_frames(
    runtime: Runtime, log_id: bytes, segments: Sequence[Segment], first: int, last: int
) -> list[list[bytes]] | None:
    """The records of each frame from `first` to `last`; None if a segment was retired, before or meanwhile.

    Frames are read that were written completely, and nothing is written over them; so what does not match its
    checksum is damage.
    """
    found: list[list[bytes]] = []
    for segment in segments:
        low, high = max(first, segment.first), min(last, segment.first + len(segment.offsets) - 1)
        if low > high:
            continue
        if low != first + len(found):
            return None
        start, end = segment.stretch(low, high)
        try:
            data = await runtime.disk.read(segment.path, start, end - start)
        except FileMissing:
            return None
        at = 0
        for number in range(low, high + 1):
            frame = decode_frame(data, at, log_id, segment.number)
            if frame is None or frame.number != number:
                raise LogCorrupt(
                    f"the commit log is damaged: {segment.path} has no frame {number} at offset {start + at}"
                )
            found.append(frame.records)
            at = frame.end
    return found if len(found) == last - first + 1 else None
