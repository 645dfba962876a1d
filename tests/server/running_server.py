"""A real node with a real server, in a thread of its own, for clients that block."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from belvedere.runtime.real import RealRuntime, run
from belvedere.server.connection_api import ServerSettings
from belvedere.server.node import Node


@dataclass
class Running:
    host: str
    port: int
    node: Node
    loop: asyncio.AbstractEventLoop


@contextmanager
def running_server(directory: str, settings: ServerSettings | None = None) -> Iterator[Running]:
    ready = threading.Event()
    box: list[Running] = []
    failed: list[BaseException] = []
    stop: list[asyncio.Event] = []

    async def main(runtime: RealRuntime) -> None:
        node = await Node.start(runtime, directory)
        host, port = await node.listen(settings or ServerSettings(port=0))
        box.append(Running(host, port, node, asyncio.get_running_loop()))
        stop.append(asyncio.Event())
        ready.set()
        await stop[0].wait()
        await node.stop()

    def work() -> None:
        try:
            run(main, log_level="warning")
        except BaseException as error:
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    if not box:
        thread.join()
        raise failed[0]
    try:
        yield box[0]
    finally:
        box[0].loop.call_soon_threadsafe(stop[0].set)
        thread.join()
    if failed:
        raise failed[0]
