"""What others do with the files of a base to get the files of a view, each in a process of its own.

    python bench/_rekey_peers.py dataframe|duckdb|rewrite

Reads lines "INPUT-DIRECTORY OUTPUT-DIRECTORY", answers each with the seconds that it took. All read the
same Parquet files; all but `rewrite` keep the newest version of each row, hash the new key, and write
sorted by the hash, the key and the old key.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

COLUMNS = ["customer", "id", "city", "total", "pieces", "paid", "at"]
PARTS = 8
#: As the sstable writer sets it.
GROUP_ROWS = 4096

Rekey = Callable[[str, str], None]


def dataframe() -> Rekey:
    """The least that Spark's own plans can do: a native read, an aggregation for the newest version, a hash,
    a shuffle, a sort, a native write. Spark has no Murmur3 of Cassandra's kind: its xxhash64 stands in."""
    from pyspark.sql import functions as f

    from belvedere.pipeline.spark_session import make_session

    memory = {"spark.master": "local[2]", "spark.driver.memory": "6g"}
    session = make_session({**memory, "spark.sql.shuffle.partitions": str(PARTS)}, "peer")

    def rekey(source: str, target: str) -> None:
        rows = session.read.parquet(source).where("_kind = 3")
        newest = f.max_by(f.struct(*(name for name in COLUMNS if name != "id")), f.col("_ts")).alias("newest")
        kept = rows.groupBy("id").agg(newest).select("id", "newest.*")
        keyed = kept.withColumn("_token", f.xxhash64("customer"))
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
    rekey = {"dataframe": dataframe, "duckdb": duckdb, "rewrite": rewrite}[sys.argv[1]]()
    print("ready", flush=True)
    for line in sys.stdin:
        source, target = line.split()
        started = time.perf_counter()
        rekey(source, target)
        seconds = time.perf_counter() - started
        shutil.rmtree(target)
        print(seconds, flush=True)


if __name__ == "__main__":
    main()
