"""What nodes and jobs hand each other, on the real runtime and on simulated ones."""

import contextlib
import errno
import os
import threading
import time
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from belvedere.pipeline import exchange as exchange_module
from belvedere.pipeline.exchange import Exchange
from belvedere.runtime.api import Runtime
from belvedere.runtime.errors import FileMissing
from belvedere.runtime.plain_files import PlainFiles
from belvedere.runtime.real import RealRuntime, run
from belvedere.storage import linking
from tests.pipeline.fake_tasks import FACTS
from tests.pipeline.on_runtime import RUNTIMES, run_test

SOME = msgspec.structs.replace(FACTS, size=3, crc32c=7)


@pytest.mark.parametrize("which", RUNTIMES)
def test_published_files_outlive_their_names(which: str, tmp_path: Path) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        disk = runtime.disk
        exchange = Exchange(runtime, f"{home}/exchange")
        await exchange.open()
        for tablet in "ab":
            await disk.make_directory(f"{home}/{tablet}")
            await disk.write(f"{home}/{tablet}/000001.parquet", tablet.encode() * 3)
        first = await exchange.publish("job-1", [(f"{home}/a/000001.parquet", SOME)])
        second = await exchange.publish("job-1", [(f"{home}/{name}/000001.parquet", SOME) for name in "ab"])
        published = first + second
        assert len({file.path for file in published}) == 3
        assert {(file.size, file.crc32c) for file in published} == {(3, 7)}
        for tablet in "ab":
            await disk.remove(f"{home}/{tablet}/000001.parquet")
        assert [await disk.read(file.path) for file in published] == [b"aaa", b"aaa", b"bbb"]
        await exchange.discard("job-1")
        assert await disk.list(exchange.directory) == []
        await exchange.discard("job-1")

    run_test(which, test, tmp_path)


@pytest.mark.parametrize("which", RUNTIMES)
def test_only_what_is_kept_outlives_a_restart(which: str, tmp_path: Path) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        before = Exchange(runtime, f"{home}/deep/exchange")
        await before.open()
        for name in ("job-1", "load-1", "load-2"):
            await runtime.disk.make_directory(before.job_directory(name))
            await runtime.disk.write(f"{before.job_directory(name)}/file", b"x")
        after = Exchange(runtime, f"{home}/deep/exchange")
        await after.open(keep={"load-1", "load-3"})
        assert await runtime.disk.list(after.directory) == ["load-1"]
        assert await runtime.disk.read(f"{after.job_directory('load-1')}/file") == b"x"

    run_test(which, test, tmp_path)


@pytest.mark.parametrize("which", RUNTIMES)
def test_what_is_not_there_cannot_be_published(which: str, tmp_path: Path) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        exchange = Exchange(runtime, f"{home}/exchange")
        await exchange.open()
        with pytest.raises(FileMissing):
            await exchange.publish("job-1", [(f"{home}/absent", SOME)])
        assert await exchange.publish("job-2", []) == []
        for name in ("", ".", "..", "a/b", "../a"):
            with pytest.raises(ValueError, match="no name"):
                exchange.job_directory(name)

    run_test(which, test, tmp_path)


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP])
def test_files_are_copied_where_links_are_impossible(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, target: str) -> NoReturn:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(linking, "COPY_BYTES", 10)

    async def test(runtime: Runtime, home: str) -> None:
        exchange = Exchange(runtime, f"{home}/exchange")
        await exchange.open()
        data = bytes(range(95))
        await runtime.disk.write(f"{home}/file", data)
        (one,) = await exchange.publish("job-1", [(f"{home}/file", SOME)])
        (two,) = await exchange.publish("job-1", [(f"{home}/file", SOME)])
        assert one.path != two.path
        assert await runtime.disk.read(one.path) == await runtime.disk.read(two.path) == data
        assert os.stat(one.path).st_nlink == 1

    run_test("real", test, tmp_path)


def test_a_task_that_still_writes_does_not_bring_its_job_back(tmp_path: Path) -> None:
    """As Spark's workers do for a moment after their job was cancelled."""
    ended = threading.Event()

    def straggle(directory: str) -> None:
        files = PlainFiles(f"{directory}/attempt-1")
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            with contextlib.suppress(FileNotFoundError):  # it is told that nobody wants them
                files.save(os.urandom(4).hex(), b"x")
        ended.set()

    async def test(runtime: Runtime, home: str) -> None:
        exchange = Exchange(runtime, f"{home}/exchange")
        for number in range(3):
            ended.clear()
            job = f"job-{number}"
            await runtime.disk.make_directory(exchange.job_directory(job))
            threading.Thread(target=straggle, args=(exchange.job_directory(job),)).start()
            await runtime.clock.sleep(0.1)
            await exchange.discard(job)
            await runtime.compute(ended.wait)
            assert await runtime.disk.list(exchange.directory) == []

    run_test("real", test, tmp_path)


def test_a_job_that_does_not_go_is_told(tmp_path: Path) -> None:
    told: list[tuple[str, str, object]] = []

    async def main(runtime: RealRuntime) -> None:
        exchange = Exchange(runtime, str(tmp_path / "exchange"))
        await exchange.open()
        await runtime.disk.make_directory(exchange.job_directory("job-1"))
        await runtime.disk.write(f"{exchange.job_directory('job-1')}/file", b"x")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runtime.disk, "remove_tree", nothing_removed)
            patch.setattr(runtime, "log", lambda level, event, **more: told.append((level, event, more)))
            patch.setattr(exchange_module, "_PAUSE", 0)
            await exchange.discard("job-1")
            assert told == [
                ("warning", "exchange.still_written_to", {"path": exchange.job_directory("job-1")})
            ]
        await exchange.discard("job-1")
        assert len(told) == 1

    async def nothing_removed(path: str) -> None:
        return None

    run(main)
