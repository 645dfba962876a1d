"""Where errors are said to be, and in which words."""

import pytest

from belvedere.cql.errors import CQLSyntaxError
from belvedere.cql.parser import parse_selector, parse_statement, parse_term, parse_type

MESSAGES = [
    ("", "line 1:0 no viable alternative at input '<EOF>' ([<EOF>])"),
    ("  \n ", "line 2:1 no viable alternative at input '<EOF>' ([<EOF>])"),
    ("selec * FROM t", "line 1:0 no viable alternative at input 'selec' ([selec] * FROM t)"),
    ("SELECT * FORM t", "line 1:9 mismatched input 'FORM' expecting K_FROM (SELECT * [FORM] t)"),
    ("SELECT * FROM", "line 1:13 no viable alternative at input '<EOF>' (SELECT * FROM[<EOF>])"),
    ("SELECT * FROM select", "line 1:14 no viable alternative at input 'select' (SELECT * FROM [select])"),
    ("SELECT *\nFROM t\n  WERE k = 1", "line 3:2 missing EOF at 'WERE' (SELECT *\nFROM t\n  [WERE] k = 1)"),
    ("SELECT * FROM t -- x\n WHERE #", "line 2:7 no viable alternative at character '#'"),
    ("SELECT a FROM t WHERE a = 'x", "line 1:28 mismatched character '<EOF>' expecting '''"),
    ('SELECT "a FROM t', "line 1:16 mismatched character '<EOF>' expecting '\"'"),
    ("SELECT $$a FROM t", "line 1:17 mismatched character '<EOF>' expecting '$$'"),
    ("SELECT /* a FROM t", "line 1:18 mismatched character '<EOF>' expecting '*/'"),
    ("INSERT INTO t (a) VALUES (1", "line 1:27 mismatched input '<EOF>' expecting ')'"),
    ("INSERT INTO t (a) VALUES (b)", "line 1:26 no viable alternative at input 'b'"),
    ("SELECT * FROM ?", "line 1:14 Bind variables cannot be used for table names"),
    ("SELECT * FROM ks.?", "line 1:17 Bind variables cannot be used for table names"),
    ("USE ?", "line 1:4 Bind variables cannot be used for keyspace names"),
    ("UPDATE t SET a = b + 1 WHERE k = 1", "line 1:17 Only expressions of the form X = X + <value> are"),
    ("UPDATE t SET a = 1 + b WHERE k = 1", "line 1:21 Only expressions of the form X = <value> + X are"),
    ("ALTER TABLE t WITH a = 1 AND a = 2", "line 1:29 Multiple definition for property 'a'"),
    ("SELECT _a FROM t", "line 1:7 no viable alternative at character '_'"),
    ("SELECT \u00e9 FROM t", "line 1:7 no viable alternative at character '\u00e9'"),
]


@pytest.mark.parametrize(("text", "message"), MESSAGES, ids=[m[0] for m in MESSAGES])
def test_messages(text: str, message: str) -> None:
    with pytest.raises(CQLSyntaxError) as caught:
        parse_statement(text)
    assert caught.value.message.startswith(message)
    assert str(caught.value) == caught.value.message


def test_the_snippet_shows_ten_tokens_on_each_side() -> None:
    with pytest.raises(CQLSyntaxError) as caught:
        parse_statement("SELECT a, b, c, d, e, f FROM t FROM u, v, w, x, y, z, k")
    assert caught.value.message == (
        "line 1:31 missing EOF at 'FROM' (..., c, d, e, f FROM t [FROM] u, v, w, x, y,...)"
    )


def test_a_huge_token_does_not_make_a_huge_message() -> None:
    with pytest.raises(CQLSyntaxError) as caught:
        parse_statement("SELECT '" + "x" * 100_000 + "' '" + "y" * 100_000 + "'")
    assert len(caught.value.message) < 1000


@pytest.mark.parametrize(
    "text",
    ["(" * 5000, "[" * 5000, "{" * 5000, "-" + " -" * 5000, "f(" * 5000, "(int)" * 5000, "1" + "+1" * 5000],
    ids=lambda text: text[:6],
)
def test_deep_terms_are_refused_without_exhausting_the_stack(text: str) -> None:
    with pytest.raises(CQLSyntaxError):
        parse_term(text)
    with pytest.raises(CQLSyntaxError):
        parse_selector(text)


def test_deep_types_and_relations_are_refused() -> None:
    with pytest.raises(CQLSyntaxError, match="nest deeper"):
        parse_type("list<" * 5000)
    with pytest.raises(CQLSyntaxError, match="nest deeper"):
        parse_statement("SELECT * FROM t WHERE " + "(" * 5000)
    with pytest.raises(CQLSyntaxError, match="nest deeper"):
        parse_selector("a" + "[b(" * 5000)


def test_reasonable_nesting_and_long_sums_are_fine() -> None:
    parse_term("(" * 30 + "1" + ")" * 30)
    parse_type("frozen<" * 30 + "int" + ">" * 30)
    parse_term("1" + " + 1" * 200)
