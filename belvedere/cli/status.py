"""`belvedere status`: what a running server says of itself."""

import argparse
import asyncio
import json
import sys
from typing import Any

from belvedere.cli.start import port_number
from belvedere.runtime.errors import NetworkError
from belvedere.runtime.real import RealRuntime, run

#: Seconds to wait for an answer.
_PATIENCE = 10


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "status",
        help="what a running server says of itself",
        description="Ask a running server how it is: version, memory, tables and their sizes.",
        epilog="exit status: 0 the server answered; 1 it did not; 2 wrong arguments",
    )
    parser.add_argument("--host", default="127.0.0.1", help="where the server listens (default: %(default)s)")
    parser.add_argument("--port", type=port_number, default=9042, help="its CQL port (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="as JSON, sizes in bytes")
    parser.set_defaults(run=run_status)


def run_status(arguments: argparse.Namespace) -> int:
    return run(lambda runtime: _show(runtime, arguments))


async def _show(runtime: RealRuntime, arguments: argparse.Namespace) -> int:
    from belvedere.query.errors import CQLError
    from belvedere.server.client import Client

    try:
        # Something may listen there that has nothing to say.
        async with asyncio.timeout(_PATIENCE):
            client = await Client.connect(runtime, arguments.host, arguments.port)
            try:
                rows = await client.query("SELECT name, value FROM system_views.status")
                facts = {row["name"]: row["value"] for row in rows}
                tables = await client.query("SELECT * FROM system_views.table_status")
            finally:
                client.close()
    except (NetworkError, CQLError, OSError) as error:
        reason = str(error) or f"nothing came within {_PATIENCE} s"
        print(
            f"belvedere: no answer from {arguments.host}:{arguments.port}: {reason}\n"
            "Is a server running there? Start one with: belvedere start --data DIR",
            file=sys.stderr,
        )
        return 1
    if arguments.json:
        server = {name: _typed(value) for name, value in facts.items()}
        print(json.dumps({"server": server, "tables": tables}, indent=2))
    else:
        _print(arguments, facts, tables)
    return 0


def _typed(value: str) -> int | str | None:
    if value == "none":
        return None
    return int(value) if value.isdecimal() else value


def _print(arguments: argparse.Namespace, facts: dict[str, str], tables: list[dict[str, Any]]) -> None:
    print(f"Belvedere answers at {arguments.host}:{arguments.port}\n")
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        if name.endswith("_bytes"):
            name, value = name.removesuffix("_bytes"), _size(int(value))
        elif name.endswith("_seconds"):
            name, value = name.removesuffix("_seconds"), _duration(int(value))
        print(f"  {name.replace('_', ' '):<{width}}  {value}")
    if not tables:
        print("\nno tables yet")
        return
    names = [f"{row['keyspace_name']}.{row['table_name']}" for row in tables]
    width = max(5, *map(len, names))
    print(f"\n  {'table':<{width}}  tablets  files  rows in files     on disk   in memory")
    for name, row in zip(names, tables, strict=True):
        print(
            f"  {name:<{width}}  {row['tablets']:>7}  {row['files']:>5}  {row['file_rows']:>13,}  "
            f"{_size(row['file_bytes']):>10}  {_size(row['memtable_bytes']):>10}"
        )


def _size(count: int) -> str:
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def _duration(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    shown = [f"{count} {unit}" for count, unit in parts if count]
    return " ".join(shown[:2]) or "0 s"
