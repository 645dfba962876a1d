"""Jobs on real Spark: results as they come, failures by name, nothing left running."""

import asyncio
import os
import random
import signal
import stat
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from belvedere.model.schema import Table
from belvedere.pipeline.build import build
from belvedere.pipeline.exchange import Exchange
from belvedere.pipeline.jobs import Job, JobFailed
from belvedere.pipeline.spark_runner import SparkRunner
from belvedere.pipeline.tasks import BuildTask, InputFile, TaskResult
from belvedere.runtime.real import RealRuntime, run
from tests.pipeline.kernel_world import VERSION, Shown, World, random_world
from tests.pipeline.test_in_process import Told
from tests.storage.sstable_samples import Mix, random_partitions

#: Small, so that tests beside this one have room.
SPARK = {"spark.master": "local[2]", "spark.driver.memory": "512m"}

#: Spark takes seconds to start, and a busy machine many.
pytestmark = pytest.mark.timeout(400)


def world_of(seed: int) -> tuple[World, list[InputFile]]:
    """A base of several files with views."""
    rnd = random.Random(seed)
    world = random_world(rnd)
    sources = [random_partitions(rnd, world.base, 20, 9, Mix(), 30) for _ in range(3)]
    files = [world.files.add_source(f"{number}", world.base, one) for number, one in enumerate(sources)]
    return world, files


def task_of(world: World, files: list[InputFile], max_rate: int = 0) -> BuildTask:
    views = [view.id.hex() for view in world.views]
    return BuildTask(world.schema, world.base.id.hex(), views, VERSION, files, max_rate)


class Place:
    """A runner with an exchange in a directory, and jobs whose inputs lie there."""

    def __init__(self, runtime: RealRuntime, home: Path, settings: dict[str, str], **more: Any) -> None:
        self.home = home
        self.runtime = runtime
        self.exchange = Exchange(runtime, str(home / "exchange"))
        self.runner = SparkRunner(runtime, self.exchange, settings, **more)

    async def job(self, name: str, tasks: int, max_rate: int = 0) -> tuple[World, Job]:
        world, files = world_of(len(name))
        paths = []
        for number, file in enumerate(files):
            path = self.home / f"{name}-{number}"
            path.write_bytes(world.files.files[file.path])
            paths.append(InputFile(str(path), file.size, file.crc32c))
        await self.runtime.disk.make_directory(self.exchange.job_directory(name))
        return world, Job(name, f"building {name}", [task_of(world, paths, max_rate) for _ in range(tasks)])


def on_spark(
    test: Callable[[Place], Awaitable[None]], home: Path, settings: dict[str, str] | None = None, **more: Any
) -> None:
    async def main(runtime: RealRuntime) -> None:
        place = Place(runtime, home, settings or SPARK, **more)
        await place.exchange.open()
        try:
            await test(place)
        finally:
            await place.runner.stop()

    run(main, log_level="error")


def descendants() -> set[int]:
    """All that this process started, and what those started, as far as they live."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        more = children.get(waiting.pop(), [])
        found.update(more)
        waiting += more
    return found


async def gone(processes: set[int]) -> bool:
    """Whether none of them is left after a while."""
    for _ in range(100):
        if not any(Path(f"/proc/{one}").exists() for one in processes):
            return True
        await asyncio.sleep(0.1)
    return False


def test_a_session_does_jobs_survives_their_failures_and_leaves_nothing(tmp_path: Path) -> None:
    before = descendants()

    async def test(place: Place) -> None:
        await every_task_gives_what_it_gives_here(place)
        process = place.runner._process
        await two_jobs_at_a_time(place)
        await a_damaged_input_is_named(place)
        await a_job_that_is_cancelled_ends(place)
        await who_is_told_a_result_may_refuse(place)
        assert place.runner._process is process, "kept warm through all of this"
        await a_session_that_was_killed_is_replaced(place)
        started = descendants() - before
        await place.runner.stop()
        assert await gone(started)

    on_spark(test, tmp_path)


async def every_task_gives_what_it_gives_here(place: Place) -> None:
    world, job = await place.job("whole", 5)
    told = Told()
    await place.runner.run(job, told.on_result, told.on_progress)
    assert sorted(told.results) == [0, 1, 2, 3, 4]
    paths = set()
    for result in told.results.values():
        for output in result.outputs:
            paths.add(output.path)
            world.files.files[output.path] = Path(output.path).read_bytes()
        here = performed_here(world, job.tasks[0])
        for view in world.views:
            assert await shown(place, world, view, result) == await shown(place, world, view, here)
    assert len(paths) == sum(len(result.outputs) for result in told.results.values()), "each wrote its own"
    assert told.progress == sorted(told.progress)
    assert told.progress[-1][0] == 5 * (told.progress[-1][0] // 5) > 0
    assert told.progress[-1][1] > 0


async def shown(place: Place, world: World, view: Table, result: TaskResult) -> Shown:
    """Off the loop: readers of files in memory run a loop of their own."""
    return await place.runtime.compute(lambda: world.shown(view, result.outputs))


def performed_here(world: World, task: Any) -> TaskResult:
    class Files:
        def open(self, path: str) -> Any:
            return pa.OSFile(path, "rb")

        def save(self, name: str, data: bytes) -> str:
            world.files.files[f"here/{name}"] = data
            return f"here/{name}"

        def progress(self, rows: int, size: int) -> None: ...

        def pause(self, seconds: float) -> None: ...

    return build(task, Files())


async def two_jobs_at_a_time(place: Place) -> None:
    one, other = Told(), Told()
    (_, first), (_, second) = await place.job("first", 3), await place.job("second", 3)
    await asyncio.gather(
        place.runner.run(first, one.on_result, one.on_progress),
        place.runner.run(second, other.on_result, other.on_progress),
    )
    assert sorted(one.results) == sorted(other.results) == [0, 1, 2]


async def a_damaged_input_is_named(place: Place) -> None:
    _, job = await place.job("damaged", 2)
    damaged = Path(job.tasks[0].inputs[1].path)  # type: ignore[union-attr]
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    told = Told()
    with pytest.raises(JobFailed) as failed:
        await place.runner.run(job, told.on_result, told.on_progress)
    assert str(failed.value).startswith("building damaged: ")
    assert str(damaged) in str(failed.value)
    assert "checksum" in str(failed.value)
    assert "\n" not in str(failed.value)


async def a_job_that_is_cancelled_ends(place: Place) -> None:
    # One row a second: it would take minutes.
    _, job = await place.job("cancelled", 4, max_rate=1)
    told = Told()
    running = asyncio.ensure_future(place.runner.run(job, told.on_result, told.on_progress))
    while not told.progress or told.progress[-1][0] == 0:
        await asyncio.sleep(0.05)
    running.cancel()
    began = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert time.monotonic() - began < 19, "it was stopped, not killed with all of Spark"
    await place.exchange.discard(job.id)
    assert told.results == {}
    # And what comes next has the room that it had.
    _, again = await place.job("after", 2)
    await place.runner.run(again, told.on_result, told.on_progress)
    assert sorted(told.results) == [0, 1]
    assert not (place.home / "exchange" / "cancelled").exists()


async def who_is_told_a_result_may_refuse(place: Place) -> None:
    _, job = await place.job("refused", 3)

    async def refuse(number: int, result: TaskResult) -> None:
        raise ValueError("no more of this")

    with pytest.raises(ValueError, match="no more of this"):
        await place.runner.run(job, refuse, Told().on_progress)


async def a_session_that_was_killed_is_replaced(place: Place) -> None:
    _, job = await place.job("interrupted", 3, max_rate=1)
    told = Told()
    running = asyncio.ensure_future(place.runner.run(job, told.on_result, told.on_progress))
    while not told.progress or told.progress[-1][0] == 0:
        await asyncio.sleep(0.05)
    process = place.runner._process
    assert process is not None
    os.kill(process._process.id, signal.SIGKILL)
    with pytest.raises(JobFailed, match="building interrupted: Spark ended in the middle of it: killed by"):
        await running
    _, again = await place.job("replaced", 2)
    await place.runner.run(again, told.on_result, told.on_progress)
    assert sorted(told.results) == [0, 1]


def test_it_is_let_go_when_it_is_not_needed(tmp_path: Path) -> None:
    before = descendants()

    async def test(place: Place) -> None:
        _, job = await place.job("only", 1)
        told = Told()
        await place.runner.run(job, told.on_result, told.on_progress)
        assert descendants() - before
        for _ in range(200):
            if not descendants() - before:
                break
            await asyncio.sleep(0.1)
        assert not descendants() - before

    on_spark(test, tmp_path, kept_warm=0.3)


@pytest.mark.parametrize(
    ("java", "message"),
    [
        (None, "JAVA_HOME names no Java"),
        ("echo 'openjdk version \"11.0.2\" 2019-01-15' >&2", "is Java 11: install a newer one"),
        ("exit 1", "does not say its version"),
    ],
)
def test_java_that_will_not_do_is_told(
    java: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    if java is not None:
        command = home / "bin" / "java"
        command.write_text(f"#!/bin/sh\n{java}\n")
        command.chmod(command.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("JAVA_HOME", str(home))

    async def test(place: Place) -> None:
        _, job = await place.job("never", 1)
        with pytest.raises(JobFailed, match="building never: Spark needs Java 17 or newer") as failed:
            await place.runner.run(job, Told().on_result, Told().on_progress)
        assert message in str(failed.value)

    on_spark(test, tmp_path)


def test_a_spark_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        _, job = await place.job("never", 1)
        with pytest.raises(JobFailed, match="Spark could not be started at nonsense"):
            await place.runner.run(job, Told().on_result, Told().on_progress)

    on_spark(test, tmp_path, {**SPARK, "spark.master": "nonsense"})


def test_a_heap_that_is_too_small_is_told(tmp_path: Path) -> None:
    async def test(place: Place) -> None:
        _, job = await place.job("never", 1)
        with pytest.raises(JobFailed, match="memory"):
            await place.runner.run(job, Told().on_result, Told().on_progress)

    on_spark(test, tmp_path, {**SPARK, "spark.driver.memory": "64m"})
