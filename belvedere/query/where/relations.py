"""Relations of a WHERE clause, checked one by one: names, operators, types; not how they go together."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from belvedere.cql.syntax import (
    Between,
    ColumnRelation,
    ElementRelation,
    Expression,
    FunctionCall,
    IndexExpression,
    InList,
    NotNullRelation,
    Relation,
    TokenRelation,
    TupleRelation,
)
from belvedere.cql.text import to_text
from belvedere.model.ordering import join_partition_key
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.model.token import token_of
from belvedere.model.types import BIGINT, CQLType, MapType, SetType, UserType
from belvedere.query.access import BoundValue, Execution
from belvedere.query.errors import InvalidRequest
from belvedere.query.results import ResultColumn, bound_to
from belvedere.query.schema_view import existing_column
from belvedere.query.terms.values import BindCollector, TermValue, prepare_term
from belvedere.query.where.filters import ContainsFilter, EntryFilter, Filter, contained_type
from belvedere.query.where.sources import (
    Source,
    column_list_source,
    column_source,
    require,
    tuple_list_source,
    tuple_source,
)

SLICES = frozenset({"<", "<=", ">", ">="})


@dataclass(frozen=True, slots=True)
class Comparison:
    """`columns op source`, op one of = IN < <= > >=."""

    columns: tuple[Column, ...]
    operator: str
    source: Source

    @property
    def is_slice(self) -> bool:
        return self.operator in SLICES

    @property
    def is_tuple(self) -> bool:
        return len(self.columns) > 1

    @property
    def names(self) -> str:
        return ", ".join(column.name for column in self.columns)


@dataclass(frozen=True, slots=True)
class TokenComparison:
    operator: str
    term: TermValue


@dataclass(slots=True)
class Relations:
    """The whole WHERE clause, sorted by kind."""

    comparisons: list[Comparison] = field(default_factory=list)
    tokens: list[TokenComparison] = field(default_factory=list)
    filters: list[Filter] = field(default_factory=list)
    not_null: list[Column] = field(default_factory=list)


def read_relations(
    table: Table, relations: Sequence[Relation], collector: BindCollector, *, for_view: bool
) -> Relations:
    found = Relations()
    for relation in relations:
        match relation:
            case ColumnRelation():
                _add_column_relation(found, table, relation, collector)
            case TupleRelation():
                _add_tuple_relation(found, table, relation, collector)
            case TokenRelation():
                _add_token_relation(found, table, relation, collector)
            case ElementRelation():
                found.filters.append(_entry_filter(table, relation, collector))
            case NotNullRelation():
                column = existing_column(table, relation.column)
                if not for_view:
                    raise InvalidRequest(f"Unsupported restriction: {to_text(relation)}")
                found.not_null.append(column)
            case IndexExpression():
                raise InvalidRequest(f"Invalid index name: {relation.index.name}: indexes are not supported")
    return found


def _add_column_relation(
    found: Relations, table: Table, relation: ColumnRelation, collector: BindCollector
) -> None:
    column = existing_column(table, relation.column)
    operator, value = relation.operator, relation.value
    if operator in ("CONTAINS", "CONTAINS KEY"):
        assert not isinstance(value, (InList, Between))
        found.filters.append(_contains_filter(table, column, operator, value, collector))
        return
    _check_operator(relation, operator, column)
    _check_column_operator(column, operator)
    if operator == "IN":
        assert not isinstance(value, Between)
        source = column_list_source(table, column, value, collector)
        found.comparisons.append(Comparison((column,), "IN", source))
    elif isinstance(value, Between):
        for bound, end in ((">=", value.low), ("<=", value.high)):
            found.comparisons.append(
                Comparison((column,), bound, column_source(table, column, end, collector))
            )
    else:
        assert not isinstance(value, InList)
        source = column_source(table, column, value, collector)
        found.comparisons.append(Comparison((column,), operator, source))


def _check_operator(relation: Relation, operator: str, column: Column) -> None:
    if operator == "LIKE":
        raise InvalidRequest(
            "LIKE restriction is only supported on properly indexed columns. "
            f"{to_text(relation)} is not valid."
        )
    if operator == "!=" or operator.startswith("NOT"):
        raise InvalidRequest(f'Unsupported "{operator}" relation: {to_text(relation)}')


def _check_column_operator(column: Column, operator: str) -> None:
    type_ = column.type
    if type_.is_multicell:
        kind = "Non-frozen UDT column" if isinstance(type_, UserType) else "Collection column"
        raise InvalidRequest(
            f"{kind} '{column.name}' ({type_.name}) cannot be restricted by a '{operator}' relation"
        )
    if operator in SLICES or operator == "BETWEEN":
        if type_.name == "duration":
            raise InvalidRequest("Slice restrictions are not supported on duration columns")
        if any(inner.name == "duration" for inner in type_.walk()):
            raise InvalidRequest(
                f"Slice restrictions are not supported on {_composite_word(type_)} containing durations"
            )


def _composite_word(type_: CQLType) -> str:
    if isinstance(type_, UserType):
        return "UDTs"
    return "tuples" if type_.option_id == 0x31 else "collections"


def _contains_filter(
    table: Table, column: Column, operator: str, value: Expression, collector: BindCollector
) -> ContainsFilter:
    of_key, type_ = operator == "CONTAINS KEY", column.type
    if type_.option_id not in (0x20, 0x21, 0x22):
        raise InvalidRequest(f"Cannot use {operator} on non-collection column {column.name}")
    if of_key and not isinstance(type_, MapType):
        raise InvalidRequest(f"Cannot use CONTAINS KEY on non-map column {column.name}")
    name = f"{'key' if of_key else 'value'}({column.name})"
    receiver = ResultColumn(table.keyspace, table.name, name, contained_type(type_, of_key=of_key))
    return ContainsFilter((column,), of_key, prepare_term(value, receiver, collector))


def _entry_filter(table: Table, relation: ElementRelation, collector: BindCollector) -> EntryFilter:
    column, type_ = existing_column(table, relation.column), table.by_name[relation.column].type
    if not isinstance(type_, MapType):
        if type_.option_id == 0x20:
            raise InvalidRequest(f"Indexes on list entries ({column.name}[index] = value) are not supported.")
        noun = "set" if isinstance(type_, SetType) else "non-map"
        raise InvalidRequest(f"Column {column.name} cannot be used as a map: it is a {noun} column")
    if not type_.is_multicell:
        raise InvalidRequest(
            f"Map-entry equality predicates on frozen map column {column.name} are not supported"
        )
    if relation.operator != "=" or isinstance(relation.value, (InList, Between)):
        raise InvalidRequest("Only EQ relations are supported on map entries")
    key = ResultColumn(table.keyspace, table.name, f"key({column.name})", type_.key)
    value = ResultColumn(table.keyspace, table.name, f"value({column.name})", type_.value)
    return EntryFilter(
        (column,), prepare_term(relation.key, key, collector), prepare_term(relation.value, value, collector)
    )


def _add_tuple_relation(
    found: Relations, table: Table, relation: TupleRelation, collector: BindCollector
) -> None:
    columns = _tuple_columns(table, relation)
    operator, value = relation.operator, relation.value
    if operator.startswith(("CONTAINS", "LIKE")):
        raise InvalidRequest(f"{operator} cannot be used for multi-column relations")
    for column in columns:
        _check_operator(relation, operator, column)
        _check_column_operator(column, operator)
    if operator == "IN":
        assert not isinstance(value, Between)
        found.comparisons.append(
            Comparison(columns, "IN", tuple_list_source(table, columns, value, collector))
        )
    elif isinstance(value, Between):
        for bound, end in ((">=", value.low), ("<=", value.high)):
            found.comparisons.append(Comparison(columns, bound, tuple_source(table, columns, end, collector)))
    else:
        assert not isinstance(value, InList)
        found.comparisons.append(
            Comparison(columns, operator, tuple_source(table, columns, value, collector))
        )


def _tuple_columns(table: Table, relation: TupleRelation) -> tuple[Column, ...]:
    columns: list[Column] = []
    for name in relation.columns:
        column = existing_column(table, name)
        if column.kind is not ColumnKind.CLUSTERING:
            raise InvalidRequest(
                f"Multi-column relations can only be applied to clustering columns but was applied to: {name}"
            )
        if column in columns:
            raise InvalidRequest(f'Column "{name}" appeared twice in a relation: {to_text(relation)}')
        if columns and column.position != columns[-1].position + 1:
            raise InvalidRequest(
                "Clustering columns must appear in the PRIMARY KEY order in multi-column relations: "
                f"{to_text(relation)}"
            )
        columns.append(column)
    return tuple(columns)


def _add_token_relation(
    found: Relations, table: Table, relation: TokenRelation, collector: BindCollector
) -> None:
    keys = table.partition_key
    columns = [existing_column(table, name) for name in relation.columns]
    if any(column.kind is not ColumnKind.PARTITION_KEY for column in columns):
        raise InvalidRequest("The token() function must contains only partition key components")
    if len(columns) != len(keys):
        raise InvalidRequest(
            "The token() function must be applied to all partition key components or none of them"
        )
    if tuple(columns) != keys:
        names = ", ".join(column.name for column in keys)
        raise InvalidRequest(f"The token function arguments must be in the partition key order: {names}")
    operator, value = relation.operator, relation.value
    receiver = ResultColumn(table.keyspace, table.name, "partition key token", BIGINT)
    if isinstance(value, Between):
        for bound, end in ((">=", value.low), ("<=", value.high)):
            _check_token_pair(found.tokens, bound, keys)
            found.tokens.append(TokenComparison(bound, token_term(table, end, receiver, collector)))
        return
    if operator != "=" and operator not in SLICES:
        raise InvalidRequest(f"{operator} cannot be used with the token function")
    assert not isinstance(value, InList)
    _check_token_pair(found.tokens, operator, keys)
    found.tokens.append(TokenComparison(operator, token_term(table, value, receiver, collector)))


def _check_token_pair(tokens: Sequence[TokenComparison], operator: str, keys: Sequence[Column]) -> None:
    """Raise if a further restriction of the token may not stand beside the others."""
    names = ", ".join(column.name for column in keys)
    for other in tokens:
        if other.operator == "=":
            raise InvalidRequest(
                f"{names} cannot be restricted by more than one relation if it includes an Equal"
            )
        if operator == "=":
            raise InvalidRequest(
                f'Columns "{names}" cannot be restricted by both an equality and an inequality relation'
            )
        if other.operator[0] == operator[0]:
            bound = "start" if operator[0] == ">" else "end"
            raise InvalidRequest(f"More than one restriction was found for the {bound} bound on {names}")


def token_term(
    table: Table, value: Expression, receiver: ResultColumn, collector: BindCollector
) -> TermValue:
    """The other side of `token(k) >= …`: a number, or the token of key values."""
    if not isinstance(value, FunctionCall) or value.name.lower() != "token":
        return prepare_term(value, receiver, collector)
    keys = table.partition_key
    if len(value.arguments) != len(keys):
        raise InvalidRequest(
            "Invalid number of arguments in call to function system.token: "
            f"{len(keys)} required but {len(value.arguments)} provided"
        )
    terms = [
        prepare_term(argument, bound_to(table, column), collector)
        for argument, column in zip(value.arguments, keys, strict=True)
    ]
    return TokenTerm(keys, tuple(terms))


@dataclass(frozen=True, slots=True)
class TokenTerm:
    """`token(1, 'a')`."""

    columns: tuple[Column, ...]
    parts: tuple[TermValue, ...]
    is_constant = False

    @property
    def type(self) -> CQLType:
        return BIGINT

    @property
    def has_marker(self) -> bool:
        return any(part.has_marker for part in self.parts)

    def evaluate(self, execution: Execution) -> BoundValue:
        values = [
            require(part.evaluate(execution), column.name)
            for part, column in zip(self.parts, self.columns, strict=True)
        ]
        return token_of(join_partition_key(values)).to_bytes(8, "big", signed=True)


def check_pair(first: Comparison, second: Comparison) -> None:
    """Raise if two comparisons that share a column may not stand together."""
    if first.operator == "=":
        raise InvalidRequest(
            f"{first.names} cannot be restricted by more than one relation if it includes an Equal"
        )
    if first.operator == "IN":
        raise InvalidRequest(
            f"{first.names} cannot be restricted by more than one relation if it includes a IN"
        )
    if not second.is_slice:
        raise InvalidRequest(
            f'Column "{first.columns[0].name}" cannot be restricted by both an equality '
            "and an inequality relation"
        )
    if first.columns[0] != second.columns[0]:
        later = max(first, second, key=lambda c: c.columns[0].position)
        raise InvalidRequest(
            f'Column "{later.columns[0].name}" cannot be restricted by two inequalities '
            "not starting with the same column"
        )
    if first.operator[0] == second.operator[0]:
        bound = "start" if first.operator[0] == ">" else "end"
        raise InvalidRequest(f"More than one restriction was found for the {bound} bound on {first.names}")
