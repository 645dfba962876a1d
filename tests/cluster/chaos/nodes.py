"""Server processes on 127.0.0.1, .2, .3 that form a cluster, and what may befall them.

Each keeps its address and its data directory through all its lives; each life has a log of its own. All are
killed at the end if they still run, and with us if we are.
"""

import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.drivers.server_process import BELVEDERE, READY

ROOT = Path(__file__).resolve().parents[3]

#: A node that has to wait for its former lease, on a machine that others use, too.
_START_SECONDS = 60.0


@dataclass
class Life:
    """One process of a node, from its start to its end."""

    node: str
    log: Path
    process: "subprocess.Popen[str]"
    #: What was done to it, if anything: it must end of nothing else.
    asked_to_stop: bool = False
    killed: bool = False

    def log_lines(self) -> list[str]:
        return self.log.read_text().splitlines()


class NodeDidNotStart(Exception):
    pass


@dataclass
class Node:
    """One place of the cluster: an address and a directory, and the process that is there now."""

    number: int
    port: int
    folder: Path
    options: list[str]
    program: Sequence[str]
    lives: list[Life] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"n{self.number}"

    @property
    def host(self) -> str:
        return f"127.0.0.{self.number}"

    @property
    def process(self) -> "subprocess.Popen[str]":
        return self.lives[-1].process

    @property
    def is_up(self) -> bool:
        return bool(self.lives) and self.process.poll() is None

    def start(self) -> None:
        """Returns when it answers clients."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """From the main thread: the process ends with the thread that made it."""
        log = self.folder / f"{self.name}-{len(self.lives) + 1}.log"
        command = [*_ends_with_us(), *self.program, "start", "--data", str(self.folder / self.name)]
        command += ["--node", self.name, "--host", self.host, "--port", str(self.port), *self.options]
        with log.open("w") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT)
        self.lives.append(Life(self.name, log, process))

    def wait_until_ready(self) -> None:
        process = self.process
        stuck = threading.Timer(_START_SECONDS, process.kill)
        stuck.start()
        assert process.stdout is not None
        line = process.stdout.readline()
        stuck.cancel()
        if READY.fullmatch(line) is None:
            status, log = process.wait(), self.lives[-1].log.read_text()
            raise NodeDidNotStart(f"{self.name} said {line!r}, ended with {status}: {log}")

    def kill(self) -> None:
        self.lives[-1].killed = True
        self.process.kill()
        self.ended(60)

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def ask_to_stop(self) -> None:
        self.lives[-1].asked_to_stop = True
        self.process.send_signal(signal.SIGTERM)

    def stop(self) -> int:
        """Its exit status."""
        self.ask_to_stop()
        return self.ended(60)

    def ended(self, seconds: float) -> int:
        status = self.process.wait(timeout=seconds)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return status


def _ends_with_us() -> list[str]:
    return ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


class Nodes:
    """`count` nodes over one metadata store."""

    def __init__(
        self,
        folder: Path,
        metadata: str,
        *,
        count: int = 3,
        lease_seconds: float = 2.0,
        options: Sequence[str] = (),
        program: Sequence[str] = BELVEDERE,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.metadata = metadata
        self.lease_seconds = lease_seconds
        self.port, rpc_port = free_ports(count)
        words = ["--rpc-port", str(rpc_port), "--metadata", metadata, "--cluster", "chaos"]
        words += ["--lease-seconds", str(lease_seconds), *options]
        self.all = [Node(number, self.port, folder, words, program) for number in range(1, count + 1)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.all:
            if node.is_up:
                node.kill()

    def __getitem__(self, number: int) -> Node:
        return self.all[number - 1]

    @property
    def hosts(self) -> list[str]:
        return [node.host for node in self.all]

    @property
    def lives(self) -> list[Life]:
        return [life for node in self.all for life in node.lives]

    def start(self) -> None:
        """Those that do not run, all at once."""
        starting = [node for node in self.all if not node.is_up]
        for node in starting:
            node.launch()
        for node in starting:
            node.wait_until_ready()

    def stop(self) -> list[int]:
        """Ask those that run to end, all at once; their exit statuses."""
        running = [node for node in self.all if node.is_up]
        for node in running:
            node.ask_to_stop()
        return [node.ended(60) for node in running]


def free_ports(count: int) -> tuple[int, int]:
    """Two ports that are free on each of the first addresses of loopback."""
    found: list[int] = []
    while len(found) < 2:
        with socket.socket() as first:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                for number in range(2, count + 1):
                    with socket.socket() as other:
                        other.bind((f"127.0.0.{number}", port))
            except OSError:
                continue
            found.append(port)
    return found[0], found[1]


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> float:
    """How long it took."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise AssertionError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.05)
    return time.monotonic() - began
