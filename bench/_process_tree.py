"""Memory of a process and all that it started, sampled while something runs."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_EVERY = 0.2


@dataclass
class Peak:
    mib: float = 0.0


def tree(root: int, without: frozenset[int] = frozenset()) -> list[int]:
    """The process and its descendants, but not those in `without` or below them."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(name))
    found, waiting = [], [root]
    while waiting:
        one = waiting.pop()
        if one not in without:
            found.append(one)
            waiting += children.get(one, [])
    return found


def proportional_mib(processes: list[int]) -> float:
    """Pages that several of them share count once."""
    total = 0
    for one in processes:
        try:
            text = Path(f"/proc/{one}/smaps_rollup").read_text()
        except OSError:
            continue
        total += next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)
    return total / 1024


@contextmanager
def watched(root: int, without: frozenset[int] = frozenset()) -> Iterator[Peak]:
    peak, over = Peak(), threading.Event()

    def watch() -> None:
        while True:
            peak.mib = max(peak.mib, proportional_mib(tree(root, without)))
            if over.wait(_EVERY):
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        over.set()
        watcher.join()
