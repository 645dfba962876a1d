"""What the commit log keeps of replicated tablets: entries, in the order in which things happened.

An entry says what became of one tablet's log. Reading them in order gives the log as it was in the end.
"""

from collections.abc import Callable, Iterable

import msgspec

from belvedere.model.positions import Position, Record
from belvedere.storage.errors import LogCorrupt


class Appended(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    tablet: int
    #: How far the log was known to be committed then.
    committed: Position
    records: tuple[Record, ...]


class CutTo(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """The log ends here."""

    tablet: int
    position: Position


class Restored(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """What a snapshot brought of the log: it begins anew with these. They count if the manifest has the same
    floor; else the tablet was never restored by it."""

    tablet: int
    log_floor: int
    records: tuple[Record, ...]


Entry = Appended | CutTo | Restored

encode_entry = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Entry] = msgspec.msgpack.Decoder(Entry)


def decode_entry(data: bytes) -> Entry:
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError as error:
        raise LogCorrupt(
            f"the commit log has an entry that is none of a replicated tablet: {error}"
        ) from error


def records_left(entries: Iterable[bytes], tablet: int, log_floor: int) -> list[Record]:
    """What a stretch of the log leaves of a tablet's records; a later stretch may have cut some of it."""
    records: list[Record] = []
    for data in entries:
        entry = decode_entry(data)
        if entry.tablet != tablet:
            continue
        if isinstance(entry, CutTo):
            while records and records[-1].position > entry.position:
                records.pop()
        elif isinstance(entry, Appended) or entry.log_floor == log_floor:
            records += entry.records
    return records


def in_entries(
    make: Callable[[tuple[Record, ...]], Entry], records: tuple[Record, ...], most: int
) -> list[tuple[bytes, tuple[Record, ...]]]:
    """One entry for all of them, or a few of at most this many bytes; a single record may take more."""
    data = encode_entry(make(records))
    if len(data) <= most or len(records) == 1:
        return [(data, records)]
    half = len(records) // 2
    return in_entries(make, records[:half], most) + in_entries(make, records[half:], most)
