"""A node's Spark driver: the child process that holds the session.

It is run by `python -m belvedere.pipeline.spark_driver`, does what it is told in lines on its standard input
(`spark_messages`), and ends when that ends, so that it never outlives its node.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from belvedere.pipeline import spark_messages as messages
from belvedere.pipeline.spark_failures import explain_failure
from belvedere.pipeline.spark_session import REMOTE, SparkUnavailable, effective_settings, make_session
from belvedere.pipeline.spark_tasks import OUTPUT_SCHEMA, performer
from belvedere.runtime.child import Parent, be_killed_in, end_at_once, in_background
from belvedere.runtime.plain_time import pause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: Seconds between attempts to interrupt a job.
_INTERRUPTED_EVERY: Final = 0.5
#: Seconds that the end of the session may take; a node that lives waits a little longer.
STOP: Final = 15


class Jobs:
    """What runs on the session, each job in a thread: Spark's own calls block."""

    def __init__(self, session: "SparkSession", parent: Parent, settings: Mapping[str, str]) -> None:
        self._session = session
        self._parent = parent
        self._settings = settings
        self._remote = REMOTE in settings
        self._unfinished: set[str] = set()
        self._cancelled: set[str] = set()

    def begin(self, job: messages.RunJob) -> None:
        self._unfinished.add(job.id)
        in_background(job.id, lambda: self._run(job))

    def cancel(self, job: str) -> None:
        self._cancelled.add(job)
        in_background(f"cancel {job}", lambda: self._interrupt(job))

    def _interrupt(self, job: str) -> None:
        """Until it has ended: what it was about to begin is not found by the first attempt."""
        while job in self._unfinished:
            if self._remote:
                self._session.interruptTag(job)
            else:
                self._session.sparkContext.cancelJobGroup(job)
            pause(_INTERRUPTED_EVERY)

    def _name_what_comes(self, job: str) -> None:
        """What this thread starts from now on is found by the job's name. Tags would do for both kinds of
        session, but classic ones find only tags of the thread that asks."""
        if self._remote:
            self._session.addTag(job)
        else:
            self._session.sparkContext.setJobGroup(job, job, interruptOnCancel=True)

    def _run(self, job: messages.RunJob) -> None:
        failure = None
        try:
            self._name_what_comes(job.id)
            if job.id not in self._cancelled:
                self._perform(job)
        except Exception as error:
            # py4j, gRPC and Spark itself raise what they like.
            failure = explain_failure(self._settings, error)
        self._unfinished.discard(job.id)
        self._cancelled.discard(job.id)
        self._parent.say(messages.encode(messages.JobEnded(job.id, failure)))

    def _perform(self, job: messages.RunJob) -> None:
        numbers = self._session.range(0, job.tasks, 1, job.tasks)
        numbers.mapInArrow(performer(job.directory), OUTPUT_SCHEMA).collect()


def main() -> None:
    parent = Parent()
    lines = parent.lines()
    start = messages.to_driver(next(lines, b"{}"))
    assert isinstance(start, messages.Start)
    try:
        session = make_session(start.settings, start.name)
    except SparkUnavailable as error:
        parent.say(messages.encode(messages.Unavailable(str(error))))
        return
    parent.say(messages.encode(messages.Ready(session.version)))
    _obey(lines, Jobs(session, parent, effective_settings(start.settings)))
    # Whoever waits for a job in a thread need not see its end: the node that wanted it is gone, or stops.
    # There may be nobody to lose patience when Spark, far away or out of memory, does not end either.
    be_killed_in(STOP)
    session.stop()
    end_at_once()


def _obey(lines: Iterator[bytes], jobs: Jobs) -> None:
    for line in lines:
        match messages.to_driver(line):
            case messages.RunJob() as job:
                jobs.begin(job)
            case messages.CancelJob(id):
                jobs.cancel(id)


if __name__ == "__main__":
    main()
