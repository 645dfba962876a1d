"""Printing and parsing are each other's inverse."""

import dataclasses
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.cql.expressions import (
    Arithmetic,
    Between,
    Cast,
    CellInfo,
    ColumnRef,
    ColumnRelation,
    Constant,
    CountRows,
    CustomType,
    ElementAccess,
    ElementRelation,
    FieldAccess,
    FrozenType,
    FunctionCall,
    InList,
    ListLiteral,
    ListType,
    MapLiteral,
    MapType,
    Marker,
    NativeType,
    Negation,
    NotNullRelation,
    Null,
    SetLiteral,
    SetType,
    SliceAccess,
    TokenRelation,
    TupleLiteral,
    TupleRelation,
    TupleType,
    TypeHint,
    UserTypeLiteral,
    UserTypeName,
    VectorType,
)
from belvedere.cql.keywords import NATIVE_TYPES, NOT_IDENTIFIERS, RESERVED
from belvedere.cql.parser import parse_selector, parse_statement, parse_term, parse_type, parse_where
from belvedere.cql.syntax import Use
from belvedere.cql.text import quote_identifier, quote_string, to_text, where_text

Strategy = st.SearchStrategy[Any]

WORDS = sorted(word.lower() for word in NOT_IDENTIFIERS) + sorted(NATIVE_TYPES)
WORDS += [
    "list",
    "map",
    "frozen",
    "cast",
    "ttl",
    "writetime",
    "count",
    "json",
    "distinct",
    "as",
    "per",
    "key",
    "p",
]
names = st.one_of(
    st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True),
    st.sampled_from(WORDS),
    st.text(alphabet="aB \"'.;-\u00e9", min_size=1, max_size=5),
)
optional_names = st.none() | names


def tuples_of(strategy: Strategy, least: int = 1) -> Strategy:
    return st.lists(strategy, min_size=least, max_size=3).map(tuple)


types: Strategy = st.recursive(
    st.one_of(
        st.sampled_from(sorted(NATIVE_TYPES)).map(NativeType),
        st.builds(UserTypeName, optional_names, names),
        st.text(max_size=5).map(CustomType),
    ),
    lambda inner: st.one_of(
        inner.map(ListType),
        inner.map(SetType),
        inner.map(FrozenType),
        st.builds(MapType, inner, inner),
        tuples_of(inner).map(TupleType),
        st.builds(VectorType, inner, st.integers(-5, 9999)),
    ),
    max_leaves=6,
)

numbers = st.one_of(
    st.integers().map(lambda n: Constant("integer", str(n))),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda x: Constant("float", repr(x))),
    st.sampled_from(["NaN", "-NaN", "Infinity", "-Infinity", "1.", "-2.E+7"]).map(
        lambda text: Constant("float", text)
    ),
    st.sampled_from(["1y", "-2mo3d", "P1Y", "-PT5M", "3\u00b5s", "P0001-01-01T00:00:00"]).map(
        lambda text: Constant("duration", text)
    ),
)
others = st.one_of(
    st.text(max_size=8).map(lambda text: Constant("string", text)),
    st.sampled_from(["true", "false"]).map(lambda text: Constant("boolean", text)),
    st.uuids().map(lambda u: Constant("uuid", str(u))),
    st.binary(max_size=4).map(lambda b: Constant("blob", "0x" + b.hex())),
)


SIGNED = ("integer", "float", "duration")
markers = st.builds(Marker, st.just(0), optional_names)
literals = numbers | others | markers | st.just(Null())
cells = st.builds(CellInfo, st.sampled_from(["ttl", "writetime", "maxwritetime"]), names.map(ColumnRef))


class Grower:
    """Draws expressions as the parser makes them: level by level, sums grouped to the left."""

    def __init__(self, draw: Any, columns: bool) -> None:
        self.draw = draw
        self.columns = columns
        self.budget = 12

    def pick(self, *choices: Any) -> Any:
        """One of the choices; the first, which must not recurse, once the tree is big enough."""
        self.budget -= 1
        return choices[0 if self.budget < 0 else self.draw(st.integers(0, len(choices) - 1))]()

    def expression(self) -> Any:
        return self.pick(self.unit, self.unit, lambda: self.chain("+-", self.product))

    def product(self) -> Any:
        return self.pick(self.unit, self.unit, lambda: self.chain("*/%", self.unit))

    def chain(self, operators: str, operand: Any) -> Any:
        found = operand()
        for _ in range(self.draw(st.integers(1, 3))):
            found = Arithmetic(self.draw(st.sampled_from(operators)), found, operand())  # type: ignore[arg-type]
        return found

    def unit(self) -> Any:
        return self.pick(self.leaf, self.bare, self.accessed, self.negation)

    def negation(self) -> Any:
        operand = self.unit()
        if isinstance(operand, Constant) and operand.kind in SIGNED:
            return operand
        return Negation(operand)

    def leaf(self) -> Any:
        return self.draw(
            literals | names.map(ColumnRef) | cells | st.just(CountRows()) if self.columns else literals
        )

    def several(self, least: int = 0) -> tuple[Any, ...]:
        return tuple(self.expression() for _ in range(self.draw(st.integers(least, 3))))

    def bare(self) -> Any:
        return self.pick(
            self.leaf,
            self.call,
            lambda: ListLiteral(self.several()),
            lambda: SetLiteral(self.several()),
            lambda: TupleLiteral(self.several(1)),
            self.map_literal,
            lambda: UserTypeLiteral(tuple((self.draw(names), value) for value in self.several(1))),
            lambda: Cast(self.expression(), self.draw(types)),
            self.type_hint,
        )

    def call(self) -> Any:
        return FunctionCall(self.draw(optional_names), self.draw(names | st.just("token")), self.several())

    def map_literal(self) -> Any:
        keys = [Null() if isinstance(key, ColumnRef) else key for key in self.several(1)]
        return MapLiteral(tuple((key, self.expression()) for key in keys))

    def type_hint(self) -> Any:
        value = self.bare()
        hint = self.draw(types)
        if isinstance(value, Constant) and value.text.startswith("-") and isinstance(hint, UserTypeName):
            # `(a) -1` is a subtraction when `a` may be a column.
            hint = NativeType("int")
        return TypeHint(hint, value)

    def accessed(self) -> Any:
        if not self.columns:
            return self.leaf()
        target = self.pick(lambda: ColumnRef(self.draw(names)), self.accessed, self.call)
        kind = self.draw(st.sampled_from("fes<>"))
        if kind == "f":
            return FieldAccess(target, self.draw(names))
        if kind == "e":
            return ElementAccess(target, self.term())
        start = None if kind == "<" else self.term()
        return SliceAccess(target, start, None if kind == ">" else self.term())

    def term(self) -> Any:
        self.columns = False
        found = self.expression()
        self.columns = True
        return found


@st.composite
def terms_(draw: Any) -> Any:
    return Grower(draw, columns=False).expression()


@st.composite
def selectors_(draw: Any) -> Any:
    return Grower(draw, columns=True).expression()


terms: Strategy = terms_()
selectors: Strategy = selectors_()

comparisons = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
lists = tuples_of(terms, 0).map(InList) | markers
ranges = st.builds(Between, terms, terms)
operations: Strategy = st.one_of(
    st.tuples(comparisons, terms),
    st.tuples(st.sampled_from(["IN", "NOT IN"]), lists),
    st.tuples(st.sampled_from(["CONTAINS", "CONTAINS KEY", "NOT CONTAINS", "LIKE"]), terms),
    st.tuples(st.just("BETWEEN"), ranges),
)
tuple_operands = tuples_of(terms).map(TupleLiteral) | markers
tuple_operations: Strategy = st.one_of(
    st.tuples(comparisons, tuple_operands),
    st.tuples(st.just("IN"), tuples_of(tuple_operands, 0).map(InList) | markers),
    st.tuples(st.just("BETWEEN"), st.builds(Between, tuple_operands, tuple_operands)),
)
relations: Strategy = st.one_of(
    names.map(NotNullRelation),
    st.builds(lambda c, o: ColumnRelation(c, *o), names, operations),
    st.builds(lambda c, k, o: ElementRelation(c, k, *o), names, terms, operations),
    st.builds(lambda c, o: TokenRelation(c, *o), tuples_of(names), operations),
    st.builds(lambda c, o: TupleRelation(c, *o), tuples_of(names), tuple_operations),
)


def numbered(node: Any, counter: "count[int]") -> Any:
    """The same tree with its markers numbered from left to right."""
    if isinstance(node, Marker):
        return Marker(next(counter), node.name)
    if isinstance(node, tuple):
        return tuple(numbered(part, counter) for part in node)
    if dataclasses.is_dataclass(node):
        parts = {f.name: numbered(getattr(node, f.name), counter) for f in dataclasses.fields(node)}
        return type(node)(**parts)
    return node


@given(names)
def test_identifiers_come_back(name: str) -> None:
    assert parse_statement(f"USE {quote_identifier(name)}") == Use(name)


def test_identifiers_are_quoted_when_they_must_be() -> None:
    assert quote_identifier("abc_1") == "abc_1"
    assert quote_identifier("ttl") == "ttl"
    assert quote_identifier("Abc") == '"Abc"'
    assert quote_identifier('a"b') == '"a""b"'
    assert quote_identifier("1a") == '"1a"'
    assert quote_identifier("_a") == '"_a"'
    for word in RESERVED:
        assert quote_identifier(word.lower()) == f'"{word.lower()}"'


@given(st.text())
def test_strings_come_back(text: str) -> None:
    assert parse_term(quote_string(text)) == Constant("string", text)


@given(types)
def test_types_come_back(node: Any) -> None:
    assert parse_type(to_text(node)) == node


@given(terms)
def test_terms_come_back(node: Any) -> None:
    assert parse_term(to_text(node)) == numbered(node, count())


@given(selectors)
def test_selectors_come_back(node: Any) -> None:
    assert parse_selector(to_text(node)) == numbered(node, count())


@given(tuples_of(relations))
def test_relations_come_back(nodes: Any) -> None:
    assert parse_where(where_text(nodes)) == numbered(nodes, count())


@pytest.mark.parametrize(
    "text",
    [
        "a IS NOT NULL AND b = 'it''s' AND \"C\" IN (1, 2)",
        "(a, b) > (1, 2) AND token(k) <= token(3)",
        "a = (1 + 2) * 3 - -4 AND b CONTAINS KEY {'x': [1.5, NaN]}",
        "a = (frozen<list<int>>) [1] AND b = ks.f({street: 'x'}, NULL)",
    ],
)
def test_text_as_it_is_stored(text: str) -> None:
    assert where_text(parse_where(text)) == text
