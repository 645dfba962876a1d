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
        """Into this attempt's own directory; returns the path."""

    def progress(self, rows: int, size: int) -> None:
        """So many rows and bytes more were read."""


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

    #: Entries of the metadata store: key to JSON.
    schema: dict[str, str]
    #: Ids in hex.
    base: str
    views: list[str]
    version: int
    inputs: list[str]


class StageTask(msgspec.Struct, frozen=True, tag="stage"):
    """What files that became part of a base's tablet at a version change in its views."""

    schema: dict[str, str]
    base: str
    views: list[str]
    version: int
    #: The tablet's files before that version, and those that were added.
    before: list[str]
    added: list[str]


Task = BuildTask | StageTask

Perform = Callable[[Task, TaskFiles], TaskResult]


def input_paths(task: Task) -> list[str]:
    """Every file that the task may open."""
    match task:
        case BuildTask():
            return task.inputs
        case StageTask():
            return [*task.before, *task.added]


def perform(task: Task, files: TaskFiles) -> TaskResult:
    """Do it. The modules that know how are imported when a task needs them."""
    raise NotImplementedError
