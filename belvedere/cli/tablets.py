"""`belvedere tablets`: the token ranges of tables, and which nodes keep them."""

import argparse
import asyncio
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from belvedere.cli.arguments import add_server, keyspace_or_table
from belvedere.cli.asking import PATIENCE, ask, complain
from belvedere.cql.expressions import TableName
from belvedere.model.types_names import quote_name, quote_text

if TYPE_CHECKING:
    from belvedere.server.client import Client

Rows = list[dict[str, Any]]

_DESCRIPTION = """\
The tablets of all tables and views, of those of a keyspace, or of one: which tokens, in which epoch, which
node is primary, and which others keep it. Those in parentheses are not in sync: they are catching up, or
down.

Names are as in CQL: those with capital letters in double quotes, 'ks."byCity"'."""
_EPILOG = """\
exit status: 0 done
             1 there is no such keyspace or table
             2 wrong arguments, no answer from the server, or it refused"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "tablets",
        help="token ranges of tables, and which nodes keep them",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "name", nargs="?", type=keyspace_or_table, metavar="KEYSPACE[.TABLE]", help="default: all"
    )
    parser.add_argument("--json", action="store_true", help="as JSON; tokens as text")
    add_server(parser)
    parser.set_defaults(run=run_tablets)


def run_tablets(arguments: argparse.Namespace) -> int:
    return ask(arguments, lambda runtime, client: _show(client, arguments), failed=2)


async def _show(client: "Client", arguments: argparse.Namespace) -> int:
    async with asyncio.timeout(PATIENCE):
        found = await _fetch(client, arguments.name)
        known = bool(found) or arguments.name is None or await _is_there(client, arguments.name)
    if not known:
        return complain(f"there is no {_written(arguments.name)}", 1)
    if arguments.json:
        # JSON readers elsewhere lose 64-bit integers.
        tokens = ("first_token", "last_token")
        rows = [{**row, **{name: str(row[name]) for name in tokens}} for row in found]
        print(json.dumps({"tablets": rows}, indent=2))
    else:
        _print(found)
    return 0


async def _fetch(client: "Client", name: TableName | None) -> Rows:
    """In the order of names and tokens."""
    where = ""
    if name is not None and name.name:
        where = f" WHERE {_key_of(name)} AND table_name = {quote_text(name.name)}"
    found = await client.query(f"SELECT * FROM system_views.tablets{where}")
    if name is not None:
        found = [row for row in found if row["keyspace_name"] == name.keyspace]
    return sorted(found, key=lambda row: (row["keyspace_name"], row["table_name"], row["first_token"]))


async def _is_there(client: "Client", name: TableName) -> bool:
    """A keyspace may have no tables."""
    if name.name:
        return False
    return bool(await client.query(f"SELECT * FROM system_schema.keyspaces WHERE {_key_of(name)}"))


def _key_of(name: TableName) -> str:
    return f"keyspace_name = {quote_text(name.keyspace or '')}"


def _written(name: TableName) -> str:
    keyspace = quote_name(name.keyspace or "")
    return f"table {keyspace}.{quote_name(name.name)}" if name.name else f"keyspace {keyspace}"


def _print(found: Rows) -> None:
    if not found:
        print("no tables yet")
        return
    for line in table_of(found):
        print(line)


def table_of(found: Rows) -> Iterator[str]:
    lines = [("table", "tablet", "first token", "last token", "epoch", "primary", "others")]
    shown = ""
    for row in found:
        table = f"{row['keyspace_name']}.{row['table_name']}"
        numbers = [str(row[name]) for name in ("tablet_id", "first_token", "last_token", "epoch")]
        others = [
            node if node in row["in_sync"] else f"({node})"
            for node in row["replicas"]
            if node != row["primary_node"]
        ]
        lines.append((table if table != shown else "", *numbers, row["primary_node"], " ".join(others)))
        shown = table
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    right = {"tablet", "first token", "last token", "epoch"}
    for line in lines:
        cells = [
            f"{cell:>{width}}" if title in right else f"{cell:<{width}}"
            for cell, width, title in zip(line, widths, lines[0], strict=True)
        ]
        yield "  ".join(cells).rstrip()
