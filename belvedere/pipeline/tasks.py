"""What a task of a job is told and what it gives back; JSON on the way to a Spark worker and back.

A task is deterministic and changes nothing but its own output directory: it can be tried again, twice at the
same time, or for nothing.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec
import pyarrow as pa

from belvedere.storage.sstable_format import SSTableFacts


class TaskFiles(Protocol):
    """A task's way to files: a file system in a Spark worker, bytes in memory in a simulation."""

    def open(self, path: str) -> pa.NativeFile:
        """For reading at random places."""

    def save(self, name: str, data: bytes) -> str:
        """Into this attempt's own directory, durable; returns the path."""

    def progress(self, rows: int, size: int) -> None:
        """So many rows and bytes more were read."""

    def pause(self, seconds: float) -> None:
        """Hold a maximum rate."""


class InputFile(msgspec.Struct, frozen=True):
    """An sstable in the exchange; whoever reads it checks that it is what was published."""

    path: str
    size: int
    crc32c: int


class OutputFile(msgspec.Struct, frozen=True):
    """A finished sstable for one tablet."""

    path: str
    #: Id of the table or view, hex.
    table: str
    tablet: int
    facts: SSTableFacts


class TaskResult(msgspec.Struct, frozen=True):
    outputs: list[OutputFile]
    rows: int = 0
    bytes: int = 0
    #: What else the task found out, as its kind has it.
    report: msgspec.Raw = msgspec.Raw(b"null")


class BuildTask(msgspec.Struct, frozen=True, tag="build"):
    """Images, at one version, of all rows of one tablet of a base, for some of its views."""

    #: Entries of the metadata store: key to JSON. Keyspace, its types, base, views, the views' tablets.
    schema: dict[str, str]
    #: Ids in hex.
    base: str
    views: list[str]
    version: int
    inputs: list[InputFile]
    #: Rows a second, 0 for any number.
    max_rate: int = 0


class StageTask(msgspec.Struct, frozen=True, tag="stage"):
    """What files that became part of a base's tablet change in its views."""

    schema: dict[str, str]
    base: str
    views: list[str]
    version: int
    #: The tablet's files without those that were added, and these.
    before: list[InputFile]
    added: list[InputFile]


class CompareTask(msgspec.Struct, frozen=True, tag="compare"):
    """How one tablet of a view differs from images that were made anew (by a BuildTask).

    The report is a list of `Suspect`.
    """

    schema: dict[str, str]
    view: str
    tablet: int
    #: The second at which both sides are looked at.
    now: int
    expected: list[InputFile]
    actual: list[InputFile]
    #: Suspects told of; beyond, they are only counted.
    most: int = 100_000


class Suspect(msgspec.Struct, frozen=True, array_like=True):
    """A key of a view under which something differs: its token, partition key and clustering key."""

    token: int
    key: bytes
    clustering: bytes


class CompareReport(msgspec.Struct, frozen=True):
    expected_rows: int
    actual_rows: int
    suspects: list[Suspect]
    #: Those beyond `most`.
    untold: int = 0


Task = BuildTask | StageTask | CompareTask

Perform = Callable[[Task, TaskFiles], TaskResult]


def input_files(task: Task) -> list[InputFile]:
    """Every file that the task may open."""
    match task:
        case BuildTask():
            return task.inputs
        case StageTask():
            return [*task.before, *task.added]
        case CompareTask():
            return [*task.expected, *task.actual]


def perform(task: Task, files: TaskFiles) -> TaskResult:
    """Do it. The modules that know how are imported when a task needs them."""
    match task:
        case BuildTask():
            from belvedere.pipeline.build import build

            return build(task, files)
        case StageTask():
            from belvedere.pipeline.stage import stage

            return stage(task, files)
        case CompareTask():
            from belvedere.pipeline.compare import compare

            return compare(task, files)
