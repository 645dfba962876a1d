"""`belvedere load`: what is looked at before Spark, what Spark and people are told. No Spark here."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import belvedere
from belvedere.cli import load
from belvedere.cli.main import build_parser
from tests.cli.commands import Shell
from tests.drivers.server_process import ServerProcess, server_process
from tests.views import damage


@dataclass
class Summary:
    rows: int = 1_000_000
    bad_rows: int = 0
    bad_rows_path: str | None = None
    reasons: dict[str, int] = field(default_factory=dict)
    seconds: float = 10.0


@dataclass
class Loader:
    """In place of what runs on Spark."""

    summary: Summary = field(default_factory=Summary)
    failure: Exception | None = None
    told: list[Any] = field(default_factory=list)

    def load_files(
        self,
        session_settings: dict[str, str],
        files: Sequence[str],
        format: str,
        table: str,
        host: str,
        port: int,
        options: dict[str, str],
        report: Callable[[str], None],
    ) -> Summary:
        self.told = [session_settings, list(files), format, table, options]
        report("starting Spark")
        if self.failure is not None:
            raise self.failure
        return self.summary


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch) -> Loader:
    found = Loader()
    module = ModuleType("belvedere.spark.load")
    module.load_files = found.load_files  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "belvedere.spark", ModuleType("belvedere.spark"))
    monkeypatch.setitem(sys.modules, "belvedere.spark.load", module)
    monkeypatch.setattr(load, "find_spec", lambda name: object())
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data = tmp_path_factory.mktemp("load") / "data"
    with belvedere.open(data) as db:
        for text in damage.SCHEMA:
            db.execute(text)
    with server_process(data) as running:
        yield running


@pytest.fixture
def shell(server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(server, capsys)


@pytest.fixture
def rows(tmp_path: Path) -> str:
    path = tmp_path / "rows.csv"
    path.write_text("k,v,w\n1,1,x\n")
    return str(path)


def test_a_load(shell: Shell, loader: Loader, rows: str) -> None:
    assert shell("load", rows, "KS.t") == (
        0,
        "ks.t: 1,000,000 rows loaded in 10.0 s, 100,000 rows/s\n",
        "starting Spark\n",
    )
    assert loader.told == [{}, [rows], "csv", "ks.t", {"badRows": "fail"}]
    words = ("--spark", "spark.master=local[1]", "--timestamp", "-5", "--ttl", "60", "--on-bad-rows", "skip")
    assert (
        shell("load", rows, "s3a://there/more", "ks.t", *words, "--bad-rows", "bad", "--format", "json")[0]
        == 0
    )
    options = {"badRows": "skip", "badRowsPath": "bad", "timestamp": "-5", "ttl": "60"}
    expected = [{"spark.master": "local[1]"}, [rows, "s3a://there/more"], "json", "ks.t", options]
    assert loader.told == expected


def test_bad_rows_are_told(shell: Shell, loader: Loader, rows: str) -> None:
    reasons = {"column k: null": 2, "column v: 'abc' is not an int": 15}
    loader.summary = Summary(rows=3, bad_rows=17, bad_rows_path="bad", reasons=reasons, seconds=2.0)
    status, out, _ = shell("load", rows, "ks.t", "--on-bad-rows", "skip", "--bad-rows", "bad")
    assert status == 0
    assert out.splitlines()[1:] == [
        "17 bad rows left out; they are in bad",
        "          15  column v: 'abc' is not an int",
        "           2  column k: null",
    ]
    told = json.loads(shell("load", rows, "ks.t", "--on-bad-rows", "skip", "--json")[1])
    assert told == {
        "table": "ks.t",
        "rows": 3,
        "bad_rows": 17,
        "bad_rows_path": "bad",
        "reasons": reasons,
        "seconds": 2.0,
    }


def test_a_load_that_fails(shell: Shell, loader: Loader, rows: str) -> None:
    loader.failure = RuntimeError("1 bad row: column k: null")
    status, out, err = shell("load", rows, "ks.t")
    assert (status, out) == (1, "")
    assert err.endswith("belvedere: loading into ks.t failed: 1 bad row: column k: null\n")


def test_what_is_looked_at_before_spark(shell: Shell, loader: Loader, rows: str) -> None:
    def refused(*words: str) -> str:
        status, out, err = shell("load", *words)
        assert (status, out, loader.told) == (2, "", [])
        return err

    assert refused("gone.csv", "ks.t") == "belvedere: there is no file gone.csv\n"
    assert "there is no table ks.gone: create it first" in refused(rows, "ks.gone")
    assert "ks.mv is a materialized view: load its base, t," in refused(rows, "ks.mv")
    assert "give --format" in refused("rows", "ks.t")
    assert "give --format" in refused(rows, "rows.json", "ks.t")
    assert "--on-bad-rows skip" in refused(rows, "ks.t", "--bad-rows", "bad")


def test_without_pyspark_or_a_server(
    shell: Shell, loader: Loader, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.server = ServerProcess(shell.server.process, "127.0.0.1", 1, "", shell.server.log)
    status, _, err = shell("load", rows, "ks.t")
    assert status == 2
    assert "no answer from 127.0.0.1:1" in err
    monkeypatch.setattr(load, "find_spec", lambda name: None)
    status, _, err = shell("load", rows, "ks.t")
    assert status == 2
    assert "pip install 'belvedere[spark]'" in err


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (["a.parquet", "dir/B.PARQUET", "c.pq"], "parquet"),
        (["orders.parquet/"], "parquet"),
        (["a.csv.gz", "part-*.csv"], "csv"),
        (["a.json", "b.jsonl", "c.ndjson.zst"], "json"),
        (["a.csv", "b.json"], None),
        (["orders"], None),
        (["a.csv", "orders"], None),
    ],
)
def test_formats_by_name(files: list[str], found: str | None) -> None:
    assert load.format_of(files) == found


@pytest.mark.parametrize(
    "words",
    [
        ["ks.t"],
        ["a.csv", "t"],
        ["a.csv", "ks.t", "--ttl", "0"],
        ["a.csv", "ks.t", "--timestamp", "today"],
        ["a.csv", "ks.t", "--format", "orc"],
        ["a.csv", "ks.t", "--on-bad-rows", "ignore"],
        ["a.csv", "ks.t", "--spark", "master=local"],
    ],
)
def test_wrong_arguments_end_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args(["load", *words])
    assert ended.value.code == 2
    assert "usage: belvedere load" in capsys.readouterr().err
