"""The project's own rules, kept by reading its files: sizes, the seam, locks, docs."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "belvedere"
SOURCES = sorted(PACKAGE.rglob("*.py"))

MAX_FUNCTION_LINES = 70
MAX_FILE_LINES = 500

# Only these may use what the checks below forbid (ruff's banned-api has the same exceptions).
SEAM = ("belvedere/runtime/", "belvedere/sim/")
STARTS_PROCESSES = ("belvedere/cli/demo",)

# Of `os`, only what computes with text; everything else asks the operating system.
PURE_OS = {"path", "sep", "fspath", "PathLike"}
PURE_OS_PATH = {"join", "basename", "dirname", "splitext", "split", "normpath", "isabs", "commonprefix"}

# Library calls that open files by themselves.
OPENS_FILES = {"OSFile", "memory_map", "create_memory_map", "fromfile", "tofile", "memmap"}

# Put together here, so that this file does not match itself.
UNFINISHED = re.compile(
    r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3]) + r")\b|\bNotImplemented" + "Error"
)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parse(path: Path) -> ast.Module:
    text = path.read_text(encoding="utf-8")
    try:
        return ast.parse(text, filename=str(path))
    except SystemError:
        # CPython 3.11 counts recursion for all threads together, and stumbles when another one parses, too.
        return ast.parse(text, filename=str(path))


def text_files() -> Iterator[Path]:
    for folder in ("belvedere", "tests", "bench", "docs", "tools", ".ci"):
        for path in sorted((ROOT / folder).rglob("*")):
            if (
                path.is_file()
                and path.suffix in {".py", ".md", ".sh", ".toml", ""}
                and "__pycache__" not in path.parts
            ):
                yield path
    yield from (ROOT / name for name in ("run", "README.md", "CHANGELOG.md", "pyproject.toml"))


def long_functions(tree: ast.Module) -> list[str]:
    return [
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > MAX_FUNCTION_LINES
    ]


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def reaches_outside(tree: ast.Module) -> list[str]:
    """Uses of files and the operating system that ruff's list of names cannot catch."""
    found = []
    for node in ast.walk(tree):
        what = ""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            what = "open()"
        elif isinstance(node, ast.Attribute):
            name = dotted(node)
            parts = name.split(".")
            if parts[:2] == ["os", "path"]:
                what = name if len(parts) > 2 and parts[2] not in PURE_OS_PATH else ""
            elif parts[0] == "os":
                what = name if parts[1] not in PURE_OS else ""
            elif node.attr in OPENS_FILES:
                what = name
        elif isinstance(node, ast.ImportFrom) and node.module in {"os", "os.path"}:
            allowed = PURE_OS if node.module == "os" else PURE_OS_PATH
            what = ", ".join(alias.name for alias in node.names if alias.name not in allowed)
        if what:
            found.append(f"line {node.lineno}: {what}")
    return found


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_functions_and_files_stay_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES
    assert long_functions(parse(path)) == []


@pytest.mark.parametrize(
    "path", [p for p in SOURCES if not name_of(p).startswith(SEAM + STARTS_PROCESSES)], ids=name_of
)
def test_product_code_reaches_the_world_only_through_runtime(path: Path) -> None:
    assert reaches_outside(parse(path)) == []


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_every_module_says_what_it_is(path: Path) -> None:
    if path.stat().st_size > 0:
        assert ast.get_docstring(parse(path)), "no module docstring"


def test_the_checks_themselves_can_fail() -> None:
    body = "\n".join(f"    x = {n}" for n in range(MAX_FUNCTION_LINES))
    assert long_functions(ast.parse(f"def f():\n{body}\n")) == ["f: 71 lines"]
    for bad in (
        "open('f')",
        "import os\nos.remove('f')",
        "import os\nos.path.exists('f')",
        "from os import listdir",
        "from os.path import getsize",
        "import pyarrow as pa\npa.memory_map('f')",
    ):
        assert reaches_outside(ast.parse(bad)), bad
    for good in ("import os\nos.path.join('a', 'b')", "def open(path): ...", "belvedere.open('data')"):
        assert reaches_outside(ast.parse(good)) == [], good


def test_folders_of_the_package_are_packages() -> None:
    missing = {p.parent for p in SOURCES} - {p.parent for p in SOURCES if p.name == "__init__.py"}
    assert sorted(name_of(p) for p in missing) == [], "mypy and import-linter do not see these"


def test_nothing_is_left_unfinished() -> None:
    found = []
    for path in text_files():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if UNFINISHED.search(line):
                found.append(f"{name_of(path)}:{number}: {line.strip()}")
    assert found == []


def requirement_files() -> list[Path]:
    return sorted((ROOT / "requirements").glob("*.txt"))


@pytest.mark.parametrize("path", requirement_files(), ids=name_of)
def test_locks_hold_hashes_and_no_address(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.search(r"://|--index-url|--find-links|--trusted-host|@ ", text) is None
    packages = re.findall(r"^[A-Za-z0-9][^\s=]*==\S+.*(?:\n    .*)*", text, flags=re.MULTILINE)
    assert packages
    assert all("--hash=sha256:" in package for package in packages)


def test_every_declared_dependency_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [d for group in project["optional-dependencies"].values() for d in group]
    for declared, lock in ((project["dependencies"], "runtime"), (project["dependencies"] + extras, "dev")):
        text = (ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")
        locked = set(re.findall(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==", text, flags=re.MULTILINE))
        names = {re.split(r"[\[<>=!;, ]", d)[0] for d in declared} - {"belvedere"}
        assert names - locked == set()


def test_every_page_is_in_its_index() -> None:
    docs = ROOT / "docs"
    for folder in (docs, docs / "decisions"):
        index = (folder / "README.md").read_text(encoding="utf-8")
        pages = {p.name for p in folder.glob("*.md")} - {"README.md"}
        assert {p for p in pages if f"({p})" not in index} == set()


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{name_of(page)} → {target}")
    assert broken == []


def test_readme_names_both_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "./run demo" in readme
    assert "./run test" in readme
