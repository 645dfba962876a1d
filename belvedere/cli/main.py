"""`belvedere …`: one command, a word for each job."""

import argparse
import sys
from collections.abc import Sequence

from belvedere.cli import start, status
from belvedere.runtime.version import VERSION


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="belvedere", description="A table store whose materialized views never drift."
    )
    parser.add_argument("--version", action="version", version=f"belvedere {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    start.add_parser(commands)
    status.add_parser(commands)
    demo = commands.add_parser("demo", help="a server, 100,000 rows, kill -9, restart, nothing lost")
    demo.add_argument("--rows", type=int, default=100_000, help="rows to write (default: %(default)s)")
    demo.set_defaults(run=_run_demo)
    return parser


def _run_demo(arguments: argparse.Namespace) -> int:
    # The demo needs a driver and DuckDB, which servers do not.
    from belvedere.cli.demo import run_demo

    return run_demo(arguments.rows)


def main(words: Sequence[str] | None = None) -> int:
    arguments = build_parser().parse_args(words)
    try:
        code: int = arguments.run(arguments)
    except KeyboardInterrupt:
        return 130
    return code


if __name__ == "__main__":
    sys.exit(main())
