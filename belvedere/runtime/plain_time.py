"""Time for programs that are no node: how long something takes, and something now and then while it does."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def seconds() -> float:
    """From some origin; never goes back."""
    return time.monotonic()


def pause(length: float) -> None:
    """Do nothing for so many seconds."""
    time.sleep(length)


@contextmanager
def every(length: float, action: Callable[[], None]) -> Iterator[None]:
    """Do it each time so many seconds have passed, in a thread of its own, until the block ends."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(length):
            action()

    thread = threading.Thread(target=repeat, name="every", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
