"""From the expressions of a SELECT clause to selectors: names resolved, types settled, functions chosen."""

from collections.abc import Callable, Sequence

from belvedere.cql.syntax import (
    Arithmetic,
    Cast,
    CellInfo,
    ColumnRef,
    Constant,
    CountRows,
    ElementAccess,
    Expression,
    FieldAccess,
    FunctionCall,
    ListLiteral,
    MapLiteral,
    Marker,
    Negation,
    Null,
    SetLiteral,
    SliceAccess,
    TupleLiteral,
    TypeHint,
    UserTypeLiteral,
)
from belvedere.cql.text import to_text
from belvedere.model.schema import Table
from belvedere.model.types import CQLType, ListType, MapType, SetType, TupleType, UserType, VectorType
from belvedere.query.access import Execution
from belvedere.query.errors import InvalidRequest
from belvedere.query.functions.registry import Aggregate, Argument, Fit, TypedArgument, fit_types, lookup
from belvedere.query.results import ResultColumn
from belvedere.query.schema_view import existing_column
from belvedere.query.select.row_views import column_reader
from belvedere.query.select.selectors import (
    AggregateSelector,
    CallSelector,
    ReaderSelector,
    Selector,
    TermSelector,
    call_selector,
)
from belvedere.query.select.selectors_access import element_selector, field_selector, slice_selector
from belvedere.query.select.selectors_cells import prepare_cell_info
from belvedere.query.terms.calls import CAST_PREFIX, NEGATION, OPERATORS
from belvedere.query.terms.fit import NodeArgument, natural_type
from belvedere.query.terms.types import resolve_type
from belvedere.query.terms.values import BindCollector, prepare_term

Wire = bytes | None
Literal = ListLiteral | SetLiteral | MapLiteral | TupleLiteral | UserTypeLiteral


class SelectorBuilder:
    """Builds the selectors of one statement."""

    def __init__(self, table: Table, collector: BindCollector) -> None:
        self.table = table
        self.collector = collector
        #: Columns met so far, in the order of their first use.
        self.columns: dict[str, None] = {}

    def build(self, node: Expression, expected: CQLType | None = None) -> Selector:
        """`expected` is the type that what surrounds the node asks for, if it does."""
        match node:
            case ColumnRef():
                return self.column(node.name)
            case FunctionCall() | CountRows() | Cast() | Arithmetic() | Negation():
                return self._call(node, expected)
            case CellInfo():
                return self._cell_info(node)
            case FieldAccess():
                return field_selector(self.build(node.target), node.field)
            case ElementAccess() | SliceAccess():
                return self._part(node)
            case TypeHint():
                hint = resolve_type(node.type, self.collector.user_type)
                inner = self.build(node.value, hint)
                if fit_types(inner.type, hint) is Fit.NONE:
                    raise InvalidRequest(
                        f"Cannot assign value {to_text(node.value)} to {hint.name} of type {hint.name}"
                    )
                return _renamed(inner, f"({hint.name}){inner.name}", hint)
            case TupleLiteral((single,)) if not isinstance(expected, TupleType):
                inner = self.build(single, expected)
                return _renamed(inner, f"({inner.name})", inner.type)
            case ListLiteral() | SetLiteral() | MapLiteral() | TupleLiteral() | UserTypeLiteral() if (
                has_columns(node)
            ):
                return self._literal(node, expected)
        return self._term(node, expected)

    def column(self, name: str) -> Selector:
        column = existing_column(self.table, name)
        self.columns.setdefault(name)
        return ReaderSelector(column.type, name, column_reader(column))

    def _term(self, node: Expression, expected: CQLType | None) -> Selector:
        type_ = natural_type(node, self.collector) if expected is None else expected
        name = _term_name(node)
        if type_ is None:
            raise InvalidRequest(
                f"Cannot infer type for term {name} in selection clause (try using a cast to force a type)"
            )
        receiver = ResultColumn(self.table.keyspace, self.table.name, "[selection]", type_)
        return TermSelector(type_, name, prepare_term(node, receiver, self.collector))

    # -- calls -------------------------------------------------------------------------------------

    def _call(
        self, node: FunctionCall | CountRows | Cast | Arithmetic | Negation, expected: CQLType | None
    ) -> Selector:
        name, keyspace, operands = self._callee(node)
        built: list[Selector | None] = [
            None if _is_term(operand) else self.build(operand) for operand in operands
        ]
        arguments: list[Argument] = [
            NodeArgument(operand, self.collector)
            if selector is None
            else TypedArgument(selector.type, selector.name)
            for operand, selector in zip(operands, built, strict=True)
        ]
        found = lookup(name, arguments, expected, keyspace=keyspace, table=self.table)
        selectors = [
            self._term(operand, type_) if selector is None else selector
            for operand, selector, type_ in zip(operands, built, found.argument_types, strict=True)
        ]
        if not isinstance(found, Aggregate):
            return call_selector(found, selectors)
        if any(selector.has_aggregate for selector in selectors):
            raise InvalidRequest("aggregate functions cannot be used as arguments of aggregate functions")
        label = found.column_name([selector.name for selector in selectors])
        return AggregateSelector(found, label, tuple(selectors))

    def _callee(
        self, node: FunctionCall | CountRows | Cast | Arithmetic | Negation
    ) -> tuple[str, str | None, Sequence[Expression]]:
        match node:
            case CountRows():
                return "count", None, ()
            case Cast():
                return (
                    CAST_PREFIX + resolve_type(node.type, self.collector.user_type).name,
                    None,
                    (node.value,),
                )
            case Arithmetic():
                return OPERATORS[node.operator], None, (node.left, node.right)
            case Negation():
                return NEGATION, None, (node.operand,)
        if (
            node.name.lower() == "count"
            and len(node.arguments) == 1
            and isinstance(node.arguments[0], Constant)
        ):
            return "count", node.keyspace, ()  # count(1) counts rows
        return node.name, node.keyspace, node.arguments

    def _cell_info(self, node: CellInfo) -> Selector:
        selector = prepare_cell_info(self.table, node, self.collector)
        target: Expression = node.target
        while isinstance(target, (FieldAccess, ElementAccess, SliceAccess)):
            target = target.target
        if isinstance(target, ColumnRef):
            self.columns.setdefault(target.name)
        return selector

    # -- parts of values ---------------------------------------------------------------------------

    def _part(self, node: ElementAccess | SliceAccess) -> Selector:
        target = self.build(node.target)
        type_ = target.type
        if not isinstance(type_, (ListType, SetType, MapType)):
            raise InvalidRequest(
                f"Invalid element selection: {target.name} is of type {type_.name} is not a collection"
            )
        if isinstance(type_, ListType):
            kind = "Element" if isinstance(node, ElementAccess) else "Slice"
            raise InvalidRequest(
                f"{kind} selection is only allowed on sets and maps, but {target.name} is a list"
            )
        key_type = type_.key if isinstance(type_, MapType) else type_.element
        if isinstance(node, ElementAccess):
            return element_selector(target, self.build(node.key, key_type), to_text(node.key))
        bounds = [None if bound is None else self.build(bound, key_type) for bound in (node.start, node.stop)]
        texts = ["" if bound is None else to_text(bound) for bound in (node.start, node.stop)]
        return slice_selector(target, bounds[0], bounds[1], f"{texts[0]}..{texts[1]}")

    def _literal(self, node: Literal, expected: CQLType | None) -> Selector:
        """A collection, tuple or user type literal with columns in it."""
        match node, expected:
            case UserTypeLiteral(), UserType():
                return self._user_type(node, expected)
            case UserTypeLiteral(), _:
                # Without a user type to be made, the bare names are columns: a map.
                entries = tuple((ColumnRef(name), value) for name, value in node.fields)
                return self._map(MapLiteral(entries), expected)
            case MapLiteral(), _:
                return self._map(node, expected)
            case TupleLiteral(), _:
                types = expected.types if isinstance(expected, TupleType) else [None] * len(node.elements)
                parts = [self.build(e, t) for e, t in zip(node.elements, types, strict=True)]
                tuple_type = TupleType(part.type for part in parts)
                return _composed(tuple_type, node, parts, tuple_type.build)
            case ((ListLiteral() | SetLiteral()), _):
                return self._sequence(node, expected)
        raise InvalidRequest(
            f"Cannot infer type for term {to_text(node)} in selection clause "
            "(try using a cast to force a type)"
        )

    def _sequence(self, node: ListLiteral | SetLiteral, expected: CQLType | None) -> Selector:
        element = expected.element if isinstance(expected, (ListType, SetType, VectorType)) else None
        parts = self._same_type(node.elements, element)
        type_: ListType | SetType | VectorType
        if isinstance(expected, VectorType):
            type_ = expected
            if len(parts) != type_.dimension:
                raise InvalidRequest(
                    f"Invalid vector literal: expected {type_.dimension} elements but got {len(parts)}"
                )
        else:
            type_ = ListType(parts[0].type) if isinstance(node, ListLiteral) else SetType(parts[0].type)
        return _composed(type_, node, parts, lambda values: type_.build(_present(values)))

    def _map(self, node: MapLiteral, expected: CQLType | None) -> Selector:
        key, value = (expected.key, expected.value) if isinstance(expected, MapType) else (None, None)
        keys = self._same_type([entry[0] for entry in node.entries], key)
        values = self._same_type([entry[1] for entry in node.entries], value)
        type_ = MapType(keys[0].type, values[0].type)
        half = len(keys)

        def build(parts: Sequence[Wire]) -> bytes:
            present = _present(parts)
            return type_.build(zip(present[:half], present[half:], strict=True))

        return _composed(type_, node, [*keys, *values], build)

    def _user_type(self, node: UserTypeLiteral, type_: UserType) -> Selector:
        given = dict(node.fields)
        for name in given:
            if name not in type_.field_names:
                raise InvalidRequest(
                    f"Unknown field '{name}' in value of user defined type {type_.type_name}"
                )
        places = [type_.field_names.index(name) for name in given]
        parts = [self.build(given[type_.field_names[place]], type_.types[place]) for place in places]

        def build(values: Sequence[Wire]) -> bytes:
            fields: list[Wire] = [None] * len(type_.types)
            for place, value in zip(places, values, strict=True):
                fields[place] = value
            return type_.build(fields)

        return _composed(type_, node, parts, build)

    def _same_type(self, nodes: Sequence[Expression], expected: CQLType | None) -> list[Selector]:
        if expected is None:
            leading = (
                next(node for node in nodes if not _is_term(node))
                if any(not _is_term(node) for node in nodes)
                else nodes[0]
            )
            expected = self.build(leading).type
        parts = [self.build(node, expected) for node in nodes]
        for part in parts:
            if fit_types(part.type, expected) is Fit.NONE:
                raise InvalidRequest(
                    f"Invalid collection literal: {part.name} of type {part.type.name} "
                    f"is not of type {expected.name}"
                )
        return parts


def _is_term(node: Expression) -> bool:
    """Whether a node takes its type from what receives it."""
    match node:
        case Constant() | Null() | Marker():
            return True
        case ListLiteral() | SetLiteral() | MapLiteral() | UserTypeLiteral() | TupleLiteral():
            return not has_columns(node)
    return False


def has_columns(node: Expression) -> bool:
    match node:
        case ColumnRef() | CellInfo() | CountRows():
            return True
        case ListLiteral() | SetLiteral() | TupleLiteral():
            return any(map(has_columns, node.elements))
        case MapLiteral():
            return any(has_columns(part) for entry in node.entries for part in entry)
        case UserTypeLiteral():
            return True  # its names may be those of columns
        case FunctionCall():
            return any(map(has_columns, node.arguments))
        case Cast() | TypeHint():
            return has_columns(node.value)
        case Arithmetic():
            return has_columns(node.left) or has_columns(node.right)
        case Negation():
            return has_columns(node.operand)
        case FieldAccess() | ElementAccess() | SliceAccess():
            return has_columns(node.target)
    return False


def _term_name(node: Expression) -> str:
    if isinstance(node, Marker):
        return "?" if node.name is None else f":{node.name}"
    return "null" if isinstance(node, Null) else to_text(node)


def _renamed(selector: Selector, name: str, type_: CQLType) -> Selector:
    return CallSelector(type_, name, lambda values, execution: values[0], (selector,))


def _composed(
    type_: CQLType, node: Expression, parts: Sequence[Selector], build: Callable[[Sequence[Wire]], bytes]
) -> Selector:
    def call(values: Sequence[Wire], execution: Execution) -> Wire:
        built = build(values)
        return type_.normalise(built) if type_.needs_normalising else built

    return CallSelector(type_, to_text(node), call, tuple(parts))


def _present(values: Sequence[Wire]) -> list[bytes]:
    present = [value for value in values if value is not None]
    if len(present) != len(values):
        raise InvalidRequest("null is not supported inside collections")
    return present
