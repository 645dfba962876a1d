"""The node's side of its Spark driver, with drivers that are played and do not say what they must."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence

import pytest

from belvedere.pipeline.spark_process import SparkProcess
from belvedere.runtime.errors import ProcessGone
from belvedere.runtime.real import RealRuntime, run
from belvedere.runtime.real_process import RealProcess

READY = '{"type": "ready", "spark_version": "4"}'


def with_driver(says: Sequence[str], test: Callable[[RealRuntime], Awaitable[None]]) -> None:
    """One that answers each line that it hears with the next of these, and then waits for its end."""
    source = f"import sys\nfor line, heard in zip({list(says)!r}, sys.stdin): print(line, flush=True)\n"
    command = [sys.executable, "-c", source + "sys.stdin.read()"]

    async def main(runtime: RealRuntime) -> None:
        start = runtime.start_process

        async def played(arguments: Sequence[str], environment: Mapping[str, str]) -> RealProcess:
            return await start(command, environment)

        runtime.start_process = played  # type: ignore[method-assign]
        await test(runtime)

    run(main, log_level="error")


@pytest.mark.parametrize("line", ["nonsense", '{"type": "ended"}', "{}"])
def test_a_line_that_is_not_understood_ends_all_jobs(line: str) -> None:
    async def test(runtime: RealRuntime) -> None:
        process = await SparkProcess.start(runtime, {})
        one = await process.begin("one", "nowhere", 1)
        other = await process.begin("other", "nowhere", 1)
        async with asyncio.timeout(20):
            for end in (one, other):
                why = await end
                assert why is not None
                assert why.startswith(
                    "Spark ended in the middle of it: its driver said what is not understood"
                )
        assert not process.runs
        with pytest.raises(ProcessGone):
            await process.begin("later", "nowhere", 1)
        async with asyncio.timeout(20):
            await process.end()

    with_driver([READY, line], test)


def test_a_driver_that_does_not_begin_as_it_must_is_none() -> None:
    async def test(runtime: RealRuntime) -> None:
        with pytest.raises(ProcessGone, match="Spark could not be started: its driver said what is not"):
            await SparkProcess.start(runtime, {})

    with_driver(["nonsense"], test)
