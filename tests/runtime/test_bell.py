"""A bell is heard by other processes at once, and whoever misses it looks for himself in the end."""

import asyncio
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from belvedere.runtime import bell as bells
from belvedere.runtime.api import Runtime
from belvedere.runtime.bell import Bell
from belvedere.runtime.real import run

RINGER = """
import asyncio, sys
from belvedere.runtime.bell import Bell

async def main():
    bell = Bell(sys.argv[1])
    bell.open()
    for line in sys.stdin:
        bell.ring()
    bell.close()

asyncio.run(main())
"""


def test_a_ring_in_another_process_is_heard_at_once(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> None:
        bell = Bell(str(tmp_path / "bell"))
        bell.open()
        if not bell.hears_others:
            pytest.skip("this system has no inotify")
        ringer = subprocess.Popen(
            [sys.executable, "-c", RINGER, str(tmp_path / "bell")], stdin=subprocess.PIPE, bufsize=0
        )
        assert ringer.stdin is not None
        # The first one also waits for the process to be up.
        latencies = []
        for number in range(30):
            rung = bell.rung
            began = time.monotonic()
            ringer.stdin.write(b"\n")
            await bell.wait(rung, 60.0)
            assert bell.rung > rung
            if number:
                latencies.append(time.monotonic() - began)
        assert statistics.median(latencies) < 0.05
        ringer.stdin.close()
        await asyncio.to_thread(ringer.wait)
        bell.close()

    run(main, log_level="error")


def test_a_ring_between_looking_and_waiting_is_not_missed(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> None:
        bell, other = (Bell(str(tmp_path / "bell")) for _ in range(2))
        bell.open()
        other.open()
        rung = bell.rung
        bell.ring()
        async with asyncio.timeout(10):
            await bell.wait(rung, 60.0)
        rung = bell.rung
        other.ring()
        while bell.rung == rung:
            await asyncio.sleep(0.001)
        async with asyncio.timeout(10):
            await bell.wait(rung, 60.0)
        bell.close()
        other.close()

    run(main, log_level="error")


def test_every_waiter_wakes_and_silence_ends_with_patience(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> None:
        bell = Bell(str(tmp_path / "bell"))
        bell.open()
        waiting = [asyncio.ensure_future(bell.wait(bell.rung, 60.0)) for _ in range(3)]
        await asyncio.sleep(0.01)
        bell.ring()
        await asyncio.gather(*waiting)
        # Its own ring comes back through the file, too.
        await asyncio.sleep(0.05)
        began = time.monotonic()
        rung = bell.rung
        await bell.wait(rung, 0.2)
        assert time.monotonic() - began >= 0.19
        assert bell.rung == rung
        assert bell._waiters == []
        waiting = [asyncio.ensure_future(bell.wait(bell.rung, 60.0))]
        await asyncio.sleep(0)
        bell.close()
        await asyncio.gather(*waiting)

    run(main, log_level="error")


def test_without_inotify_waiting_is_looking_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bells, "_watch", lambda path: None)

    async def main(runtime: Runtime) -> None:
        bell = Bell(str(tmp_path / "bell"))
        bell.open()
        assert not bell.hears_others
        began = time.monotonic()
        await bell.wait(bell.rung, 60.0)
        assert 0.09 <= time.monotonic() - began < 30
        bell.close()

    run(main, log_level="error")


def test_nothing_stays_open(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> None:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            bell = Bell(str(tmp_path / "bell"))
            bell.open()
            bell.close()
        assert len(os.listdir("/proc/self/fd")) == before

    run(main, log_level="error")
