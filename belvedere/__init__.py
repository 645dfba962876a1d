"""Belvedere: a table store that speaks CQL and keeps its tables in plain Parquet files.

    import belvedere

    with belvedere.open("data") as db:
        db.execute("CREATE KEYSPACE shop WITH replication = "
                   "{'class': 'SimpleStrategy', 'replication_factor': 1}")
        db.execute("CREATE TABLE shop.orders (customer int, id int, total double, "
                   "PRIMARY KEY (customer, id))")
        db.execute("INSERT INTO shop.orders (customer, id, total) VALUES (?, ?, ?)", [7, 1, 9.5])
        for order in db.execute("SELECT * FROM shop.orders WHERE customer = ?", [7]):
            print(order.id, order.total)
        print(db.execute("SELECT * FROM shop.orders").to_pandas())

Importing this module costs next to nothing: what is needed is loaded by `open`.
"""

from collections.abc import Mapping
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

from belvedere.runtime.version import VERSION

if TYPE_CHECKING:
    from belvedere.model.types_time import Duration
    from belvedere.query.access import UNSET
    from belvedere.query.errors import (
        AlreadyExists,
        ConfigurationError,
        CQLError,
        InvalidRequest,
        ServerError,
        SyntaxException,
        Unauthorized,
    )
    from belvedere.server.embedded import DatabaseClosed, EmbeddedDatabase, Fsync, Statement
    from belvedere.server.node import DataDirectoryInUse
    from belvedere.server.resultset import ResultSet

__version__ = VERSION

__all__ = [
    "AlreadyExists",
    "CQLError",
    "ConfigurationError",
    "DataDirectoryInUse",
    "DatabaseClosed",
    "Duration",
    "EmbeddedDatabase",
    "InvalidRequest",
    "ResultSet",
    "ServerError",
    "Statement",
    "SyntaxException",
    "UNSET",
    "Unauthorized",
    "open",
    "open_async",
]

_HOMES = {
    "belvedere.model.types_time": ("Duration",),
    "belvedere.query.access": ("UNSET",),
    "belvedere.query.errors": (
        *("AlreadyExists", "CQLError", "ConfigurationError", "InvalidRequest"),
        *("ServerError", "SyntaxException", "Unauthorized"),
    ),
    "belvedere.server.embedded": ("DatabaseClosed", "EmbeddedDatabase", "Statement"),
    "belvedere.server.node": ("DataDirectoryInUse",),
    "belvedere.server.resultset": ("ResultSet",),
}


def open(
    path: str | PathLike[str],
    *,
    keyspace: str | None = None,
    fsync: "Fsync" = "group",
    memtable_mb: int = 64,
    cache_mb: int = 128,
    spark: Mapping[str, str] | None = None,
    inline_rows: int = 100_000,
    exchange: str | None = None,
) -> "EmbeddedDatabase":
    """Open the database in a directory, in this process; the directory is made if it is missing.

    Close it with `close()`, or use it in a `with`. One process at a time may have a directory open.

    `keyspace` is where table names without one are looked up, as after USE. `fsync` says when a write is
    on disk: "group" before it returns, "periodic" within 10 ms of it, "none" when the system likes.
    `memtable_mb` bounds the memory of writes not yet in files, `cache_mb` that of cached rows. `spark` are
    settings for Spark, such as {"spark.master": "local[2]"}; views of tables with fewer than `inline_rows`
    rows are built without it. `exchange` is a directory that Spark's workers reach, too, if they are
    elsewhere.
    """
    from belvedere.server.embedded import EmbeddedDatabase, embedded_options
    from belvedere.server.settings import PipelineSettings

    options = embedded_options(fsync, memtable_mb, cache_mb)
    pipeline = PipelineSettings(dict(spark or {}), inline_rows, exchange)
    return EmbeddedDatabase(path, options, keyspace, pipeline)


async def open_async(
    path: str | PathLike[str],
    *,
    keyspace: str | None = None,
    fsync: "Fsync" = "group",
    memtable_mb: int = 64,
    cache_mb: int = 128,
    spark: Mapping[str, str] | None = None,
    inline_rows: int = 100_000,
    exchange: str | None = None,
) -> "EmbeddedDatabase":
    """`open` without blocking the running event loop; then use the `…_async` methods, and `async with`."""
    from belvedere.server.embedded import EmbeddedDatabase, embedded_options
    from belvedere.server.settings import PipelineSettings

    options = embedded_options(fsync, memtable_mb, cache_mb)
    pipeline = PipelineSettings(dict(spark or {}), inline_rows, exchange)
    return await EmbeddedDatabase.open_async(path, options, keyspace, pipeline)


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            found = globals()[name] = getattr(import_module(home), name)
            return found
    raise AttributeError(f"module 'belvedere' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
