"""Tokens, their places, and cutting scripts into statements."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.cql.errors import CQLSyntaxError
from belvedere.cql.lexer import line_and_column, split_statements, token_spans, tokenize

TOKENS = [
    ("", []),
    (" \t\r\n", []),
    ("a-1", ["a", "-", "1"]),
    ("a--1", ["a"]),
    ("a//1\nb", ["a", "b"]),
    ("a/**/b/*c\n*/d", ["a", "b", "d"]),
    ("1..2", ["1", "..", "2"]),
    ("1...2", ["1.", "..", "2"]),
    ("1.5..2.", ["1.5", "..", "2."]),
    ("a<=b>=c!=d<e>f", ["a", "<=", "b", ">=", "c", "!=", "d", "<", "e", ">", "f"]),
    ("map<int,list<int>>", ["map", "<", "int", ",", "list", "<", "int", ">", ">"]),
    ("a+=1,b-=2", ["a", "+=", "1", ",", "b", "-=", "2"]),
    ("'a''b''' 'c'", ["'a''b'''", "'c'"]),
    ('"a""b"', ['"a""b"']),
    ("$$a'b$c$$ $", ["$$a'b$c$$", "$"]),
    ("0xAfg", ["0xAf", "g"]),
    ("1e5e", ["1e5", "e"]),
    ("5mo3d", ["5mo3d"]),
    ("123e4567-e89b-12d3-a456-426614174000-1", ["123e4567-e89b-12d3-a456-426614174000", "-", "1"]),
    ("P0001-02-03T04:05:06", ["P0001-02-03T04:05:06"]),
    ("a:b", ["a", ":", "b"]),
]


@pytest.mark.parametrize(("text", "tokens"), TOKENS, ids=[t[0] for t in TOKENS])
def test_tokens(text: str, tokens: list[str]) -> None:
    assert tokenize(text) == [*tokens, ""]


@given(st.text(alphabet="ab1 \n'\"$-/*.<>=!;:#\u00e9", max_size=40))
def test_spans_agree_with_tokens_and_nothing_but_blanks_and_comments_is_lost(text: str) -> None:
    try:
        tokens = tokenize(text)
    except CQLSyntaxError:
        return
    spans = token_spans(text)
    assert [text[start:end] for start, end in spans] == tokens
    position = 0
    for start, end in spans:
        between = text[position:start].strip()
        assert not between or between.startswith(("--", "//", "/*"))
        position = end
    assert tokens[-1] == ""
    assert "" not in tokens[:-1]


def test_lines_count_from_one_and_columns_from_zero() -> None:
    assert line_and_column("ab\ncd", 0) == (1, 0)
    assert line_and_column("ab\ncd", 2) == (1, 2)
    assert line_and_column("ab\ncd", 4) == (2, 1)


SCRIPTS = [
    ("", []),
    (" ; ;; ", []),
    ("SELECT 1", ["SELECT 1"]),
    ("USE a; USE b;", ["USE a", "USE b"]),
    ("USE a -- it's; here\n; /* ; */ USE b", ["USE a", "USE b"]),
    ("INSERT ';' $$;$$ \";\"; x", ["INSERT ';' $$;$$ \";\"", "x"]),
    (
        "begin batch insert a; delete b; apply batch; use c",
        ["begin batch insert a; delete b; apply batch", "use c"],
    ),
    ("BEGIN UNLOGGED BATCH a; APPLY BATCH", ["BEGIN UNLOGGED BATCH a; APPLY BATCH"]),
]


@pytest.mark.parametrize(("text", "statements"), SCRIPTS, ids=[s[0] for s in SCRIPTS])
def test_split_statements(text: str, statements: list[str]) -> None:
    assert split_statements(text) == statements


def test_an_unfinished_string_in_a_script_is_an_error() -> None:
    with pytest.raises(CQLSyntaxError, match="line 1:10 mismatched character '<EOF>' expecting '''"):
        split_statements("USE a; 'b;")
