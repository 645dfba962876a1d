"""Native functions: how they are described, found by name and arguments, and called.

`lookup` resolves as Cassandra does: an overload that fits exactly wins, else the only one that fits at all.
The functions live in the other modules of this package; each registers what it offers in `REGISTRY`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import Protocol

from belvedere.model.schema import Table
from belvedere.model.types import CQLType
from belvedere.query.access import Execution
from belvedere.query.errors import FunctionFailure, InvalidRequest

Wire = bytes | None
Call = Callable[[Sequence[Wire], Execution], Wire]


class Fit(IntEnum):
    """How well an argument may be passed where a type is expected."""

    NONE = 0
    WEAK = 1
    EXACT = 2


class Argument(Protocol):
    """What resolution must know of an argument that is not evaluated yet."""

    @property
    def known_type(self) -> CQLType | None:
        """The argument's own type; None for null, bind variables and literals without one."""

    @property
    def text(self) -> str:
        """The argument as the client wrote it, for messages and column names."""

    def fit(self, expected: CQLType) -> Fit: ...


@dataclass(frozen=True, slots=True)
class TypedArgument:
    """An argument whose type is settled: a column or the result of another function."""

    known_type: CQLType
    text: str = "arg"

    def fit(self, expected: CQLType) -> Fit:
        return fit_types(self.known_type, expected)


def fit_types(actual: CQLType, expected: CQLType) -> Fit:
    """Whether values of one type may stand where another is expected."""
    actual, expected = actual.frozen(), expected.frozen()
    if actual == expected:
        return Fit.EXACT
    if (actual.name, expected.name) in WEAKLY_COMPATIBLE:
        return Fit.WEAK
    return Fit.NONE


#: (actual, expected): the bytes of the first are always valid bytes of the second.
WEAKLY_COMPATIBLE = frozenset(
    {("ascii", "text"), ("timeuuid", "uuid"), ("counter", "bigint"), ("bigint", "timestamp")}
    | {("timestamp", "bigint")}
)


@dataclass(frozen=True, slots=True)
class Function:
    """A scalar function with settled types."""

    name: str
    argument_types: tuple[CQLType, ...]
    return_type: CQLType
    call: Call
    #: How a result column is called: a format with one `{}` per argument; "" means `system.name(…)`.
    column_format: str = ""
    #: Whether a larger last argument never gives a smaller result (GROUP BY demands it).
    monotonic: bool = False
    #: Whether equal arguments always give equal results, so that constants may be computed while planning.
    pure: bool = True

    def column_name(self, arguments: Sequence[str]) -> str:
        if self.column_format:
            return self.column_format.format(*arguments)
        return f"system.{self.name}({', '.join(arguments)})"

    @property
    def signature(self) -> str:
        types = ", ".join(argument.name for argument in self.argument_types)
        return f"system.{self.name} : ({types}) -> {self.return_type.name}"


class Accumulator(Protocol):
    """The running state of one aggregate over one group."""

    def add(self, values: Sequence[Wire]) -> None: ...
    def result(self) -> Wire: ...


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate function with settled types; `start` makes the state of one group."""

    name: str
    argument_types: tuple[CQLType, ...]
    return_type: CQLType
    start: Callable[[], Accumulator]
    column_format: str = ""

    @property
    def monotonic(self) -> bool:
        return False

    def column_name(self, arguments: Sequence[str]) -> str:
        return self.column_format or f"system.{self.name}({', '.join(arguments)})"

    @property
    def signature(self) -> str:
        types = ", ".join(argument.name for argument in self.argument_types)
        return f"system.{self.name} : ({types}) -> {self.return_type.name}"


AnyFunction = Function | Aggregate


@dataclass(frozen=True, slots=True)
class Request:
    """A call to resolve."""

    name: str
    arguments: tuple[Argument, ...]
    receiver: CQLType | None
    table: Table | None


#: Makes overloads for a call; used where the types depend on the arguments or the receiver.
Factory = Callable[[Request], Sequence[AnyFunction]]

MODULES = (
    "aggregates",
    "arithmetic",
    "blob",
    "cast",
    "collections",
    "json",
    "mask",
    "math",
    "text",
    "time",
    "time_floor",
    "token",
    "uuid",
    "vector",
)

REGISTRY: dict[str, list[AnyFunction | Factory]] = {}


def register(*functions: AnyFunction) -> None:
    for function in functions:
        REGISTRY.setdefault(function.name, []).append(function)


def register_factory(factory: Factory, *names: str) -> None:
    for name in names:
        REGISTRY.setdefault(name, []).append(factory)


@cache
def load() -> None:
    """Import every module that registers functions; here, not at the top, because they import this one."""
    for module in MODULES:
        import_module(f"belvedere.query.functions.{module}")


def lookup(
    name: str,
    arguments: Sequence[Argument],
    receiver: CQLType | None = None,
    *,
    keyspace: str | None = None,
    table: Table | None = None,
) -> AnyFunction:
    """The overload to call; InvalidRequest in Cassandra's words if there is none or more than one."""
    key = name.lower()
    load()
    if keyspace not in (None, "system") or key not in REGISTRY:
        qualified = f"{keyspace}.{name}" if keyspace else name
        raise InvalidRequest(f"Unknown function '{qualified}'")
    request = Request(key, tuple(arguments), receiver, table)
    candidates: list[AnyFunction] = []
    for entry in REGISTRY[key]:
        candidates.extend(entry(request) if callable(entry) else (entry,))
    return pick(key, request.arguments, candidates, receiver)


def pick(
    name: str, arguments: tuple[Argument, ...], candidates: Sequence[AnyFunction], receiver: CQLType | None
) -> AnyFunction:
    known = candidates
    if receiver is not None:
        returning = [c for c in candidates if fit_types(c.return_type, receiver) is not Fit.NONE]
        if not returning:
            raise InvalidRequest(
                f"Type error: cannot assign result of function system.{name} "
                f"(type {candidates[0].return_type.name}) to a value of type {receiver.name}"
            )
        candidates = returning
    compatible = []
    for candidate in candidates:
        fit = _fit_all(candidate, arguments)
        if fit is Fit.EXACT:
            return candidate
        if fit is Fit.WEAK:
            compatible.append(candidate)
    if len(compatible) == 1:
        return compatible[0]
    if compatible:
        raise InvalidRequest(
            f"Ambiguous call to function {name} (can be matched by following signatures: "
            f"{_signatures(compatible)}): use type casts to disambiguate"
        )
    if len(known) == 1:
        _explain_mismatch(known[0], arguments)
    raise InvalidRequest(
        f"Invalid call to function {name}, none of its type signatures match "
        f"(known type signatures: {_signatures(known)})"
    )


def _fit_all(function: AnyFunction, arguments: tuple[Argument, ...]) -> Fit:
    if len(arguments) != len(function.argument_types):
        return Fit.NONE
    fits = (
        argument.fit(expected) for argument, expected in zip(arguments, function.argument_types, strict=True)
    )
    return min(fits, default=Fit.EXACT)


def _explain_mismatch(function: AnyFunction, arguments: tuple[Argument, ...]) -> None:
    expected = function.argument_types
    if len(arguments) != len(expected):
        raise InvalidRequest(
            f"Invalid number of arguments in call to function system.{function.name}: "
            f"{len(expected)} required but {len(arguments)} provided"
        )
    for index, (argument, type_) in enumerate(zip(arguments, expected, strict=True)):
        if argument.fit(type_) is Fit.NONE:
            raise InvalidRequest(
                f"Type error: {argument.text} cannot be passed as argument {index} of function "
                f"system.{function.name} of type {type_.name}"
            )


def _signatures(functions: Sequence[AnyFunction]) -> str:
    return ", ".join(function.signature for function in functions)


# -- helpers for the modules that define functions -------------------------------------------------


def no_nulls(body: Callable[..., Wire]) -> Call:
    """A call that answers null as soon as an argument is null; `body` gets the wire values one by one."""

    def call(values: Sequence[Wire], execution: Execution) -> Wire:
        for value in values:
            if value is None:
                return None
        return body(*values)

    return call


def failure(name: str, argument_types: Sequence[CQLType], message: str) -> FunctionFailure:
    """What a client is told when a function fails on its values."""
    types = tuple(argument.name for argument in argument_types)
    return FunctionFailure(
        f"execution of 'system.{name}[{', '.join(types)}]' failed: {message}", "system", name, types
    )


def known_types(request: Request) -> tuple[CQLType, ...]:
    """All argument types, for functions that work on any type."""
    found = []
    for argument in request.arguments:
        if argument.known_type is None:
            raise InvalidRequest(
                f"Cannot infer type of argument {argument.text} in call to function "
                f"system.{request.name}: use type casts to disambiguate"
            )
        found.append(argument.known_type)
    return tuple(found)


def check_count(request: Request, *allowed: int, takes: str = "any") -> None:
    if len(request.arguments) not in allowed:
        raise InvalidRequest(f"Invalid number of arguments for function system.{request.name}({takes})")
