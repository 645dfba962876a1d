"""Loading files into a table from Spark, as its user sees it: until the rows are part of the table.

    ./run bench load [--rows N …] [--rounds N]

Parquet files of seven columns, in no order, go through a DataFrame into an empty table of eight tablets; the
Spark session is warm. Beside it stand, in turns and on the very same files: `sort-dataframe`, Spark's own
plan that reads, hashes, sorts and writes them; `sort-duckdb`, one process of DuckDB that does the same;
`rewrite`, bare pyarrow that reads and writes the rows as they are. "times" says how many times faster than
each we are.
Then the same into a table with a view: until the rows are in the table, and until the view shows them.
"""

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import _spark_base as base
import pyarrow.parquet as pq
from _contest import Figures, Peer, take_turns
from _machine import describe
from cassandra.cluster import Cluster
from points import Server

from belvedere.pipeline.spark_session import make_session

PEERS = ("sort-dataframe", "sort-duckdb", "rewrite")
SPARK = {"spark.master": "local[2]"}


class Loader:
    def __init__(self, home: str, rows: int) -> None:
        self.inputs = os.path.join(home, "inputs")
        os.makedirs(self.inputs)
        for number, table in enumerate(base.batches(rows)):
            pq.write_table(table, os.path.join(self.inputs, f"{number:03}.parquet"), compression="zstd")
        settings = [word for name, value in SPARK.items() for word in ("--spark", f"{name}={value}")]
        self.server = Server(Path(home) / "data", "group", *settings)
        self.cluster = Cluster(["127.0.0.1"], port=self.server.port, protocol_version=5)
        self.cql = self.cluster.connect()
        self.cql.default_timeout = 600
        self.spark = make_session(SPARK, "bench")
        self._tables = 0

    def into_an_empty_table(self) -> float:
        return self._load(self._table())

    def with_a_view(self) -> tuple[float, float]:
        keyspace = self._table()
        self.cql.execute(base.VIEW.format(keyspace, keyspace))
        in_table = self._load(keyspace)
        started = time.perf_counter()
        pending = f"SELECT loads_pending FROM system_views.view_builds WHERE keyspace_name = '{keyspace}'"
        while any(row.loads_pending for row in self.cql.execute(pending)):
            time.sleep(0.02)
        return in_table, in_table + time.perf_counter() - started

    def _table(self) -> str:
        if self._tables:
            self.cql.execute(f"DROP KEYSPACE bench{self._tables}")
        self._tables += 1
        keyspace = f"bench{self._tables}"
        self.cql.execute(base.KEYSPACE.format(keyspace))
        self.cql.execute(base.TABLE.format(keyspace))
        return keyspace

    def _load(self, keyspace: str) -> float:
        started = time.perf_counter()
        to_table = self.spark.read.parquet(self.inputs).write.format("belvedere").mode("append")
        to_table.option("port", str(self.server.port)).save(f"{keyspace}.orders")
        return time.perf_counter() - started

    def end(self) -> None:
        self.cluster.shutdown()
        self.spark.stop()
        self.server.stop()


def measure(rows: int, rounds: int, home: str) -> tuple[Figures, list[tuple[float, float]]]:
    peers: list[Peer] = []
    loader: Any = Loader(home, rows)
    try:
        peers += [Peer(name, home) for name in PEERS]
        out = os.path.join(home, "out")
        figures = take_turns(
            rounds, loader.into_an_empty_table, peers, lambda peer: peer.work(loader.inputs, out)
        )
        return figures, [loader.with_a_view() for _ in range(rounds + 1)][1:]
    finally:
        for peer in peers:
            peer.end()
        loader.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[5_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    print(describe())
    for rows in arguments.rows:
        home = tempfile.mkdtemp(prefix="belvedere-bench-")
        try:
            figures, with_a_view = measure(rows, arguments.rounds, home)
        finally:
            shutil.rmtree(home, ignore_errors=True)
        figures.show(f"{rows:,} rows into an empty table", rows)
        in_table, shown = min(with_a_view)
        print(f"with a view: in the table after {in_table:.2f} s, in the view after {shown:.2f} s")


if __name__ == "__main__":
    main()
