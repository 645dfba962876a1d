"""Table options: names, defaults and checks as in Cassandra 5.0, and `tablets`.

A table keeps the full set of options, so that later defaults never change an existing table. Options about
Cassandra's own files (compaction, compression, …) are kept and shown but steer nothing here.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from belvedere.cql.syntax import Properties
from belvedere.query.errors import ConfigurationError, InvalidRequest
from belvedere.query.schema.option_values import (
    PropertyValue,
    as_boolean,
    as_double,
    as_integer,
    as_map,
    as_text,
    known_properties,
)
from belvedere.query.schema.table_options_maps import (
    check_caching,
    check_compaction,
    check_compression,
    check_extensions,
)
from belvedere.query.schema.table_options_views import VIEW_READERS

MAX_TTL = 20 * 365 * 24 * 3600
DEFAULT_TABLETS = 4
MAX_TABLETS = 1024

#: In the order of DESCRIBE.
DEFAULTS: Mapping[str, object] = MappingProxyType(
    {
        "additional_write_policy": "99p",
        "allow_auto_snapshot": True,
        "bloom_filter_fp_chance": 0.01,
        "caching": {"keys": "ALL", "rows_per_partition": "NONE"},
        "cdc": False,
        "comment": "",
        "compaction": check_compaction({"class": "SizeTieredCompactionStrategy"}),
        "compression": check_compression({"class": "LZ4Compressor"}),
        "memtable": "default",
        "crc_check_chance": 1.0,
        "default_time_to_live": 0,
        "extensions": {},
        "gc_grace_seconds": 864_000,
        "incremental_backups": True,
        "max_index_interval": 2048,
        "memtable_flush_period_in_ms": 0,
        "min_index_interval": 128,
        "read_repair": "BLOCKING",
        "speculative_retry": "99p",
    }
)

#: Options of older versions: accepted so that old schemas load, and forgotten.
OBSOLETE = frozenset(
    {
        "dclocal_read_repair_chance",
        "read_repair_chance",
        "index_interval",
        "replicate_on_write",
        "populate_io_cache_on_flush",
    }
)


def new_options(properties: Properties, *, view: bool = False) -> dict[str, object]:
    """The complete options of a new table."""
    return _changed(dict(DEFAULTS), properties, creating=True, view=view)


def altered_options(
    options: Mapping[str, object], properties: Properties, *, view: bool = False
) -> dict[str, object]:
    return _changed({**DEFAULTS, **options}, properties, creating=False, view=view)


def initial_tablets(options: Mapping[str, object], default: int) -> int:
    tablets = options.get("tablets")
    return int(tablets["initial"]) if isinstance(tablets, dict) else default


def ignored_properties(properties: Properties) -> tuple[str, ...]:
    """Warnings about what was accepted for compatibility and has no effect."""
    return tuple(
        f"The property '{found.name}' is ignored"
        for found in properties
        if found.name in OBSOLETE or found.name == "id"
    )


def _changed(
    options: dict[str, object], properties: Properties, *, creating: bool, view: bool
) -> dict[str, object]:
    readers = {**_READERS, **VIEW_READERS} if view else _READERS
    # DESCRIBE … WITH INTERNALS writes the id; a new table gets a fresh one all the same.
    known = {*readers, *OBSOLETE, *(("id",) if creating else ())}
    given = known_properties(properties, known)
    if "tablets" in given and not creating:
        raise InvalidRequest("'tablets' can only be given when a table is created")
    for name, value in given.items():
        if name in readers:
            options[name] = readers[name](name, value)
    low, high = options["min_index_interval"], options["max_index_interval"]
    assert isinstance(low, int)
    assert isinstance(high, int)
    if high < low:
        raise ConfigurationError(
            f"max_index_interval must be greater than or equal to min_index_interval ({low}) (got {high})"
        )
    return options


# --- one option each ---------------------------------------------------------------------------------


def _at_least(low: int, high: int | None = None) -> Callable[[str, PropertyValue], object]:
    def read(name: str, value: PropertyValue) -> object:
        number = as_integer(name, value)
        if number < low:
            raise ConfigurationError(f"{name} must be greater than or equal to {low} (got {number})")
        if high is not None and number > high:
            raise ConfigurationError(f"{name} must be less than or equal to {high} (got {number})")
        return number

    return read


def _bloom_filter(name: str, value: PropertyValue) -> float:
    low = 6.71e-5
    chance = as_double(name, value)
    if not low < chance <= 1:
        raise ConfigurationError(
            f"{name} must be larger than {low} and less than or equal to 1.0 (got {chance})"
        )
    return chance


def _crc_check(name: str, value: PropertyValue) -> float:
    chance = as_double(name, value)
    if not 0 <= chance <= 1:
        raise ConfigurationError(
            f"{name} must be larger than or equal to 0 and smaller than or equal to 1.0 (got {chance})"
        )
    return chance


def _retry_policy(name: str, value: PropertyValue) -> str:
    """NEVER, ALWAYS, a percentile (99p, 99PERCENTILE), milliseconds (50ms), or MIN/MAX(a, b) of two."""
    text = as_text(name, value)
    word = text.strip().upper()
    if word in ("NEVER", "NONE", "ALWAYS"):
        return "NEVER" if word == "NONE" else word
    parts = [word]
    if word[:4] in ("MIN(", "MAX(") and word.endswith(")"):
        parts = word[4:-1].split(",")
        if len(parts) != 2:
            parts = [""]
    if not all(_is_threshold(part.strip()) for part in parts):
        raise ConfigurationError(f"Specified Speculative Retry Policy [{text}] is not supported")
    return word.replace("PERCENTILE", "p").replace("P", "p").replace("MS", "ms").replace(" ", "")


def _is_threshold(word: str) -> bool:
    for suffix, limit in (("PERCENTILE", 100.0), ("P", 100.0), ("MS", float("inf"))):
        if word.endswith(suffix):
            try:
                return 0 <= float(word.removesuffix(suffix)) <= limit
            except ValueError:
                return False
    return False


def _read_repair(name: str, value: PropertyValue) -> str:
    text = as_text(name, value).upper()
    if text not in ("NONE", "BLOCKING"):
        raise ConfigurationError(
            f"Invalid value for '{name}': only NONE and BLOCKING are allowed (got {text})"
        )
    return text


def _tablets(name: str, value: PropertyValue) -> dict[str, str]:
    options = as_map(name, value)
    for option in options:
        if option != "initial":
            raise ConfigurationError(f"Invalid sub-option '{option}' for the 'tablets' option")
    if "initial" not in options:
        raise ConfigurationError("Missing sub-option 'initial' for the 'tablets' option.")
    count = as_integer("initial", options["initial"])
    if not 1 <= count <= MAX_TABLETS:
        raise ConfigurationError(
            f"The number of initial tablets must be between 1 and {MAX_TABLETS} (got {count})"
        )
    return {"initial": str(count)}


def _memtable(name: str, value: PropertyValue) -> str:
    text = as_text(name, value)
    if text != "default":
        raise ConfigurationError(f'Memtable configuration "{text}" not found.')
    return text


def _map_option(check: Callable[[dict[str, str]], dict[str, str]]) -> Callable[[str, PropertyValue], object]:
    return lambda name, value: check(as_map(name, value))


_READERS: Mapping[str, Callable[[str, PropertyValue], object]] = {
    "additional_write_policy": _retry_policy,
    "allow_auto_snapshot": as_boolean,
    "bloom_filter_fp_chance": _bloom_filter,
    "caching": _map_option(check_caching),
    "cdc": as_boolean,
    "comment": as_text,
    "compaction": _map_option(check_compaction),
    "compression": _map_option(check_compression),
    "memtable": _memtable,
    "crc_check_chance": _crc_check,
    "default_time_to_live": _at_least(0, MAX_TTL),
    "extensions": _map_option(check_extensions),
    "gc_grace_seconds": _at_least(0),
    "incremental_backups": as_boolean,
    "max_index_interval": _at_least(1),
    "memtable_flush_period_in_ms": _at_least(0),
    "min_index_interval": _at_least(1),
    "read_repair": _read_repair,
    "speculative_retry": _retry_policy,
    "tablets": _tablets,
}

__all__ = [
    "DEFAULTS",
    "DEFAULT_TABLETS",
    "MAX_TABLETS",
    "altered_options",
    "ignored_properties",
    "initial_tablets",
    "new_options",
]
