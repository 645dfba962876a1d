"""The options of the data source, checked."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import msgspec

from belvedere.spark.calls import Address, SparkFaceError

_KNOWN: Final = {
    "table": "keyspace.table, or what save and load are given as path",
    "host": "of a node (127.0.0.1)",
    "port": "of its CQL server (9042)",
    "columns": "read only these, separated by commas",
    "keys": 'read only these partitions, as JSON: {"customer": 5}, or {"customer": [5, 6], "year": 2026}',
    "badrows": "fail (default) or skip",
    "badrowspath": "a file for rows that were skipped",
    "timestamp": "write time of all rows in µs since 1970 (the present)",
    "ttl": "seconds that all rows live (what the table has)",
    "confirm.truncate": "true: with mode overwrite the table is emptied first",
}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    address: Address
    #: As CQL has it: keyspace.table, quoted where needed.
    table: str
    columns: tuple[str, ...] = ()
    #: Wanted values of each column of the partition key, as parsed JSON; None: all partitions.
    keys: Mapping[str, Sequence[Any]] | None = None
    skip_bad_rows: bool = False
    bad_rows_path: str | None = None
    timestamp: int | None = None
    ttl: int | None = None
    confirm_truncate: bool = False

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "SourceOptions":
        """Raises SparkFaceError for what is missing, unknown or no value of an option."""
        options = {name.lower(): value for name, value in given.items()}
        table = options.get("table") or options.pop("path", "")
        unknown = sorted(set(options) - set(_KNOWN))
        if unknown:
            known = "; ".join(f"{name}: {what}" for name, what in _KNOWN.items())
            raise SparkFaceError(f"belvedere has no option {unknown[0]}. There are: {known}")
        if not table:
            raise SparkFaceError('which table? For example: .option("table", "shop.orders")')
        return cls(
            Address(options.get("host", "127.0.0.1"), _number(options, "port", 9042) or 9042),
            table,
            tuple(name.strip() for name in options.get("columns", "").split(",") if name.strip()),
            _keys(options.get("keys")),
            _choice(options, "badrows", ("fail", "skip")) == "skip",
            options.get("badrowspath"),
            _number(options, "timestamp"),
            _number(options, "ttl"),
            _choice(options, "confirm.truncate", ("false", "true")) == "true",
        )

    def for_load(self) -> str:
        """The options of a load as the node takes them."""
        wanted = {"timestamp": self.timestamp, "ttl": self.ttl}
        return msgspec.json.encode({k: v for k, v in wanted.items() if v is not None}).decode()


def _keys(text: str | None) -> Mapping[str, Sequence[Any]] | None:
    if text is None:
        return None
    try:
        given = json.loads(text, parse_float=Decimal)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise SparkFaceError(f'option keys is a JSON object such as {{"customer": [5, 6]}}, not {text}')
    return {name: value if isinstance(value, list) else [value] for name, value in given.items()}


def _number(options: Mapping[str, str], name: str, default: int | None = None) -> int | None:
    text = options.get(name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise SparkFaceError(f"option {name} is a whole number, not {text!r}") from None


def _choice(options: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """The first choice is the default."""
    value = options.get(name, choices[0]).lower()
    if value not in choices:
        raise SparkFaceError(f"option {name} is {' or '.join(choices)}, not {value!r}")
    return value
