"""Procedures: what a node does on request that is no query, called as `CALL name(arguments)`.

Any client of CQL can call them. Each call runs as a task of its own: what was asked goes on if the client
goes away. When the node stops, calls under way are cancelled; a procedure that must not be left half done
runs that part with `to_the_end`, and like everything else it must survive a crash.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

from belvedere.cql.syntax import Call
from belvedere.model.types import CQLType, InvalidValue, quote_text
from belvedere.query.access import Execution, Plan
from belvedere.query.errors import InvalidRequest, ServerError
from belvedere.query.results import Result, ResultColumn, Rows
from belvedere.query.schema_view import SchemaView
from belvedere.query.system.virtual import VirtualRow
from belvedere.query.terms.values import BindCollector, TermValue, prepare_term
from belvedere.runtime.api import Runtime, TaskHandle

#: What may stand in front of a procedure's name, and what its columns are said to belong to.
KEYSPACE = "belvedere"


class Required(Enum):
    """The default of a parameter that has none."""

    REQUIRED = "required"


REQUIRED = Required.REQUIRED


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: CQLType
    #: A Python value. Parameters that have one come last; null and unset stand for it, too.
    default: Any = REQUIRED

    def __str__(self) -> str:
        text = f"{self.name} {self.type.name}"
        if self.default is REQUIRED:
            return text
        return f"{text} = {quote_text(self.default) if isinstance(self.default, str) else self.default}"


#: Gets one Python value for each parameter, gives rows of Python values, or raises CQLError.
Perform = Callable[[Sequence[Any]], Awaitable[Sequence[Sequence[Any]]]]


@dataclass(frozen=True, slots=True)
class Procedure:
    name: str
    parameters: tuple[Parameter, ...]
    #: Names and types of the result's columns.
    returns: tuple[tuple[str, CQLType], ...]
    run: Perform
    comment: str = ""

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.parameters))})"

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        return tuple(ResultColumn(KEYSPACE, self.name, name, type_) for name, type_ in self.returns)


class Procedures:
    """Those that a node offers, and the calls that are under way."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._offered: dict[str, Procedure] = {}
        self._running: list[TaskHandle] = []
        self._stopping = False

    def add(self, procedure: Procedure) -> None:
        defaults = [parameter.default is not REQUIRED for parameter in procedure.parameters]
        if procedure.name in self._offered or defaults != sorted(defaults):
            raise ValueError(f"procedure {procedure} cannot be offered")
        self._offered[procedure.name] = procedure

    def find(self, keyspace: str | None, name: str) -> Procedure:
        found = self._offered.get(name) if keyspace in (None, KEYSPACE) else None
        if found is None:
            known = ", ".join(str(self._offered[name]) for name in sorted(self._offered)) or "none"
            full_name = name if keyspace is None else f"{keyspace}.{name}"
            raise InvalidRequest(f"Unknown procedure {full_name}; there are: {known}")
        return found

    def rows(self) -> Iterable[VirtualRow]:
        """Of system_views.procedures."""
        for procedure in self._offered.values():
            yield {
                "name": procedure.name,
                "parameters": [str(parameter) for parameter in procedure.parameters],
                "returns": [f"{name} {type_.name}" for name, type_ in procedure.returns],
                "comment": procedure.comment,
            }

    async def run(self, procedure: Procedure, arguments: Sequence[Any]) -> Sequence[Sequence[Any]]:
        if self._stopping:
            raise self._stopped(procedure)
        answers: list[Sequence[Sequence[Any]]] = []

        async def work() -> None:
            answers.append(await procedure.run(arguments))

        task = self._runtime.spawn(f"call.{procedure.name}", work())
        self._running = [task, *(other for other in self._running if not other.done())]
        await task.wait()
        if not answers:
            raise self._stopped(procedure)
        return answers[0]

    async def stop(self) -> None:
        """Nothing runs any more on return; who waited is told."""
        self._stopping = True
        tasks = [task for task in self._running if not task.done()]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(Exception):  # Whoever called has it.
                await task.wait()

    def _stopped(self, procedure: Procedure) -> ServerError:
        return ServerError(f"The node stops; call {procedure.name} again when it is back")


@dataclass(frozen=True, slots=True)
class CallPlan:
    host: Procedures
    procedure: Procedure
    #: Of the parameters given; those left out have defaults.
    arguments: tuple[TermValue, ...]
    result_columns: tuple[ResultColumn, ...]
    bindings: tuple[ResultColumn, ...]
    partition_key_bindings: tuple[int, ...] = ()

    def execute(self, execution: Execution) -> Awaitable[Result]:
        parameters = self.procedure.parameters
        given = [
            _argument(self.procedure, parameter, term, execution)
            for parameter, term in zip(parameters, self.arguments, strict=False)
        ]
        return self._run([*given, *(parameter.default for parameter in parameters[len(given) :])])

    async def _run(self, arguments: Sequence[Any]) -> Result:
        rows = await self.host.run(self.procedure, arguments)
        types = [type_ for _, type_ in self.procedure.returns]
        wire = [
            [None if value is None else type_.encode(value) for type_, value in zip(types, row, strict=True)]
            for row in rows
        ]
        return Rows(columns=self.result_columns, rows=wire)


def _argument(procedure: Procedure, parameter: Parameter, term: TermValue, execution: Execution) -> Any:
    value = term.evaluate(execution)
    if isinstance(value, bytes):
        try:
            return parameter.type.decode(value)
        except InvalidValue as error:
            raise InvalidRequest(str(error)) from None
    if parameter.default is REQUIRED:
        raise InvalidRequest(f"Invalid null value for argument {parameter.name} of procedure {procedure}")
    return parameter.default


def plan_call(node: Call, host: Procedures, schema: SchemaView, keyspace: str | None) -> Plan:
    procedure = host.find(node.keyspace, node.name)
    required = sum(parameter.default is REQUIRED for parameter in procedure.parameters)
    most, given = len(procedure.parameters), len(node.arguments)
    if not required <= given <= most:
        wanted = str(most) if required == most else f"{required} to {most}"
        raise InvalidRequest(
            f"Invalid number of arguments in call to procedure {procedure}: "
            f"{wanted} required but {given} provided"
        )
    collector = BindCollector(schema, keyspace)
    terms = tuple(
        prepare_term(
            argument, ResultColumn(KEYSPACE, procedure.name, parameter.name, parameter.type), collector
        )
        for parameter, argument in zip(procedure.parameters, node.arguments, strict=False)
    )
    return CallPlan(host, procedure, terms, procedure.result_columns, collector.bindings)
