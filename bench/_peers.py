"""What others do with the same Parquet files, each in a process of its own: `python bench/_peers.py NAME`.

Reads lines "INPUT-DIRECTORY OUTPUT-DIRECTORY", answers each with the seconds that it took.

dataframe, duckdb     the files of a base become those of a view: of each row the newest version, the new key
                      hashed, sorted by the hash, the key and the old key
sort-dataframe, …     files from outside become those of a table: hashed and sorted by the key
compare-dataframe     a base against a view (in the second directory): joined by key, all columns compared
rewrite               the same rows into new files as they are: the least that there is to do
"""

import os
import shutil
import sys
import time
from collections.abc import Callable
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

COLUMNS = ["customer", "id", "city", "total", "pieces", "paid", "at"]
PARTS = 8
#: As the sstable writer sets it.
GROUP_ROWS = 4096

Rekey = Callable[[str, str], None]


def spark_session() -> Any:
    from belvedere.pipeline.spark_session import make_session

    memory = {"spark.master": "local[2]", "spark.driver.memory": "6g"}
    return make_session({**memory, "spark.sql.shuffle.partitions": str(PARTS)}, "peer")


def newest_of(session: Any, source: str) -> Any:
    """Rows of a base in Spark's own plan."""
    from pyspark.sql import functions as f

    rows = session.read.parquet(source).where("_kind = 3")
    newest = f.max_by(f.struct(*(name for name in COLUMNS if name != "id")), f.col("_ts")).alias("newest")
    return rows.groupBy("id").agg(newest).select("id", "newest.*")


def dataframe() -> Rekey:
    """The least that Spark's own plans can do: a native read, an aggregation for the newest version, a hash,
    a shuffle, a sort, a native write. Spark has no Murmur3 of Cassandra's kind: its xxhash64 stands in."""
    from pyspark.sql import functions as f

    session = spark_session()

    def rekey(source: str, target: str) -> None:
        keyed = newest_of(session, source).withColumn("_token", f.xxhash64("customer"))
        cut = keyed.repartitionByRange(PARTS, "_token").sortWithinPartitions("_token", "customer", "id")
        cut.write.mode("overwrite").option("compression", "zstd").parquet(target)

    return rekey


def duckdb() -> Rekey:
    import duckdb as duck

    def rekey(source: str, target: str) -> None:
        os.makedirs(target, exist_ok=True)
        connection = duck.connect(config={"threads": 2, "memory_limit": "8GB"})
        values = [name for name in COLUMNS if name != "id"]
        row = ", ".join(f"'{name}': \"{name}\"" for name in values)
        shown = ", ".join(f'newest."{name}" AS "{name}"' for name in values)
        connection.execute(
            f"""COPY (
                SELECT id, {shown}, hash(newest.customer) AS _token FROM (
                    SELECT id, arg_max({{{row}}}, _ts) AS newest
                    FROM '{source}/*.parquet' WHERE _kind = 3 GROUP BY id)
                ORDER BY _token, newest.customer, id)
            TO '{target}/out.parquet' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {GROUP_ROWS})"""
        )
        connection.close()

    return rekey


def sort_dataframe() -> Rekey:
    from pyspark.sql import functions as f

    session = spark_session()

    def sort(source: str, target: str) -> None:
        keyed = session.read.parquet(source).withColumn("_token", f.xxhash64("id"))
        cut = keyed.repartitionByRange(PARTS, "_token").sortWithinPartitions("_token", "id")
        cut.write.mode("overwrite").option("compression", "zstd").parquet(target)

    return sort


def sort_duckdb() -> Rekey:
    import duckdb as duck

    def sort(source: str, target: str) -> None:
        os.makedirs(target, exist_ok=True)
        connection = duck.connect(config={"threads": 2, "memory_limit": "8GB"})
        connection.execute(
            f"""COPY (SELECT *, hash(id) AS _token FROM '{source}/*.parquet' ORDER BY _token, id)
            TO '{target}/out.parquet' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {GROUP_ROWS})"""
        )
        connection.close()

    return sort


def compare_dataframe() -> Rekey:
    """The comparison that people write themselves: a full join by key, and a look at every column."""
    from pyspark.sql import functions as f

    session = spark_session()

    def compare(source: str, view: str) -> None:
        base, other = newest_of(session, source).alias("a"), newest_of(session, view).alias("b")
        names = [name for name in COLUMNS if name != "id"]
        same = [f.col(f"a.{name}").eqNullSafe(f.col(f"b.{name}")) for name in names]
        joined = base.join(other, f.col("a.id") == f.col("b.id"), "full")
        wrong = joined.where(f.col("a.id").isNull() | f.col("b.id").isNull() | ~reduce(and_, same))
        wrong.count()

    return compare


def rewrite() -> Rekey:
    """The same columns into new files as they are, nothing merged, hashed or sorted; two at a time."""
    from concurrent.futures import ThreadPoolExecutor

    def one(path: Path, target: str) -> None:
        table = pq.read_table(path, columns=COLUMNS, use_threads=False)
        pq.write_table(
            table,
            os.path.join(target, path.name),
            row_group_size=GROUP_ROWS,
            compression="zstd",
            compression_level=1,
        )

    def rekey(source: str, target: str) -> None:
        os.makedirs(target, exist_ok=True)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda path: one(path, target), sorted(Path(source).glob("*.parquet"))))

    return rekey


def main() -> None:
    rekey = globals()[sys.argv[1].replace("-", "_")]()
    print("ready", flush=True)
    for line in sys.stdin:
        source, target = line.split()
        started = time.perf_counter()
        rekey(source, target)
        seconds = time.perf_counter() - started
        if not sys.argv[1].startswith("compare"):
            shutil.rmtree(target)
        print(seconds, flush=True)


if __name__ == "__main__":
    main()
