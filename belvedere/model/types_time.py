"""Points in time and spans of time, without a clock: timestamp, date, time of day, duration.

Calendar arithmetic is done on plain integers, because CQL's ranges (years -5877641 to 5881580 for a date)
are far wider than those of Python's datetime. Text without a time zone is read as UTC.
"""

import datetime
import re
from itertools import pairwise
from typing import Any, NamedTuple

from belvedere.model.types_base import (
    InvalidValue,
    KeyAndOffset,
    ScalarType,
    json_string,
    read_signed_vint,
    write_signed_vint,
)
from belvedere.model.types_numeric import FLIP_SIGN

# Naive on purpose: that is how drivers give timestamps.
_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001
_EPOCH_DATE = datetime.date(1970, 1, 1)
_MILLISECOND = datetime.timedelta(milliseconds=1)
_DAY_MS = 86_400_000
_DAY_NS = 86_400_000_000_000
_DATE_SHIFT = 2**31
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}\Z")
_MONTH_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def days_of(year: int, month: int, day: int) -> int | None:
    """Days since 1970-01-01 in the proleptic Gregorian calendar; None if there is no such day."""
    if not 1 <= month <= 12:
        return None
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    length = 29 if month == 2 and leap else _MONTH_LENGTHS[month - 1]
    if not 1 <= day <= length:
        return None
    # Years that begin in March put the leap day last, which makes the month lengths regular.
    shifted = year - (month <= 2)
    era, year_of_era = divmod(shifted, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def civil_of(days: int) -> tuple[int, int, int]:
    """Year, month and day of a count of days since 1970-01-01."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    month = (shifted_month + 2) % 12 + 1
    year = year_of_era + era * 400 + (month <= 2)
    return year, month, day_of_year - (153 * shifted_month + 2) // 5 + 1


def _date_text(days: int) -> str:
    year, month, day = civil_of(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


_TIMESTAMP = re.compile(
    r"([+-]?\d{4,9})-(\d{1,2})-(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?)?"
    r"\s?(Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?\Z",
    re.IGNORECASE | re.ASCII,
)


def parse_timestamp(text: str) -> int:
    """Milliseconds since the epoch of any of the timestamp forms CQL knows."""
    if _INTEGER.match(text):
        millis = int(text)
    else:
        found = _TIMESTAMP.match(text)
        if not found:
            raise InvalidValue(f"Unable to parse a date/time from '{text}'")
        year, month, day, hour, minute, second, fraction, zone = found.groups()
        days = days_of(int(year), int(month), int(day))
        hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
        if days is None or hours > 23 or minutes > 59 or seconds > 59:
            raise InvalidValue(f"Unable to parse a date/time from '{text}'")
        millis = days * _DAY_MS + ((hours * 60 + minutes) * 60 + seconds) * 1000
        millis += int((fraction or "0")[:3].ljust(3, "0")) - _zone_offset_ms(zone or "Z")
    if not -(2**63) <= millis < 2**63:
        raise InvalidValue(f"Unable to parse a date/time from '{text}'")
    return millis


def _zone_offset_ms(zone: str) -> int:
    if zone[0] not in "+-":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return minutes * (-60_000 if zone[0] == "-" else 60_000)


class TimestampType(ScalarType):
    """Milliseconds since the epoch. In Python a naive datetime in UTC, or an int beyond its range."""

    name = "timestamp"
    marshal_name = "org.apache.cassandra.db.marshal.TimestampType"
    option_id = 0x0B
    fixed_width = vector_width = 8
    quoted_literal = True

    def encode(self, value: Any) -> bytes:
        if isinstance(value, datetime.datetime):
            if value.tzinfo is not None:
                value = value.astimezone(datetime.UTC).replace(tzinfo=None)
            millis: int = (value - _EPOCH) // _MILLISECOND
            return millis.to_bytes(8, "big", signed=True)
        if isinstance(value, datetime.date):
            return ((value - _EPOCH_DATE).days * _DAY_MS).to_bytes(8, "big", signed=True)
        if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
            return value.to_bytes(8, "big", signed=True)
        raise self._wrong_value(value)

    def decode(self, wire: bytes) -> datetime.datetime | int:
        millis = int.from_bytes(wire, "big", signed=True)
        try:
            return _EPOCH + datetime.timedelta(milliseconds=millis)
        except OverflowError:
            return millis

    def validate(self, wire: bytes) -> None:
        if len(wire) != 8:
            self._check_width(wire, "Expected 8 or 0 byte long for date (%d)")

    def parse_text(self, text: str) -> bytes:
        return parse_timestamp(text).to_bytes(8, "big", signed=True)

    def _text(self, wire: bytes, separator: str) -> str:
        days, millis = divmod(int.from_bytes(wire, "big", signed=True), _DAY_MS)
        seconds, millis = divmod(millis, 1000)
        hours, minutes = divmod(seconds // 60, 60)
        return f"{_date_text(days)}{separator}{hours:02d}:{minutes:02d}:{seconds % 60:02d}.{millis:03d}Z"

    def to_string(self, wire: bytes) -> str:
        return self._text(wire, "T")

    def to_json_text(self, wire: bytes) -> str:
        return json_string(self._text(wire, " "))

    def from_json(self, value: Any) -> bytes:
        if isinstance(value, str):
            return self.parse_text(value)
        if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
            raise self._wrong_json("a long or a datestring representation of a timestamp value", value)
        return value.to_bytes(8, "big", signed=True)

    def to_key(self, wire: bytes) -> bytes:
        return FLIP_SIGN[wire[0]] + wire[1:]

    def from_key(self, buffer: bytes, offset: int) -> KeyAndOffset:
        return FLIP_SIGN[buffer[offset]] + buffer[offset + 1 : offset + 8], offset + 8


class DateType(ScalarType):
    """Days as an unsigned number with the epoch at 2^31. In Python a date, or an int of days since 1970."""

    name = "date"
    marshal_name = "org.apache.cassandra.db.marshal.SimpleDateType"
    option_id, since_protocol = 0x11, 4
    fixed_width = 4
    quoted_literal = True

    def encode(self, value: Any) -> bytes:
        if isinstance(value, datetime.datetime):
            value = value.date()
        if isinstance(value, datetime.date):
            days = (value - _EPOCH_DATE).days
        else:
            days = getattr(value, "days_from_epoch", value)
        if not isinstance(days, int) or isinstance(days, bool) or not -_DATE_SHIFT <= days < _DATE_SHIFT:
            raise self._wrong_value(value)
        return (days + _DATE_SHIFT).to_bytes(4, "big")

    def decode(self, wire: bytes) -> datetime.date | int:
        days = int.from_bytes(wire, "big") - _DATE_SHIFT
        try:
            return _EPOCH_DATE + datetime.timedelta(days=days)
        except OverflowError:
            return days

    def validate(self, wire: bytes) -> None:
        if len(wire) != 4:
            self._check_width(wire, "Expected 4 byte long for date (%d)")

    def parse_text(self, text: str) -> bytes:
        if _INTEGER.match(text):  # a bare number is the unsigned one of the wire
            raw: int | None = int(text)
        else:
            found = re.fullmatch(r"([+-]?\d{1,7})-(\d{1,2})-(\d{1,2})", text, re.ASCII)
            days = days_of(int(found[1]), int(found[2]), int(found[3])) if found else None
            raw = None if days is None else days + _DATE_SHIFT
        if raw is None or not 0 <= raw < 2**32:
            if _INTEGER.match(text):
                raise InvalidValue(f"Unable to make unsigned int (for date) from: '{text}'")
            raise InvalidValue(f"Unable to coerce '{text}' to a formatted date (long)")
        return raw.to_bytes(4, "big")

    def to_string(self, wire: bytes) -> str:
        return _date_text(int.from_bytes(wire, "big") - _DATE_SHIFT)

    def from_json(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise self._wrong_json("a string representation of a date value", value)
        return self.parse_text(value)

    def to_key(self, wire: bytes) -> bytes:
        return wire

    def from_key(self, buffer: bytes, offset: int) -> KeyAndOffset:
        return buffer[offset : offset + 4], offset + 4


class TimeType(ScalarType):
    """Nanoseconds since midnight, in Python an int."""

    name = "time"
    marshal_name = "org.apache.cassandra.db.marshal.TimeType"
    option_id, since_protocol = 0x12, 4
    fixed_width = 8
    quoted_literal = True

    def encode(self, value: Any) -> bytes:
        if isinstance(value, datetime.time):
            seconds = (value.hour * 60 + value.minute) * 60 + value.second
            nanos = (seconds * 1_000_000 + value.microsecond) * 1000
        else:
            nanos = getattr(value, "nanosecond_time", value)
        if not isinstance(nanos, int) or isinstance(nanos, bool) or not 0 <= nanos < _DAY_NS:
            raise self._wrong_value(value)
        return nanos.to_bytes(8, "big")

    def decode(self, wire: bytes) -> int:
        return int.from_bytes(wire, "big")

    def validate(self, wire: bytes) -> None:
        if len(wire) != 8:
            self._check_width(wire, "Expected 8 byte long for time (%d)")
        if int.from_bytes(wire, "big") >= _DAY_NS:
            raise InvalidValue(f"Input long out of bounds: {int.from_bytes(wire, 'big', signed=True)}")

    def parse_text(self, text: str) -> bytes:
        nanos = -1
        if _INTEGER.match(text):
            nanos = int(text)
        elif found := re.fullmatch(r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?", text, re.ASCII):
            hour, minute, second = int(found[1]), int(found[2]), int(found[3])
            if hour < 24 and minute < 60 and second < 60:
                fraction = int((found[4] or "0").ljust(9, "0"))
                nanos = ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + fraction
        if not 0 <= nanos < _DAY_NS:
            if _INTEGER.match(text):
                raise InvalidValue(f"Unable to make long (for time) from: '{text}'")
            raise InvalidValue(f"(TimeType) Unable to coerce '{text}' to a formatted time (long)")
        return nanos.to_bytes(8, "big")

    def to_string(self, wire: bytes) -> str:
        seconds, nanos = divmod(int.from_bytes(wire, "big"), 1_000_000_000)
        hours, minutes = divmod(seconds // 60, 60)
        return f"{hours:02d}:{minutes:02d}:{seconds % 60:02d}.{nanos:09d}"

    def from_json(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise self._wrong_json("a string representation of a time value", value)
        return self.parse_text(value)

    def to_key(self, wire: bytes) -> bytes:
        return wire

    def from_key(self, buffer: bytes, offset: int) -> KeyAndOffset:
        return buffer[offset : offset + 8], offset + 8


class Duration(NamedTuple):
    """Months, days and nanoseconds, kept apart because their lengths vary; all of one sign."""

    months: int
    days: int
    nanoseconds: int


# Unit, which part of a Duration it counts in, and how many of that part it is worth.
_UNITS = (
    ("y", 0, 12),
    ("mo", 0, 1),
    ("w", 1, 7),
    ("d", 1, 1),
    ("h", 2, 3_600_000_000_000),
    ("m", 2, 60_000_000_000),
    ("s", 2, 1_000_000_000),
    ("ms", 2, 1_000_000),
    ("us", 2, 1_000),
    ("ns", 2, 1),
)
_UNIT_NAMES = (
    *("years", "months", "weeks", "days", "hours", "minutes"),
    *("seconds", "milliseconds", "microseconds", "nanoseconds"),
)
_ASCII_UNITS = {"µs": "us", "μs": "us"}
_ANY_UNIT = r"\d{1,19}(?:mo|ms|us|µs|μs|ns|y|w|d|h|m|s)"
_STANDARD = re.compile(
    "".join(rf"(?:(\d{{1,19}}){'(?:us|µs|μs)' if unit == 'us' else unit})?" for unit, _, _ in _UNITS) + r"\Z",
    re.IGNORECASE | re.ASCII,
)
_ISO = re.compile(
    r"P(?:(\d{1,19})Y)?(?:(\d{1,19})M)?(?:(\d{1,19})D)?"
    r"(?:T(?:(\d{1,19})H)?(?:(\d{1,19})M)?(?:(\d{1,19})S)?)?\Z",
    re.ASCII,
)
_ISO_UNITS = tuple(_UNITS[index] for index in (0, 1, 3, 4, 5, 6))
_ISO_WEEKS = re.compile(r"P(\d{1,19})W\Z", re.ASCII)
_ISO_ALTERNATIVE = re.compile(r"P(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})\Z", re.ASCII)


def parse_duration(text: str) -> Duration:
    """1y2mo3d4h…, ISO 8601 with designators (P1Y2M3DT4H), weeks (P5W), or as P0001-02-03T04:05:06."""
    negative = text.startswith("-")
    body = text[1:] if negative else text
    units: tuple[tuple[str, int, int], ...] = _UNITS
    found = _STANDARD.match(body)
    if not found:
        found = _ISO_ALTERNATIVE.match(body) or _ISO.match(body)
        units = _ISO_UNITS
    if not found:
        found = _ISO_WEEKS.match(body)
        units = (_UNITS[2],)
    if not found or not any(found.groups()):
        _check_order(body)
        raise InvalidValue(f"Unable to convert '{text}' to a duration")
    parts = [0, 0, 0]
    for (_, part, worth), count in zip(units, found.groups(), strict=True):
        parts[part] += int(count or 0) * worth
    sign = -1 if negative else 1
    duration = Duration(*(sign * part for part in parts))
    check_duration(duration)
    return duration


def _check_order(text: str) -> None:
    """Say what is wrong with units that are known, but come twice or in the wrong order."""
    if not re.fullmatch(rf"(?:{_ANY_UNIT})+", text, re.IGNORECASE | re.ASCII):
        return
    symbols = [_ASCII_UNITS.get(unit, unit) for unit in re.findall(r"[^\d]+", text.lower())]
    places = [[unit for unit, _, _ in _UNITS].index(symbol) for symbol in symbols]
    for before, place in pairwise(places):
        if place == before:
            raise InvalidValue(f"Invalid duration. The {_UNIT_NAMES[place]} are specified multiple times")
        if place < before:
            raise InvalidValue(
                f"Invalid duration. The {_UNIT_NAMES[before]} should be after {_UNIT_NAMES[place]}"
            )


def check_duration(duration: Duration) -> None:
    for part, bits, label in zip(duration, (31, 31, 63), ("months", "days", "nanoseconds"), strict=True):
        if not -(2**bits) <= part < 2**bits:
            raise InvalidValue(
                f"Invalid duration. The total number of {label} must be less or equal to {2**bits - 1}"
            )
    if min(duration) < 0 < max(duration):
        raise InvalidValue(
            "The duration months, days and nanoseconds must be all of the same sign "
            f"({duration.months}, {duration.days}, {duration.nanoseconds})"
        )


class DurationType(ScalarType):
    """Three vints. Durations have no order: is a month more than 30 days?"""

    name = "duration"
    marshal_name = "org.apache.cassandra.db.marshal.DurationType"
    option_id, since_protocol = 0x15, 5
    needs_normalising = True

    @property
    def is_orderable(self) -> bool:
        return False

    def encode(self, value: Any) -> bytes:
        try:
            duration = Duration(int(value.months), int(value.days), int(value.nanoseconds))
        except AttributeError:
            raise self._wrong_value(value) from None
        check_duration(duration)
        return b"".join(map(write_signed_vint, duration))

    def _read(self, wire: bytes) -> tuple[Duration, int]:
        months, offset = read_signed_vint(wire, 0)
        days, offset = read_signed_vint(wire, offset)
        nanoseconds, offset = read_signed_vint(wire, offset)
        return Duration(months, days, nanoseconds), offset

    def decode(self, wire: bytes) -> Duration:
        return self._read(wire)[0]

    def validate(self, wire: bytes) -> None:
        if not wire:
            raise self._refuse_empty()
        if len(wire) < 3:
            raise InvalidValue(f"Expected at least 3 bytes for a duration ({len(wire)})")
        duration, end = self._read(wire)
        if end != len(wire):
            raise InvalidValue(f"Unexpected extraneous bytes after a duration ({len(wire) - end})")
        check_duration(duration)

    def normalise(self, wire: bytes) -> bytes:
        return b"".join(map(write_signed_vint, self.decode(wire)))

    def parse_text(self, text: str) -> bytes:
        return self.encode(parse_duration(text))

    def to_string(self, wire: bytes) -> str:
        duration = self.decode(wire)
        rest = [abs(part) for part in duration]
        text = "-" if min(duration) < 0 else ""
        for unit, part, worth in _UNITS:
            if unit == "w":  # days stay days: Cassandra prints 10d, not 1w3d
                continue
            count, rest[part] = divmod(rest[part], worth)
            if count:
                text += f"{count}{unit}"
        return text or "0ns"

    def to_json_text(self, wire: bytes) -> str:
        return json_string(self.to_string(wire))

    def from_json(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise self._wrong_json("a string representation of a duration", value)
        return self.parse_text(value)
