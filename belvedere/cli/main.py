"""`belvedere …`: one command, a word for each job."""

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from belvedere.cli import load, start, status, tablets, verify, views
from belvedere.runtime.version import VERSION


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="belvedere",
        description="A table store that speaks CQL and keeps its tables in plain Parquet files.",
    )
    parser.add_argument("--version", action="version", version=f"belvedere {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    start.add_parser(commands)
    status.add_parser(commands)
    tablets.add_parser(commands)
    views.add_parser(commands)
    verify.add_parser(commands)
    load.add_parser(commands)
    demo = commands.add_parser(
        "demo",
        help="see views built, kept through a kill -9, damaged, verified and repaired",
        description="Start a server in a temporary directory, load a million rows from Spark, create two "
        "views, write through the Cassandra driver while they are built, kill -9 the server in the middle, "
        "verify the views, damage one on purpose, verify it again, repair it. Takes one to three minutes. "
        "Needs pyspark, Java and cassandra-driver.",
        epilog="exit status: 0 all went well; 1 something was not as it must be, or the demo could not run",
    )
    demo.add_argument("--rows", type=_rows, default=1_000_000, help="rows to load (default: %(default)s)")
    demo.set_defaults(run=_run_demo)
    return parser


def _rows(text: str) -> int:
    if not text.isdecimal() or int(text) < 1000:
        raise argparse.ArgumentTypeError(f"a whole number, at least 1000, not {text!r}")
    return int(text)


def _run_demo(arguments: argparse.Namespace) -> int:
    from belvedere.cli.demo import run_demo

    missing = [name for name in ("cassandra", "pyspark") if find_spec(name) is None]
    if missing:
        print(
            f"belvedere: the demo needs {' and '.join(missing)}, which servers do not: "
            "pip install cassandra-driver 'belvedere[spark]'",
            file=sys.stderr,
        )
        return 1
    return run_demo(arguments.rows)


def main(words: Sequence[str] | None = None) -> int:
    arguments = build_parser().parse_args(words)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Who read our output has seen enough; the interpreter must not stumble over the rest at its end.
        sys.stdout = None
        return 141
    return code


if __name__ == "__main__":
    sys.exit(main())
