"""Options that only materialized views have: how they are built, read while building, and kept.

`build` is a contract with whoever builds the view: whether CREATE waits for it, whether it starts at once or
is held until resumed, how many rows a second it may read, and which of several builds goes first.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from belvedere.query.errors import ConfigurationError
from belvedere.query.schema.option_values import PropertyValue, as_boolean, as_integer, as_map

MAX_PRIORITY = 100


def _flag(name: str, value: str) -> str:
    return "true" if as_boolean(name, value) else "false"


def _rate(name: str, value: str) -> str:
    rate = as_integer(name, value)
    if rate < 1:
        raise ConfigurationError(f"{name} must be greater than or equal to 1 (got {rate})")
    return str(rate)


def _priority(name: str, value: str) -> str:
    priority = as_integer(name, value)
    if not -MAX_PRIORITY <= priority <= MAX_PRIORITY:
        raise ConfigurationError(
            f"{name} must be between -{MAX_PRIORITY} and {MAX_PRIORITY} (got {priority})"
        )
    return str(priority)


#: max_rate is in rows of the base a second; of builds that wait the highest priority goes first.
_BUILD_READERS: Mapping[str, Callable[[str, str], str]] = MappingProxyType(
    {"wait": _flag, "hold": _flag, "max_rate": _rate, "priority": _priority}
)


def _build(name: str, value: PropertyValue) -> dict[str, str]:
    given = as_map(name, value)
    unknown = sorted(given.keys() - _BUILD_READERS.keys())
    if unknown:
        raise ConfigurationError(f"Invalid sub-option '{unknown[0]}' for the 'build' option")
    options = {option: _BUILD_READERS[option](option, text) for option, text in given.items()}
    if options.get("wait") == options.get("hold") == "true":
        raise ConfigurationError("A build cannot be waited for while it is held: give 'wait' or 'hold'")
    return dict(sorted(options.items()))


#: In the order of DESCRIBE. Kept only where they are given.
VIEW_READERS: Mapping[str, Callable[[str, PropertyValue], object]] = MappingProxyType(
    {"build": _build, "read_while_building": as_boolean, "synchronous_updates": as_boolean}
)
