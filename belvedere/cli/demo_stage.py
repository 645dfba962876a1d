"""What the demo stands on: a server process, the driver, the command line, and words for people."""

import logging
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

BELVEDERE = [sys.executable, "-m", "belvedere.cli.main"]
READY = re.compile(r"up after ([\d.]+) s, (\d+) MiB resident")
#: Seconds that a server may take to stop.
ENDS_WITHIN = 60

console = Console(highlight=False)


def step(title: str, *explanation: str) -> None:
    console.print(f"\n[bold]{title}[/bold]", soft_wrap=True)
    for line in explanation:
        console.print(f"  {line}", soft_wrap=True)


def note(text: str) -> None:
    console.print(f"  [dim]{text}[/dim]", soft_wrap=True)


def good(text: str) -> None:
    console.print(f"  [green]✓ {text}[/green]", soft_wrap=True)


class DemoFailed(Exception):
    """The story cannot go on; the message says why."""


class Server:
    """`belvedere start` as a process of its own, here with Spark in this machine."""

    def __init__(self, data: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._data = data
        self.process = self._start()

    def _start(self) -> "subprocess.Popen[str]":
        command = [*BELVEDERE, "start", "--data", str(self._data), "--port", str(self.port)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            ready = READY.search(line)
            if ready is None:
                raise DemoFailed(f"the server did not start: {line or f'exit status {_ended(process)}'}")
        except BaseException:
            process.kill()
            _ended(process)
            raise
        note(f"$ belvedere start --data … --port {self.port}")
        good(f"answers CQL {ready[1]} s after its process was started, {ready[2]} MiB resident")
        return process

    def kill(self) -> None:
        self.process.kill()
        _ended(self.process)

    def restart(self) -> None:
        self.process = self._start()

    def stop(self) -> None:
        self.process.terminate()
        status = _ended(self.process)
        if status != 0:
            raise DemoFailed(f"the server was asked to stop, and ended with status {status}")

    def command(self, *words: str, shown: bool = True) -> int:
        """Run a command of the shell against this server; returns its exit status."""
        note(f"$ belvedere {' '.join(words)}")
        done = subprocess.run(
            [*BELVEDERE, *words, "--port", str(self.port)], text=True, stdout=subprocess.PIPE, check=False
        )
        for line in done.stdout.splitlines() if shown else ():
            console.print(f"  {line}" if line else "", soft_wrap=True, markup=False)
        return done.returncode

    def watch(self, *words: str) -> int:
        """The same for a command that draws on the terminal itself."""
        note(f"$ belvedere {' '.join(words)}")
        return subprocess.run([*BELVEDERE, *words, "--port", str(self.port)], check=False).returncode


def _ended(process: "subprocess.Popen[str]") -> int:
    """Its exit status, once it has one."""
    try:
        return process.wait(timeout=ENDS_WITHIN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise DemoFailed(f"the server did not end within {ENDS_WITHIN} s, and was killed") from None
    finally:
        if process.stdout is not None:
            process.stdout.close()


def connect(port: int) -> Any:
    from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
    from cassandra.policies import ConstantReconnectionPolicy, FallthroughRetryPolicy, RoundRobinPolicy

    # The driver reports the server's death, which is one of the things shown here.
    logging.getLogger("cassandra").setLevel(logging.CRITICAL)
    profile = ExecutionProfile(
        load_balancing_policy=RoundRobinPolicy(), retry_policy=FallthroughRetryPolicy(), request_timeout=30
    )
    cluster = Cluster(
        ["127.0.0.1"],
        port=port,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        reconnection_policy=ConstantReconnectionPolicy(0.2, max_attempts=None),
        protocol_version=5,
    )
    return cluster, cluster.connect()


def quietly(work: Callable[[], None]) -> None:
    """Spark's Java process writes to this process's standard error what nobody needs to see here."""
    import os

    sys.stderr.flush()
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        work()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)
