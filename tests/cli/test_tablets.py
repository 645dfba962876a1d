"""`belvedere tablets`: for people and for programs."""

import json
from collections.abc import Iterator

import pytest

from belvedere.cli.tablets import table_of
from belvedere.model.token import MAX_TOKEN, MIN_TOKEN
from tests.cli.commands import Shell, query
from tests.drivers.server_process import KEYSPACE, ServerProcess, server_process


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("tablets") / "data") as running:
        query(
            running,
            KEYSPACE.format("ks"),
            KEYSPACE.format("empty"),
            "CREATE TABLE ks.t (k int PRIMARY KEY) WITH tablets = {'initial': 2}",
            'CREATE TABLE ks."Big" (k int PRIMARY KEY)',
        )
        yield running


def test_for_programs(server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = Shell(server, capsys)("tablets", "ks.t", "--json")
    assert status == 0
    first, second = json.loads(out)["tablets"]
    assert (first["first_token"], second["last_token"]) == (str(MIN_TOKEN), str(MAX_TOKEN))
    assert int(first["last_token"]) + 1 == int(second["first_token"]) == 0
    for row in (first, second):
        assert (row["keyspace_name"], row["table_name"], row["epoch"]) == ("ks", "t", 1)
        assert row["replicas"] == row["in_sync"] == [row["primary_node"]]


def test_which_tables(server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(server, capsys)

    def count(*words: str) -> int:
        status, out, _ = shell("tablets", *words, "--json")
        assert status == 0
        return len(json.loads(out)["tablets"])

    assert [count(), count("ks"), count("ks.t"), count('ks."Big"'), count("empty")] == [6, 6, 2, 4, 0]
    assert shell("tablets", "nope") == (1, "", "belvedere: there is no keyspace nope\n")
    assert shell("tablets", "ks.big") == (1, "", "belvedere: there is no table ks.big\n")
    status, out, _ = shell("tablets", "empty")
    assert (status, out) == (0, "no tables yet\n")
    status, out, _ = shell("tablets", "ks.t")
    lines = out.splitlines()
    assert (status, len(lines)) == (0, 3)
    assert lines[0].split() == [
        "table",
        "tablet",
        "first",
        "token",
        "last",
        "token",
        "epoch",
        "primary",
        "others",
    ]
    assert lines[1].startswith("ks.t ")
    assert lines[2].startswith("     ")


def test_those_that_are_not_in_sync_are_told_apart() -> None:
    row = {
        "keyspace_name": "ks",
        "table_name": "t",
        "tablet_id": 7,
        "first_token": -5,
        "last_token": 5,
        "epoch": 12,
        "primary_node": "b",
        "replicas": ["a", "b", "c"],
        "in_sync": ["b", "c"],
    }
    assert list(table_of([row]))[1].split() == ["ks.t", "7", "-5", "5", "12", "b", "(a)", "c"]
