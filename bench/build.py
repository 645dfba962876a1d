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
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import _spark_base as base
from _machine import describe
from _process_tree import watched

import belvedere

PEERS = ("dataframe", "duckdb", "rewrite")
OURS = "belvedere"
SPARK = {"spark.master": "local[2]"}


@dataclass
class Peer:
    """A process that does the same work another way."""

    name: str
    errors: Path
    process: "subprocess.Popen[str]" = field(init=False)

    def __post_init__(self) -> None:
        command = [sys.executable, str(Path(__file__).with_name("_rekey_peers.py")), self.name]
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._hear()

    def rekey(self, source: str, target: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{source} {target}\n")
        self.process.stdin.flush()
        return float(self._hear())

    def _hear(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended: {self.errors.read_text()[-3000:]}")
        return line

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@dataclass
class Figures:
    seconds: dict[str, list[float]] = field(default_factory=dict)
    mib: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, seconds: float, mib: float) -> None:
        self.seconds.setdefault(name, []).append(seconds)
        self.mib[name] = max(self.mib.get(name, 0), mib)

    def median(self, name: str) -> float:
        return statistics.median(self.seconds[name])


def build(database: Any, views: int) -> float:
    names = [f"view_{number}" for number in range(views)]
    for name in names:
        database.execute(f"DROP MATERIALIZED VIEW IF EXISTS bench.{name}")
    started = time.perf_counter()
    for name in names:
        database.execute(base.VIEW.format("bench", "bench").replace("by_customer", name))
    while True:
        found = (
            database.execute("SELECT state, last_failure FROM system_views.view_builds")
            .to_arrow()
            .to_pylist()
        )
        if all(row["state"] == "BUILT" for row in found):
            return time.perf_counter() - started
        failure = next((row["last_failure"] for row in found if row["last_failure"]), None)
        assert failure is None, failure
        time.sleep(0.02)


def measure(rows: int, rounds: int, views: int, peers: list[Peer], home: str) -> Figures:
    data, figures = os.path.join(home, "data"), Figures()
    with belvedere.open(data, spark=SPARK, inline_rows=1) as database:
        base.fill(database, "bench", rows)
        inputs = os.path.join(home, "inputs")
        os.makedirs(inputs)
        for number, path in enumerate(base.sstables(data, "bench", "orders")):
            os.link(path, os.path.join(inputs, f"{number}.parquet"))
        others = frozenset(peer.process.pid for peer in peers)
        build(database, views)  # Spark and its workers are warm from here on.
        for peer in peers:
            peer.rekey(inputs, os.path.join(home, "warm"))
        for _ in range(rounds):
            with watched(os.getpid(), others) as peak:
                seconds = build(database, views)
            figures.add(OURS, seconds, peak.mib)
            for peer in peers:
                with watched(peer.process.pid) as peak:
                    seconds = peer.rekey(inputs, os.path.join(home, "out"))
                figures.add(peer.name, seconds, peak.mib)
    return figures


def show(rows: int, views: int, figures: Figures) -> None:
    print(f"{rows:,} rows, {views} view{'s' if views > 1 else ''}")
    ours = figures.median(OURS)
    for name in figures.seconds:
        seconds = figures.median(name)
        times = "" if name == OURS else f"{seconds * views / ours:8.2f} times"
        made = rows * (views if name == OURS else 1)
        pace = f"{made / seconds / 1e6:8.2f} M rows/s"
        print(f"  {name:<10}{seconds:8.2f} s {pace} {figures.mib[name]:8,.0f} MiB{times}")


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
        wanted = [name for name in PEERS if name not in arguments.without]
        peers = [Peer(name, Path(home) / f"{name}.log") for name in wanted]
        try:
            figures = measure(rows, arguments.rounds, arguments.views, peers, home)
        finally:
            for peer in peers:
                peer.end()
            shutil.rmtree(home, ignore_errors=True)
        show(rows, arguments.views, figures)
        ours.append(figures.median(OURS) / rows)
    if len(ours) > 1:
        print(f"time per row, the last size to the first: {ours[-1] / ours[0]:.2f}")


if __name__ == "__main__":
    main()
