"""What only the real runtime has: the operating system's errors, threads, signals, the log."""

import asyncio
import errno
import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from belvedere.runtime import process, real_disk
from belvedere.runtime.background import BackgroundRuntime
from belvedere.runtime.errors import (
    AlreadyLocked,
    ConnectionClosed,
    DiskBroken,
    DiskError,
    DiskFull,
    FileMissing,
    NetworkError,
    ReadOnlyDisk,
)
from belvedere.runtime.log_lines import LineLog
from belvedere.runtime.real import RealRuntime, run
from belvedere.runtime.real_disk import disk_error
from belvedere.runtime.real_network import network_error


def run_limited(main: Callable[[RealRuntime], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def limited(runtime: RealRuntime) -> None:
        async with asyncio.timeout(60):
            await main(runtime)

    run(limited, **options)


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, DiskFull),
        (errno.EDQUOT, DiskFull),
        (errno.EROFS, ReadOnlyDisk),
        (errno.EACCES, ReadOnlyDisk),
        (errno.EIO, DiskBroken),
        (errno.ENOENT, FileMissing),
        (errno.ENOTDIR, DiskError),
    ],
)
def test_errors_are_named(number: int, kind: type[DiskError]) -> None:
    error = disk_error(OSError(number, os.strerror(number)), "some/path")
    assert type(error) is kind
    assert "some/path" in str(error)


def test_network_errors_are_named() -> None:
    assert type(network_error(ConnectionResetError())) is ConnectionClosed
    assert type(network_error(BrokenPipeError())) is ConnectionClosed
    assert type(network_error(OSError(errno.EHOSTUNREACH, "no route"))) is NetworkError


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_gives_the_place_back() -> None:
    async def main(runtime: RealRuntime) -> None:
        file = await runtime.disk.append("/dev/full")
        with pytest.raises(DiskFull):
            await file.write(b"data")
        with pytest.raises(DiskFull):
            await file.write_and_sync(b"data")
        assert file.position == 0
        await file.close()

    run_limited(main)


def test_short_writes_and_reads_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite, pread = os.pwrite, os.pread
    monkeypatch.setattr(real_disk.os, "pwrite", lambda fd, data, at: pwrite(fd, bytes(data[:3]), at))
    monkeypatch.setattr(real_disk.os, "pread", lambda fd, count, at: pread(fd, min(count, 4), at))

    async def main(runtime: RealRuntime) -> None:
        path = str(tmp_path / "file")
        file = await runtime.disk.append(path)
        await file.write_and_sync(b"0123456789")
        await file.write(b"abcdefgh")
        await file.close()
        assert await runtime.disk.read(path) == b"0123456789abcdefgh"
        assert await runtime.disk.read(path, 1, 9) == b"123456789"
        assert await runtime.disk.read(path, 10, 100) == b"abcdefgh"

    run_limited(main)


def test_after_a_failed_sync_the_file_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(runtime: RealRuntime) -> None:
        file = await runtime.disk.append(str(tmp_path / "file"))
        await file.write_and_sync(b"good")

        def fail(descriptor: int) -> None:
            raise OSError(errno.EIO, "input/output error")

        monkeypatch.setattr(real_disk.os, "fdatasync", fail)
        with pytest.raises(DiskBroken):
            await file.write_and_sync(b"lost?")
        monkeypatch.undo()
        for attempt in (file.write(b"x"), file.write_and_sync(b"x"), file.sync()):
            with pytest.raises(DiskBroken, match="earlier sync"):
                await attempt
        await file.close()

    run_limited(main)


def test_writes_that_queue_leave_no_hole_when_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = os.pwrite

    def full_for_some(descriptor: int, data: bytes, offset: int) -> int:
        if data.startswith(b"b"):
            raise OSError(errno.ENOSPC, "no space left on device")
        return pwrite(descriptor, data, offset)

    monkeypatch.setattr(real_disk.os, "pwrite", full_for_some)

    async def main(runtime: RealRuntime) -> None:
        path = str(tmp_path / "file")
        file = await runtime.disk.append(path)
        results = await asyncio.gather(
            file.write(b"a" * 90),
            file.write(b"b" * 20),
            file.write_and_sync(b"c" * 10),
            return_exceptions=True,
        )
        assert [type(result) for result in results] == [type(None), DiskFull, type(None)]
        assert file.position == 100
        assert await runtime.disk.read(path) == b"a" * 90 + b"c" * 10
        await file.close()

    run_limited(main)


def test_a_file_system_without_reservations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, offset: int, length: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(real_disk.os, "posix_fallocate", refuse)

    async def main(runtime: RealRuntime) -> None:
        path = str(tmp_path / "file")
        await runtime.disk.write(path, b"abc")
        file = await runtime.disk.append(path, preallocate=3_000_000, position=3)
        await file.close()
        assert await runtime.disk.read(path) == b"abc" + bytes(3_000_000 - 3)

    run_limited(main)


def test_a_lock_keeps_other_processes_out_until_the_holder_dies(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    code = """
import sys
from belvedere.runtime.real import run
async def main(runtime):
    await runtime.disk.lock(sys.argv[1])
    print("locked", flush=True)
    sys.stdin.read()
run(main)
"""
    holder = subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"

        async def main(runtime: RealRuntime) -> None:
            with pytest.raises(AlreadyLocked):
                await runtime.disk.lock(path)
            holder.kill()
            holder.wait()
            await (await runtime.disk.lock(path)).release()

        run_limited(main)
    finally:
        holder.kill()
        holder.communicate()


def test_two_long_computations_leave_room_for_short_ones() -> None:
    async def main(runtime: RealRuntime) -> None:
        end = threading.Event()
        long = [asyncio.ensure_future(runtime.compute(end.wait)) for _ in range(2)]
        try:
            assert await asyncio.wait_for(runtime.compute(lambda: 1), 60) == 1
        finally:
            end.set()
        await asyncio.gather(*long)

    run_limited(main)


def test_compute_runs_in_other_threads() -> None:
    async def main(runtime: RealRuntime) -> None:
        here = threading.get_ident()
        assert await runtime.compute(threading.get_ident) != here

        def stop() -> None:
            raise StopIteration

        with pytest.raises(RuntimeError, match="StopIteration"):
            await runtime.compute(stop)

    run_limited(main)


def test_a_failure_nobody_waits_for_is_logged() -> None:
    lines: list[tuple[str, str, dict[str, object]]] = []

    def log(level: str, event: str, **fields: object) -> None:
        lines.append((level, event, fields))

    async def main(runtime: RealRuntime) -> None:
        async def fail() -> None:
            raise LookupError("on purpose")

        task = runtime.spawn("flush", fail())
        while not task.done():
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    run_limited(main, log=log)
    [(level, event, fields)] = lines
    assert (level, event, fields["task"]) == ("error", "task.failed", "flush")
    assert isinstance(fields["error"], LookupError)


def test_a_failure_somebody_waits_for_is_not_logged() -> None:
    lines: list[str] = []

    async def main(runtime: RealRuntime) -> None:
        go = asyncio.Event()

        async def fail() -> None:
            await go.wait()
            raise LookupError("on purpose")

        async def wait_for_failure() -> None:
            with pytest.raises(LookupError):
                await task.wait()

        task = runtime.spawn("flush", fail())
        waiting = asyncio.create_task(wait_for_failure())
        await asyncio.sleep(0)
        go.set()
        await waiting
        await asyncio.sleep(0)

    run_limited(main, log=lambda level, event, **fields: lines.append(event))
    assert lines == []


def test_the_end_of_a_runtime_cancels_what_it_spawned() -> None:
    seen: list[str] = []

    async def main(runtime: RealRuntime) -> None:
        async def forever() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                seen.append("ended")

        runtime.spawn("forever", forever())
        await asyncio.sleep(0)

    run_limited(main)
    assert seen == ["ended"]


def test_log_lines() -> None:
    stream = io.StringIO()
    log = LineLog("info", stream, wall_micros=lambda: 1_767_225_600_123_456)
    log("debug", "too.quiet")
    log("info", "node.ready", port=9042, text='a "b"\nc', empty="", error=ValueError("bad x"))
    fields = r'port=9042 text="a \"b\"\nc" empty="" error="ValueError: bad x"'
    assert stream.getvalue() == f"2026-01-01T00:00:00.123Z info node.ready {fields}\n"
    stream.close()
    log("error", "nobody.listens")
    with pytest.raises(ValueError, match="loud"):
        LineLog("loud")


def test_stop_signals() -> None:
    async def main(runtime: RealRuntime) -> None:
        stop = process.stop_signals()
        assert not stop.received
        os.kill(os.getpid(), signal.SIGTERM)
        assert await stop.wait() == "SIGTERM"
        assert stop.received
        assert await stop.wait() == "SIGTERM"
        stop.close()

    run_limited(main)


def test_facts_of_the_process() -> None:
    assert 5e6 < process.resident_bytes() < 1e11
    assert process.resident_bytes(process.process_id()) > 5e6
    assert process.resident_bytes(2**22 + 1) == 0
    assert process.process_is_alive(process.process_id())
    assert not process.process_is_alive(2**22 + 1)
    assert process.cpu_seconds() > 0
    assert process.age_seconds() > 0


def test_a_background_runtime_serves_other_threads(tmp_path: Path) -> None:
    background = BackgroundRuntime(log_level="error")
    disk = background.runtime.disk
    path = str(tmp_path / "file")
    background.call(disk.write(path, b"data"))
    assert background.call(disk.read(path)) == b"data"

    async def elsewhere() -> bytes:
        return await background.call_from_loop(disk.read(path))

    assert asyncio.run(elsewhere()) == b"data"
    with pytest.raises(FileMissing):
        background.call(disk.read(path + "x"))

    async def inside() -> None:
        background.call(disk.read(path))

    with pytest.raises(RuntimeError, match="own thread"):
        background.call(inside())
    background.close()
    background.close()
    with pytest.raises(RuntimeError, match="closed"):
        background.call(disk.read(path))
