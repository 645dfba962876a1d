"""What Spark says when something failed, in one line for people: what is wrong, and what to do about it."""

import re
from collections.abc import Mapping

from belvedere.pipeline.spark_session import MASTER, effective_settings

#: The last line of a traceback that a Python worker sent: "module.Error: what it said".
_RAISED = re.compile(
    r"^(?:[A-Za-z_][\w.]*\.)?([A-Za-z_]\w*(?:Error|Exception|Corrupt\w*|Refused|Interrupt)): ?(.*)$"
)
_MEMORY = ("java.lang.OutOfMemoryError", "Java heap space", "GC overhead limit exceeded")
_WORKER_GONE = ("Python worker exited unexpectedly", "Python worker process terminated")


def explain_failure(settings: Mapping[str, str], error: BaseException) -> str:
    text = str(error) or type(error).__name__
    if any(sign in text for sign in _MEMORY):
        heap = effective_settings(settings).get("spark.driver.memory", "its default")
        return f"Spark ran out of memory with spark.driver.memory={heap}: give it more, or fewer cores"
    if any(sign in text for sign in _WORKER_GONE):
        where = effective_settings(settings).get(MASTER, "there")
        return (
            f"a Python worker of Spark ({where}) was killed, most likely for lack of memory: "
            "let fewer work at a time, for example with spark.master=local[1]"
        )
    if type(error).__name__ in ("Py4JNetworkError", "ConnectionRefusedError", "Py4JError"):
        return f"Spark's Java process ended: {_first_line(text)}"
    return _raised_in_worker(text) or _first_line(text)


def _raised_in_worker(text: str) -> str | None:
    """What a task raised; the frames above it are for nobody."""
    found = [match for line in text.splitlines() if (match := _RAISED.match(line.strip()))]
    if "Traceback (most recent call last)" not in text or not found:
        return None
    name, said = found[-1].groups()
    return said or name


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), text)
