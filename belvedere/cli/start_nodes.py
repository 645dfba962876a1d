"""`belvedere start --nodes`: a cluster on this machine in one command, each node a process of its own.

The nodes end when their standard input does. So they stop in order when this process says so, and also when
it is killed.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from belvedere.runtime.api import Connection
from belvedere.runtime.errors import AddressInUse, DiskError, NetworkError, ProcessGone
from belvedere.runtime.process import StopSignal, stop_signals, temporary_directory
from belvedere.runtime.real import RealRuntime, run
from belvedere.runtime.real_process import RealProcess

MOST_NODES = 9

_COMMAND = [sys.executable, "-m", "belvedere.cli.main", "start"]
_READY = "belvedere: "
#: How long a node may take to stop before it is killed.
_STOPPING = 60.0
#: Ports tried when any will do: one that is free on all addresses.
_TRIES = 20


def _complain(message: str) -> None:
    print(f"belvedere: {message}", file=sys.stderr, flush=True)


class NotStarted(Exception):
    """The message says why."""


def run_nodes(arguments: argparse.Namespace, options: Sequence[str]) -> int:
    """`options` are given to each node."""

    def in_directory(data: str) -> int:
        return run(
            lambda runtime: _run(runtime, arguments.nodes, data, arguments.port, options),
            log_level=arguments.log_level,
        )

    if arguments.data is not None:
        return in_directory(arguments.data)
    with temporary_directory("belvedere-nodes-") as folder:
        return in_directory(folder)


async def _run(runtime: RealRuntime, count: int, data: str, port: int, options: Sequence[str]) -> int:
    signals = stop_signals()
    cluster = _LocalCluster(runtime, count, data, options)
    heeding = runtime.spawn("nodes.signals", cluster.heed(signals))
    try:
        await cluster.start(port)
    except (NotStarted, DiskError, OSError) as error:
        await cluster.stop()
        _complain(f"cannot start: {error}")
        return 1
    if not signals.received:
        hosts = ", ".join(node.host for node in cluster.nodes)
        what = "1 node answers" if count == 1 else f"{count} nodes answer"
        print(f"belvedere: {what}, contact points {hosts}, port {cluster.port}", flush=True)
        await cluster.serve(signals)
    heeding.cancel()
    stopped = await cluster.stop()
    return 0 if stopped and signals.received else 1


class _Node:
    def __init__(self, number: int, data: str) -> None:
        self.name = f"n{number}"
        self.host = f"127.0.0.{number}"
        self.data = f"{data}/{self.name}"
        self.process: RealProcess | None = None

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.runs

    def say(self, line: str) -> None:
        print(f"{self.name}: {line}", file=sys.stderr, flush=True)


class _LocalCluster:
    def __init__(self, runtime: RealRuntime, count: int, data: str, options: Sequence[str]) -> None:
        self._runtime = runtime
        self._data = data
        self._options = options
        self.port = 0
        self.nodes = [_Node(number, data) for number in range(1, count + 1)]
        self._failure: NotStarted | None = None
        #: Set when something has happened: all started, or not; one ended; a signal came.
        self._news = asyncio.Event()

    @property
    def running(self) -> int:
        return sum(node.runs for node in self.nodes)

    async def heed(self, signals: StopSignal) -> None:
        await signals.wait()
        self._news.set()

    async def start(self, port: int) -> None:
        """Also returns when a signal comes meanwhile. Raises NotStarted."""
        disk = self._runtime.disk
        if await disk.exists(f"{self._data}/node/node_id"):
            raise NotStarted(f"the data directory {self._data} is that of a server that is alone")
        await disk.make_directory(self._data)
        self.port = await self._free_port() if port == 0 else port
        starting = self._runtime.spawn("nodes.start", self._start_all())
        await self._news.wait()
        starting.cancel()
        await starting.wait()
        if self._failure is not None:
            raise self._failure

    async def _start_all(self) -> None:
        """The first one founds the cluster; the others can come together then."""
        first, *others = self.nodes
        try:
            await self._start(first)
            failures = await asyncio.gather(*map(self._start, others), return_exceptions=True)
            for failure in filter(None, failures):
                raise failure
        except NotStarted as failure:
            self._failure = failure
        finally:
            self._news.set()

    async def _start(self, node: _Node) -> None:
        words = [
            "--data",
            node.data,
            "--node",
            node.name,
            "--metadata",
            f"sqlite:{self._data}/metadata.sqlite",
        ]
        words += ["--host", node.host, "--port", str(self.port), "--rpc-port", "0"]
        try:
            node.process = await self._runtime.start_process(
                [*_COMMAND, *words, *self._options], {}, hear=node.say
            )
            line = (await node.process.read_line()).decode(errors="replace")
        except ProcessGone as error:
            if node.process is None:
                raise NotStarted(f"node {node.name}: {error}") from error
            status = await node.process.wait()
            raise NotStarted(f"node {node.name} ended with status {status} before it answered") from error
        print(f"{node.name}: {line.removeprefix(_READY)}", flush=True)

    async def _free_port(self) -> int:
        """One that is free on all addresses. Who takes it before the nodes do is reported as usual."""
        network = self._runtime.network
        for _ in range(_TRIES):
            listeners = []
            try:
                port = 0
                for node in self.nodes:
                    listeners.append(await network.listen(node.host, port, _Nobody))
                    port = listeners[0].address[1]
            except AddressInUse:
                continue
            except NetworkError as error:
                raise NotStarted(f"cannot listen on {node.host}: {error}") from error
            finally:
                for listener in listeners:
                    await listener.close()
            return port
        raise NotStarted(f"found no port that is free on {', '.join(node.host for node in self.nodes)}")

    async def serve(self, signals: StopSignal) -> None:
        """Until a signal comes, or nobody is left."""
        watching = [self._runtime.spawn(f"nodes.{node.name}", self._watch(node)) for node in self.nodes]
        while not signals.received and self.running:
            self._news.clear()
            # Nothing is awaited since the look at what this would forget.
            await self._news.wait()
        for watch in watching:
            watch.cancel()
            await watch.wait()

    async def _watch(self, node: _Node) -> None:
        assert node.process is not None
        status = await node.process.wait()
        left = self.running
        others = "the others go on" if left > 1 else "the other one goes on" if left else "nobody is left"
        _complain(f"node {node.name} ended with status {status}; {others}")
        self._news.set()

    async def stop(self) -> bool:
        """One after the other, the last one first; whether all that still ran ended as they should."""
        well = True
        for node in reversed(self.nodes):
            if node.process is None or not node.process.runs:
                continue
            node.process.close_input()
            try:
                async with asyncio.timeout(_STOPPING):
                    status = await node.process.wait()
            except TimeoutError:
                node.process.kill()
                status = await node.process.wait()
            if status != 0:
                _complain(f"node {node.name} ended with status {status}")
                well = False
        return well


class _Nobody:
    """Behind a port that is only looked at."""

    def on_open(self, connection: Connection) -> None:
        connection.abort()

    def on_data(self, data: bytes) -> None:
        return None

    def on_drained(self) -> None:
        return None

    def on_close(self, error: Exception | None) -> None:
        return None
