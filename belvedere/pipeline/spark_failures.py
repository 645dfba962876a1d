"""What Spark says when something failed, in one line for people: what is wrong, and what to do about it."""

from collections.abc import Mapping

_MEMORY = ("java.lang.OutOfMemoryError", "Java heap space", "GC overhead limit exceeded")
_WORKER_GONE = ("Python worker exited unexpectedly", "Python worker process terminated")
_JAVA_GONE = ("Py4JNetworkError", "ConnectionRefusedError")


def explain_failure(settings: Mapping[str, str], error: BaseException) -> str:
    """`settings`: all that are in force."""
    text = str(error) or type(error).__name__
    if any(sign in text for sign in _MEMORY):
        heap = settings.get("spark.driver.memory", "its default")
        return f"Spark ran out of memory with spark.driver.memory={heap}: give it more, or fewer cores"
    if any(sign in text for sign in _WORKER_GONE):
        where = settings.get("spark.master", "elsewhere")
        return (
            f"a Python worker of Spark ({where}) was killed, most likely for lack of memory: "
            "let fewer work at a time, for example with spark.master=local[1]"
        )
    if type(error).__name__ in _JAVA_GONE:
        return f"Spark's Java process ended: {_first_line(text)}"
    return telling_line(text)


def telling_line(text: str) -> str:
    """The one line that says what is wrong."""
    return _raised_in_worker(text) or _raised_in_java(text) or _first_line(text)


def _raised_in_worker(text: str) -> str | None:
    """What a task raised: what follows the frames of the first traceback, which are for nobody."""
    _, found, traceback = text.partition("Traceback (most recent call last):\n")
    lines = traceback.splitlines() if found else []
    raised = next((line for line in lines if line.strip() and not line.startswith(" ")), None)
    if raised is None:
        return None
    kind, _, said = raised.partition(": ")
    return said or kind


def _raised_in_java(text: str) -> str | None:
    """py4j says which call failed, and then what it raised: ": java.lang.SomeException: what it said"."""
    raised = next((line[2:] for line in text.splitlines() if line.startswith(": ")), None)
    if raised is None:
        return None
    kind, _, said = raised.partition(": ")
    return said or kind


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), text)
