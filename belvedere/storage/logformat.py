"""The commit log's bytes: segments of frames, frames of records.

A *frame* is what one write and one sync made durable: a header and a group of records. Frames are
numbered without gaps over all segments, and frame N+1 is written only after the sync of frame N returned.
So on reading:

- the place where a frame is expected holds none, and no later frame exists: the end of the log. Bytes of a
  torn write may lie there; nobody was told that they are durable.
- it holds none, but an intact frame with a higher number follows: the disk lost what was durable. Refuse.

A writer that starts again after a torn tail continues with the torn frame's number in a new segment.
Left-over bytes of other frames cannot be mistaken for one: the header names the log (a random id) and the
segment, and the checksum covers the header.

    header   magic 4 | log id 8 | segment u32 | length of body u32 | number u64 | crc32c u32 (little-endian)
    body     count u32 | count × length u32 | the records
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import crc32c
import msgspec

from belvedere.storage.errors import LogCorrupt

MAGIC = b"BVLF"
LOG_FORMAT = 1
IDENTITY_NAME = "log.json"

_PLAIN = struct.Struct("<4s8sIIQ")
_CRC = struct.Struct("<I")
HEADER_BYTES = _PLAIN.size + _CRC.size
#: What each record costs besides its bytes, and each frame besides its records.
RECORD_BYTES = 4
FRAME_BYTES = HEADER_BYTES + 4


class LogIdentity(msgspec.Struct, omit_defaults=True):
    """`log.json`: written once, before the first segment."""

    format: int
    id: str
    #: What the records are: entries of replicated logs (`storage.replica_entries`), or `LogRecord`s.
    replicated: bool = False


class Frame(NamedTuple):
    number: int
    offset: int
    end: int
    records: list[bytes]


def segment_name(number: int) -> str:
    return f"log-{number:010d}"


def segment_number(name: str) -> int | None:
    """The number in a segment's file name; None for other files."""
    digits = name.removeprefix("log-")
    return int(digits) if digits != name and len(digits) == 10 and digits.isdigit() else None


def encode_frame(log_id: bytes, segment: int, number: int, records: Sequence[bytes]) -> bytes:
    count = len(records)
    body = b"".join((struct.pack(f"<{count + 1}I", count, *map(len, records)), *records))
    plain = _PLAIN.pack(MAGIC, log_id, segment, len(body), number)
    crc = crc32c.crc32c(body, crc32c.crc32c(plain))
    return b"".join((plain, _CRC.pack(crc), body))


def decode_frame(data: bytes, offset: int, log_id: bytes, segment: int) -> Frame | None:
    """The intact frame at `offset`, or None."""
    start = offset + HEADER_BYTES
    if start > len(data):
        return None
    magic, owner, home, length, number = _PLAIN.unpack_from(data, offset)
    end = start + length
    if magic != MAGIC or owner != log_id or home != segment or end > len(data) or length < 4:
        return None
    (expected,) = _CRC.unpack_from(data, offset + _PLAIN.size)
    crc = crc32c.crc32c(data[offset : offset + _PLAIN.size])
    if crc32c.crc32c(memoryview(data)[start:end], crc) != expected:
        return None
    return Frame(number, offset, end, _split(data, start, end))


def _split(data: bytes, start: int, end: int) -> list[bytes]:
    (count,) = struct.unpack_from("<I", data, start)
    lengths = struct.unpack_from(f"<{count}I", data, start + 4)
    at = start + 4 + 4 * count
    records = []
    for length in lengths:
        records.append(data[at : at + length])
        at += length
    if at != end:
        raise LogCorrupt(
            f"a commit log frame's checksum is right but its lengths are not (at offset {start})"
        )
    return records


class SegmentReader:
    """Reads segments in order and judges whether the log is whole. Feed every segment, oldest first."""

    def __init__(self, log_id: bytes) -> None:
        self._log_id = log_id
        #: Number of the last intact frame, 0 before the first.
        self.last = 0
        self._gap: tuple[str, int] | None = None

    def frames(self, path: str, segment: int, data: bytes) -> Iterator[Frame]:
        """The frames of one segment; raises LogCorrupt on finding damage in the middle."""
        offset = 0
        while (frame := decode_frame(data, offset, self._log_id, segment)) is not None:
            self._check_number(frame, path)
            yield frame
            offset = frame.end
        self._gap = (path, offset)
        stray = self._find_after(data, offset, segment)
        if stray is not None:
            raise self._corrupt(stray, path)

    def _check_number(self, frame: Frame, path: str) -> None:
        if self.last and frame.number != self.last + 1:
            raise self._corrupt(frame, path)
        self.last = frame.number
        self._gap = None

    def _find_after(self, data: bytes, offset: int, segment: int) -> Frame | None:
        pattern = MAGIC + self._log_id
        at = data.find(pattern, offset)
        while at >= 0:
            frame = decode_frame(data, at, self._log_id, segment)
            if frame is not None:
                return frame
            at = data.find(pattern, at + 1)
        return None

    def _corrupt(self, found: Frame, path: str) -> LogCorrupt:
        gap_path, gap_offset = self._gap or (path, found.offset)
        return LogCorrupt(
            f"the commit log is damaged in the middle: {gap_path} has no intact frame at offset {gap_offset}"
            f" (number {self.last + 1} is expected), but number {found.number} follows intact in {path} at"
            f" offset {found.offset}. Acknowledged writes may be lost. Restore the file, or move the commit"
            " log away to start without the writes it holds."
        )
