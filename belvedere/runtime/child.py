"""A child process's side of the pipes to its parent (`Runtime.start_process`): lines in, lines out."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator


class Parent:
    """Whatever else is printed in this process, by libraries and by processes that it starts, goes to
    standard error: standard output belongs to the conversation. Nobody else reads standard input."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self._input = os.fdopen(os.dup(0), "rb")
        self._output = os.fdopen(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        self._speaking = threading.Lock()

    def lines(self) -> Iterator[bytes]:
        """What the parent says, until it is gone or has no more to say."""
        for line in self._input:
            yield line.rstrip(b"\n")

    def say(self, line: bytes) -> None:
        """From any thread; a parent that does not listen any more is no error."""
        with self._speaking:
            try:
                self._output.write(line + b"\n")
                self._output.flush()
            except BrokenPipeError:
                return


def in_background(name: str, work: Callable[[], None]) -> None:
    """In a thread of its own, which does not keep the process from ending."""
    threading.Thread(target=work, name=name, daemon=True).start()


def end_at_once() -> None:
    """Without waiting for threads."""
    sys.stderr.flush()
    os._exit(0)


def be_killed_in(seconds: float) -> None:
    """With all that this process started, if it still runs then. Only for leaders of their process group, as
    those are that a runtime starts."""

    def kill() -> None:
        os.killpg(os.getpid(), signal.SIGKILL)

    timer = threading.Timer(seconds, kill)
    timer.daemon = True
    timer.start()
