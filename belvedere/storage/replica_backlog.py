"""Entries of one replica's log that were taken when the commit log had no room at that very moment.

They go to it in their order as soon as there is room, before anything that comes later. There are few: who
appends asks for room first.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from belvedere.runtime.api import Runtime, TaskHandle
from belvedere.storage.commitlog import CommitLog
from belvedere.storage.errors import LogFull, StorageError

_RETRY_SECONDS = 0.25

#: None, or what made it impossible: then nobody can know what the log holds.
Written = Callable[[Exception | None], None]


@dataclass(slots=True)
class Waiting:
    data: bytes
    #: Told the position that it got in the commit log.
    placed: Callable[[int], None]
    written: Written | None = None


class Backlog:
    def __init__(self, runtime: Runtime, log: CommitLog) -> None:
        self._runtime = runtime
        self._log = log
        self._waiting: deque[Waiting] = deque()
        self._task: TaskHandle | None = None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, waiting: Waiting) -> None:
        if self._waiting or not self._put(waiting):
            self._waiting.append(waiting)
            self._runtime.sometimes("replica.backlog")
            if self._task is None or self._task.done():
                self._task = self._runtime.spawn("replica.backlog", self._drain())

    def _put(self, waiting: Waiting) -> bool:
        """False if there is no room."""
        try:
            frame = self._log.append(waiting.data)
        except LogFull:
            return False
        except StorageError as error:
            self._fail(waiting, error)
            return True
        if frame is None:
            return False
        waiting.placed(frame)
        written = waiting.written
        if written is not None:
            if frame <= self._log.durable:
                # Not in the middle of what its owner is doing.
                self._runtime.call_soon(lambda: written(None))
            else:
                self._log.on_durable(frame, written)
        return True

    def _fail(self, waiting: Waiting, error: StorageError) -> None:
        written = waiting.written
        if written is not None:
            self._runtime.call_soon(lambda: written(error))

    async def _drain(self) -> None:
        while self._waiting:
            if self._put(self._waiting[0]):
                self._waiting.popleft()
                continue
            try:
                await self._log.space(len(self._waiting[0].data))
            except LogFull:
                await self._runtime.clock.sleep(_RETRY_SECONDS)
            except StorageError as error:
                self.close(error)

    async def drained(self) -> None:
        if self._task is not None:
            await self._task.wait()

    def close(self, error: StorageError) -> None:
        """What waits is not written any more."""
        while self._waiting:
            self._fail(self._waiting.popleft(), error)
