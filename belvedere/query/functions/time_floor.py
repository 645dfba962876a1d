"""floor(time, duration[, start]): times rounded down to a multiple of a duration, for GROUP BY."""

from belvedere.model.types import DATE, DURATION, TIME, TIMESTAMP, TIMEUUID, Duration
from belvedere.model.types_time import civil_of, days_of
from belvedere.query.errors import InvalidRequest
from belvedere.query.functions.registry import Function, no_nulls, register
from belvedere.query.functions.time import (
    DAY_MILLIS,
    date_wire,
    millis_of_date,
    millis_of_uuid,
    timestamp_wire,
)

NANOS_PER_MILLI = 1_000_000
DAY_NANOS = 86_400_000_000_000


def add_duration(millis: int, duration: Duration, times: int = 1) -> int:
    """A time moved by a multiple of a duration: months first (the day is cut to fit), then the rest."""
    days, rest = divmod(millis, DAY_MILLIS)
    if duration.months:
        year, month, day = civil_of(days)
        total = year * 12 + month - 1 + duration.months * times
        year, month = divmod(total, 12)
        moved = None
        while moved is None:
            moved = days_of(year, month + 1, day)
            day -= 1
        days = moved
    nanos = duration.nanoseconds * times
    shift = nanos // NANOS_PER_MILLI if nanos >= 0 else -(-nanos // NANOS_PER_MILLI)
    return (days + duration.days * times) * DAY_MILLIS + rest + shift


def floor_millis(millis: int, duration: Duration, start: int) -> int:
    """The last of start, start + duration, start + 2 × duration … that is not after the time."""
    if start > millis:
        raise InvalidRequest("The floor function starting time is greater than the provided time")
    if min(duration) < 0:
        raise InvalidRequest("Negative durations are not supported by the floor function")
    if not duration.months:
        step = duration.days * DAY_MILLIS + duration.nanoseconds // NANOS_PER_MILLI
        return millis if step == 0 else millis - (millis - start) % step
    # An estimate from the mean length of months, then as many steps as it is off.
    step = duration.months * 2_629_746_000 + duration.days * DAY_MILLIS
    step += duration.nanoseconds // NANOS_PER_MILLI
    times = (millis - start) // step
    while add_duration(start, duration, times) > millis:
        times -= 1
    while add_duration(start, duration, times + 1) <= millis:
        times += 1
    return add_duration(start, duration, times)


def _floor_timestamp(timestamp: bytes, duration: bytes, start: bytes = bytes(8)) -> bytes:
    millis = int.from_bytes(timestamp, "big", signed=True)
    origin = int.from_bytes(start, "big", signed=True)
    return timestamp_wire(floor_millis(millis, DURATION.decode(duration), origin))


def _floor_uuid(uuid: bytes, duration: bytes, start: bytes = bytes(8)) -> bytes:
    origin = int.from_bytes(start, "big", signed=True)
    return timestamp_wire(floor_millis(millis_of_uuid(uuid), DURATION.decode(duration), origin))


def _floor_date(date: bytes, duration: bytes, start: bytes = (2**31).to_bytes(4, "big")) -> bytes:
    step = DURATION.decode(duration)
    if step.nanoseconds:
        raise InvalidRequest("The floor on date values cannot be computed for the sub-day durations")
    return date_wire(floor_millis(millis_of_date(date), step, millis_of_date(start)))


def _floor_time(time: bytes, duration: bytes) -> bytes:
    step = DURATION.decode(duration)
    if step.months or step.days or step.nanoseconds > DAY_NANOS:
        raise InvalidRequest(
            "For time values, the floor can only be computed for durations smaller that a day"
        )
    if step.nanoseconds < 0:
        raise InvalidRequest("Negative durations are not supported by the floor function")
    nanos = int.from_bytes(time, "big")
    return (nanos - nanos % step.nanoseconds if step.nanoseconds else nanos).to_bytes(8, "big")


register(
    Function("floor", (TIMESTAMP, DURATION), TIMESTAMP, no_nulls(_floor_timestamp), monotonic=True),
    Function(
        "floor", (TIMESTAMP, DURATION, TIMESTAMP), TIMESTAMP, no_nulls(_floor_timestamp), monotonic=True
    ),
    Function("floor", (TIMEUUID, DURATION), TIMESTAMP, no_nulls(_floor_uuid), monotonic=True),
    Function("floor", (TIMEUUID, DURATION, TIMESTAMP), TIMESTAMP, no_nulls(_floor_uuid), monotonic=True),
    Function("floor", (DATE, DURATION), DATE, no_nulls(_floor_date), monotonic=True),
    Function("floor", (DATE, DURATION, DATE), DATE, no_nulls(_floor_date), monotonic=True),
    Function("floor", (TIME, DURATION), TIME, no_nulls(_floor_time), monotonic=True),
)
