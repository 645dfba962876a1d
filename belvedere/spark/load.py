"""Loading with a summary: DataFrames, and files of rows.

`df.write.format("belvedere")` has no way to tell what became of the rows but to fail, so this hands out the
same work by itself: a load is begun here, Spark's workers turn rows into files, and here it is committed.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from belvedere.model.schema import Table
from belvedere.pipeline.spark_failures import explain_failure
from belvedere.pipeline.spark_session import (
    MASTER,
    REMOTE,
    effective_settings,
    make_session,
    session_is_running,
)
from belvedere.runtime.plain_files import absolute, attempt_name, bytes_below, exists
from belvedere.runtime.plain_time import every, seconds
from belvedere.spark import loading
from belvedere.spark.calls import SparkFaceError
from belvedere.spark.lines import FILE, LINE, START, CsvLines, JsonLines, Lines
from belvedere.spark.loading import BegunLoad, LoadSummary
from belvedere.spark.options import SourceOptions
from belvedere.spark.source import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LoadSummary", "load_files", "load_frame"]

Report = Callable[[str], None]

#: Seconds between reports while rows are written.
_REPORT_SECONDS: Final = 5.0
#: Values in names of directories are read by the types of the table, as all text is.
_SETTINGS: Final = {"spark.sql.sources.partitionColumnTypeInference.enabled": "false"}


def load_files(
    settings: Mapping[str, str],
    files: Sequence[str],
    file_format: str,
    table: str,
    host: str,
    port: int,
    options: Mapping[str, str],
    report: Report,
) -> LoadSummary:
    """Load files (parquet, csv, json), directories of them or patterns. Raises SparkFaceError, and
    SparkUnavailable if there is no Spark. A session that was not there before is closed at the end."""
    source = SourceOptions.of({**options, "table": table, "host": host, "port": str(port)})
    paths = [_spark_path(file) for file in dict.fromkeys(files)]
    where = settings.get(REMOTE) or settings.get(MASTER, "this machine")
    report(f"starting Spark on {where}")
    was_there = session_is_running()
    session = make_session({**_SETTINGS, **settings}, f"load into {table}")
    if not was_there and REMOTE not in settings:
        # What goes wrong is told by what is raised here, without the stacks of three processes.
        session.sparkContext.setLogLevel("FATAL")
    try:
        report(f"reading {file_format} into {table}")
        try:
            frame, lines_of = _READERS[file_format](session, paths)
        except SparkFaceError:
            raise
        except Exception as error:
            raise SparkFaceError(_unreadable(settings, error)) from error
        return _load(frame, source, report, settings, lines_of)
    finally:
        if not was_there:
            session.stop()


def load_frame(
    frame: "DataFrame", table: str, report: Report = lambda text: None, **options: str
) -> LoadSummary:
    """Load a DataFrame, as `frame.write.format("belvedere").options(**options).mode("append").save(table)`
    does, and tell what became of its rows. Raises SparkFaceError."""
    return _load(frame, SourceOptions.of({**options, "table": table}), report, {})


# -- the work --------------------------------------------------------------------------------------

LinesOf = Callable[[Table], Lines]


def _load(
    frame: "DataFrame",
    options: SourceOptions,
    report: Report,
    settings: Mapping[str, str],
    lines_of: LinesOf | None = None,
) -> LoadSummary:
    began = seconds()
    found: list[Lines] = []

    def incoming(table: Table) -> pa.Schema:
        if lines_of is None:
            return arrow_schema(frame.schema)
        found.append(lines_of(table))
        return found[0].schema()

    load = loading.begin(options, incoming)
    try:
        try:
            parts = _write(frame, load, found[0] if found else None, report)
        except Exception as error:
            raise SparkFaceError(explain_failure(effective_settings(settings), error)) from error
        if rows := sum(part.rows for part in parts):
            report(f"{rows:,} rows written; making them part of {options.table}")
        summary = loading.commit(load, parts)
    except BaseException:
        loading.abort(load)
        raise
    return replace(summary, seconds=seconds() - began)


def _write(frame: "DataFrame", load: BegunLoad, lines: Lines | None, report: Report) -> list[loading.Part]:
    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = loading.write_part(load, attempt_name(), batches, lines)
        yield pa.RecordBatch.from_pydict({"part": [msgspec.json.encode(part)]})

    def tell() -> None:
        report(f"{bytes_below(load.directory) / 2**20:,.0f} MiB written")

    with every(_REPORT_SECONDS, tell):
        rows = frame.mapInArrow(write, "part binary").collect()
    return [msgspec.json.decode(row.part, type=loading.Part) for row in rows]


# -- files -----------------------------------------------------------------------------------------


def _spark_path(file: str) -> str:
    """Without a scheme a path is of this machine, whatever file system is Spark's own."""
    name = file.rstrip("/").rpartition("/")[2]
    if name.startswith(("_", ".")) and name not in (".", ".."):
        raise SparkFaceError(f"Spark passes over files whose names begin with {name[0]}: rename {file}")
    if "://" in file:
        return file
    path = absolute(file)
    # What is there under this very name is no pattern.
    return "file://" + (re.sub(r"([\\*?\[\]{}])", r"\\\1", path) if exists(file) else path)


def _parquet(session: "SparkSession", paths: list[str]) -> "tuple[DataFrame, LinesOf | None]":
    # Otherwise columns that one of the files lacks would go unread in all.
    return session.read.option("mergeSchema", "true").parquet(*paths), None


def _csv(session: "SparkSession", paths: list[str]) -> "tuple[DataFrame, LinesOf | None]":
    from pyspark.sql.functions import col, trim, xxhash64

    frame = _text(session, paths).select(
        col("value").alias(LINE),
        xxhash64(col("_metadata.file_path")).alias(FILE),
        col("_metadata.file_block_start").alias(START),
    )
    first = frame.where((col(START) == 0) & (trim(col(LINE)) != "")).first()
    if first is None:
        raise SparkFaceError("the CSV files are empty; their first line names the columns")
    header = CsvLines(first[LINE])
    return frame, lambda table: header


def _json(session: "SparkSession", paths: list[str]) -> "tuple[DataFrame, LinesOf | None]":
    return _text(session, paths).withColumnRenamed("value", LINE), JsonLines.of


def _text(session: "SparkSession", paths: list[str]) -> "DataFrame":
    frame = session.read.text(paths)
    more = [name for name in frame.columns if name != "value"]
    if more:
        raise SparkFaceError(
            f"directories named {more[0]}=… hold a column; that is read of Parquet, not of CSV and JSON"
        )
    return frame


def _unreadable(settings: Mapping[str, str], error: Exception) -> str:
    message = explain_failure(effective_settings(settings), error)
    if "(TIMESTAMP(NANOS" in message:
        message += " Spark reads no nanoseconds: write microseconds (pandas: coerce_timestamps='us')"
    return message


_READERS: Final = {"parquet": _parquet, "csv": _csv, "json": _json}
