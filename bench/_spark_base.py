"""A table of seven columns over eight tablets, 5 % of its rows written twice, for benchmarks of jobs."""

import json
import os
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from belvedere.pipeline.load import LoadDescription, RunWriter, files_of

TABLETS = 8
KEYSPACE = "CREATE KEYSPACE {} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
TABLE = (
    "CREATE TABLE {}.orders (id bigint PRIMARY KEY, customer int, city text, total double, pieces int,"
    f" paid boolean, at timestamp) WITH tablets = {{{{'initial': {TABLETS}}}}}"
)
VIEW = (
    "CREATE MATERIALIZED VIEW {}.by_customer AS SELECT * FROM {}.orders"
    " WHERE customer IS NOT NULL AND id IS NOT NULL PRIMARY KEY (customer, id)"
    f" WITH tablets = {{{{'initial': {TABLETS}}}}}"
)
COLUMNS = ["id", "customer", "city", "total", "pieces", "paid", "at"]
_AT_ONCE = 500_000


def some_rows(ids: np.ndarray, seed: int) -> pa.Table:
    rnd = np.random.default_rng(seed)
    count = len(ids)
    cities = pa.array([f"city number {n}" for n in range(3000)])
    return pa.table(
        {
            "id": ids,
            "customer": rnd.integers(0, 2_000_000, count, np.int32),
            "city": cities.take(pa.array(rnd.integers(0, 3000, count))),
            "total": rnd.random(count) * 1000,
            "pieces": rnd.integers(1, 50, count, np.int32),
            "paid": pa.array(rnd.random(count) < 0.9),
            "at": pa.array(rnd.integers(1.6e12, 1.7e12, count), pa.timestamp("ms", "UTC")),
        }
    )


def batches(rows: int, seed: int = 1, share: float = 1.0) -> Iterator[pa.Table]:
    """Rows in no order; of `share` of the ids."""
    ids = np.random.default_rng(1).permutation(rows).astype(np.int64)[: int(rows * share)]
    for number, start in enumerate(range(0, len(ids), _AT_ONCE)):
        yield some_rows(ids[start : start + _AT_ONCE], seed * 10_000 + number)


def fill(database: Any, keyspace: str, rows: int) -> None:
    """Make the table and load the rows, then a twentieth of them again."""
    database.execute(KEYSPACE.format(keyspace))
    database.execute(TABLE.format(keyspace))
    for seed, share in ((1, 1.0), (2, 0.05)):
        load(database, f"{keyspace}.orders", batches(rows, seed, share))


def load(database: Any, table: str, tables: Iterator[pa.Table]) -> None:
    """As a loader does, in this process."""
    (begun,) = database.execute(f"CALL begin_load('{table}', '{json.dumps({})}')")
    description = msgspec.json.decode(begun.description, type=LoadDescription)

    def save(name: str, data: bytes) -> str:
        path = os.path.join(begun.directory, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    writer = RunWriter.of(description, save)
    fitter = None
    for one in tables:
        for batch in one.combine_chunks().to_batches():
            fitter = fitter or writer.fitter(batch.schema)
            fitted, bad = fitter.fit(batch)
            assert not bad
            writer.add(fitted)
    with open(os.path.join(begun.directory, "load.json"), "wb") as file:
        file.write(files_of(writer.finish()))
    database.execute(f"CALL commit_load('{begun.load}')")


def until_built(database: Any) -> None:
    while True:
        builds = list(database.execute("SELECT state, last_failure FROM system_views.view_builds"))
        if all(build.state == "BUILT" for build in builds):
            return
        failure = next((build.last_failure for build in builds if build.last_failure), None)
        assert failure is None, failure
        time.sleep(0.02)


def linked(data: str, keyspace: str, table: str, directory: str) -> str:
    """The table's files as they are now, in a directory of their own."""
    os.makedirs(directory)
    for number, path in enumerate(sstables(data, keyspace, table)):
        os.link(path, os.path.join(directory, f"{number}.parquet"))
    return directory


def sstables(data: str, keyspace: str, table: str) -> list[str]:
    """The Parquet files of a table in a data directory."""
    root = os.path.join(data, "node", "tables")
    (home,) = (name for name in os.listdir(root) if name.startswith(f"{keyspace}.{table}-"))
    found = []
    for directory, _, names in os.walk(os.path.join(root, home)):
        found += [os.path.join(directory, name) for name in names if name.endswith(".parquet")]
    return sorted(found)
