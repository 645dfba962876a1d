"""Whatever the text, the parser answers with a tree or with CQLSyntaxError."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from belvedere.cql.errors import CQLSyntaxError
from belvedere.cql.keywords import RESERVED
from belvedere.cql.lexer import split_statements, tokenize
from belvedere.cql.parser import parse_selector, parse_statement, parse_term, parse_type, parse_where

SEEDS = [
    "SELECT DISTINCT a, f(b)[1..2].c AS x, CAST(a AS int), count(*) FROM ks.t WHERE (a, b) IN ((1, 2), ?)"
    " AND token(a) > token(5) AND c['x'] = 3 GROUP BY a ORDER BY b DESC PER PARTITION LIMIT 3 LIMIT :n"
    " ALLOW FILTERING",
    "INSERT INTO t (a, b, c) VALUES ({'a': [1]}, (int) -3, {x: 1h})"
    " IF NOT EXISTS USING TTL 3 AND TIMESTAMP ?",
    "INSERT INTO t JSON '{}' DEFAULT UNSET",
    "UPDATE t USING TTL ? SET a = a + 1, b = [1] + b, c[3] = 4, d.e = 5, f -= {1}"
    " WHERE k = 1 IF a[1] > 2 AND b = 3",
    "DELETE a, b[1], c.d FROM t USING TIMESTAMP 5 WHERE k IN (1, 2) IF EXISTS",
    "BEGIN COUNTER BATCH USING TIMESTAMP 1 UPDATE t SET a += 1 WHERE k = $$x$$; APPLY BATCH;",
    "CREATE TABLE IF NOT EXISTS ks.t (a int, b frozen<map<int, vector<float, 3>>> static,"
    " PRIMARY KEY ((a), b))"
    " WITH CLUSTERING ORDER BY (b DESC) AND c = {'x': 1} AND COMPACT STORAGE",
    "CREATE MATERIALIZED VIEW v AS SELECT * FROM t WHERE a IS NOT NULL PRIMARY KEY ((a, b), c) WITH x = 'y'",
    "ALTER TABLE t DROP (a, b) USING TIMESTAMP 5",
    "ALTER TYPE t RENAME a TO b AND c TO d",
    "CREATE CUSTOM INDEX i ON t (keys(a)) USING 'x' WITH options = {}",
    "DESCRIBE ONLY KEYSPACE ks WITH INTERNALS",
    "CREATE FUNCTION f() RETURNS int LANGUAGE x AS '; y'",
    "GRANT ALL ON t TO u",
    "CALL belvedere.f('a', ?, {1: [2]}, :n)",
]
PIECES = sorted(
    {token for seed in SEEDS for token in tokenize(seed)}
    | RESERVED
    | {
        "'",
        '"',
        "$$",
        "/*",
        "*/",
        "--",
        "#",
        "_",
        "\u00e9",
        "\u0130",
        "\0",
        "-",
        "0x",
        "1.",
        "NaN",
        "P1Y",
        "\n",
    }
)


def parse_all(text: str) -> None:
    for parse in (parse_statement, parse_selector, parse_term, parse_where, parse_type, split_statements):
        with contextlib.suppress(CQLSyntaxError):
            parse(text)


@given(st.lists(st.sampled_from(PIECES), max_size=25), st.sampled_from(["", " "]))
def test_token_soup(pieces: list[str], glue: str) -> None:
    parse_all(glue.join(pieces))


@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    parse_all(text)


@given(
    st.sampled_from(SEEDS),
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 3), st.sampled_from(PIECES)), min_size=1, max_size=3
    ),
)
def test_mutated_statements(seed: str, edits: list[tuple[int, int, str]]) -> None:
    tokens = tokenize(seed)
    for place, removed, added in edits:
        at = place % len(tokens)
        tokens[at : at + removed] = [added] if removed != 1 else []
        tokens = tokens or [""]
    parse_all(" ".join(tokens))


@given(st.sampled_from(SEEDS), st.integers(0, 300))
def test_truncated_statements(seed: str, length: int) -> None:
    parse_all(seed[:length])


def test_the_seeds_themselves_are_statements() -> None:
    for seed in SEEDS:
        parse_statement(seed)
