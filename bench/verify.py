"""Verifying a view of a large table: rows a second, clean and with one row in a thousand damaged.

    ./run bench verify [--rows N] [--rounds N]

The view and its table are those of `bench build`. Beside `CALL verify` stands, in turns and on the very same
files, `compare-dataframe`: the full join by key that people write themselves in Spark. Then a thousandth of
the view's rows are changed in its files: verify, repair, verify once more.
"""

import argparse
import os
import shutil
import tempfile
import time
from typing import Any

import _spark_base as base
from _contest import Peer, take_turns
from _machine import describe

import belvedere
from belvedere.cli.damage import change_some

SPARK = {"spark.master": "local[2]"}


def timed(database: Any, procedure: str) -> tuple[float, Any]:
    started = time.perf_counter()
    (report,) = database.execute(f"CALL {procedure}('bench.by_customer')")
    return time.perf_counter() - started, report


def clean(database: Any) -> float:
    seconds, report = timed(database, "verify")
    assert report.missing == report.orphaned == report.different == report.unexamined == 0, report
    return seconds


def measure(rows: int, rounds: int, home: str) -> None:
    data = os.path.join(home, "data")
    peers = [Peer("compare-dataframe", home)]
    try:
        with belvedere.open(data, spark=SPARK, inline_rows=1) as database:
            base.fill(database, "bench", rows)
            database.execute(base.VIEW.format("bench", "bench"))
            base.until_built(database)
            files = [
                base.linked(data, "bench", table, os.path.join(home, table))
                for table in ("orders", "by_customer")
            ]
            figures = take_turns(rounds, lambda: clean(database), peers, lambda peer: peer.work(*files))
    finally:
        for peer in peers:
            peer.end()
    figures.show(f"{rows:,} rows, nothing wrong", rows)
    changed = change_some(data, "bench.by_customer", "total", -1.0, 0.001)
    with belvedere.open(data, spark=SPARK, inline_rows=1) as database:
        timed(database, "verify")  # Spark is warm from here on.
        for procedure, wrong in (("verify", changed), ("repair", changed), ("verify", 0)):
            seconds, report = timed(database, procedure)
            assert report.different == wrong, report
            print(f"{procedure}, {wrong:,} rows wrong: {seconds:.2f} s, {rows / seconds / 1e6:.2f} M rows/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    print(describe())
    home = tempfile.mkdtemp(prefix="belvedere-bench-")
    try:
        measure(arguments.rows, arguments.rounds, home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
