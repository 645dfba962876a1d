"""One at a time for each key, first come first served; no tasks, since most find the key free."""

from collections import deque
from collections.abc import Callable


class KeyLocks:
    def __init__(self) -> None:
        self._waiting: dict[bytes, deque[Callable[[], None]]] = {}

    def take(self, key: bytes, then: Callable[[], None]) -> None:
        """Call `then`, now or when it is its turn; it, or what it starts, calls `release`."""
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = deque()
            then()
        else:
            waiting.append(then)

    @property
    def any_held(self) -> bool:
        return bool(self._waiting)

    def is_held(self, key: bytes) -> bool:
        return key in self._waiting

    def release(self, key: bytes) -> None:
        waiting = self._waiting[key]
        if waiting:
            waiting.popleft()()
        else:
            del self._waiting[key]
