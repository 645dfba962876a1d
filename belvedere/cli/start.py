"""`belvedere start`: the server in the foreground until SIGTERM or Ctrl-C."""

import argparse
import gc
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from belvedere.cli.arguments import add_spark, port_number, spark_settings
from belvedere.cli.cluster_arguments import WrongClusterArguments, add_cluster, cluster_settings
from belvedere.cli.start_nodes import MOST_NODES, run_nodes
from belvedere.runtime.process import age_seconds, resident_bytes, stop_signals
from belvedere.runtime.real import RealRuntime, run
from belvedere.server.settings import INLINE_ROWS, PipelineSettings

if TYPE_CHECKING:
    from belvedere.query.database import DatabaseOptions

_HERE = "127.0.0.1"

_DESCRIPTION = """\
Run a server in the foreground until SIGTERM or Ctrl-C. It prints one line on stdout once it answers CQL,
and logs to stderr. Any Cassandra driver connects to it, and so does cqlsh:

  belvedere start --data data
  cqlsh 127.0.0.1 9042

With --nodes it runs a whole cluster on this machine, each node in a process of its own:

  belvedere start --nodes 3 --data data
"""
_EPILOG = "exit status: 0 stopped by a signal, everything flushed; 1 could not start; 2 wrong arguments"
#: Given to the nodes of a local cluster: they stop when the process that started them is gone.
_WITH_INPUT = "--until-input-ends"


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "start",
        help="run a server in the foreground",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", metavar="DIR", help="data directory, made if missing")
    parser.add_argument("--host", default=_HERE, help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=port_number, default=9042, help="CQL port, 0 for any free one (default: %(default)s)"
    )
    parser.add_argument(
        "--listen", type=_address, metavar="HOST[:PORT]", help="--host and --port in one, instead of them"
    )
    parser.add_argument(
        "--nodes",
        type=_nodes,
        metavar="N",
        help=f"a cluster of N nodes, 1 to {MOST_NODES}, on this machine: on 127.0.0.1, 127.0.0.2, … and all "
        "at the same port; without --data it keeps nothing",
    )
    parser.add_argument(
        _WITH_INPUT, action="store_true", help="stop also when standard input ends, as when its writer dies"
    )
    add_cluster(parser)
    parser.add_argument(
        "--fsync",
        choices=("group", "periodic", "none"),
        default="group",
        help="group: a write is on disk when it is answered; periodic: within 10 ms of it; "
        "none: when the system likes (default: %(default)s)",
    )
    parser.add_argument(
        "--memtable-mb",
        type=_megabytes,
        default=256,
        metavar="MB",
        help="memory for writes that are not in files yet (default: %(default)s)",
    )
    parser.add_argument(
        "--cache-mb",
        type=_megabytes,
        default=256,
        metavar="MB",
        help="memory for rows read from files (default: %(default)s)",
    )
    add_spark(parser, "views of large tables are built on it")
    parser.add_argument(
        "--exchange",
        metavar="DIR",
        help="directory that Spark's workers reach, too (default: one in the data directory)",
    )
    parser.add_argument(
        "--inline-rows",
        type=_rows,
        default=INLINE_ROWS,
        metavar="N",
        help="views of tables with fewer rows are built without Spark (default: %(default)s)",
    )
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="warning",
        help="what is logged at least (default: %(default)s)",
    )
    parser.set_defaults(run=partial(run_start, parser))


def _nodes(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_NODES:
        raise argparse.ArgumentTypeError(f"a number of nodes from 1 to {MOST_NODES}, not {text!r}")
    return int(text)


def _address(text: str) -> tuple[str, int | None]:
    host, colon, port = text.rpartition(":")
    try:
        return (host, port_number(port)) if colon else (text, None)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"HOST or HOST:PORT, not {text!r}") from error


def _megabytes(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number of MB, at least 1, not {text!r}")
    return int(text)


def _rows(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a number of rows, not {text!r}")
    return int(text)


def run_start(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    if arguments.listen is not None:
        host, port = arguments.listen
        arguments.host, arguments.port = host, arguments.port if port is None else port
    if arguments.nodes is not None:
        if arguments.host != _HERE or arguments.node is not None or arguments.metadata is not None:
            parser.error("--nodes chooses addresses, names and metadata of its nodes itself")
        return run_nodes(arguments, [*_passed_on(arguments), _WITH_INPUT])
    if arguments.data is None:
        parser.error("start needs --data, the directory for everything that is kept")
    # Imports make many objects and no garbage: a fifth of the start would go into looking for it.
    gc.disable()
    return run(lambda runtime: _serve(runtime, arguments), log_level=arguments.log_level)


def _passed_on(arguments: argparse.Namespace) -> list[str]:
    """What each node of a local cluster is started with, as this process was."""
    words = ["--cluster", arguments.cluster, "--fsync", arguments.fsync, "--log-level", arguments.log_level]
    words += ["--memtable-mb", str(arguments.memtable_mb), "--cache-mb", str(arguments.cache_mb)]
    words += ["--inline-rows", str(arguments.inline_rows)]
    if arguments.exchange is not None:
        words += ["--exchange", arguments.exchange]
    for name, value in spark_settings(arguments).items():
        words += ["--spark", f"{name}={value}"]
    return words


def _warm_up() -> None:
    """What pyarrow imports when it first makes a value (pandas, where that is installed) would take a quarter
    of a second out of somebody's first read."""
    import pyarrow as pa

    pa.scalar(1)


def _options(arguments: argparse.Namespace) -> "DatabaseOptions":
    from belvedere.query.database import DatabaseOptions
    from belvedere.storage.commitlog import SyncPolicy
    from belvedere.storage.engine import EngineOptions

    return DatabaseOptions(
        storage=EngineOptions(
            sync_policy=SyncPolicy(arguments.fsync),
            memtable_bytes=arguments.memtable_mb << 20,
            cache_bytes=arguments.cache_mb << 20,
        )
    )


async def _serve(runtime: RealRuntime, arguments: argparse.Namespace) -> int:
    from belvedere.cluster.members import NodeIdTaken, NodeRefused
    from belvedere.meta.store import MetadataError
    from belvedere.runtime.errors import AddressInUse, DiskError, NetworkError
    from belvedere.server.connection_api import ServerSettings
    from belvedere.server.node import DataDirectoryInUse, Node
    from belvedere.storage.errors import StorageError

    # What was imported stays: the collector need not look at it again. Nor need it look so often at
    # memtables, which only grow: with Python's own thresholds it is nearly half the cost of inserting
    # new partitions.
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
    signals = stop_signals(with_input=arguments.until_input_ends)
    try:
        cluster = cluster_settings(arguments)
        pipeline = PipelineSettings(spark_settings(arguments), arguments.inline_rows, arguments.exchange)
        node = await Node.start(runtime, arguments.data, _options(arguments), pipeline, cluster)
        try:
            host, port = await node.listen(ServerSettings(host=arguments.host, port=arguments.port))
        except BaseException:
            await node.stop()
            raise
    except AddressInUse:
        return _refuse(f"port {arguments.port} of {arguments.host} is in use; --port takes another one")
    except NetworkError as error:
        return _refuse(f"cannot listen on {arguments.host}:{arguments.port}: {error}")
    except (WrongClusterArguments, NodeIdTaken, NodeRefused, ImportError) as error:
        return _refuse(str(error))
    except (DataDirectoryInUse, MetadataError, StorageError, DiskError, OSError) as error:
        return _refuse(str(error))
    # Of the rows that came back from the log the collector need not look at any again.
    gc.collect()
    gc.freeze()
    print(
        f"belvedere: answering CQL on {host}:{port}, data in {arguments.data}, "
        f"up after {age_seconds():.2f} s, {resident_bytes() / 2**20:.0f} MiB resident",
        flush=True,
    )
    await runtime.compute(_warm_up)
    signal = await signals.wait()
    runtime.log("info", "server.stopping", signal=signal)
    await node.stop()
    return 0


def _refuse(reason: str) -> int:
    print(f"belvedere: cannot start: {reason}", file=sys.stderr)
    return 1
