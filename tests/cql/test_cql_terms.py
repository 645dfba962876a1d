"""Terms, selectors, types and relations: text against the tree it must give."""

import pytest

from belvedere.cql.errors import CQLSyntaxError
from belvedere.cql.parser import parse_selector, parse_term, parse_type, parse_where
from belvedere.cql.syntax import (
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
    IndexExpression,
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
    TableName,
    TokenRelation,
    TupleLiteral,
    TupleRelation,
    TupleType,
    TypeHint,
    UserTypeLiteral,
    UserTypeName,
    VectorType,
)

INT, TEXT = NativeType("int"), NativeType("text")
UUID = "123e4567-e89b-12d3-a456-426614174000"
WORD_UUID = "a23e4567-E89B-12d3-a456-426614174000"


def number(value: int) -> Constant:
    return Constant("integer", str(value))


def string(text: str) -> Constant:
    return Constant("string", text)


CONSTANTS = [
    ("0", "integer", "0"),
    ("-17", "integer", "-17"),
    ("- 17", "integer", "-17"),
    ("1.", "float", "1."),
    ("1.5", "float", "1.5"),
    ("-1.5e-10", "float", "-1.5e-10"),
    ("1E5", "float", "1E5"),
    ("NaN", "float", "NaN"),
    ("-nan", "float", "-NaN"),
    ("INFINITY", "float", "Infinity"),
    ("-Infinity", "float", "-Infinity"),
    ("''", "string", ""),
    ("'it''s'", "string", "it's"),
    ("''''", "string", "'"),
    ("'-- no /* comment'", "string", "-- no /* comment"),
    ("$$ it's; $ fine $$", "string", " it's; $ fine "),
    ("'gr\u00fc\u00dfe'", "string", "gr\u00fc\u00dfe"),
    ("TRUE", "boolean", "true"),
    ("False", "boolean", "false"),
    (UUID, "uuid", UUID),
    (WORD_UUID, "uuid", WORD_UUID),
    ("0x", "blob", "0x"),
    ("0XcaFE", "blob", "0XcaFE"),
    ("1y2mo3w4d5h6m7s8ms9us10ns", "duration", "1y2mo3w4d5h6m7s8ms9us10ns"),
    ("-2H30M", "duration", "-2H30M"),
    ("3\u00b5s", "duration", "3\u00b5s"),
    ("5m", "duration", "5m"),
    ("5mo", "duration", "5mo"),
    ("P1Y2M3DT4H5M6S", "duration", "P1Y2M3DT4H5M6S"),
    ("-PT5M", "duration", "-PT5M"),
    ("P3W", "duration", "P3W"),
    ("P0001-02-03T04:05:06", "duration", "P0001-02-03T04:05:06"),
]


@pytest.mark.parametrize(("text", "kind", "content"), CONSTANTS, ids=[c[0] for c in CONSTANTS])
def test_constants(text: str, kind: str, content: str) -> None:
    assert parse_term(text) == Constant(kind, content)  # type: ignore[arg-type]
    assert parse_selector(text) == Constant(kind, content)  # type: ignore[arg-type]


TERMS = [
    ("null", Null()),
    ("?", Marker(0)),
    (":Name", Marker(0, "name")),
    (':"Name"', Marker(0, "Name")),
    ("[]", ListLiteral(())),
    ("[1, ?, :x]", ListLiteral((number(1), Marker(0), Marker(1, "x")))),
    ("{}", SetLiteral(())),
    ("{1, 2}", SetLiteral((number(1), number(2)))),
    ("{'a': 1, 'b': -2}", MapLiteral(((string("a"), number(1)), (string("b"), number(-2))))),
    ("{:k: :v}", MapLiteral(((Marker(0, "k"), Marker(1, "v")),))),
    ("{'a'::v}", MapLiteral(((string("a"), Marker(0, "v")),))),
    ("{f(1): 2}", MapLiteral(((FunctionCall(None, "f", (number(1),)), number(2)),))),
    (
        "{street: 'x', \"Zip\": {no: 1}}",
        UserTypeLiteral((("street", string("x")), ("Zip", UserTypeLiteral((("no", number(1)),))))),
    ),
    ("(1)", TupleLiteral((number(1),))),
    ("(1, 'a', null)", TupleLiteral((number(1), string("a"), Null()))),
    ("(true, false)", TupleLiteral((Constant("boolean", "true"), Constant("boolean", "false")))),
    ("now()", FunctionCall(None, "now", ())),
    ("Ks.F(1, g())", FunctionCall("ks", "f", (number(1), FunctionCall(None, "g", ())))),
    ('"Ks"."F"()', FunctionCall("Ks", "F", ())),
    ("token(1, 2)", FunctionCall(None, "token", (number(1), number(2)))),
    ("system.token(1)", FunctionCall("system", "token", (number(1),))),
    ("ttl(1)", FunctionCall(None, "ttl", (number(1),))),
    ("(int) 3", TypeHint(INT, number(3))),
    ("(int) -3", TypeHint(INT, number(-3))),
    ("(int)?", TypeHint(INT, Marker(0))),
    ("(text)'a'", TypeHint(TEXT, string("a"))),
    ("(list<int>) [1]", TypeHint(ListType(INT), ListLiteral((number(1),)))),
    ("(ks.my) {a: 1}", TypeHint(UserTypeName("ks", "my"), UserTypeLiteral((("a", number(1)),)))),
    ("(my) f(1)", TypeHint(UserTypeName(None, "my"), FunctionCall(None, "f", (number(1),)))),
    ("('a.B') 0x00", TypeHint(CustomType("a.B"), Constant("blob", "0x00"))),
    ("(int) (text) 3", TypeHint(INT, TypeHint(TEXT, number(3)))),
    ("(int) (3)", TypeHint(INT, TupleLiteral((number(3),)))),
    ("('a')", TupleLiteral((string("a"),))),
    ("CAST(3 AS text)", Cast(number(3), TEXT)),
    ("1 + 2", Arithmetic("+", number(1), number(2))),
    ("1 -2", Arithmetic("-", number(1), number(2))),
    ("1 - -2", Arithmetic("-", number(1), number(-2))),
    ("1 - 2 - 3", Arithmetic("-", Arithmetic("-", number(1), number(2)), number(3))),
    ("1 + 2 * 3", Arithmetic("+", number(1), Arithmetic("*", number(2), number(3)))),
    (
        "1 * 2 % 3 / 4",
        Arithmetic("/", Arithmetic("%", Arithmetic("*", number(1), number(2)), number(3)), number(4)),
    ),
    ("(1 + 2) * 3", Arithmetic("*", TupleLiteral((Arithmetic("+", number(1), number(2)),)), number(3))),
    ("-f(1)", Negation(FunctionCall(None, "f", (number(1),)))),
    ("- ?", Negation(Marker(0))),
    ("-(1)", Negation(TupleLiteral((number(1),)))),
    ("? + ?", Arithmetic("+", Marker(0), Marker(1))),
    ("'2020-01-01' + 2d", Arithmetic("+", string("2020-01-01"), Constant("duration", "2d"))),
    ("1 /* one */ + -- two\n 2 // three", Arithmetic("+", number(1), number(2))),
]


@pytest.mark.parametrize(("text", "tree"), TERMS, ids=[t[0] for t in TERMS])
def test_terms(text: str, tree: object) -> None:
    assert parse_term(text) == tree


@pytest.mark.parametrize(
    "text",
    ["a", "a.b", "f(a)", "{a}", "[a]", "(a)", "1 + a", "count(*)", "[1][0]", "()", "select", '""', "1 2"],
)
def test_terms_hold_no_columns_and_no_nonsense(text: str) -> None:
    with pytest.raises(CQLSyntaxError):
        parse_term(text)


A, B = ColumnRef("a"), ColumnRef("b")
SELECTORS = [
    ("A", A),
    ('"A"', ColumnRef("A")),
    ('"a""b"', ColumnRef('a"b')),
    ("ttl", ColumnRef("ttl")),
    ("P1", ColumnRef("p1")),
    ("p1y", ColumnRef("p1y")),
    ("a.b.c", FieldAccess(FieldAccess(A, "b"), "c")),
    ("a[1]", ElementAccess(A, number(1))),
    ("a[?]['x']", ElementAccess(ElementAccess(A, Marker(0)), string("x"))),
    ("a[1..2]", SliceAccess(A, number(1), number(2))),
    ("a[1.5..2]", SliceAccess(A, Constant("float", "1.5"), number(2))),
    ("a[..2]", SliceAccess(A, None, number(2))),
    ("a[1..]", SliceAccess(A, number(1), None)),
    ("count(*)", CountRows()),
    ("COUNT ( * )", CountRows()),
    ("count(1)", FunctionCall(None, "count", (number(1),))),
    ("count(a)", FunctionCall(None, "count", (A,))),
    ("f(a, g(b), 1)", FunctionCall(None, "f", (A, FunctionCall(None, "g", (B,)), number(1)))),
    ("ks.f(a)", FunctionCall("ks", "f", (A,))),
    ("f(a).b", FieldAccess(FunctionCall(None, "f", (A,)), "b")),
    ("writetime(a)", CellInfo("writetime", A)),
    ("MaxWriteTime(a.b)", CellInfo("maxwritetime", FieldAccess(A, "b"))),
    ("TTL(a[1])", CellInfo("ttl", ElementAccess(A, number(1)))),
    ("ttl(a[1..2])", CellInfo("ttl", SliceAccess(A, number(1), number(2)))),
    ("CAST(a AS double)", Cast(A, NativeType("double"))),
    ("cast(a + b AS text)", Cast(Arithmetic("+", A, B), TEXT)),
    ("cast((a) as text)", Cast(TupleLiteral((A,)), TEXT)),
    ("token(a, b)", FunctionCall(None, "token", (A, B))),
    ("(int) 1", TypeHint(INT, number(1))),
    ("(text) 'x'", TypeHint(TEXT, string("x"))),
    ("(my) a", TypeHint(UserTypeName(None, "my"), A)),
    ("(a) - 1", Arithmetic("-", TupleLiteral((A,)), number(1))),
    ("(a)", TupleLiteral((A,))),
    ("(a, b)", TupleLiteral((A, B))),
    ("[a, 1]", ListLiteral((A, number(1)))),
    ("{a, b}", SetLiteral((A, B))),
    ("{a: b}", UserTypeLiteral((("a", B),))),
    ("{'k': b}", MapLiteral(((string("k"), B),))),
    ("a - 1", Arithmetic("-", A, number(1))),
    ("a -1", Arithmetic("-", A, number(1))),
    ("a + b * -a", Arithmetic("+", A, Arithmetic("*", B, Negation(A)))),
    ("-a.b", Negation(FieldAccess(A, "b"))),
    ("?", Marker(0)),
]


@pytest.mark.parametrize(("text", "tree"), SELECTORS, ids=[t[0] for t in SELECTORS])
def test_selectors(text: str, tree: object) -> None:
    assert parse_selector(text) == tree


TYPES = [
    ("INT", INT),
    ("varchar", NativeType("varchar")),
    ('"int"', UserTypeName(None, "int")),
    ("ks.int", UserTypeName("ks", "int")),
    ("address", UserTypeName(None, "address")),
    ('Ks."Addr"', UserTypeName("ks", "Addr")),
    ("list<int>", ListType(INT)),
    ("SET < text >", SetType(TEXT)),
    ("map<int, frozen<list<text>>>", MapType(INT, FrozenType(ListType(TEXT)))),
    ("tuple<int>", TupleType((INT,))),
    ("tuple<int, text, tuple<int>>", TupleType((INT, TEXT, TupleType((INT,))))),
    ("vector<float, 3>", VectorType(NativeType("float"), 3)),
    ("frozen<address>", FrozenType(UserTypeName(None, "address"))),
    ("'org.x.Y'", CustomType("org.x.Y")),
]


@pytest.mark.parametrize(("text", "tree"), TYPES, ids=[t[0] for t in TYPES])
def test_types(text: str, tree: object) -> None:
    assert parse_type(text) == tree


@pytest.mark.parametrize(
    "text", ["list", "list<", "list<>", "list<int", "map<int>", "vector<int>", "set", "foo<int>", "1"]
)
def test_broken_types(text: str) -> None:
    if text == "list":
        assert parse_type(text) == UserTypeName(None, "list")
        return
    with pytest.raises(CQLSyntaxError):
        parse_type(text)


RELATIONS = [
    ("a = 1", ColumnRelation("a", "=", number(1))),
    ("a != ?", ColumnRelation("a", "!=", Marker(0))),
    ("a<-1", ColumnRelation("a", "<", number(-1))),
    ("a <= 1", ColumnRelation("a", "<=", number(1))),
    ("a >= (int) 1", ColumnRelation("a", ">=", TypeHint(INT, number(1)))),
    ("a > 1 + 2", ColumnRelation("a", ">", Arithmetic("+", number(1), number(2)))),
    ("a IN (1, ?)", ColumnRelation("a", "IN", InList((number(1), Marker(0))))),
    ("a IN ()", ColumnRelation("a", "IN", InList(()))),
    ("a IN ?", ColumnRelation("a", "IN", Marker(0))),
    ("a in :x", ColumnRelation("a", "IN", Marker(0, "x"))),
    ("a NOT IN (1)", ColumnRelation("a", "NOT IN", InList((number(1),)))),
    ("a CONTAINS 'x'", ColumnRelation("a", "CONTAINS", string("x"))),
    ("a CONTAINS KEY 'x'", ColumnRelation("a", "CONTAINS KEY", string("x"))),
    ("a NOT CONTAINS KEY 'x'", ColumnRelation("a", "NOT CONTAINS KEY", string("x"))),
    ("a LIKE '%x'", ColumnRelation("a", "LIKE", string("%x"))),
    ("a BETWEEN 1 AND 2", ColumnRelation("a", "BETWEEN", Between(number(1), number(2)))),
    ("a IS NOT NULL", NotNullRelation("a")),
    ("a['k'] = 2", ElementRelation("a", string("k"), "=", number(2))),
    ("a[0] IN (2)", ElementRelation("a", number(0), "IN", InList((number(2),)))),
    ("(a) = (1)", TupleRelation(("a",), "=", TupleLiteral((number(1),)))),
    ("(a, B) > (1, ?)", TupleRelation(("a", "b"), ">", TupleLiteral((number(1), Marker(0))))),
    ("(a, b) >= ?", TupleRelation(("a", "b"), ">=", Marker(0))),
    (
        "(a, b) IN ((1, 2), ?)",
        TupleRelation(("a", "b"), "IN", InList((TupleLiteral((number(1), number(2))), Marker(0)))),
    ),
    ("(a, b) IN ?", TupleRelation(("a", "b"), "IN", Marker(0))),
    ("(a, b) IN ()", TupleRelation(("a", "b"), "IN", InList(()))),
    ("((a = 1))", ColumnRelation("a", "=", number(1))),
    ("token(a) > 5", TokenRelation(("a",), ">", number(5))),
    (
        "token(a, b) <= token(1, ?)",
        TokenRelation(("a", "b"), "<=", FunctionCall(None, "token", (number(1), Marker(0)))),
    ),
    ("expr(idx, 'query')", IndexExpression(TableName(None, "idx"), string("query"))),
    ("expr = 3", ColumnRelation("expr", "=", number(3))),
    ('"Token" = 3', ColumnRelation("Token", "=", number(3))),
]


@pytest.mark.parametrize(("text", "tree"), RELATIONS, ids=[t[0] for t in RELATIONS])
def test_relations(text: str, tree: object) -> None:
    assert parse_where(text) == (tree,)


def test_relations_in_a_row_number_their_markers_from_left_to_right() -> None:
    relations = parse_where("a = ? AND b BETWEEN :lo AND :hi AND (c, d) > (?, 1) AND e[?] = ?")
    assert relations == (
        ColumnRelation("a", "=", Marker(0)),
        ColumnRelation("b", "BETWEEN", Between(Marker(1, "lo"), Marker(2, "hi"))),
        TupleRelation(("c", "d"), ">", TupleLiteral((Marker(3), number(1)))),
        ElementRelation("e", Marker(4), "=", Marker(5)),
    )


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "a =",
        "a == 1",
        "a <> 1",
        "a IS NULL",
        "a NOT = 1",
        "(a, b) = 1",
        "(a, b) CONTAINS 1",
        "a = 1 OR b = 2",
    ],
)
def test_broken_relations(text: str) -> None:
    with pytest.raises(CQLSyntaxError):
        parse_where(text)
