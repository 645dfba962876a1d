"""`belvedere views --wait`: builds watched to their end, also across a restart of the server."""

import argparse
import json
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from belvedere.cli.asking import NoAnswer, complain, connected
from belvedere.cli.view_builds import ViewBuild, Watch
from belvedere.cli.views import Rows, fetch, why_none
from belvedere.runtime.real import RealRuntime, run

#: Seconds between looks; between lines where nothing can be drawn; and that a server may be away.
_PAUSE = 0.25
_LINES_EVERY = 5.0
_AWAY = 60.0


class Display(Protocol):
    def show(self, builds: list[ViewBuild], now: float) -> None: ...
    def say(self, text: str) -> None: ...
    def close(self) -> None: ...


class Bars:
    """A progress bar for each view that there is something to wait for, on a terminal."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(24), TextColumn("{task.percentage:>3.0f}%"))
        self._progress = Progress(
            *columns, TextColumn("{task.fields[told]}"), console=console, auto_refresh=False
        )
        self._bars: dict[str, TaskID] = {}
        self._progress.start()

    def show(self, builds: list[ViewBuild], now: float) -> None:
        for build in builds:
            bar = self._bars.get(build.name)
            if bar is None and build.is_built:
                continue
            if bar is None:
                bar = self._bars[build.name] = self._progress.add_task(build.name, total=1.0, told="")
            self._progress.update(bar, completed=build.fraction, told=build.beside_bar)
        self._progress.refresh()

    def say(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self._progress.stop()


class Lines:
    """A line for each view that is not built, every few seconds."""

    def __init__(self) -> None:
        self._next = 0.0

    def show(self, builds: list[ViewBuild], now: float) -> None:
        if now >= self._next:
            self._next = now + _LINES_EVERY
            for build in builds:
                if not build.is_built:
                    self.say(f"{build.name}: {build.fraction:.0%}, {build.summary}")

    def say(self, text: str) -> None:
        print(text, flush=True)

    def close(self) -> None:
        pass


class Silence:
    """For --json: only the end counts."""

    def show(self, builds: list[ViewBuild], now: float) -> None:
        pass

    def say(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


def wait_for_views(arguments: argparse.Namespace) -> int:
    return run(lambda runtime: _Waiting(runtime, arguments).run())


class _Waiting:
    def __init__(self, runtime: RealRuntime, arguments: argparse.Namespace) -> None:
        self._runtime, self._arguments = runtime, arguments
        self._watch = Watch()
        self._display: Display | None = None
        self._rows: Rows = []
        #: When the server was heard of last.
        self._heard: float | None = None
        self._missed = False

    async def run(self) -> int:
        try:
            while True:
                try:
                    status = await self._connected()
                except NoAnswer as error:
                    await self._bear(error)
                else:
                    break
        finally:
            if self._display is not None:
                self._display.close()
        if self._arguments.json and self._rows:
            print(json.dumps({"views": self._rows}, indent=2))
        return status

    async def _connected(self) -> int:
        """Looks at the server until all is said; NoAnswer if it goes away."""
        async with connected(self._runtime, self._arguments) as client:
            while True:
                rows = await fetch(client, self._arguments.name)
                self._heard, self._missed = self._runtime.clock.monotonic(), False
                if not rows and not self._rows:
                    message, status = await why_none(client, self._arguments.name)
                    return complain(message, status)
                self._look(rows)
                if self._watch.status is not None:
                    return self._watch.status
                await self._runtime.clock.sleep(_PAUSE)

    def _look(self, rows: Rows) -> None:
        builds = [ViewBuild.of(row) for row in rows]
        self._rows = rows
        if self._display is None:
            self._display = self._chosen_display()
        self._display.show(builds, self._runtime.clock.monotonic())
        for line in self._watch.look(builds):
            self._display.say(line)

    def _chosen_display(self) -> Display:
        if self._arguments.json:
            return Silence()
        console = Console()
        return Bars(console) if console.is_terminal else Lines()

    async def _bear(self, error: NoAnswer) -> None:
        """Builds go on when a server comes back; so does who watches them."""
        now = self._runtime.clock.monotonic()
        if self._heard is None or self._display is None or now - self._heard > _AWAY:
            raise error
        if not self._missed:
            self._missed = True
            self._display.say(f"the server went away; looking for it for {_AWAY:.0f} s")
        await self._runtime.clock.sleep(1)
