"""The kernel of view builds on its own: base files in, view files out, without Spark and without a node.

    ./run bench kernel [--rows N] [--rounds N] [--processes N] [--profile]

A table of seven columns over eight tablets, 5 % of its rows written twice, is turned into the files of a view
with another key over eight tablets: read, checked, merged, re-keyed, hashed, sorted, written. Beside it, in
turns, stands bare pyarrow, which reads the same columns of the same files and writes them again as they are;
"ratio" is our time divided by its time. --profile tells where the time of one task goes.
"""

import argparse
import cProfile
import multiprocessing
import os
import pstats
import resource
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _machine import describe

from belvedere.cql.parser import parse_statement
from belvedere.meta.state import EMPTY, ClusterState, advance
from belvedere.pipeline.build import build
from belvedere.pipeline.keys import key_columns
from belvedere.pipeline.runs import cut_by_tablet, sorted_run, write_run
from belvedere.pipeline.schema_of import schema_entries
from belvedere.pipeline.tasks import BuildTask, InputFile, TaskResult
from belvedere.query.schema.change import decide
from belvedere.query.schema.edits import DdlContext
from belvedere.storage import sstable_format as fmt
from belvedere.storage.sstable_format import GROUP_ROWS, Layout

SCHEMA = (
    "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE shop.orders (id bigint PRIMARY KEY, customer int, city text, total double, pieces int,"
    " paid boolean, at timestamp) WITH tablets = {'initial': 8}",
    "CREATE MATERIALIZED VIEW shop.by_customer AS SELECT * FROM shop.orders"
    " WHERE customer IS NOT NULL AND id IS NOT NULL PRIMARY KEY (customer, id) WITH tablets = {'initial': 8}",
)
USERS = ["id", "customer", "city", "total", "pieces", "paid", "at"]
# The bare side writes with the settings that the sstable writer uses.
PARQUET = {"row_group_size": GROUP_ROWS, "compression": "zstd", "compression_level": 1}
STAMP = 1_700_000_000_000_000


def schema() -> ClusterState:
    state = EMPTY
    for number, text in enumerate(SCHEMA, 1):
        decision = decide(parse_statement(text), state, DdlContext(None, number.to_bytes(16), "node", number))
        assert decision is not None
        state = advance(state, number, decision.proposal[1])
    return state


class RealFiles:
    def __init__(self, directory: str) -> None:
        self._directory = directory

    def open(self, path: str) -> pa.NativeFile:
        return pa.OSFile(path)

    def save(self, name: str, data: bytes) -> str:
        path = os.path.join(self._directory, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def progress(self, rows: int, size: int) -> None:
        pass

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)


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


def write_base(state: ClusterState, directory: str, rows: int) -> dict[int, list[InputFile]]:
    """Of each tablet a file, and one with rows written once more."""
    table = state.keyspaces["shop"].tables["orders"]
    layout, found = Layout(table), {}
    ids = np.random.default_rng(1).permutation(rows).astype(np.int64)
    for part, chosen in enumerate((ids, ids[: rows // 20])):
        made = key_columns(layout, some_rows(chosen, part))
        constants = {
            fmt.KIND: pa.scalar(fmt.ROW, pa.int8()),
            fmt.LIVE: pa.scalar(True),
            fmt.UNTIL: pa.scalar(fmt.FOREVER, pa.int64()),
        }
        for name, value in constants.items():
            made = made.append_column(name, pa.repeat(value, made.num_rows))
        made = made.append_column(fmt.TS, pa.array(STAMP + 10**9 * part + np.arange(made.num_rows)))
        for tablet, piece in cut_by_tablet(sorted_run(layout, made), state.tablet_maps[table.id].tablets):
            built = write_run(layout, piece, first_version=1, last_version=1)
            path = os.path.join(directory, f"{tablet.id}-{part}.parquet")
            with open(path, "wb") as file:
                file.write(built.data)
            given = InputFile(path, built.facts.size, built.facts.crc32c)
            found.setdefault(tablet.id, []).append(given)
    return found


@dataclass(frozen=True)
class Work:
    task: BuildTask
    directory: str


def ours(work: Work) -> tuple[int, float]:
    started = time.process_time()
    result: TaskResult = build(work.task, RealFiles(fresh(work.directory)))
    return result.rows, time.process_time() - started


def bare(work: Work) -> tuple[int, float]:
    started = time.process_time()
    rows = 0
    directory = fresh(work.directory)
    for number, given in enumerate(work.task.inputs):
        table = pq.read_table(given.path, columns=USERS, use_threads=False)
        pq.write_table(
            table, os.path.join(directory, f"{number}.parquet"), use_dictionary=["city"], **PARQUET
        )
        rows += table.num_rows
    return rows, time.process_time() - started


def peak_mib(_: object) -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def fresh(directory: str) -> str:
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    return directory


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    print(describe())
    state = schema()
    base, view = (state.keyspaces["shop"].tables[name] for name in ("orders", "by_customer"))
    with tempfile.TemporaryDirectory(prefix="belvedere-kernel-") as directory:
        inputs = write_base(state, directory, options.rows)
        entries = schema_entries(state, [base, view])
        work = [
            Work(
                BuildTask(entries, base.id.hex(), [view.id.hex()], STAMP + 10**10, given),
                os.path.join(directory, f"out{tablet}"),
            )
            for tablet, given in inputs.items()
        ]
        if options.profile:
            profile(work[0])
            return
        compare(work, options.rounds, options.processes)


def profile(work: Work) -> None:
    ours(work)
    profiler = cProfile.Profile(time.process_time)
    started = time.process_time()
    rows, _ = profiler.runcall(ours, work)
    print(f"one task: {rows} rows in {time.process_time() - started:.2f} s of processor time")
    pstats.Stats(profiler).sort_stats("tottime").print_stats(28)


def compare(work: list[Work], rounds: int, processes: int) -> None:
    """By the clock, and by processor time, which says more where others use the machine too."""
    clock: dict[str, list[float]] = {"bare": [], "ours": []}
    processor: dict[str, list[float]] = {"bare": [], "ours": []}
    rows = {}
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        pool.map(ours, work[:processes], 1)
        for _ in range(rounds):
            for name, run in (("bare", bare), ("ours", ours)):
                started = time.perf_counter()
                results = pool.map(run, work, 1)
                clock[name].append(time.perf_counter() - started)
                processor[name].append(sum(seconds for _, seconds in results))
                rows[name] = sum(count for count, _ in results)
        peak = max(pool.map(peak_mib, range(4 * processes), 1))
    for name, seconds in clock.items():
        wall = rows[name] / statistics.median(seconds) / 1e6
        one = rows[name] / statistics.median(processor[name]) / 1e6
        print(f"{name}: {wall:.2f} M rows/s in {processes} processes; {one:.2f} a second of one processor")
    pairs = zip(processor["ours"], processor["bare"], strict=True)
    ratios = [one / rows["ours"] / (other / rows["bare"]) for one, other in pairs]
    print(f"ratio: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}); peak {peak} MiB")


if __name__ == "__main__":
    main()
