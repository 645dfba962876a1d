"""`belvedere verify` and `belvedere repair`: is a view equal to its base, and if not, make it so."""

import argparse
import json
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from belvedere.cli.arguments import add_server, cql_name, table_name
from belvedere.cli.asking import ask
from belvedere.cli.texts import rows
from belvedere.cli.view_builds import shell
from belvedere.model.types_names import quote_text
from belvedere.runtime.real import RealRuntime

if TYPE_CHECKING:
    from belvedere.server.client import Client

_EXPLAINED = {
    "missing": "in the base, but not in the view",
    "orphaned": "in the view, but not in the base",
    "different": "not as the base has it",
}
_MAX_VALUE = 120
_NAME = "the view; names with capital letters in double quotes as in CQL"


def add_parser(commands: Any) -> None:
    verify = commands.add_parser(
        "verify",
        help="compare a materialized view with its base",
        description="Compare a materialized view with its base, row by row, while writes go on, and show "
        "what is missing, orphaned or different. Nothing is changed.",
        epilog="exit status: 0 the view is equal to its base; 1 it differs; 2 that could not be found out",
    )
    repair = commands.add_parser(
        "repair",
        help="compare a materialized view with its base and put right what is wrong",
        description="Compare a materialized view with its base, row by row, while writes go on, and put "
        "right those rows that are wrong: the base is right, always.",
        epilog="exit status: 0 nothing is wrong any more; 1 something still is; 2 it could not be done",
    )
    for parser, procedure in ((verify, "verify"), (repair, "repair")):
        parser.add_argument("view", type=table_name, metavar="KEYSPACE.VIEW", help=_NAME)
        parser.add_argument("--json", action="store_true", help="counts and examples as JSON")
        add_server(parser)
        parser.set_defaults(run=run_verify, procedure=procedure)


def run_verify(arguments: argparse.Namespace) -> int:
    return ask(arguments, lambda runtime, client: _verify(runtime, client, arguments), failed=2)


async def _verify(runtime: RealRuntime, client: "Client", arguments: argparse.Namespace) -> int:
    from rich.console import Console

    name = cql_name(arguments.view)
    console = Console(stderr=True)
    begun = runtime.clock.monotonic()
    waiting = console.status(f"comparing {name} with its base") if console.is_terminal else nullcontext()
    with waiting:
        # However long it takes.
        (found,) = await client.query(f"CALL {arguments.procedure}({quote_text(name)})")
    seconds = runtime.clock.monotonic() - begun
    found["examples"] = json.loads(found["examples"])
    repaired = arguments.procedure == "repair"
    if arguments.json:
        print(json.dumps({"view": name, **found}, indent=2, ensure_ascii=False))
    else:
        print("\n".join(report(name, found, seconds, repaired=repaired)))
    return int(bool(found["unrepaired"] if repaired else _wrong(found)))


def _wrong(found: dict[str, Any]) -> int:
    return sum(found[kind] for kind in (*_EXPLAINED, "unexamined"))


def report(name: str, found: dict[str, Any], seconds: float, *, repaired: bool) -> list[str]:
    """For people: what was compared, what is wrong, what that looks like, what to do."""
    lines = [
        f"{name}: {rows(found['base_rows'])} of the base and {rows(found['view_rows'])} of the view "
        f"compared in {seconds:.1f} s"
    ]
    wrong = _wrong(found)
    if not wrong:
        return [*lines, "the view is equal to its base"]
    for kind, explained in _EXPLAINED.items():
        if found[kind]:
            lines += ["", f"{kind}, {explained}: {rows(found[kind])}"]
            examples = [example for example in found["examples"] if example["kind"] == kind]
            for example in examples:
                lines += _example(example)
            if len(examples) < found[kind]:
                lines.append(f"  and {rows(found[kind] - len(examples))} more")
    if found["unexamined"]:
        lines += ["", f"more that differ, not looked at one by one: {rows(found['unexamined'])}"]
    return [*lines, "", *_conclusion(name, found, wrong, repaired)]


def _conclusion(name: str, found: dict[str, Any], wrong: int, repaired: bool) -> list[str]:
    if not repaired:
        return [f"{rows(wrong)} wrong; put them right with: belvedere repair {shell(name)}"]
    if found["unrepaired"]:
        return [
            f"{rows(found['repaired'])} repaired, {found['unrepaired']:,} still wrong: the table or its "
            f"tablets changed meanwhile; try again: belvedere repair {shell(name)}"
        ]
    return [f"{rows(found['repaired'])} repaired; nothing is wrong any more"]


def _example(example: dict[str, Any]) -> list[str]:
    key = _columns(example["key"])
    expected, found = example["expected"], example["found"]
    if expected is None or found is None:
        row = _columns(expected or found or {})
        return [f"  {key}" + (f": {row}" if row else "")]
    changed = [column for column in expected if expected[column] != found.get(column)]
    if not changed:
        return [f"  {key}: the same values, with other write times or times to live"]
    return [f"  {key}"] + [
        f"    {column}: expected {_value(expected[column])}, found {_value(found.get(column))}"
        for column in changed
    ]


def _columns(values: dict[str, str]) -> str:
    return ", ".join(f"{column} = {_value(value)}" for column, value in values.items())


def _value(text: str | None) -> str:
    """In one line, and not much of it."""
    shown = str(text) if str(text).isprintable() else repr(text)
    return shown if len(shown) <= _MAX_VALUE else f"{shown[:_MAX_VALUE]}… ({len(str(text)):,} characters)"
