"""What a SELECT clause computes: selectors evaluated on one row, or gathered over a group of rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from belvedere.model.types import CQLType
from belvedere.query.access import Execution, Unset
from belvedere.query.errors import InvalidRequest
from belvedere.query.functions.registry import Aggregate, Function
from belvedere.query.select.row_views import Reader, RowView
from belvedere.query.terms.values import TermValue

Wire = bytes | None


class GroupState(Protocol):
    """A selector's state while the rows of one group go by."""

    def add(self, view: RowView) -> None: ...
    def result(self) -> Wire: ...


class Selector(Protocol):
    @property
    def type(self) -> CQLType: ...

    @property
    def name(self) -> str:
        """The name of the result column, unless an alias is given."""

    @property
    def has_aggregate(self) -> bool: ...

    def read(self, view: RowView, execution: Execution) -> Wire:
        """The value for one row; not for selectors with aggregates."""

    def group(self, execution: Execution) -> GroupState: ...


class FirstRow:
    """Without an aggregate a group shows the values of its first row."""

    __slots__ = ("execution", "selector", "view")

    def __init__(self, selector: Selector, execution: Execution) -> None:
        self.selector = selector
        self.execution = execution
        self.view: RowView | None = None

    def add(self, view: RowView) -> None:
        if self.view is None:
            self.view = view

    def result(self) -> Wire:
        return self.selector.read(NO_ROW if self.view is None else self.view, self.execution)


class _NoRow(RowView):
    """What a query without any row aggregates over: every column is null."""

    __slots__ = ()

    def __init__(self) -> None:
        self.token, self.key = 0, b""
        self.static = self.clustering_key = self.row = self._clustering = None

    def key_part(self, position: int) -> Wire:
        return None


NO_ROW = _NoRow()


@dataclass(frozen=True, slots=True)
class ReaderSelector:
    """A column, a cell's write time: anything read from the row alone."""

    type: CQLType
    name: str
    reader: Reader
    has_aggregate = False

    def read(self, view: RowView, execution: Execution) -> Wire:
        return self.reader(view)

    def group(self, execution: Execution) -> GroupState:
        return FirstRow(self, execution)


@dataclass(frozen=True, slots=True)
class TimedSelector:
    """Like ReaderSelector, for values that depend on the time of reading."""

    type: CQLType
    name: str
    reader: Callable[[RowView, int], Wire]
    has_aggregate = False

    def read(self, view: RowView, execution: Execution) -> Wire:
        return self.reader(view, execution.now)

    def group(self, execution: Execution) -> GroupState:
        return FirstRow(self, execution)


@dataclass(frozen=True, slots=True)
class TermSelector:
    """A literal, a bind variable."""

    type: CQLType
    name: str
    term: TermValue
    has_aggregate = False

    def read(self, view: RowView, execution: Execution) -> Wire:
        value = self.term.evaluate(execution)
        if isinstance(value, Unset):
            raise InvalidRequest("Invalid unset value in the selection clause")
        return value

    def group(self, execution: Execution) -> GroupState:
        return FirstRow(self, execution)


@dataclass(frozen=True, slots=True)
class CallSelector:
    """A function of other selectors: calls, casts, operators, access to parts, literals with columns."""

    type: CQLType
    name: str
    call: Callable[[Sequence[Wire], Execution], Wire]
    arguments: tuple[Selector, ...]
    #: Whether larger columns never give a smaller value.
    monotonic: bool = False

    @property
    def has_aggregate(self) -> bool:
        return any(argument.has_aggregate for argument in self.arguments)

    def read(self, view: RowView, execution: Execution) -> Wire:
        return self.call([argument.read(view, execution) for argument in self.arguments], execution)

    def group(self, execution: Execution) -> GroupState:
        if not self.has_aggregate:
            return FirstRow(self, execution)
        return _CallState(self, [argument.group(execution) for argument in self.arguments], execution)


class _CallState:
    __slots__ = ("execution", "selector", "states")

    def __init__(self, selector: CallSelector, states: list[GroupState], execution: Execution) -> None:
        self.selector, self.states, self.execution = selector, states, execution

    def add(self, view: RowView) -> None:
        for state in self.states:
            state.add(view)

    def result(self) -> Wire:
        return self.selector.call([state.result() for state in self.states], self.execution)


@dataclass(frozen=True, slots=True)
class AggregateSelector:
    """An aggregate function over the rows of a group."""

    aggregate: Aggregate
    name: str
    arguments: tuple[Selector, ...]
    has_aggregate = True

    @property
    def type(self) -> CQLType:
        return self.aggregate.return_type

    def read(self, view: RowView, execution: Execution) -> Wire:
        raise AssertionError("an aggregate has no value for a single row")

    def group(self, execution: Execution) -> GroupState:
        return _AggregateState(self, execution)


class _AggregateState:
    __slots__ = ("accumulator", "arguments", "execution")

    def __init__(self, selector: AggregateSelector, execution: Execution) -> None:
        self.accumulator = selector.aggregate.start()
        self.arguments = selector.arguments
        self.execution = execution

    def add(self, view: RowView) -> None:
        self.accumulator.add([argument.read(view, self.execution) for argument in self.arguments])

    def result(self) -> Wire:
        return self.accumulator.result()


def call_selector(function: Function, arguments: Sequence[Selector]) -> CallSelector:
    name = function.column_name([argument.name for argument in arguments])
    monotonic = function.monotonic and all(
        argument.monotonic if isinstance(argument, CallSelector) else not argument.has_aggregate
        for argument in arguments
    )
    return CallSelector(function.return_type, name, function.call, tuple(arguments), monotonic)
