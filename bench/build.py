"""Building a view of a large table, as its user sees it: from CREATE to BUILT, the Spark session warm.

    ./run bench build [--rows N …] [--rounds N] [--views N]

The table has seven columns over eight tablets, 5 % of its rows written twice. Beside our build stand, in
turns and on the very same files: `dataframe`, the least that Spark's own plans can do; `duckdb`, one process
of DuckDB that does the same; `rewrite`, bare pyarrow that reads and writes the rows as they are. "times"
says how many times faster than each of them we are. Memory is the peak of a contender and all that it
started, shared pages counted once, in MiB.
"""

import argparse
import os
import shutil
import tempfile
import time
from typing import Any

import _spark_base as base
from _contest import OURS, Figures, Peer, take_turns
from _machine import describe

import belvedere

PEERS = ("dataframe", "duckdb", "rewrite")
SPARK = {"spark.master": "local[2]"}


def build(database: Any, views: int) -> float:
    names = [f"view_{number}" for number in range(views)]
    for name in names:
        database.execute(f"DROP MATERIALIZED VIEW IF EXISTS bench.{name}")
    started = time.perf_counter()
    for name in names:
        database.execute(base.VIEW.format("bench", "bench").replace("by_customer", name))
    base.until_built(database)
    return time.perf_counter() - started


def measure(rows: int, rounds: int, views: int, peers: list[Peer], home: str) -> Figures:
    data = os.path.join(home, "data")
    with belvedere.open(data, spark=SPARK, inline_rows=1) as database:
        base.fill(database, "bench", rows)
        inputs = base.linked(data, "bench", "orders", os.path.join(home, "inputs"))
        out = os.path.join(home, "out")
        return take_turns(rounds, lambda: build(database, views), peers, lambda peer: peer.work(inputs, out))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[5_000_000, 20_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--views", type=int, default=1)
    parser.add_argument("--without", nargs="*", default=[], choices=PEERS)
    arguments = parser.parse_args()
    print(describe())
    ours = []
    for rows in arguments.rows:
        home = tempfile.mkdtemp(prefix="belvedere-bench-")
        peers = [Peer(name, home) for name in PEERS if name not in arguments.without]
        try:
            figures = measure(rows, arguments.rounds, arguments.views, peers, home)
        finally:
            for peer in peers:
                peer.end()
            shutil.rmtree(home, ignore_errors=True)
        figures.show(f"{rows:,} rows, {arguments.views} view(s)", rows, arguments.views)
        ours.append(figures.median(OURS) / rows)
    if len(ours) > 1:
        print(f"time per row, the last size to the first: {ours[-1] / ours[0]:.2f}")


if __name__ == "__main__":
    main()
