"""Time UUIDs and random UUIDs from an execution's own time and randomness."""

from collections.abc import Sequence

from belvedere.model.types import DATE, TIME, TIMESTAMP, TIMEUUID, UUID
from belvedere.query.access import Execution
from belvedere.query.functions.registry import Function, no_nulls, register

Wire = bytes | None

#: 100 ns intervals between the start of the Gregorian calendar and 1970.
GREGORIAN = 0x01B21DD213814000
DAY_MICROS = 86_400_000_000
#: The least and greatest last eight bytes of a time UUID, compared as signed bytes.
LEAST, GREATEST = b"\x80" * 8, b"\x7f" * 8


def time_uuid(intervals: int, rest: bytes) -> bytes:
    """A version 1 UUID of 100 ns intervals since 1970 and its last eight bytes."""
    ticks = (intervals + GREGORIAN) % (1 << 60)
    high = (ticks >> 48) | 0x1000
    return (
        (ticks & 0xFFFFFFFF).to_bytes(4, "big")
        + ((ticks >> 32) & 0xFFFF).to_bytes(2, "big")
        + high.to_bytes(2, "big")
        + rest
    )


def intervals_of(uuid: bytes) -> int:
    """100 ns intervals since 1970 of a version 1 UUID."""
    ticks = int.from_bytes(uuid[6:8], "big") & 0x0FFF
    ticks = (ticks << 48) | (int.from_bytes(uuid[4:6], "big") << 32) | int.from_bytes(uuid[:4], "big")
    return ticks - GREGORIAN


def _now(values: Sequence[Wire], execution: Execution) -> Wire:
    random = bytearray(execution.random_bytes(8))
    random[0] = random[0] & 0x3F | 0x80  # the RFC's variant
    random[2] |= 0x01  # multicast: not the address of any network card
    return time_uuid(execution.access.next_timestamp() * 10, bytes(random))


def _uuid(values: Sequence[Wire], execution: Execution) -> Wire:
    random = bytearray(execution.random_bytes(16))
    random[6] = random[6] & 0x0F | 0x40
    random[8] = random[8] & 0x3F | 0x80
    return bytes(random)


def _current_timestamp(values: Sequence[Wire], execution: Execution) -> Wire:
    return (execution.access.next_timestamp() // 1000).to_bytes(8, "big", signed=True)


def _current_date(values: Sequence[Wire], execution: Execution) -> Wire:
    return (execution.access.next_timestamp() // DAY_MICROS + 2**31).to_bytes(4, "big")


def _current_time(values: Sequence[Wire], execution: Execution) -> Wire:
    return (execution.access.next_timestamp() % DAY_MICROS // 1000 * 1_000_000).to_bytes(8, "big")


def _least(timestamp: bytes) -> bytes:
    return time_uuid(int.from_bytes(timestamp, "big", signed=True) * 10_000, LEAST)


def _greatest(timestamp: bytes) -> bytes:
    return time_uuid(int.from_bytes(timestamp, "big", signed=True) * 10_000 + 9_999, GREATEST)


register(
    Function("now", (), TIMEUUID, _now, pure=False),
    Function("uuid", (), UUID, _uuid, pure=False),
)
for _name in ("current_timeuuid", "currenttimeuuid"):
    register(Function(_name, (), TIMEUUID, _now, pure=False))
for _name in ("current_timestamp", "currenttimestamp"):
    register(Function(_name, (), TIMESTAMP, _current_timestamp, pure=False))
for _name in ("current_date", "currentdate"):
    register(Function(_name, (), DATE, _current_date, pure=False))
for _name in ("current_time", "currenttime"):
    register(Function(_name, (), TIME, _current_time, pure=False))
for _name in ("min_timeuuid", "mintimeuuid"):
    register(Function(_name, (TIMESTAMP,), TIMEUUID, no_nulls(_least), monotonic=True))
for _name in ("max_timeuuid", "maxtimeuuid"):
    register(Function(_name, (TIMESTAMP,), TIMEUUID, no_nulls(_greatest), monotonic=True))
