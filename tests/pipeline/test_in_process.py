"""Jobs performed by the node itself, on the real runtime and on simulated ones."""

import asyncio
import threading
import time
from pathlib import Path

import pytest

from belvedere.pipeline.exchange import Exchange
from belvedere.pipeline.in_process import InProcessRunner
from belvedere.pipeline.jobs import JobFailed
from belvedere.pipeline.tasks import InputFile, Task, TaskFiles, TaskResult
from belvedere.runtime.api import Runtime
from belvedere.runtime.errors import DiskFull
from belvedere.sim.world import World
from tests.pipeline.fake_tasks import FACTS, copying, job_of, perform_fake
from tests.pipeline.on_runtime import RUNTIMES, run_test


async def opened(runtime: Runtime, home: str, files: int) -> tuple[Exchange, list[InputFile]]:
    """An exchange, and files published for job-1."""
    exchange = Exchange(runtime, f"{home}/exchange")
    await exchange.open()
    for number in range(files):
        await runtime.disk.write(f"{home}/{number}", b"content %d" % number)
    return exchange, await exchange.publish("job-1", [(f"{home}/{n}", FACTS) for n in range(files)])


class Told:
    """What a runner has told."""

    def __init__(self) -> None:
        self.results: dict[int, TaskResult] = {}
        self.progress: list[tuple[int, int]] = []
        self._telling = False

    async def on_result(self, number: int, result: TaskResult) -> None:
        assert number not in self.results
        assert not self._telling, "two results at a time"
        self._telling = True
        await asyncio.sleep(0)
        self._telling = False
        self.results[number] = result

    def on_progress(self, rows: int, size: int) -> None:
        self.progress.append((rows, size))


@pytest.mark.parametrize("which", RUNTIMES)
def test_every_task_is_done_once_and_its_files_are_there(which: str, tmp_path: Path) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        exchange, inputs = await opened(runtime, home, 6)
        runner = InProcessRunner(runtime, exchange, workers=3, work=perform_fake)
        tasks = [copying(number, inputs[number : number + 2]) for number in range(6)]
        told = Told()
        await runner.run(job_of(tasks), told.on_result, told.on_progress)
        assert sorted(told.results) == list(range(6))
        assert told.progress == sorted(told.progress)
        assert told.progress[-1] == (11, 11 * 9)
        paths = []
        for number, result in told.results.items():
            assert bytes(result.report) == b"%d" % number
            for offset, output in enumerate(result.outputs):
                assert await runtime.disk.read(output.path) == (b"content %d" % (number + offset))[::-1]
                assert output.path.startswith(f"{exchange.job_directory('job-1')}/attempt-{number}-")
                paths.append(output.path)
        again = Told()
        await runner.run(job_of(tasks), again.on_result, again.on_progress)
        paths += [output.path for result in again.results.values() for output in result.outputs]
        assert len(set(paths)) == 22, "nothing is ever written over"
        await runner.run(job_of([]), told.on_result, told.on_progress)
        await runner.stop()
        with pytest.raises(JobFailed, match="shutting down"):
            await runner.run(job_of(tasks), told.on_result, told.on_progress)

    run_test(which, test, tmp_path)


@pytest.mark.parametrize("which", RUNTIMES)
def test_failures_say_what_failed(which: str, tmp_path: Path) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        exchange, inputs = await opened(runtime, home, 2)
        runner = InProcessRunner(runtime, exchange, work=perform_fake)
        told = Told()
        tasks = [copying(0, inputs), copying(1, inputs, text="raise no such column")]
        with pytest.raises(JobFailed, match=r"^building ks\.view: raise no such column$"):
            await runner.run(job_of(tasks), told.on_result, told.on_progress)
        await runtime.disk.remove(inputs[0].path)
        with pytest.raises(JobFailed, match="no such file"):
            await runner.run(job_of([copying(0, inputs)]), told.on_result, told.on_progress)

        async def refuse(number: int, result: TaskResult) -> None:
            raise LookupError("the tablet is gone")

        with pytest.raises(LookupError, match="the tablet is gone"):
            await runner.run(job_of([copying(0, inputs[1:])] * 5), refuse, told.on_progress)

    run_test(which, test, tmp_path)


@pytest.mark.parametrize("which", RUNTIMES)
def test_a_rate_is_held(which: str, tmp_path: Path) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        exchange, inputs = await opened(runtime, home, 1)
        runner = InProcessRunner(runtime, exchange, workers=1, work=perform_fake)
        began = runtime.clock.monotonic()
        tasks = [copying(n, inputs, text="pace 0.1") for n in range(3)]
        told = Told()
        await runner.run(job_of(tasks), told.on_result, told.on_progress)
        assert runtime.clock.monotonic() - began >= 0.299

    run_test(which, test, tmp_path)


@pytest.mark.parametrize("end", ["cancel", "cancel twice", "stop"])
def test_what_runs_is_stopped(end: str, tmp_path: Path) -> None:
    """On the real runtime: a simulated computation takes no steps that something could come between."""
    began, ended = threading.Event(), threading.Event()

    def busy(task: Task, files: TaskFiles) -> TaskResult:
        began.set()
        try:
            while True:
                files.progress(1, 1)
        finally:
            time.sleep(0.2)
            ended.set()

    async def test(runtime: Runtime, home: str) -> None:
        exchange, inputs = await opened(runtime, home, 1)
        runner = InProcessRunner(runtime, exchange, work=busy)
        told = Told()
        running = asyncio.create_task(
            runner.run(job_of([copying(0, inputs)] * 3), told.on_result, told.on_progress)
        )
        await runtime.compute(began.wait)
        if end.startswith("cancel"):
            running.cancel()
            if end == "cancel twice":
                await asyncio.sleep(0.05)
                running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        else:
            await runner.stop()
            assert ended.is_set()
            with pytest.raises(JobFailed, match="shutting down"):
                await running
        assert ended.is_set()
        assert told.results == {}

    run_test("real", test, tmp_path)


@pytest.mark.parametrize("which", RUNTIMES[1:])
def test_cancelled_anywhere_nothing_goes_on(which: str, tmp_path: Path) -> None:
    async def test(runtime: Runtime, home: str) -> None:
        exchange, inputs = await opened(runtime, home, 2)
        tasks = [copying(number, inputs) for number in range(4)]
        reached = set()
        for wait in range(40):
            runner = InProcessRunner(runtime, exchange, work=perform_fake)
            told = Told()
            running = asyncio.create_task(runner.run(job_of(tasks), told.on_result, told.on_progress))
            await runtime.clock.sleep(wait * 0.001)
            running.cancel()
            await asyncio.wait([running])
            before = len(told.results), await runtime.disk.list(exchange.job_directory("job-1"))
            await runtime.clock.sleep(0.1)
            assert before == (len(told.results), await runtime.disk.list(exchange.job_directory("job-1")))
            reached.add(len(told.results))
        assert {0, 4} < reached

    run_test(which, test, tmp_path)


def test_a_full_disk_fails_the_job_and_the_same_seed_gives_the_same_run() -> None:
    def once(seed: int) -> tuple[str, list[str]]:
        world = World(seed)

        async def test(runtime: Runtime) -> str:
            await runtime.disk.make_directory("home")
            exchange, inputs = await opened(runtime, "home", 3)
            runner = InProcessRunner(runtime, exchange, work=perform_fake)
            told = Told()
            tasks = [copying(number, inputs) for number in range(4)]
            await runner.run(job_of(tasks), told.on_result, told.on_progress)
            world.disk("machine").faults.full = True
            with pytest.raises(JobFailed, match="no space left") as caught:
                await runner.run(job_of(tasks), told.on_result, told.on_progress)
            assert isinstance(caught.value.__cause__, DiskFull)
            return repr([(n, r.outputs) for n, r in told.results.items()])

        async def main(world: World) -> str:
            runtime = world.boot("machine")
            return await runtime.perform(test(runtime))

        return world.run(main), world.log_lines

    assert [once(seed) for seed in range(5)] == [once(seed) for seed in range(5)]
