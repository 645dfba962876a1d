"""`belvedere views`: how far materialized views are built, and a hand on their builds."""

import argparse
import asyncio
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from belvedere.cli.arguments import add_server, cql_name, keyspace_or_table, positive, table_name
from belvedere.cli.asking import PATIENCE, ask, complain, told
from belvedere.cli.texts import rows
from belvedere.cli.view_builds import ViewBuild, shell
from belvedere.cql.expressions import TableName
from belvedere.model.types_names import quote_text

if TYPE_CHECKING:
    from belvedere.server.client import Client

Rows = list[dict[str, Any]]
BuildOptions = Mapping[str, str]

_USAGE = """\
belvedere views [KEYSPACE | KEYSPACE.VIEW] [--wait] [--json] [--host HOST] [--port PORT]
       belvedere views pause KEYSPACE.VIEW [--host HOST] [--port PORT]
       belvedere views resume KEYSPACE.VIEW [--host HOST] [--port PORT]
       belvedere views throttle KEYSPACE.VIEW ROWS_PER_SECOND [--host HOST] [--port PORT]"""
_DESCRIPTION = """\
How far materialized views are built: all of them, those of a keyspace, or one.

  pause     hold the view's build; what is being read at that moment is read to its end
  resume    let it go on, where it was
  throttle  read at most so many rows of the base in a second; 0: as many as possible

Names are as in CQL: those with capital letters in double quotes, 'ks."byCity"'."""
_EPILOG = """\
exit status: 0 done; with --wait: all views are built
             1 there is no such view; with --wait also: one was dropped, or failed for good
             2 wrong arguments, no answer from the server, or it refused"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "views",
        help="how far materialized views are built; pause, resume, throttle",
        usage=_USAGE,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs="*", action=_Words, help=argparse.SUPPRESS)
    parser.add_argument("--wait", action="store_true", help="show progress until all are built")
    parser.add_argument("--json", action="store_true", help="as JSON; with --wait at the end")
    add_server(parser)
    parser.set_defaults(run=run_views, action=None, name=None, rate=None)


def _rate(text: str) -> int:
    return 0 if text == "0" else positive(text)


#: What belongs to each verb, and how that is said.
_VERBS: dict[str, tuple[str, tuple[Callable[[str], object], ...]]] = {
    "pause": ("KEYSPACE.VIEW", (table_name,)),
    "resume": ("KEYSPACE.VIEW", (table_name,)),
    "throttle": ("KEYSPACE.VIEW and ROWS_PER_SECOND", (table_name, _rate)),
}


class _Words(argparse.Action):
    """What argparse cannot say: a name, or a verb and what belongs to it."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Any = None
    ) -> None:
        words: list[str] = values or []
        verb = words[0] if words and words[0] in _VERBS else None
        if verb is not None:
            wanted, readers = _VERBS[verb]
            words = words[1:]
        else:
            wanted, readers = "KEYSPACE or KEYSPACE.VIEW, or nothing", (keyspace_or_table,) * len(words[:1])
        if len(words) != len(readers):
            parser.error(f"after {verb or 'views'} comes {wanted}")
        try:
            read = [reader(word) for reader, word in zip(readers, words, strict=True)]
        except argparse.ArgumentTypeError as error:
            parser.error(str(error))
        namespace.action = verb
        namespace.name, namespace.rate = (*read, None, None)[:2]


def run_views(arguments: argparse.Namespace) -> int:
    if arguments.action is not None:
        if arguments.wait or arguments.json:
            return complain(f"--wait and --json do not go with {arguments.action}", 2)
        return ask(arguments, lambda runtime, client: _change(client, arguments), failed=2)
    if arguments.wait:
        from belvedere.cli.views_wait import wait_for_views

        return told(lambda: wait_for_views(arguments), failed=2)
    return ask(arguments, lambda runtime, client: _list(client, arguments), failed=2)


# --- looking ---------------------------------------------------------------------------------------------


async def fetch(client: "Client", name: TableName | None) -> Rows:
    """Rows of system_views.view_builds, in the order of their names."""
    where = ""
    if name is not None:
        where = f" WHERE keyspace_name = {quote_text(name.keyspace or '')}"
        if name.name:
            where += f" AND view_name = {quote_text(name.name)}"
    async with asyncio.timeout(PATIENCE):
        found = await client.query(f"SELECT * FROM system_views.view_builds{where}")
    return sorted(found, key=lambda row: (row["keyspace_name"], row["view_name"]))


async def why_none(client: "Client", name: TableName | None) -> tuple[str, int]:
    """What to say, and the exit status, if there are no views."""
    if name is None:
        return "there are no materialized views", 0
    keyspace = TableName(name.keyspace, "")
    if name.name:
        others = ", ".join(ViewBuild.of(row).name for row in await fetch(client, keyspace))
        hint = f"; there are {others}" if others else ""
        return f"there is no materialized view {cql_name(name)}{hint}", 1
    async with asyncio.timeout(PATIENCE):
        known = await client.query("SELECT keyspace_name FROM system_schema.keyspaces")
    if name.keyspace in {row["keyspace_name"] for row in known}:
        return f"there are no materialized views in keyspace {name.keyspace}", 0
    return f"there is no keyspace {name.keyspace}", 1


async def _list(client: "Client", arguments: argparse.Namespace) -> int:
    found = await fetch(client, arguments.name)
    if not found:
        message, status = await why_none(client, arguments.name)
        if status != 0:
            return complain(message, status)
        print(json.dumps({"views": []}) if arguments.json else message)
    elif arguments.json:
        print(json.dumps({"views": found}, indent=2))
    else:
        _print([ViewBuild.of(row) for row in found])
    return 0


def _print(builds: list[ViewBuild]) -> None:
    header = ("view", "base", "state", "done", "tablets", "rows read", "", "")
    table = [header] + [
        (
            *(build.name, build.base, build.state, f"{build.fraction:.0%}"),
            *(f"{build.tablets_done} of {build.tablets}", build.amount, build.rate, build.left),
        )
        for build in builds
    ]
    widths = [max(len(line[index]) for line in table) for index in range(len(header))]
    for line in table:
        print("  ".join(f"{text:<{width}}" for text, width in zip(line, widths, strict=True)).rstrip())
    for build in builds:
        if build.remark is not None:
            print(f"\n{build.name}: {build.remark}")


# --- changing --------------------------------------------------------------------------------------------


async def _change(client: "Client", arguments: argparse.Namespace) -> int:
    name = cql_name(arguments.name)
    async with asyncio.timeout(PATIENCE):
        found = await fetch(client, arguments.name)
        if not found:
            return complain(*await why_none(client, arguments.name))
        (described,) = await client.query(f"DESCRIBE MATERIALIZED VIEW {name}")
        options = changed(build_options(described["create_statement"]), arguments.action, arguments.rate)
        given = ", ".join(f"{quote_text(key)}: {quote_text(value)}" for key, value in options.items())
        await client.query(f"ALTER MATERIALIZED VIEW {name} WITH build = {{{given}}}")
    print(f"{name}: {_effect(arguments, ViewBuild.of(found[0]))}")
    return 0


def build_options(create_statement: str) -> BuildOptions:
    """The option `build` of a view as DESCRIBE shows it: ALTER replaces all of it."""
    from belvedere.cql.parser import parse_statement
    from belvedere.cql.syntax import CreateMaterializedView, PropertyMap

    statement = parse_statement(create_statement)
    assert isinstance(statement, CreateMaterializedView)
    for given in statement.properties:
        if given.name == "build" and isinstance(given.value, PropertyMap):
            return given.value.as_dict()
    return {}


def changed(options: BuildOptions, action: str, rate: int | None) -> BuildOptions:
    """The option `build` after a command; all that the command is not about stays."""
    kept = dict(options)
    if action == "pause":
        kept["hold"] = "true"
        # CREATE has returned: `wait` has no more effect, but the two exclude each other.
        kept.pop("wait", None)
    elif action == "resume":
        kept.pop("hold", None)
    elif rate:
        kept["max_rate"] = str(rate)
    else:
        kept.pop("max_rate", None)
    return kept


def _effect(arguments: argparse.Namespace, before: ViewBuild) -> str:
    if before.is_built:
        return "it is built; this counts when it is built again, after TRUNCATE of its base"
    if arguments.action == "throttle":
        limit = f"at most {rows(arguments.rate)} a second" if arguments.rate else "as fast as possible"
        return f"its base is read {limit}, from the next range on"
    if arguments.action == "pause":
        return f"the build is held; let it go on with: belvedere views resume {shell(before.name)}"
    return f"the build goes on; watch it with: belvedere views {shell(before.name)} --wait"
