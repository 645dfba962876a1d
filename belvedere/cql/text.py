"""The way back: names, constants, types, terms and relations as CQL text.

`parse_where(where_text(w)) == w`, and likewise for terms, selectors and types, for every tree that the
parser makes. Bind markers come back too, numbered anew.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from belvedere.cql import expressions as e
from belvedere.cql.keywords import NATIVE_TYPES, NOT_IDENTIFIERS, PARAMETRIC_TYPES

_PLAIN_NAME = re.compile(r"[a-z][a-z0-9_]*")
# Calls of these names mean something else when they are not quoted.
_SPECIAL_CALLS = frozenset({"cast", "writetime", "maxwritetime", "ttl"})
_PLAIN_TARGETS = (e.ColumnRef, e.FieldAccess, e.ElementAccess, e.SliceAccess, e.FunctionCall, e.Cast)

Node = (
    e.Expression | e.Relation | e.Condition | e.TypeNode | e.InList | e.Between | e.TableName | e.SelectItem
)


def quote_identifier(name: str) -> str:
    """A name as CQL must write it: in quotes unless it is lower case and not reserved."""
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in NOT_IDENTIFIERS:
        return name
    return '"' + name.replace('"', '""') + '"'


def quote_string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def where_text(relations: Iterable[e.Relation]) -> str:
    return " AND ".join(map(to_text, relations))


def to_text(node: Node) -> str:
    return _PRINTERS[type(node)](node)


def _joined(nodes: Iterable[Node]) -> str:
    return ", ".join(map(to_text, nodes))


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(quote_identifier, names))


def _qualified(keyspace: str | None, name: str) -> str:
    return name if keyspace is None else f"{quote_identifier(keyspace)}.{name}"


# --- types -------------------------------------------------------------------------------------------


def _user_type_name(node: e.UserTypeName) -> str:
    name = quote_identifier(node.name)
    if node.keyspace is None and (name in NATIVE_TYPES or name in PARAMETRIC_TYPES):
        name = f'"{name}"'
    return _qualified(node.keyspace, name)


# --- terms -------------------------------------------------------------------------------------------


def _constant(node: e.Constant) -> str:
    return quote_string(node.text) if node.kind == "string" else node.text


def _function_call(node: e.FunctionCall) -> str:
    name = node.name
    if node.keyspace is None and name in _SPECIAL_CALLS:
        name = f'"{name}"'
    elif name != "token":
        name = quote_identifier(name)
    return f"{_qualified(node.keyspace, name)}({_joined(node.arguments)})"


def _arithmetic(node: e.Arithmetic) -> str:
    """Chains group to the left, as they are parsed; what would group otherwise gets parentheses."""
    is_sum = node.operator in "+-"
    left, right = to_text(node.left), to_text(node.right)
    if isinstance(node.left, e.Arithmetic) and not is_sum and node.left.operator in "+-":
        left = f"({left})"
    if isinstance(node.right, e.Arithmetic) and not (is_sum and node.right.operator not in "+-"):
        right = f"({right})"
    return f"{left} {node.operator} {right}"


def _negation(node: e.Negation) -> str:
    operand = to_text(node.operand)
    number = isinstance(node.operand, e.Constant) and node.operand.kind in ("integer", "float", "duration")
    return f"-({operand})" if number or isinstance(node.operand, e.Arithmetic) else f"- {operand}"


def _type_hint(node: e.TypeHint) -> str:
    value = to_text(node.value)
    if isinstance(node.value, e.Negation | e.Arithmetic | e.FieldAccess | e.ElementAccess | e.SliceAccess):
        value = f"({value})"
    return f"({to_text(node.type)}) {value}"


def _map(node: e.MapLiteral) -> str:
    return "{" + ", ".join(f"{to_text(key)}: {to_text(value)}" for key, value in node.entries) + "}"


def _user_type_literal(node: e.UserTypeLiteral) -> str:
    return "{" + ", ".join(f"{quote_identifier(n)}: {to_text(value)}" for n, value in node.fields) + "}"


def _target(node: e.Expression) -> str:
    """What stands before `.field` or `[key]`."""
    return to_text(node) if isinstance(node, _PLAIN_TARGETS) else f"({to_text(node)})"


def _slice(node: e.SliceAccess) -> str:
    start = "" if node.start is None else f"{to_text(node.start)} "
    stop = "" if node.stop is None else f" {to_text(node.stop)}"
    return f"{_target(node.target)}[{start}..{stop}]"


def _select_item(node: e.SelectItem) -> str:
    alias = "" if node.alias is None else f" AS {quote_identifier(node.alias)}"
    return to_text(node.expression) + alias


# --- relations ---------------------------------------------------------------------------------------


def _tuple_relation(node: e.TupleRelation) -> str:
    return f"({_names(node.columns)}) {node.operator} {to_text(node.value)}"


def _element_relation(node: e.ElementRelation) -> str:
    return f"{quote_identifier(node.column)}[{to_text(node.key)}] {node.operator} {to_text(node.value)}"


def _condition(node: e.Condition) -> str:
    target = quote_identifier(node.column)
    if node.key is not None:
        target += f"[{to_text(node.key)}]"
    if node.field is not None:
        target += f".{quote_identifier(node.field)}"
    return f"{target} {node.operator} {to_text(node.value)}"


_PRINTERS: dict[type, Callable[[Any], str]] = {
    e.NativeType: lambda n: n.name,
    e.ListType: lambda n: f"list<{to_text(n.element)}>",
    e.SetType: lambda n: f"set<{to_text(n.element)}>",
    e.MapType: lambda n: f"map<{to_text(n.key)}, {to_text(n.value)}>",
    e.TupleType: lambda n: f"tuple<{_joined(n.elements)}>",
    e.VectorType: lambda n: f"vector<{to_text(n.element)}, {n.dimension}>",
    e.FrozenType: lambda n: f"frozen<{to_text(n.inner)}>",
    e.UserTypeName: _user_type_name,
    e.CustomType: lambda n: quote_string(n.class_name),
    e.Constant: _constant,
    e.Null: lambda n: "NULL",
    e.Marker: lambda n: "?" if n.name is None else f":{quote_identifier(n.name)}",
    e.ListLiteral: lambda n: f"[{_joined(n.elements)}]",
    e.SetLiteral: lambda n: "{" + _joined(n.elements) + "}",
    e.MapLiteral: _map,
    e.UserTypeLiteral: _user_type_literal,
    e.TupleLiteral: lambda n: f"({_joined(n.elements)})",
    e.FunctionCall: _function_call,
    e.Cast: lambda n: f"CAST({to_text(n.value)} AS {to_text(n.type)})",
    e.TypeHint: _type_hint,
    e.Arithmetic: _arithmetic,
    e.Negation: _negation,
    e.ColumnRef: lambda n: quote_identifier(n.name),
    e.FieldAccess: lambda n: f"{_target(n.target)}.{quote_identifier(n.field)}",
    e.ElementAccess: lambda n: f"{_target(n.target)}[{to_text(n.key)}]",
    e.SliceAccess: _slice,
    e.CellInfo: lambda n: f"{n.kind}({to_text(n.target)})",
    e.CountRows: lambda n: "count(*)",
    e.SelectItem: _select_item,
    e.InList: lambda n: f"({_joined(n.values)})",
    e.Between: lambda n: f"{to_text(n.low)} AND {to_text(n.high)}",
    e.ColumnRelation: lambda n: f"{quote_identifier(n.column)} {n.operator} {to_text(n.value)}",
    e.NotNullRelation: lambda n: f"{quote_identifier(n.column)} IS NOT NULL",
    e.TupleRelation: _tuple_relation,
    e.TokenRelation: lambda n: f"token({_names(n.columns)}) {n.operator} {to_text(n.value)}",
    e.ElementRelation: _element_relation,
    e.IndexExpression: lambda n: f"expr({to_text(n.index)}, {to_text(n.value)})",
    e.Condition: _condition,
    e.TableName: lambda n: _qualified(n.keyspace, quote_identifier(n.name)),
}
