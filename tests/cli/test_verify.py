"""`belvedere verify` and `belvedere repair` against a server process whose view was damaged on purpose."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import belvedere
from belvedere.cli.verify import report
from belvedere.server.procedures import COUNTS
from tests.cli.commands import Shell, query
from tests.drivers.server_process import ServerProcess, server_process
from tests.views import damage

ROWS = 100


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data = tmp_path_factory.mktemp("verify") / "data"
    with belvedere.open(data) as db:
        for text in damage.SCHEMA:
            db.execute(text)
        db.execute_batch([damage.INSERT.format(k, k % 7) for k in range(ROWS)])
        db._background.call(damage.damage(db._database, db._node.views))
    with server_process(data) as running:
        yield running


@pytest.fixture
def shell(server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(server, capsys)


def test_damage_is_told_and_mended(shell: Shell) -> None:
    status, out, err = shell("verify", "ks.mv")
    assert (status, err) == (1, "")
    lines = out.splitlines()
    assert lines[0].startswith(f"ks.mv: {ROWS} rows of the base and {ROWS} rows of the view compared in ")
    missing = lines.index("missing, in the base, but not in the view: 1 row")
    assert lines[missing + 1].endswith(": w = right")
    orphaned = lines.index("orphaned, in the view, but not in the base: 1 row")
    assert lines[orphaned + 1].startswith(f"  v = {damage.WRONG_V}, k = ")
    different = lines.index("different, not as the base has it: 1 row")
    assert lines[different + 2] == f"    w: expected right, found {damage.WRONG_W}"
    assert lines[-1] == "3 rows wrong; put them right with: belvedere repair ks.mv"
    # Nothing was changed by looking.
    status, out, _ = shell("verify", "ks.mv", "--json")
    told = json.loads(out)
    assert (status, told["view"], told["missing"], told["repaired"]) == (1, "ks.mv", 1, 0)
    assert sorted(example["kind"] for example in told["examples"]) == ["different", "missing", "orphaned"]
    status, out, _ = shell("repair", "ks.mv")
    assert (status, out.splitlines()[-1]) == (0, "3 rows repaired; nothing is wrong any more")
    status, out, _ = shell("verify", "KS.MV")
    assert (status, out.splitlines()[-1]) == (0, "the view is equal to its base")
    status, out, _ = shell("repair", "ks.mv", "--json")
    assert (status, json.loads(out)["unrepaired"], json.loads(out)["examples"]) == (0, 0, [])


def test_what_cannot_be_compared(server: ServerProcess, shell: Shell) -> None:
    assert shell("verify", "ks.t") == (2, "", "belvedere: ks.t is a table, not a materialized view\n")
    assert shell("repair", "ks.nothing")[0] == 2
    query(
        server,
        "CREATE MATERIALIZED VIEW ks.held AS SELECT * FROM ks.t WHERE v IS NOT NULL AND k IS NOT NULL "
        "PRIMARY KEY (v, k) WITH build = {'hold': 'true'}",
    )
    status, out, err = shell("verify", "ks.held")
    assert (status, out) == (2, "")
    assert "is not built yet" in err
    with pytest.raises(SystemExit) as ended:
        shell("verify", "mv")
    assert ended.value.code == 2


def test_without_a_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = ServerProcess(None, "127.0.0.1", 1, "", tmp_path)  # type: ignore[arg-type]
    for words in (("verify", "ks.mv"), ("repair", "ks.mv"), ("views",), ("views", "--wait")):
        status, out, err = Shell(gone, capsys)(*words)
        assert (status, out) == (2, "")
        assert "no answer from 127.0.0.1:1" in err
        assert "belvedere start --data DIR" in err


def found(**changes: Any) -> dict[str, Any]:
    return {**dict.fromkeys(COUNTS, 0), "examples": [], **changes}


def test_more_than_the_examples() -> None:
    example = {"kind": "missing", "key": {"v": "1", "k": "2"}, "expected": {}, "found": None}
    lines = report("ks.mv", found(missing=1200, examples=[example]), 1.0, repaired=False)
    assert lines[2:5] == [
        "missing, in the base, but not in the view: 1,200 rows",
        "  v = 1, k = 2",
        "  and 1,199 rows more",
    ]


def test_more_than_were_looked_at() -> None:
    lines = report("ks.mv", found(missing=1, unexamined=20), 1.0, repaired=False)
    assert "more that differ, not looked at one by one: 20 rows" in lines
    assert lines[-1].startswith("21 rows wrong")


def test_long_and_odd_values() -> None:
    sides = {"expected": {"w": "x" * 5000}, "found": {"w": "two\nlines"}}
    example = {"kind": "different", "key": {"v": "1"}, **sides}
    lines = report("ks.mv", found(different=1, examples=[example]), 1.0, repaired=False)
    assert f"    w: expected {'x' * 120}… (5,000 characters), found 'two\\nlines'" in lines


def test_only_write_times_differ() -> None:
    same = {"w": "x"}
    example = {"kind": "different", "key": {"v": "1"}, "expected": same, "found": same}
    lines = report("ks.mv", found(different=1, examples=[example]), 1.0, repaired=False)
    assert "  v = 1: the same values, with other write times or times to live" in lines


def test_what_could_not_be_repaired() -> None:
    lines = report('ks."MV"', found(missing=3, repaired=2, unrepaired=1), 1.0, repaired=True)
    assert lines[-1].startswith("2 rows repaired, 1 still wrong")
    assert lines[-1].endswith("belvedere repair 'ks.\"MV\"'")
