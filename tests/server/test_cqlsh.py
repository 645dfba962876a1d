"""The unmodified cqlsh against a real server on loopback."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.running_server import running_server

CQLSH = Path(sys.executable).with_name("cqlsh")
STATEMENTS = """
CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
USE shop;
CREATE TABLE orders (id int PRIMARY KEY, note text, tags set<text>);
INSERT INTO orders (id, note, tags) VALUES (1, 'first', {'a', 'b'});
TRACING ON;
SELECT * FROM orders;
TRACING OFF;
CONSISTENCY QUORUM;
PAGING 1;
INSERT INTO orders (id) VALUES (2);
SELECT id FROM orders;
DESCRIBE TABLE orders;
DESCRIBE KEYSPACES;
SHOW VERSION
"""


@pytest.mark.parametrize("options", [[], ["--protocol-version=3"]])
def test_a_session(tmp_path: Path, options: list[str]) -> None:
    with running_server(str(tmp_path)) as server:
        done = subprocess.run(
            [CQLSH, server.host, str(server.port), "--no-color", *options, "-e", STATEMENTS.strip()],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    assert done.stderr == ""
    assert done.returncode == 0
    assert " 1 | first | {'a', 'b'}" in done.stdout
    assert "CREATE TABLE shop.orders (" in done.stdout
    assert "system_virtual_schema" in done.stdout
    assert "CQL spec 3.4.7" in done.stdout
    assert f"Native protocol v{options[0][-1] if options else 5}" in done.stdout
