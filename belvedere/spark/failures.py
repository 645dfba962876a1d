"""What Spark's exceptions say to people: they come with tracebacks of two languages around one sentence."""

import re
from typing import Final

#: What Python's traceback ends with, wherever Spark has put it: a kind of error and what it says.
_RAISED: Final = re.compile(r"^(?:[\w.]+\.)?(\w+)(?:: (.*))?$", re.DOTALL)
_TRACEBACK: Final = "Traceback (most recent call last):\n"
_ENDS: Final = re.compile(r"\n(?: ?SQLSTATE: |\s*JVM stacktrace:|\s*Driver stacktrace:|\s+at [\w.$]+\(|\n)")
#: Errors of ours, whose message says it all.
_OURS: Final = frozenset(("SparkFaceError", "BadRowsFound", "ConnectionBroke", "LoadRefused"))


def told(error: BaseException) -> str:
    """One message without anybody's stack."""
    text = str(error).strip()
    if _TRACEBACK in text:
        return _of_python(text.rpartition(_TRACEBACK)[2])
    # Py4J puts the Java exception's class before what it says, and its stack behind.
    text = re.sub(r"^An error occurred while calling [\w.$]+\.\n: ", "", text)
    text = _ENDS.split(text, maxsplit=1)[0].strip()
    text = re.sub(r" SQLSTATE: \w{5}$", "", text)
    return re.sub(r"^(?:[a-z]\w*\.)+[A-Z]\w*: ", "", text) or type(error).__name__


def _of_python(traceback: str) -> str:
    """The lines of a traceback are indented; what was raised is not."""
    lines = traceback.splitlines()
    raised = next((number for number, line in enumerate(lines) if line[:1].strip()), len(lines))
    text = _ENDS.split("\n".join(lines[raised:]), maxsplit=1)[0].strip()
    found = _RAISED.match(text)
    if found is None:
        return text
    kind, message = found.groups()
    return message if message and kind in _OURS else text
