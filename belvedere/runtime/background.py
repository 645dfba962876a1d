"""An event loop in a thread of its own, for callers that are not asynchronous."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

from belvedere.runtime.real import RealRuntime

T = TypeVar("T")


class BackgroundRuntime:
    """`call` runs a coroutine on the background loop and waits for it; safe from any thread but that one."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._started: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._runtime: RealRuntime | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._serve, name="belvedere", daemon=True)
        self._thread.start()
        self._started.result()

    @property
    def runtime(self) -> RealRuntime:
        if self._runtime is None:
            raise RuntimeError("the background runtime is closed")
        return self._runtime

    def _serve(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._main())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._runtime = runtime = RealRuntime(**self._options)
        self._started.set_result(None)
        try:
            await self._stop.wait()
        finally:
            await runtime.close()

    def submit(self, work: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        if self._loop is None or self._runtime is None:
            work.close()
            raise RuntimeError("the background runtime is closed")
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("waiting for the background loop on its own thread would never end")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return self.submit(work).result()

    async def call_from_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """The same for a caller that lives in another event loop."""
        return await asyncio.wrap_future(self.submit(work))

    def call_soon(self, callback: Callable[[], object]) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(callback)

    def close(self) -> None:
        loop, stop = self._loop, self._stop
        if loop is None or stop is None:
            return
        self._loop = None
        self._runtime = None
        loop.call_soon_threadsafe(stop.set)
        self._thread.join()
