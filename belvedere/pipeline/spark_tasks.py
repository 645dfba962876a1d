"""Tasks in Spark's workers. Task and result are files in the exchange, found by the task's number:

    <exchange>/<job>/tasks/<number>.json        what the task is told
    <exchange>/<job>/results/<number>.json      what it gave back
    <exchange>/<job>/progress/<number>          "rows bytes" that it read so far

A node looks there, so it knows of a task's end while the others go on, with every kind of Spark.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
import pyarrow as pa

from belvedere.pipeline.tasks import Task, perform
from belvedere.runtime.plain_files import TaskAttemptFiles, attempt_name, read_whole, write_durably

TASKS: Final = "tasks"
RESULTS: Final = "results"
PROGRESS: Final = "progress"
#: What `mapInArrow` is told of what comes out: the numbers of the tasks that are done.
OUTPUT_SCHEMA: Final = "number bigint"

_decode_task = msgspec.json.Decoder(Task).decode


def task_path(directory: str, number: int) -> str:
    return f"{directory}/{TASKS}/{number}.json"


def result_name(number: int) -> str:
    return f"{number}.json"


def performer(directory: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow` on a frame of numbers of tasks."""

    def perform_numbered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                perform_one(directory, number)
            yield pa.record_batch([batch.column(0).cast(pa.int64())], ["number"])

    return perform_numbered


def perform_one(directory: str, number: int) -> None:
    """Do a task. A second attempt, even at the same time, writes files of its own; one result counts."""
    task = _decode_task(read_whole(task_path(directory, number)))
    files = TaskAttemptFiles(
        f"{directory}/attempt-{number}-{attempt_name()}", f"{directory}/{PROGRESS}/{number}"
    )
    result = perform(task, files)
    files.settle()
    write_durably(f"{directory}/{RESULTS}/{result_name(number)}", msgspec.json.encode(result))
