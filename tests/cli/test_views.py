"""`belvedere views` against a server process: listing, pause, resume, throttle, waiting."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import belvedere
from belvedere.cli.main import build_parser
from tests.cli.commands import Shell, query
from tests.drivers.server_process import BELVEDERE, ServerProcess, server_process
from tests.views import damage

ROWS = 300
HELD = (
    "CREATE MATERIALIZED VIEW ks.{} AS SELECT * FROM ks.t WHERE v IS NOT NULL AND k IS NOT NULL "
    "PRIMARY KEY (v, k) WITH build = {{'hold': 'true', 'priority': '3'}}"
)


def fill(path: Path) -> None:
    with belvedere.open(path) as db:
        for text in damage.SCHEMA[:2]:
            db.execute(text)
        db.execute_batch([damage.INSERT.format(k, k % 7) for k in range(ROWS)])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data = tmp_path_factory.mktemp("views") / "data"
    fill(data)
    with server_process(data) as running:
        yield running


@pytest.fixture
def shell(server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    yield Shell(server, capsys)
    for row in query(server, "SELECT view_name FROM system_views.view_builds"):
        query(server, f'DROP MATERIALIZED VIEW ks."{row["view_name"]}"')


def described(server: ServerProcess, view: str) -> str:
    text: str = query(server, f"DESCRIBE MATERIALIZED VIEW ks.{view}")[0]["create_statement"]
    return text


def test_listing_and_a_hand_on_a_build(server: ServerProcess, shell: Shell) -> None:
    assert shell("views") == (0, "there are no materialized views\n", "")
    assert shell("views", "--json") == (0, '{"views": []}\n', "")
    query(server, HELD.format("a"))
    status, out, err = shell("views", "ks.a")
    assert (status, err) == (0, "")
    header, line, _, remark = out.splitlines()
    assert header.split() == ["view", "base", "state", "done", "tablets", "rows", "read"]
    assert line.split() == [
        "ks.a",
        "ks.t",
        "HELD",
        "0%",
        "0",
        "of",
        "4",
        "0",
        "of",
        "about",
        str(ROWS),
        "rows",
    ]
    assert remark == "ks.a: held; let it go on with: belvedere views resume ks.a"
    assert shell("views", "throttle", "ks.a", "100000")[0] == 0
    assert "build = {'hold': 'true', 'max_rate': '100000', 'priority': '3'}" in described(server, "a")
    status, out, _ = shell("views", "resume", "ks.a")
    assert (status, out) == (0, "ks.a: the build goes on; watch it with: belvedere views ks.a --wait\n")
    assert "build = {'max_rate': '100000', 'priority': '3'}" in described(server, "a")
    status, out, _ = shell("views", "ks.a", "--wait")
    assert (status, out.splitlines()[-1][:13]) == (0, "ks.a is built")
    (row,) = json.loads(shell("views", "ks", "--json")[1])["views"]
    assert (row["view_name"], row["state"], row["rows_read"]) == ("a", "BUILT", ROWS)
    assert "when it is built again" in shell("views", "throttle", "ks.a", "0")[1]
    assert shell("views", "pause", "ks.a")[0] == 0
    assert "build = {'hold': 'true', 'priority': '3'}" in described(server, "a")
    assert shell("views", "--wait", "--json")[1].startswith('{\n  "views"')


def test_names_that_are_not_there(server: ServerProcess, shell: Shell) -> None:
    query(server, HELD.format('"Odd"'))
    assert shell("views", 'ks."Odd"')[0] == 0
    message = 'belvedere: there is no materialized view ks.odd; there are ks."Odd"\n'
    assert shell("views", "ks.Odd") == (1, "", message)
    assert shell("views", "resume", "ks.Odd") == (1, "", message)
    assert shell("views", "nowhere") == (1, "", "belvedere: there is no keyspace nowhere\n")
    query(server, "CREATE KEYSPACE IF NOT EXISTS empty WITH replication = {'class': 'SimpleStrategy'}")
    assert shell("views", "empty") == (0, "there are no materialized views in keyspace empty\n", "")
    assert shell("views", "nowhere.v", "--wait")[0] == 1
    assert shell("views", "pause", 'ks."Odd"', "--wait")[0] == 2


def waiting(server: ServerProcess, *words: str) -> "subprocess.Popen[str]":
    command = [*BELVEDERE, "views", "--wait", *words, "--port", str(server.port)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def first_line_with(process: "subprocess.Popen[str]", text: str) -> str:
    assert process.stdout is not None
    return next(line for line in process.stdout if text in line)


def test_waiting_without_a_terminal(server: ServerProcess, shell: Shell) -> None:
    query(server, HELD.format("a"), HELD.format("b"))
    process = waiting(server)
    first_line_with(process, "ks.a: held")
    assert shell("views", "resume", "ks.a")[0] == 0
    assert shell("views", "resume", "ks.b")[0] == 0
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert sorted(out.splitlines()[-2:]) == [
        f"ks.{name} is built, {ROWS} rows of ks.t read" for name in ("a", "b")
    ]


def test_waiting_for_a_view_that_is_dropped(server: ServerProcess, shell: Shell) -> None:
    query(server, HELD.format("a"), HELD.format("b"))
    process = waiting(server, "ks")
    first_line_with(process, "held")
    query(server, "DROP MATERIALIZED VIEW ks.a")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert out.splitlines()[-1] == "ks.a was dropped"


def test_waiting_goes_on_when_the_server_comes_back(tmp_path: Path) -> None:
    fill(tmp_path / "data")
    with server_process(tmp_path / "data") as first:
        query(first, HELD.format("a"))
        process = waiting(first, "ks.a")
        first_line_with(process, "ks.a: held")
        first.stop(9)
        assert "went away" in first_line_with(process, "server")
        with server_process(tmp_path / "data", "--port", str(first.port)) as second:
            query(second, "ALTER MATERIALIZED VIEW ks.a WITH build = {}")
            out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines()[-1] == f"ks.a is built, {ROWS} rows of ks.t read"


@pytest.mark.parametrize(
    "words",
    [
        ["a", "b"],
        ["ks.t.x"],
        ["pause"],
        ["pause", "ks"],
        ["resume", "ks.v", "3"],
        ["throttle", "ks.v"],
        ["throttle", "ks.v", "-1"],
        ["throttle", "ks.v", "fast"],
        ["--port", "x"],
    ],
)
def test_wrong_words_end_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args(["views", *words])
    assert ended.value.code == 2
    assert "usage: belvedere views" in capsys.readouterr().err
