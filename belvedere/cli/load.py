"""`belvedere load`: files of rows into a table, through Spark."""

import argparse
import asyncio
import json
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from belvedere.cli.arguments import add_server, add_spark, cql_name, positive, spark_settings, table_name
from belvedere.cli.asking import PATIENCE, complain, connected, told
from belvedere.cli.texts import rows
from belvedere.model.types_names import quote_text
from belvedere.runtime.real import RealRuntime, run

if TYPE_CHECKING:
    from belvedere.server.client import Client
    from belvedere.spark.load import LoadSummary

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_COMPRESSED = (".gz", ".bz2", ".zst", ".snappy", ".lz4", ".deflate")
_DESCRIPTION = """\
Load files into a table: Parquet, CSV with a header, or JSON with one object in each line. Columns are found
by their names. The rows become sorted files of the table, past the log; all of them become visible at once,
and the table's views follow. Writes go on meanwhile; the newest write of a row counts, as always.

  belvedere load orders-*.parquet shop.orders
  belvedere load orders.csv shop.orders --on-bad-rows skip --bad-rows rejected"""
_EPILOG = """\
exit status: 0 loaded, bad rows perhaps left out if that was asked for
             1 not loaded: a row is bad, or Spark or the server failed
             2 wrong arguments, no such file or table, no answer from the server, no PySpark"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "load",
        help="load Parquet, CSV or JSON files into a table, through Spark",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="files or directories, all of one format")
    parser.add_argument("table", type=table_name, metavar="KEYSPACE.TABLE", help="where the rows go")
    parser.add_argument(
        "--format", choices=("parquet", "csv", "json"), help="of the files (default: by their names)"
    )
    parser.add_argument(
        "--on-bad-rows",
        choices=("fail", "skip"),
        default="fail",
        help="of a row without its key or with a value that does not fit: fail: load nothing; "
        "skip: count it and leave it out (default: %(default)s)",
    )
    parser.add_argument(
        "--bad-rows", metavar="PATH", help="with --on-bad-rows skip: write them there, with the reasons"
    )
    parser.add_argument(
        "--timestamp", type=_microseconds, metavar="MICROS", help="write time of all rows (default: now)"
    )
    parser.add_argument("--ttl", type=positive, metavar="SECONDS", help="time to live of all rows")
    add_spark(parser, "the load runs on it")
    parser.add_argument("--json", action="store_true", help="the summary as JSON")
    add_server(parser)
    parser.set_defaults(run=run_load)


def _microseconds(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"µs since 1970, not {text!r}") from None


def run_load(arguments: argparse.Namespace) -> int:
    """Everything that can be wrong is looked at before Spark is started, which takes seconds."""
    if arguments.bad_rows is not None and arguments.on_bad_rows != "skip":
        return complain("--bad-rows goes with --on-bad-rows skip", 2)
    file_format = arguments.format or format_of(arguments.files)
    if file_format is None:
        return complain("the names of the files do not tell one format: give --format", 2)
    if find_spec("pyspark") is None:
        return complain(
            "loading runs on Spark, and PySpark is not installed here: pip install 'belvedere[spark]'", 2
        )
    unfit = told(lambda: run(lambda runtime: _check(runtime, arguments)), failed=2)
    return unfit or _load(arguments, file_format)


def format_of(files: list[str]) -> str | None:
    """The one format that all names speak of."""
    found = set()
    for file in files:
        name = file.rstrip("/").lower()
        for suffix in _COMPRESSED:
            name = name.removesuffix(suffix)
        found.add(next((kind for ending, kind in _FORMATS.items() if name.endswith(ending)), None))
    return found.pop() if len(found) == 1 else None


def load_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Under the names that they have in Spark."""
    given = {
        "badRows": arguments.on_bad_rows,
        "badRowsPath": arguments.bad_rows,
        "timestamp": arguments.timestamp,
        "ttl": arguments.ttl,
    }
    return {name: str(value) for name, value in given.items() if value is not None}


# --- before ----------------------------------------------------------------------------------------------


async def _check(runtime: RealRuntime, arguments: argparse.Namespace) -> int:
    for file in arguments.files:
        # Places that only Spark knows, and patterns, are left to it.
        if "://" not in file and not set(file) & set("*?[{") and not await runtime.disk.exists(file):
            return complain(f"there is no file {file}", 2)
    async with connected(runtime, arguments) as client, asyncio.timeout(PATIENCE):
        return await _check_table(client, arguments)


async def _check_table(client: "Client", arguments: argparse.Namespace) -> int:
    keyspace, name = quote_text(arguments.table.keyspace), quote_text(arguments.table.name)
    where = f"WHERE keyspace_name = {keyspace} AND {{}} = {name}"
    tables = f"SELECT table_name FROM system_schema.tables {where.format('table_name')}"
    if await client.query(tables):
        return 0
    views = f"SELECT base_table_name FROM system_schema.views {where.format('view_name')}"
    for view in await client.query(views):
        return complain(
            f"{cql_name(arguments.table)} is a materialized view: load its base, "
            f"{view['base_table_name']}, and the view follows",
            2,
        )
    return complain(f"there is no table {cql_name(arguments.table)}: create it first", 2)


# --- the work --------------------------------------------------------------------------------------------


def _load(arguments: argparse.Namespace, file_format: str) -> int:
    from belvedere.spark.load import load_files

    def report(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    table = cql_name(arguments.table)
    try:
        summary = load_files(
            spark_settings(arguments),
            arguments.files,
            file_format,
            table,
            arguments.host,
            arguments.port,
            load_options(arguments),
            report,
        )
    except Exception as error:
        # Spark fails in many ways, whose tracebacks say nothing to who loads a file.
        return complain(f"loading into {table} failed: {str(error).strip() or type(error).__name__}", 1)
    if arguments.json:
        print(json.dumps(_as_json(table, summary), indent=2, ensure_ascii=False))
    else:
        print("\n".join(told_summary(table, summary)))
    return 0


def _as_json(table: str, summary: "LoadSummary") -> dict[str, Any]:
    return {
        "table": table,
        "rows": summary.rows,
        "bad_rows": summary.bad_rows,
        "bad_rows_path": summary.bad_rows_path,
        "reasons": dict(summary.reasons),
        "seconds": summary.seconds,
    }


def told_summary(table: str, summary: "LoadSummary") -> list[str]:
    pace = summary.rows / max(summary.seconds, 0.001)
    lines = [f"{table}: {rows(summary.rows)} loaded in {summary.seconds:.1f} s, {pace:,.0f} rows/s"]
    if summary.bad_rows:
        where = f"; they are in {summary.bad_rows_path}" if summary.bad_rows_path else ""
        lines.append(f"{summary.bad_rows:,} bad {'row' if summary.bad_rows == 1 else 'rows'} left out{where}")
        reasons = sorted(summary.reasons.items(), key=lambda pair: (-pair[1], pair[0]))
        lines += [f"  {count:>10,}  {reason}" for reason, count in reasons]
    return lines
