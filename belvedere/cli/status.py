"""`belvedere status`: what a running server says of itself."""

import argparse
import asyncio
import json
from typing import TYPE_CHECKING, Any

from belvedere.cli.arguments import add_server
from belvedere.cli.asking import PATIENCE, ask
from belvedere.cli.texts import duration, size

if TYPE_CHECKING:
    from belvedere.server.client import Client


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "status",
        help="what a running server says of itself",
        description="Ask a running server how it is: version, memory, tables and their sizes.",
        epilog="exit status: 0 the server answered; 1 it did not; 2 wrong arguments",
    )
    add_server(parser)
    parser.add_argument("--json", action="store_true", help="as JSON, sizes in bytes")
    parser.set_defaults(run=run_status)


def run_status(arguments: argparse.Namespace) -> int:
    return ask(arguments, lambda runtime, client: _show(client, arguments), failed=1)


async def _show(client: "Client", arguments: argparse.Namespace) -> int:
    async with asyncio.timeout(PATIENCE):
        rows = await client.query("SELECT name, value FROM system_views.status")
        facts = {row["name"]: row["value"] for row in rows}
        tables = await client.query("SELECT * FROM system_views.table_status")
        nodes = await client.query("SELECT * FROM system_views.nodes")
    if arguments.json:
        server = {name: _typed(value) for name, value in facts.items()}
        print(json.dumps({"server": server, "nodes": nodes, "tables": tables}, indent=2))
    else:
        _print(arguments, facts)
        _print_nodes(nodes)
        _print_tables(tables)
    return 0


def _typed(value: str) -> int | str | None:
    if value == "none":
        return None
    return int(value) if value.isdecimal() else value


def _print(arguments: argparse.Namespace, facts: dict[str, str]) -> None:
    print(f"Belvedere answers at {arguments.host}:{arguments.port}\n")
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        if name.endswith("_bytes"):
            name, value = name.removesuffix("_bytes"), size(int(value))
        elif name.endswith("_seconds"):
            name, value = name.removesuffix("_seconds"), duration(int(value))
        print(f"  {name.replace('_', ' '):<{width}}  {value}")


def _print_nodes(nodes: list[dict[str, Any]]) -> None:
    """Of a cluster; a server that is alone has said it all."""
    nodes = sorted((row for row in nodes if row["incarnation"]), key=lambda row: str(row["node"]))
    if not nodes:
        return
    rows = [("node", "state", "clients", "nodes", "version")]
    for row in nodes:
        name = f"{row['node']} (leads)" if row["leader"] and row["state"] != "DOWN" else row["node"]
        rows.append(
            (name, row["state"], row["address"] or "-", row["internal_address"] or "-", row["version"])
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    print()
    for line in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True))
        print(f"  {'  '.join(cells)}".rstrip())


def _print_tables(tables: list[dict[str, Any]]) -> None:
    if not tables:
        print("\nno tables yet")
        return
    names = [f"{row['keyspace_name']}.{row['table_name']}" for row in tables]
    width = max(5, *map(len, names))
    print(f"\n  {'table':<{width}}  tablets  files  rows in files     on disk   in memory")
    for name, row in zip(names, tables, strict=True):
        print(
            f"  {name:<{width}}  {row['tablets']:>7}  {row['files']:>5}  {row['file_rows']:>13,}  "
            f"{size(row['file_bytes']):>10}  {size(row['memtable_bytes']):>10}"
        )
