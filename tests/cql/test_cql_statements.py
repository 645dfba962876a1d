"""Statements that read and write, against the trees they must give."""

import pytest

from belvedere.cql.errors import CQLSyntaxError
from belvedere.cql.parser import parse_statement
from belvedere.cql.syntax import (
    AddToColumn,
    Batch,
    Call,
    ColumnRef,
    ColumnRelation,
    Condition,
    Constant,
    CountRows,
    Delete,
    DeleteColumn,
    DeleteElement,
    DeleteField,
    FieldAccess,
    FunctionCall,
    InList,
    Insert,
    InsertJson,
    ListLiteral,
    Marker,
    Ordering,
    PrependToColumn,
    Select,
    SelectItem,
    SetColumn,
    SetElement,
    SetField,
    SubtractFromColumn,
    TableName,
    Update,
)

T = TableName(None, "t")


def number(value: int) -> Constant:
    return Constant("integer", str(value))


def string(text: str) -> Constant:
    return Constant("string", text)


def columns(*names: str) -> tuple[SelectItem, ...]:
    return tuple(SelectItem(ColumnRef(name)) for name in names)


K1 = (ColumnRelation("k", "=", number(1)),)

SELECTS = [
    ("SELECT * FROM t", Select(T, ())),
    ('select * from Ks."T" ;', Select(TableName("ks", "T"), ())),
    ("SELECT a, b AS x FROM t", Select(T, (SelectItem(ColumnRef("a")), SelectItem(ColumnRef("b"), "x")))),
    ("SELECT (a) AS x FROM t WHERE k = 1", None),
    ("SELECT DISTINCT a FROM t", Select(T, columns("a"), distinct=True)),
    ("SELECT distinct FROM t", Select(T, columns("distinct"))),
    ("SELECT DISTINCT distinct FROM t", Select(T, columns("distinct"), distinct=True)),
    ("SELECT JSON a FROM t", Select(T, columns("a"), json=True)),
    ("SELECT JSON * FROM t", Select(T, (), json=True)),
    ("SELECT JSON DISTINCT a FROM t", Select(T, columns("a"), json=True, distinct=True)),
    ("SELECT json, a FROM t", Select(T, columns("json", "a"))),
    ("SELECT json AS j FROM t", Select(T, (SelectItem(ColumnRef("json"), "j"),))),
    ("SELECT json.a FROM t", Select(T, (SelectItem(FieldAccess(ColumnRef("json"), "a")),))),
    ("SELECT count(*) FROM t", Select(T, (SelectItem(CountRows()),))),
    ("SELECT count FROM t", Select(T, columns("count"))),
    ("SELECT * FROM t WHERE k = 1", Select(T, (), K1)),
    (
        "SELECT * FROM t GROUP BY a, floor(b, 1h)",
        Select(
            T,
            (),
            group_by=(
                ColumnRef("a"),
                FunctionCall(None, "floor", (ColumnRef("b"), Constant("duration", "1h"))),
            ),
        ),
    ),
    (
        "SELECT * FROM t ORDER BY a, b DESC, c ASC",
        Select(T, (), order_by=(Ordering("a"), Ordering("b", True), Ordering("c"))),
    ),
    (
        "SELECT * FROM t ORDER BY v ANN OF [1] LIMIT 3",
        Select(T, (), order_by=(Ordering("v", False, ListLiteral((number(1),))),), limit=number(3)),
    ),
    (
        "SELECT * FROM t WHERE k = ? PER PARTITION LIMIT :n LIMIT ? ALLOW FILTERING",
        Select(
            T,
            (),
            (ColumnRelation("k", "=", Marker(0)),),
            per_partition_limit=Marker(1, "n"),
            limit=Marker(2),
            allow_filtering=True,
            markers=(None, "n", None),
        ),
    ),
    ("SELECT * FROM t LIMIT -1", Select(T, (), limit=number(-1))),
    ("SELECT a\n\tFROM t -- the end", Select(T, columns("a"))),
]


@pytest.mark.parametrize(("text", "tree"), SELECTS, ids=[s[0] for s in SELECTS])
def test_select(text: str, tree: object) -> None:
    parsed = parse_statement(text)
    assert isinstance(parsed, Select)
    if tree is not None:
        assert parsed == tree


def test_an_alias_after_parentheses_is_no_type_hint() -> None:
    parsed = parse_statement("SELECT (a) AS x FROM t")
    assert isinstance(parsed, Select)
    assert parsed.items[0].alias == "x"


MODIFICATIONS = [
    ("INSERT INTO t (k) VALUES (1)", Insert(T, ("k",), (number(1),))),
    (
        'INSERT INTO ks.t (k, "V") VALUES (?, :v) IF NOT EXISTS USING TTL ? AND TIMESTAMP 5',
        Insert(
            TableName("ks", "t"),
            ("k", "V"),
            (Marker(0), Marker(1, "v")),
            if_not_exists=True,
            timestamp=number(5),
            ttl=Marker(2),
            markers=(None, "v", None),
        ),
    ),
    ("INSERT INTO t (json) VALUES (1)", Insert(T, ("json",), (number(1),))),
    ("INSERT INTO t JSON '{}'", InsertJson(T, string("{}"))),
    ("INSERT INTO t JSON ? DEFAULT NULL", InsertJson(T, Marker(0), markers=(None,))),
    (
        "INSERT INTO t JSON :j DEFAULT UNSET IF NOT EXISTS USING TIMESTAMP 1",
        InsertJson(T, Marker(0, "j"), True, True, number(1), markers=("j",)),
    ),
    ("UPDATE t SET v = 1 WHERE k = 1", Update(T, (SetColumn("v", number(1)),), K1)),
    ("UPDATE t SET v = v + 1 WHERE k = 1", Update(T, (AddToColumn("v", number(1)),), K1)),
    ("UPDATE t SET v = v+1 WHERE k = 1", Update(T, (AddToColumn("v", number(1)),), K1)),
    ("UPDATE t SET v = v - 1 WHERE k = 1", Update(T, (SubtractFromColumn("v", number(1)),), K1)),
    ("UPDATE t SET v = v -1 WHERE k = 1", Update(T, (SubtractFromColumn("v", number(1)),), K1)),
    ("UPDATE t SET v += 1 WHERE k = 1", Update(T, (AddToColumn("v", number(1)),), K1)),
    ("UPDATE t SET v -= 1 WHERE k = 1", Update(T, (SubtractFromColumn("v", number(1)),), K1)),
    (
        "UPDATE t SET v = [1] + v WHERE k = 1",
        Update(T, (PrependToColumn("v", ListLiteral((number(1),))),), K1),
    ),
    (
        "UPDATE t SET v = f(1) + v WHERE k = 1",
        Update(T, (PrependToColumn("v", FunctionCall(None, "f", (number(1),))),), K1),
    ),
    (
        "UPDATE t SET v = f(1) WHERE k = 1",
        Update(T, (SetColumn("v", FunctionCall(None, "f", (number(1),))),), K1),
    ),
    ("UPDATE t SET v['a'] = 1 WHERE k = 1", Update(T, (SetElement("v", string("a"), number(1)),), K1)),
    ("UPDATE t SET v.f = 1 WHERE k = 1", Update(T, (SetField("v", "f", number(1)),), K1)),
    (
        "UPDATE t USING TIMESTAMP ? AND TTL 3 SET a = ?, b[?] = ? WHERE k = ? IF c = ? AND d[?] > ?",
        Update(
            T,
            (SetColumn("a", Marker(1)), SetElement("b", Marker(2), Marker(3))),
            (ColumnRelation("k", "=", Marker(4)),),
            (Condition("c", "=", Marker(5)), Condition("d", ">", Marker(7), key=Marker(6))),
            timestamp=Marker(0),
            ttl=number(3),
            markers=(None,) * 8,
        ),
    ),
    ("UPDATE t SET v = 1 WHERE k = 1 IF EXISTS", Update(T, (SetColumn("v", number(1)),), K1, if_exists=True)),
    (
        "UPDATE t SET v = 1 WHERE k = 1 IF exists = 2 AND a.b != 3 AND c IN (1) AND d IN ?",
        Update(
            T,
            (SetColumn("v", number(1)),),
            K1,
            (
                Condition("exists", "=", number(2)),
                Condition("a", "!=", number(3), field="b"),
                Condition("c", "IN", InList((number(1),))),
                Condition("d", "IN", Marker(0)),
            ),
            markers=(None,),
        ),
    ),
    ("DELETE FROM t WHERE k = 1", Delete(T, (), K1)),
    (
        "DELETE a, b[?], c.f FROM t USING TIMESTAMP ? WHERE k = 1 IF EXISTS;",
        Delete(
            T,
            (DeleteColumn("a"), DeleteElement("b", Marker(0)), DeleteField("c", "f")),
            K1,
            if_exists=True,
            timestamp=Marker(1),
            markers=(None, None),
        ),
    ),
    ("DELETE FROM t WHERE k = 1 IF v = null", None),
]


@pytest.mark.parametrize(("text", "tree"), MODIFICATIONS, ids=[m[0] for m in MODIFICATIONS])
def test_modifications(text: str, tree: object) -> None:
    parsed = parse_statement(text)
    assert isinstance(parsed, Insert | InsertJson | Update | Delete)
    if tree is not None:
        assert parsed == tree


def test_a_batch_numbers_markers_through_all_its_statements() -> None:
    parsed = parse_statement(
        "BEGIN UNLOGGED BATCH USING TIMESTAMP ? "
        "INSERT INTO t (k) VALUES (:k); UPDATE t SET v = ? WHERE k = 1 IF EXISTS "
        "DELETE FROM t WHERE k = ?; APPLY BATCH;"
    )
    assert parsed == Batch(
        "UNLOGGED",
        (
            Insert(T, ("k",), (Marker(1, "k"),)),
            Update(T, (SetColumn("v", Marker(2)),), K1, if_exists=True),
            Delete(T, (), (ColumnRelation("k", "=", Marker(3)),)),
        ),
        timestamp=Marker(0),
        markers=(None, "k", None, None),
    )


def test_kinds_of_batches() -> None:
    assert parse_statement("BEGIN BATCH APPLY BATCH") == Batch("LOGGED", ())
    assert parse_statement("begin counter batch apply batch") == Batch("COUNTER", ())


CALLS = [
    ("CALL verify('ks.v')", Call(None, "verify", (string("ks.v"),))),
    ("call Belvedere.Verify();", Call("belvedere", "verify")),
    ('CALL "Odd"($$x$$, 1)', Call(None, "Odd", (string("x"), number(1)))),
    (
        "CALL f(?, [1], :b)",
        Call(None, "f", (Marker(0), ListLiteral((number(1),)), Marker(1, "b")), (None, "b")),
    ),
    ("CALL call(1)", Call(None, "call", (number(1),))),
    ("SELECT call FROM call", Select(TableName(None, "call"), columns("call"))),
    ("INSERT INTO call (call) VALUES (1)", Insert(TableName(None, "call"), ("call",), (number(1),))),
]


@pytest.mark.parametrize(("text", "tree"), CALLS, ids=[c[0] for c in CALLS])
def test_calls_and_call_as_a_name(text: str, tree: object) -> None:
    assert parse_statement(text) == tree


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "SELECT",
        "SELECT FROM t",
        "SELECT a b FROM t",
        "SELECT *, a FROM t",
        "SELECT * FROM t WHERE",
        "SELECT * FROM t LIMIT 1.5",
        "SELECT * FROM t LIMIT 'a'",
        "SELECT * FROM t LIMIT 1 WHERE k = 1",
        "SELECT * FROM t ALLOW",
        "SELECT * FROM t; SELECT * FROM t",
        "INSERT INTO t VALUES (1)",
        "INSERT INTO t () VALUES ()",
        "INSERT INTO t (a) VALUES (b)",
        "INSERT INTO t JSON 3",
        "INSERT INTO t (a) VALUES (1) USING",
        "INSERT INTO t (a) VALUES (1) IF EXISTS",
        "UPDATE t SET a = b WHERE k = 1",
        "UPDATE t SET a = 5 - a WHERE k = 1",
        "UPDATE t SET a = 1",
        "DELETE FROM t",
        "DELETE FROM t USING TTL 3 WHERE k = 1",
        "UPDATE t SET a = 1 WHERE k = 1 IF b LIKE 'x'",
        "BEGIN BATCH SELECT * FROM t; APPLY BATCH",
        "BEGIN BATCH INSERT INTO t (a) VALUES (1)",
        "CALL",
        "CALL f",
        "CALL f(",
        "CALL f(1,)",
        "CALL f(1 2)",
        "CALL f() WHERE k = 1",
        "CALL ?('x')",
        "CALL f(a)",
        "BEGIN BATCH CALL f(); APPLY BATCH",
    ],
)
def test_what_is_not_cql(text: str) -> None:
    with pytest.raises(CQLSyntaxError):
        parse_statement(text)
