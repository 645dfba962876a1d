"""Documentation that is true: names and paths exist, examples run, options and log events are complete."""

import ast
import contextlib
import importlib
import io
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import belvedere
from belvedere.cli.main import build_parser
from belvedere.storage.errors import LogCorrupt

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "belvedere"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FLOORS = "runtime|model|cql|storage|meta|query|server|sim|cli"

#: `storage.engine.StorageEngine.open`, with or without "belvedere." in front and "()" behind.
DOTTED = re.compile(rf"(?:belvedere\.)?((?:{FLOORS})(?:\.\w+)+)(?:\(\))?")
#: `CommitLog` or `CommitLog.append`: names of classes in the manner of Python, perhaps with a member.
CLASS = re.compile(r"(_?[A-Z][A-Za-z]*[a-z][A-Za-z]*)(?:\.(\w+))?(?:\(\))?")
#: Capitalised words in code marks that are no classes of ours.
OTHERS = {"Row", "None", "True", "False", "ExecStart", "TimeoutStopSec"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(page: Path) -> str:
    """Without blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def code_marks(page: Path) -> list[str]:
    return re.findall(r"`([^`\n]+)`", prose(page))


# --- names and paths -----------------------------------------------------------------------------------


@cache
def classes() -> dict[str, set[str]]:
    """Members of the classes in the package, by the class's name; equal names are taken together."""
    found: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).update(members(node))
                bases.setdefault(node.name, set()).update(
                    base.id for base in node.bases if isinstance(base, ast.Name)
                )
    return {name: set().union(*(found[one] for one in line(name, bases))) for name in found}


def line(name: str, bases: dict[str, set[str]]) -> set[str]:
    """A class and what it stands on, of the package."""
    known, waiting = set(), [name]
    while waiting:
        one = waiting.pop()
        if one in bases and one not in known:
            known.add(one)
            waiting += bases[one]
    return known


def members(node: ast.ClassDef) -> Iterator[str]:
    for inner in node.body:
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
            yield inner.name
            for deeper in ast.walk(inner):
                if isinstance(deeper, ast.Attribute) and isinstance(deeper.ctx, ast.Store):
                    if isinstance(deeper.value, ast.Name) and deeper.value.id == "self":
                        yield deeper.attr
        elif isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
            yield inner.target.id
        elif isinstance(inner, ast.Assign):
            yield from (target.id for target in inner.targets if isinstance(target, ast.Name))


def dotted_exists(name: str) -> bool:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        module = "belvedere." + ".".join(parts[:length])
        try:
            found: object = importlib.import_module(module)
        except ModuleNotFoundError:
            continue
        for index, part in enumerate(parts[length:], length):
            if isinstance(found, type) and index == len(parts) - 1:
                return part in classes()[found.__name__]
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def missing_names(marks: list[str]) -> list[str]:
    missing = []
    for mark in marks:
        dotted, member_of = DOTTED.fullmatch(mark), CLASS.fullmatch(mark)
        if dotted is not None:
            if not dotted_exists(dotted[1]) and mark not in logged_events():
                missing.append(mark)
        elif member_of is not None and member_of[1] not in OTHERS:
            known = classes().get(member_of[1])
            if known is None or (member_of[2] is not None and member_of[2] not in known):
                missing.append(mark)
    return missing


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_names_in_the_pages_exist(page: Path) -> None:
    assert missing_names(code_marks(page)) == []


def test_the_check_of_names_can_fail() -> None:
    good = ["storage.engine.StorageEngine.write_now", "belvedere.sim.model", "CommitLog.append", "Mutation"]
    bad = ["storage.engine.StorageEngine.gone", "storage.gone", "CommitLog.gone", "GoneAltogether"]
    assert missing_names([*good, *bad]) == bad


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_in_the_pages_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    paths = re.findall(r"(?<![\w/.-])((?:belvedere|tests|bench|tools|requirements|docs)/[\w./-]*\w)", text)
    assert [path for path in paths if "NAME" not in path and not (ROOT / path).exists()] == []


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_to_headings_lead_somewhere(page: Path) -> None:
    broken = []
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", prose(page)):
        if "://" not in target:
            there = page.parent / target if target else page
            if anchor not in anchors(there):
                broken.append(f"{target}#{anchor}")
    assert broken == []


# --- examples ------------------------------------------------------------------------------------------


def examples(page: Path) -> list[tuple[str, str | None]]:
    """Blocks of Python, each with the block of text behind it, which is what it prints."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(
        r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", text, flags=re.MULTILINE | re.DOTALL
    )
    return [(code, printed or None) for code, printed in found]


@pytest.mark.parametrize("page", ["README.md", "docs/embedded.md", "docs/metadata.md", "docs/simulation.md"])
def test_examples_run_and_print_what_they_say(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "example"}
    blocks = examples(ROOT / page)
    assert blocks
    for code, printed in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, page, "exec"), names)
        if printed is not None:
            assert out.getvalue() == printed


def test_the_scenario_of_the_page_finds_what_the_page_says(tmp_path: Path) -> None:
    """Without its wait for the log, some seed must fail."""
    code = next(code for code, _ in examples(ROOT / "docs/simulation.md") if "power_failure" in code)
    broken = code.replace("await log.wait(position)", "await runtime.clock.sleep(0.001)")
    assert broken != code
    with pytest.raises(AssertionError):
        exec(compile(broken, "simulation.md", "exec"), {"__name__": "example"})


# --- options and events --------------------------------------------------------------------------------


def test_operations_tells_every_option_of_start() -> None:
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    parsed = build_parser().parse_args(["start", "--data", "d"])
    for name, default in vars(parsed).items():
        if name in ("command", "run", "data"):
            continue
        row = re.search(
            rf"^\| `--{name.replace('_', '-')}(?: [A-Z=]+)?` \| (\S+) \|", page, flags=re.MULTILINE
        )
        assert row is not None, name
        assert row[1] == ("none" if default is None else "off" if default is False else str(default))


@cache
def logged_events() -> dict[str, str]:
    """Events that product code logs, with their levels."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if "sim" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "log"
            ):
                words = [a.value for a in node.args[:2] if isinstance(a, ast.Constant)]
                if len(words) == 2 and words[0] in ("info", "warning", "error"):
                    found[str(words[1])] = str(words[0])
    return found


def test_operations_tells_every_event_of_the_log() -> None:
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    section = text.partition("## Log lines")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \| (info|warning|error) \|", section, flags=re.MULTILINE)
    told = {event for names, _ in rows for event in re.findall(r"`([^`]+)`", names)}
    assert told == set(logged_events())


def test_dependencies_tells_every_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [*project["dependencies"], *(d for e in project["optional-dependencies"].values() for d in e)]
    names = {re.split(r"[\[<>=!;, ]", dependency)[0] for dependency in declared} - {"belvedere"}
    page = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8")
    told = set(re.findall(r"[\w-]+", " ".join(re.findall(r"^\| ([\w, -]+) \|", page, flags=re.MULTILINE))))
    assert names - told == set()


# --- what operations promises --------------------------------------------------------------------------

WRITES = """
import os, sys, belvedere
db = belvedere.open(sys.argv[1])
db.execute("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
db.execute("CREATE TABLE ks.t (k int PRIMARY KEY)")
for number in range(20):
    db.execute("INSERT INTO ks.t (k) VALUES (?)", [number])
if sys.argv[2] == "close":
    db.close()
os._exit(0)
"""


def rows_in(path: Path) -> int:
    with belvedere.open(path) as db:
        return len(db.execute("SELECT * FROM ks.t").all())


@pytest.mark.parametrize("end", ["close", "die"])
def test_a_copy_of_a_directory_that_is_not_in_use_is_a_backup(tmp_path: Path, end: str) -> None:
    subprocess.run([sys.executable, "-c", WRITES, str(tmp_path / "data"), end], check=True)
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    shutil.rmtree(tmp_path / "data")
    assert rows_in(tmp_path / "copy") == 20


def test_without_its_log_a_directory_has_what_was_flushed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    subprocess.run([sys.executable, "-c", WRITES, str(data), "close"], check=True)
    (data / "node" / "commitlog").rename(tmp_path / "away")
    with belvedere.open(data) as db:
        db.execute("INSERT INTO ks.t (k) VALUES (100)")
    assert rows_in(data) == 21
    (data / "node" / "commitlog" / "log.json").unlink()
    with pytest.raises(LogCorrupt, match="is missing, without it the commit log cannot be read"):
        belvedere.open(data)
