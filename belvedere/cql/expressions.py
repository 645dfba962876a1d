"""The small nodes of the syntax tree: type names, terms, selectors, relations and conditions.

All nodes are immutable and compare by content. Sequences are tuples. Names are already folded: an
unquoted identifier is lower case, a quoted one is as written, without its quotes.

Terms and selectors share their nodes. What only a selector may hold (`ColumnRef`, `FieldAccess`,
`ElementAccess`, `SliceAccess`, `CellInfo`, `CountRows`) is produced by the parser inside a SELECT
clause, GROUP BY and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# --- types as written in DDL and casts ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NativeType:
    """A type of CQL's own, lower case as written: `int`, `varchar`, `timeuuid` ..."""

    name: str


@dataclass(frozen=True, slots=True)
class ListType:
    element: TypeNode


@dataclass(frozen=True, slots=True)
class SetType:
    element: TypeNode


@dataclass(frozen=True, slots=True)
class MapType:
    key: TypeNode
    value: TypeNode


@dataclass(frozen=True, slots=True)
class TupleType:
    elements: tuple[TypeNode, ...]


@dataclass(frozen=True, slots=True)
class VectorType:
    element: TypeNode
    dimension: int


@dataclass(frozen=True, slots=True)
class FrozenType:
    """`frozen<...>` as written; whether freezing makes sense there is not decided here."""

    inner: TypeNode


@dataclass(frozen=True, slots=True)
class UserTypeName:
    """The name of a user-defined type, both in type position and in CREATE/ALTER/DROP TYPE."""

    keyspace: str | None
    name: str


@dataclass(frozen=True, slots=True)
class CustomType:
    """A type given as a string with a class name: `'org.apache.cassandra.db.marshal.Int32Type'`."""

    class_name: str


TypeNode = (
    NativeType
    | ListType
    | SetType
    | MapType
    | TupleType
    | VectorType
    | FrozenType
    | UserTypeName
    | CustomType
)

# --- terms -------------------------------------------------------------------------------------------

ConstantKind = Literal["integer", "float", "string", "boolean", "uuid", "blob", "duration"]


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal. `text` is the content of a string (quotes resolved), `true`/`false` for a boolean,
    `NaN`/`Infinity` (with `-` if negative) or the number's text for a float, else the text as written
    (a leading minus included)."""

    kind: ConstantKind
    text: str


@dataclass(frozen=True, slots=True)
class Null:
    pass


@dataclass(frozen=True, slots=True)
class Marker:
    """`?` (name None) or `:name`; `index` counts from 0, left to right in the whole statement."""

    index: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ListLiteral:
    """`[a, b]`: a list, or a vector when that is what is expected."""

    elements: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class SetLiteral:
    """`{a, b}`. The empty `{}` is `SetLiteral(())` and stands for an empty map (or UDT) as well."""

    elements: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class MapLiteral:
    entries: tuple[tuple[Expression, Expression], ...]


@dataclass(frozen=True, slots=True)
class UserTypeLiteral:
    """`{field: term, ...}`, recognised by keys that are bare identifiers."""

    fields: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class TupleLiteral:
    """`(a, b)`. With one element it is either a tuple of one or plain parentheses: the expected type
    decides (a tuple type makes it a tuple)."""

    elements: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """`name(...)`; `token(...)` and `count(1)` included, `count(*)` is `CountRows`."""

    keyspace: str | None
    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """`CAST(value AS type)`: converts."""

    value: Expression
    type: TypeNode


@dataclass(frozen=True, slots=True)
class TypeHint:
    """`(type) value`: says which type a literal or marker has, converts nothing."""

    type: TypeNode
    value: Expression


ArithmeticOperator = Literal["+", "-", "*", "/", "%"]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    operator: ArithmeticOperator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Negation:
    """Unary minus on anything but a number or duration literal (those take the sign into their text)."""

    operand: Expression


# --- selectors ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnRef:
    name: str


@dataclass(frozen=True, slots=True)
class FieldAccess:
    target: Expression
    field: str


@dataclass(frozen=True, slots=True)
class ElementAccess:
    target: Expression
    key: Expression


@dataclass(frozen=True, slots=True)
class SliceAccess:
    """`c[a..b]`, both ends inclusive and optional."""

    target: Expression
    start: Expression | None
    stop: Expression | None


CellInfoKind = Literal["writetime", "maxwritetime", "ttl"]


@dataclass(frozen=True, slots=True)
class CellInfo:
    """`WRITETIME(c)`, `MAXWRITETIME(c)`, `TTL(c)`; the target is a column, field, element or slice."""

    kind: CellInfoKind
    target: Expression


@dataclass(frozen=True, slots=True)
class CountRows:
    """`COUNT(*)`."""


Expression = (
    Constant
    | Null
    | Marker
    | ListLiteral
    | SetLiteral
    | MapLiteral
    | UserTypeLiteral
    | TupleLiteral
    | FunctionCall
    | Cast
    | TypeHint
    | Arithmetic
    | Negation
    | ColumnRef
    | FieldAccess
    | ElementAccess
    | SliceAccess
    | CellInfo
    | CountRows
)
Term = Expression
"""An expression without column references (the parser guarantees it where a term is expected)."""


@dataclass(frozen=True, slots=True)
class SelectItem:
    expression: Expression
    alias: str | None = None


# --- relations and conditions ------------------------------------------------------------------------

ComparisonOperator = Literal["=", "!=", "<", "<=", ">", ">="]
Operator = Literal[
    "=",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "IN",
    "NOT IN",
    "CONTAINS",
    "CONTAINS KEY",
    "NOT CONTAINS",
    "NOT CONTAINS KEY",
    "LIKE",
    "BETWEEN",
]


@dataclass(frozen=True, slots=True)
class InList:
    """The right side of `IN (a, b)`; `IN ?` has a plain `Marker` instead."""

    values: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Between:
    """The right side of `BETWEEN low AND high`."""

    low: Term
    high: Term


Operand = Expression | InList | Between
"""InList or Marker with IN and NOT IN, Between with BETWEEN, else a term."""


@dataclass(frozen=True, slots=True)
class ColumnRelation:
    column: str
    operator: Operator
    value: Operand


@dataclass(frozen=True, slots=True)
class NotNullRelation:
    """`c IS NOT NULL`."""

    column: str


@dataclass(frozen=True, slots=True)
class TupleRelation:
    """`(a, b) op (x, y)`; the value is a TupleLiteral, a Marker, an InList of these, or Between."""

    columns: tuple[str, ...]
    operator: Operator
    value: Operand


@dataclass(frozen=True, slots=True)
class TokenRelation:
    """`token(a, b) op term`."""

    columns: tuple[str, ...]
    operator: Operator
    value: Operand


@dataclass(frozen=True, slots=True)
class ElementRelation:
    """`c[key] op term`."""

    column: str
    key: Term
    operator: Operator
    value: Operand


@dataclass(frozen=True, slots=True)
class IndexExpression:
    """`expr(index, term)`: a query in a custom index's own language."""

    index: TableName
    value: Term


Relation = (
    ColumnRelation | NotNullRelation | TupleRelation | TokenRelation | ElementRelation | IndexExpression
)


@dataclass(frozen=True, slots=True)
class Condition:
    """One term of `IF ...`: on a column, on its element (`key`) or on its field (`field`)."""

    column: str
    operator: Operator
    value: Operand
    key: Term | None = None
    field: str | None = None


@dataclass(frozen=True, slots=True)
class TableName:
    """A table, view or index name as written; keyspace None means the session's."""

    keyspace: str | None
    name: str
