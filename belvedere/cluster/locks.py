"""One at a time for each key, first come first served; no tasks, since most find the key free."""

from collections import deque
from collections.abc import Callable


class KeyLocks:
    def __init__(self) -> None:
        self._waiting: dict[bytes, deque[Callable[[], None]]] = {}
        #: Keys that are being handed on, and whether whoever has such a key has let go of it again.
        self._handed_on: dict[bytes, bool] = {}

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
        """A loop: each of a thousand that wait may let go at once, within the call that gave it the key."""
        if key in self._handed_on:
            self._handed_on[key] = True
            return
        waiting = self._waiting[key]
        try:
            while waiting:
                self._handed_on[key] = False
                waiting.popleft()()
                if not self._handed_on[key]:
                    return
        finally:
            self._handed_on.pop(key, None)
        del self._waiting[key]
