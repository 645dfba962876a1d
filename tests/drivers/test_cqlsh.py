"""cqlsh from PyPI, not interactive: what it prints, how it ends, that it warns of nothing."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drivers.server_process import KEYSPACE, ServerProcess, server_process

CQLSH = str(Path(sys.executable).with_name("cqlsh"))
SCHEMA = f"""
{KEYSPACE.format("ks")};
USE ks;
CREATE TYPE place (street text, number int);
CREATE TABLE t (k int, c text, v double, s set<int>, m map<text, int>, p frozen<place>, u uuid,
    ts timestamp, b blob, st int static, PRIMARY KEY (k, c)) WITH comment = 'things';
CREATE TABLE n (k int PRIMARY KEY, n counter);
INSERT INTO t (k, c, v, s, m, p, u, ts, b) VALUES (1, 'a', 1.5, {{3, 1}}, {{'x': 1}},
    {{street: 'Rua, 1', number: 7}}, 123e4567-e89b-12d3-a456-426614174000,
    '2024-01-02 03:04:05+0000', 0xcafe);
INSERT INTO t (k, c) VALUES (1, 'b');
UPDATE n SET n = n + 5 WHERE k = 1;
"""
ROWS = """
 k | c | st   | b      | m        | p                             | s      | v
---+---+------+--------+----------+-------------------------------+--------+------
 1 | a | null | 0xcafe | {'x': 1} | {street: 'Rua, 1', number: 7} | {1, 3} |  1.5
 1 | b | null |   null |     null |                          null |   null | null

(2 rows)
"""


def cqlsh(server: ServerProcess, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [CQLSH, "--no-color", server.host, str(server.port), *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=100,
    )


def said(server: ServerProcess, statements: str) -> str:
    done = cqlsh(server, "-e", statements)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("cqlsh")
    script = folder / "schema.cql"
    script.write_text(SCHEMA)
    with server_process(folder / "data") as running:
        done = cqlsh(running, "-f", str(script))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        yield running


def test_rows_as_a_table(server: ServerProcess) -> None:
    assert said(server, "SELECT k, c, st, b, m, p, s, v FROM ks.t") == ROWS
    assert '{"k": 1, "c": "a"}' in said(server, "SELECT JSON k, c FROM ks.t")
    assert " n | 5" in said(server, "EXPAND ON; SELECT * FROM ks.n")
    conditional = said(server, "INSERT INTO ks.t (k, c) VALUES (1, 'b') IF NOT EXISTS")
    assert " [applied] | k | c" in conditional
    assert "     False | 1 | b" in conditional
    assert said(server, "PAGING 1; SELECT c FROM ks.t").endswith(" a\n b\n\n(2 rows)\n")
    assert "Connected to belvedere" in said(server, "SHOW HOST")
    assert "| Cassandra 5.0" in said(server, "SHOW VERSION")


def test_describe(server: ServerProcess) -> None:
    whole = said(
        server,
        "DESCRIBE KEYSPACES; DESCRIBE TABLES; DESCRIBE TYPES; DESCRIBE CLUSTER; USE ks; DESCRIBE TYPE place",
    )
    assert "ks  system  system_schema" in whole
    assert "Keyspace ks\n-----------\nn  t\n" in whole
    assert "Cluster: belvedere\nPartitioner: Murmur3Partitioner" in whole
    assert "CREATE TYPE ks.place (\n    street text,\n    number int\n);" in whole
    table = said(server, "DESCRIBE TABLE ks.t")
    assert "CREATE TABLE ks.t (\n    k int,\n    c text,\n    st int static,\n    b blob," in table
    assert "WITH CLUSTERING ORDER BY (c ASC)" in table
    assert "comment = 'things'" in table
    schema = said(server, "DESCRIBE SCHEMA")
    places = [schema.index(f"CREATE {what} ks") for what in ("KEYSPACE", "TYPE", "TABLE")]
    assert places == sorted(places)
    assert "VIRTUAL TABLE system.local" in said(server, "DESCRIBE TABLE system.local")


def test_what_describe_says_can_be_executed(server: ServerProcess, tmp_path: Path) -> None:
    script = tmp_path / "again.cql"
    script.write_text(
        said(server, "DESCRIBE KEYSPACE ks").replace("ks.", "again.").replace(" ks ", " again ")
    )
    done = cqlsh(server, "-f", str(script))
    assert (done.returncode, done.stderr) == (0, "")
    again = said(server, "DESCRIBE KEYSPACE again")
    assert again == script.read_text()


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("SELECT * FROM ks.nothing", "InvalidRequest: Error from server: code=2200 [Invalid query]"),
        ("SELEC", "SyntaxException: "),
        ("DESCRIBE TABLE ks.nothing", "'nothing' not found in keyspace 'ks'"),
        (KEYSPACE.format("ks"), "AlreadyExists: Keyspace 'ks' already exists"),
    ],
)
def test_errors_end_with_a_status(server: ServerProcess, statement: str, text: str) -> None:
    done = cqlsh(server, "-e", statement)
    assert done.returncode == 2
    assert text in done.stderr
    assert done.stdout == ""


def test_copy_to_a_file_and_back(server: ServerProcess, tmp_path: Path) -> None:
    before = said(server, "SELECT * FROM ks.t")
    path = tmp_path / "t.csv"
    assert "2 rows exported to 1 files" in said(server, f"COPY ks.t TO '{path}' WITH HEADER = true")
    assert path.read_text().splitlines()[0] == "k,c,b,m,p,s,st,ts,u,v"
    said(server, "TRUNCATE ks.t")
    assert "(0 rows)" in said(server, "SELECT * FROM ks.t")
    imported = said(server, f"COPY ks.t FROM '{path}' WITH HEADER = true")
    assert "2 rows imported from 1 files" in imported
    assert said(server, "SELECT * FROM ks.t") == before
