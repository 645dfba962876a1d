"""The same test on the real runtime and on simulated ones."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from belvedere.runtime.api import Runtime
from belvedere.runtime.real import run
from belvedere.sim.world import World

Test = Callable[[Runtime, str], Coroutine[Any, Any, None]]

RUNTIMES = ["real", "fifo-1", "random-1", "random-2", "pct-1"]


def run_test(which: str, test: Test, tmp_path: Path) -> None:
    if which == "real":

        async def main_real(runtime: Runtime) -> None:
            await test(runtime, str(tmp_path))

        run(main_real, log_level="error")
        return
    policy, seed = which.split("-")
    world = World(int(seed), policy=policy)

    async def main(world: World) -> None:
        runtime = world.boot("machine")
        await runtime.disk.make_directory("home")
        await runtime.perform(test(runtime, "home"))

    world.run(main)
    world.check_no_failures()
