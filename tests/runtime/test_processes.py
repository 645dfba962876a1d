"""Child processes: what the seam promises of them. There are none in simulation."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from belvedere.runtime import real_process
from belvedere.runtime.api import Process, Runtime
from belvedere.runtime.background import BackgroundRuntime
from belvedere.runtime.errors import ProcessGone
from belvedere.runtime.real import RealRuntime, run
from belvedere.sim.world import World

ECHO = """
import os, sys
for line in sys.stdin:
    if line == "die\\n":
        print("last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), 9)
    print(line.strip().upper() + os.environ.get("SUFFIX", ""), flush=True)
print("input ended", file=sys.stderr)
sys.exit(7)
"""
#: Starts a process that would live on, and tells its id.
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
sys.stdin.read()
"""
#: A node that starts an ECHO and is then killed.
NODE = f"""
import asyncio, sys
from belvedere.runtime.real import run
async def main(runtime):
    process = await runtime.start_process([sys.executable, "-c", {ECHO!r}], {{}})
    await process.write_line(b"hello")
    await process.read_line()
    print(process.id, flush=True)
    await asyncio.Event().wait()
run(main)
"""


def python(source: str) -> list[str]:
    return [sys.executable, "-c", source]


def is_alive(number: int) -> bool:
    """Zombies do not count: whether they are buried is their parent's affair."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def converse(runtime: Runtime) -> None:
    process = await runtime.start_process(python(ECHO), {"SUFFIX": "!"})
    for word in (b"one", b"two", b"x" * 1_000_000):
        await process.write_line(word)
        assert await process.read_line() == word.upper() + b"!"
    process.close_input()
    with pytest.raises(ProcessGone):
        await process.read_line()
    assert await process.wait() == 7
    assert process.last_words == ["input ended"]
    process.kill()
    assert await process.wait() == 7


def test_lines_to_and_fro() -> None:
    run(converse)


def test_lines_to_and_fro_from_a_thread_that_is_not_the_main_one() -> None:
    background = BackgroundRuntime()
    try:
        background.call(converse(background.runtime))
    finally:
        background.close()


def test_who_ends_leaves_no_pipes() -> None:
    def pipes() -> int:
        return sum(os.readlink(f"/proc/self/fd/{one}").startswith("pipe:") for one in _descriptors())

    async def main(runtime: Runtime) -> None:
        before = pipes()
        for _ in range(3):
            process = await runtime.start_process(python(ECHO), {})
            await process.write_line(b"die")
            await process.wait()
            await runtime.clock.sleep(0.1)
        assert pipes() == before

    run(main)


def _descriptors() -> list[str]:
    return [one for one in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{one}")]


def test_what_belongs_to_other_threads_is_left_alone_in_the_child() -> None:
    """As PySpark's connections do, this says good-bye when its thread's things are let go of."""
    listening, speaking = os.pipe()
    os.set_blocking(listening, False)

    class Connection:
        def __del__(self) -> None:
            os.write(speaking, b"good-bye")

    of_this_thread = threading.local()
    of_this_thread.connection = Connection()
    background = BackgroundRuntime()
    try:
        background.call(converse(background.runtime))
        with pytest.raises(BlockingIOError):
            os.read(listening, 100)
    finally:
        background.close()
        of_this_thread.__dict__.clear()
        assert os.read(listening, 100) == b"good-bye"
        os.close(listening)
        os.close(speaking)


async def write_much(process: Process) -> None:
    for _ in range(1000):
        await process.write_line(b"hello?")


def test_the_end_of_a_process_is_heard() -> None:
    async def main(runtime: Runtime) -> None:
        process = await runtime.start_process(python(ECHO), {})
        await process.write_line(b"die")
        with pytest.raises(ProcessGone, match="ended"):
            await process.read_line()
        assert await process.wait() == -signal.SIGKILL
        assert process.last_words == ["last words"]
        with pytest.raises(ProcessGone):
            await write_much(process)

    run(main)


def test_only_the_last_words_are_kept() -> None:
    async def main(runtime: Runtime) -> None:
        talk = "import sys\nfor n in range(1000): print('x' * 10_000 if n == 998 else n, file=sys.stderr)"
        process = await runtime.start_process(python(talk), {})
        assert await process.wait() == 0
        assert (len(process.last_words), process.last_words[0], process.last_words[-1]) == (100, "900", "999")
        assert process.last_words[-2] == "x" * 2000

    run(main)


def test_who_hears_gets_each_line_also_one_that_does_not_end() -> None:
    async def main(runtime: RealRuntime) -> None:
        talk = "import sys\nfor n in range(1000): print(n, file=sys.stderr)\nsys.stderr.write('the end')"
        heard: list[str] = []
        process = await runtime.start_process(python(talk), {}, hear=heard.append)
        assert await process.wait() == 0
        assert heard == [*map(str, range(1000)), "the end"]

    run(main)


def test_a_process_may_stop_when_its_input_ends() -> None:
    source = """
from belvedere.runtime.process import stop_signals
from belvedere.runtime.real import run
async def main(runtime):
    signals = stop_signals(with_input=True)
    print("ready", flush=True)
    print(await signals.wait(), flush=True)
    signals.close()
run(main)
"""

    async def main(runtime: Runtime) -> None:
        process = await runtime.start_process(python(source), {})
        assert await process.read_line() == b"ready"
        await process.write_line(b"what is said is not heard")
        process.close_input()
        assert await process.read_line() == b"end of input"
        assert await process.wait() == 0

    run(main)


def test_what_cannot_be_started_is_named() -> None:
    async def main(runtime: Runtime) -> None:
        with pytest.raises(ProcessGone, match="no-such-program could not be started: No such file"):
            await runtime.start_process(["no-such-program"], {})

    run(main)


def test_killing_takes_the_whole_group() -> None:
    async def main(runtime: Runtime) -> None:
        process = await runtime.start_process(python(PARENT), {})
        grandchild = int(await process.read_line())
        assert is_alive(grandchild)
        process.kill()
        assert await process.wait() == -signal.SIGKILL
        await runtime.compute(lambda: until(lambda: not is_alive(grandchild)))

    run(main)


def test_no_process_outlives_its_runtime() -> None:
    started: list[int] = []

    async def main(runtime: Runtime) -> None:
        process = await runtime.start_process(python(PARENT), {})
        started.extend([process.id, int(await process.read_line())])

    run(main)
    until(lambda: not any(map(is_alive, started)))


def test_a_process_whose_start_is_cancelled_does_not_run_on(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    start = real_process._start

    def watched(*given: Any) -> Any:
        process = start(*given)
        started.append(process.pid)
        return process

    monkeypatch.setattr(real_process, "_start", watched)

    async def main(runtime: Runtime) -> None:
        starting = asyncio.ensure_future(runtime.start_process(python(PARENT), {}))
        await asyncio.sleep(0)
        assert is_alive(started[0])
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await runtime.compute(lambda: until(lambda: not is_alive(started[0])))

    run(main)


def test_input_ends_when_this_process_is_killed() -> None:
    with subprocess.Popen(python(NODE), stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        child = int(node.stdout.readline())
        assert is_alive(child)
        os.kill(node.pid, signal.SIGKILL)
        until(lambda: not is_alive(child))


def test_there_are_no_processes_in_simulation() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("machine")
        with pytest.raises(ProcessGone, match="no processes in simulation"):
            await runtime.perform(runtime.start_process(["java"], {}))

    World(1).run(main)
