"""Function calls, casts, arithmetic and type hints as values of statements."""

from collections.abc import Sequence
from dataclasses import dataclass

from belvedere.cql.syntax import Arithmetic, Cast, Constant, Expression, FunctionCall, Negation, TypeHint
from belvedere.model.types import CQLType
from belvedere.query.access import BoundValue, Execution, Unset
from belvedere.query.errors import InvalidRequest
from belvedere.query.functions.registry import Call, Fit, Function, fit_types, lookup
from belvedere.query.results import ResultColumn
from belvedere.query.terms.fit import NodeArgument, describe, fit_of
from belvedere.query.terms.types import resolve_type
from belvedere.query.terms.values import BindCollector, ConstantTerm, TermValue, checked, prepare_term

#: What operators are called among the native functions.
OPERATORS = {"+": "_add", "-": "_substract", "*": "_multiply", "/": "_divide", "%": "_modulo"}
NEGATION = "_negate"
CAST_PREFIX = "castas"

CallNode = FunctionCall | Cast | Arithmetic | Negation


@dataclass(frozen=True, slots=True)
class CallTerm:
    type: CQLType
    name: str
    call: Call
    arguments: tuple[TermValue, ...]
    has_marker: bool
    is_constant = False

    def evaluate(self, execution: Execution) -> BoundValue:
        values: list[bytes | None] = []
        for argument in self.arguments:
            value = argument.evaluate(execution)
            if isinstance(value, Unset):
                raise InvalidRequest(f"Invalid unset value for argument in call to function {self.name}")
            values.append(value)
        return self.call(values, execution)


@dataclass(frozen=True, slots=True)
class ConvertedTerm:
    """A value whose type is close enough to the receiver's; the receiver has the last word on its bytes."""

    type: CQLType
    inner: TermValue
    has_marker: bool
    is_constant = False

    def evaluate(self, execution: Execution) -> BoundValue:
        value = self.inner.evaluate(execution)
        return checked(self.type, value) if isinstance(value, bytes) else value


def prepare_hint(node: TypeHint, receiver: ResultColumn, collector: BindCollector) -> TermValue:
    """`(type) value`: the hint must fit the receiver, and the value the hint."""
    hint = resolve_type(node.type, collector.user_type)
    if fit_of(node.value, hint, collector) is Fit.NONE:
        raise InvalidRequest(f"Cannot cast value {describe(node.value)} to type {hint.name}")
    if fit_types(hint, receiver.type) is Fit.NONE:
        raise InvalidRequest(
            f"Cannot assign value {describe(node)} to {receiver.name} of type {receiver.type.name}"
        )
    inner = ResultColumn(receiver.keyspace, receiver.table, receiver.name, hint)
    return _converted(prepare_term(node.value, inner, collector), receiver.type)


def prepare_call(node: CallNode, receiver: ResultColumn, collector: BindCollector) -> TermValue:
    function = resolve(node, collector, receiver.type)
    if fit_types(function.return_type, receiver.type) is Fit.NONE:
        raise InvalidRequest(
            f"Type error: cannot assign result of function system.{function.name} "
            f"(type {function.return_type.name}) to {receiver.name} (type {receiver.type.name})"
        )
    arguments = [
        prepare_term(
            argument,
            ResultColumn(receiver.keyspace, receiver.table, f"arg{index}({function.name})", type_),
            collector,
        )
        for index, (argument, type_) in enumerate(zip(operands(node), function.argument_types, strict=True))
    ]
    has_marker = any(argument.has_marker for argument in arguments)
    call = CallTerm(function.return_type, function.name, function.call, tuple(arguments), has_marker)
    if function.pure and all(isinstance(argument, ConstantTerm) for argument in arguments):
        return _converted(ConstantTerm(function.return_type, _compute(call)), receiver.type)
    return _converted(call, receiver.type)


def _compute(call: CallTerm) -> bytes | None:
    """The value of a call whose arguments are known while planning."""
    nothing = Execution(access=None)  # type: ignore[arg-type]
    value = call.evaluate(nothing)
    assert not isinstance(value, Unset)
    return value


def _converted(term: TermValue, type_: CQLType) -> TermValue:
    if term.type.frozen() == type_.frozen():
        return term
    if isinstance(term, ConstantTerm):
        return ConstantTerm(type_, None if term.value is None else checked(type_, term.value))
    return ConvertedTerm(type_, term, term.has_marker)


def operands(node: CallNode) -> Sequence[Expression]:
    match node:
        case FunctionCall():
            return node.arguments
        case Cast():
            return (node.value,)
        case Arithmetic():
            return (node.left, node.right)
        case Negation():
            return (node.operand,)


def resolve(node: CallNode, collector: BindCollector, receiver: CQLType | None) -> Function:
    """The function behind a call, a cast or an operator."""
    arguments = [NodeArgument(operand, collector) for operand in operands(node)]
    match node:
        case FunctionCall():
            found = lookup(node.name, arguments, receiver, keyspace=node.keyspace)
        case Cast():
            target = resolve_type(node.type, collector.user_type)
            found = lookup(CAST_PREFIX + target.name, arguments, receiver)
        case Arithmetic():
            found = lookup(OPERATORS[node.operator], arguments, receiver)
        case Negation():
            found = lookup(NEGATION, arguments, receiver)
    if not isinstance(found, Function):
        raise InvalidRequest(f"aggregation function are not supported in the where clause: {found.name}")
    return found


def result_type(node: CallNode, collector: BindCollector) -> CQLType | None:
    """The type of a call by itself, None if it depends on what receives it."""
    if all(isinstance(operand, Constant) for operand in operands(node)) and isinstance(node, Arithmetic):
        return resolve(node, collector, None).return_type
    try:
        return resolve(node, collector, None).return_type
    except InvalidRequest:
        return None
