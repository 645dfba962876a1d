"""Conversions between time UUIDs, timestamps, dates and numbers of milliseconds."""

from belvedere.model.types import BIGINT, DATE, TIMESTAMP, TIMEUUID
from belvedere.query.errors import InvalidRequest
from belvedere.query.functions.registry import Function, no_nulls, register
from belvedere.query.functions.uuid import intervals_of

DAY_MILLIS = 86_400_000
EPOCH_DAY = 2**31


def millis_of_uuid(uuid: bytes) -> int:
    return intervals_of(uuid) // 10_000


def millis_of_date(date: bytes) -> int:
    return (int.from_bytes(date, "big") - EPOCH_DAY) * DAY_MILLIS


def timestamp_wire(millis: int) -> bytes:
    return millis.to_bytes(8, "big", signed=True)


def date_wire(millis: int) -> bytes:
    day = millis // DAY_MILLIS + EPOCH_DAY
    if not 0 <= day < 2**32:
        raise InvalidRequest(f"Timestamp {millis} is out of the range of dates")
    return day.to_bytes(4, "big")


def uuid_to_timestamp(uuid: bytes) -> bytes:
    return timestamp_wire(millis_of_uuid(uuid))


def uuid_to_date(uuid: bytes) -> bytes:
    return date_wire(millis_of_uuid(uuid))


def timestamp_to_date(timestamp: bytes) -> bytes:
    return date_wire(int.from_bytes(timestamp, "big", signed=True))


def date_to_timestamp(date: bytes) -> bytes:
    return timestamp_wire(millis_of_date(date))


def _same(value: bytes) -> bytes:
    return value


for _name in ("to_date", "todate"):
    register(
        Function(_name, (TIMEUUID,), DATE, no_nulls(uuid_to_date), monotonic=True),
        Function(_name, (TIMESTAMP,), DATE, no_nulls(timestamp_to_date), monotonic=True),
    )
for _name in ("to_timestamp", "totimestamp"):
    register(
        Function(_name, (TIMEUUID,), TIMESTAMP, no_nulls(uuid_to_timestamp), monotonic=True),
        Function(_name, (DATE,), TIMESTAMP, no_nulls(date_to_timestamp), monotonic=True),
    )
for _name in ("to_unix_timestamp", "tounixtimestamp"):
    # A timestamp's bytes are those of its number of milliseconds.
    register(
        Function(_name, (TIMEUUID,), BIGINT, no_nulls(uuid_to_timestamp), monotonic=True),
        Function(_name, (TIMESTAMP,), BIGINT, no_nulls(_same), monotonic=True),
        Function(_name, (DATE,), BIGINT, no_nulls(date_to_timestamp), monotonic=True),
    )
for _name in ("date_of", "dateof"):
    register(Function(_name, (TIMEUUID,), TIMESTAMP, no_nulls(uuid_to_timestamp), monotonic=True))
for _name in ("unix_timestamp_of", "unixtimestampof"):
    register(Function(_name, (TIMEUUID,), BIGINT, no_nulls(uuid_to_timestamp), monotonic=True))
