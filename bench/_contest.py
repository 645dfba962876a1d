"""Our side and others that do the same work, in turns, and what they took."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from _machine import cpu_seconds
from _process_tree import tree, watched

OURS = "belvedere"


@dataclass
class Peer:
    """A process that does the same work another way."""

    name: str
    home: str
    process: "subprocess.Popen[str]" = field(init=False)

    def __post_init__(self) -> None:
        command = [sys.executable, str(Path(__file__).with_name("_peers.py")), self.name]
        self.errors = Path(self.home) / f"{self.name}.log"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._hear()

    def work(self, source: str, target: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{source} {target}\n")
        self.process.stdin.flush()
        return float(self._hear())

    def _hear(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended: {self.errors.read_text()[-3000:]}")
        return line

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@dataclass
class Figures:
    seconds: dict[str, list[float]] = field(default_factory=dict)
    mib: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, seconds: float, mib: float) -> None:
        self.seconds.setdefault(name, []).append(seconds)
        self.mib[name] = max(self.mib.get(name, 0), mib)

    def median(self, name: str) -> float:
        return statistics.median(self.seconds[name])

    def show(self, title: str, rows: int, times_the_work: int = 1) -> None:
        """`times_the_work`: how often the others would have to do theirs for what we did."""
        print(title)
        ours = self.median(OURS)
        for name in self.seconds:
            own = times_the_work if name == OURS else 1
            seconds = self.median(name)
            times = "" if name == OURS else f"{seconds * times_the_work / ours:8.2f} times"
            pace = f"{rows * own / seconds / 1e6:8.2f} M rows/s"
            print(f"  {name:<18}{seconds:8.2f} s {pace} {self.mib[name]:8,.0f} MiB{times}", flush=True)


def take_turns(
    rounds: int, ours: Callable[[], float], peers: list[Peer], theirs: Callable[[Peer], float]
) -> Figures:
    """Everybody once to get warm, then in turns. What `ours` leaves running in the background ends before the
    next one's turn."""
    figures = Figures()
    others = frozenset(peer.process.pid for peer in peers)
    for number in range(rounds + 1):
        with watched(os.getpid(), others) as peak:
            seconds = ours()
        if number:
            figures.add(OURS, seconds, peak.mib)
        for peer in peers:
            _until_idle(others)
            with watched(peer.process.pid) as peak:
                seconds = theirs(peer)
            if number:
                figures.add(peer.name, seconds, peak.mib)
        _until_idle(others)
    return figures


def _until_idle(others: frozenset[int]) -> None:
    """Until nothing of ours uses a processor any more."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        ours = tree(os.getpid(), others)
        before = _used(ours)
        time.sleep(0.5)
        if _used(ours) - before < 0.1:
            return


def _used(processes: list[int]) -> float:
    total = 0.0
    for one in processes:
        try:
            total += cpu_seconds(one)
        except OSError:
            continue
    return total
