"""`belvedere status`: what a running server says of itself."""

import argparse
import json
import sys
from typing import Any

from belvedere.runtime.errors import NetworkError
from belvedere.runtime.real import RealRuntime, run


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("status", help="what a running server says of itself")
    parser.add_argument("--host", default="127.0.0.1", help="where the server listens (default: %(default)s)")
    parser.add_argument("--port", type=int, default=9042, help="its CQL port (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.set_defaults(run=run_status)


def run_status(arguments: argparse.Namespace) -> int:
    return run(lambda runtime: _show(runtime, arguments))


async def _show(runtime: RealRuntime, arguments: argparse.Namespace) -> int:
    from belvedere.query.errors import CQLError
    from belvedere.server.client import Client

    try:
        client = await Client.connect(runtime, arguments.host, arguments.port)
        try:
            facts = {
                row["name"]: row["value"] for row in await client.query("SELECT * FROM system_views.status")
            }
            tables = await client.query("SELECT * FROM system_views.table_status")
        finally:
            client.close()
    except (NetworkError, CQLError, OSError) as error:
        print(
            f"belvedere: no answer from {arguments.host}:{arguments.port}: {error}\n"
            "Is a server running there? Start one with: belvedere start --data DIR",
            file=sys.stderr,
        )
        return 1
    if arguments.json:
        print(json.dumps({"server": facts, "tables": tables}, indent=2))
    else:
        _print(facts, tables)
    return 0


def _print(facts: dict[str, str], tables: list[dict[str, Any]]) -> None:
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        if name.endswith("_bytes"):
            value = _size(int(value))
        print(f"{name.replace('_', ' '):<{width}}  {value}")
    if not tables:
        print("\nno tables yet")
        return
    print(
        f"\n{'table':<40} {'tablets':>7} {'files':>6} {'rows in files':>14} {'on disk':>12} {'in memory':>12}"
    )
    for row in tables:
        print(
            f"{row['keyspace_name'] + '.' + row['table_name']:<40} {row['tablets']:>7} {row['files']:>6} "
            f"{row['file_rows']:>14,} {_size(row['file_bytes']):>12} {_size(row['memtable_bytes']):>12}"
        )


def _size(count: int) -> str:
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"
