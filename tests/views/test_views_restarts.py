"""What must be so after a node comes back: positions go on, builds are resumed, truncations are finished."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from belvedere.meta.memory import MemoryStore
from belvedere.sim.scenario_views import Node, creation
from belvedere.sim.world import World
from belvedere.storage.commitlog import CommitLog
from belvedere.views import build, workplace
from belvedere.views.coordinator import Coordinator, Seen
from belvedere.views.service import Views

Step = Callable[[Node], Awaitable[None]]


async def _life(world: World, store: MemoryStore, step: Step, *, close: bool = False) -> None:
    """Boot, do something, and crash: in order (`close`) or not."""
    node = Node(world, world.boot("node"), store)

    async def live() -> None:
        await node.open()
        await step(node)
        if close:
            await node.close()

    await node.runtime.perform(live())
    world.crash("node", lose_unsynced=True)


def lives(*steps: Step, close: tuple[bool, ...] = ()) -> World:
    world, store = World(3, buggify=False), MemoryStore()

    async def main(_: World) -> None:
        for index, step in enumerate(steps):
            await _life(world, store, step, close=index < len(close) and close[index])

    world.run(main)
    world.check_no_failures()
    return world


async def _write(node: Node, numbers: range) -> None:
    for k in numbers:
        await node.run(f"INSERT INTO t (k, c, v, x) VALUES ({k}, 1, {k % 5}, {k})")


async def _check(node: Node) -> None:
    await node.check()


async def _make_by_v(node: Node) -> None:
    await node.run(creation("by_v"))


async def _many(node: Node) -> None:
    await _make_by_v(node)
    await _write(node, range(200))


async def _few(node: Node) -> None:
    await _write(node, range(200, 203))
    await node.run("UPDATE t SET v = 9 WHERE k = 1 AND c = 1")


def test_images_survive_though_the_log_began_anew() -> None:
    lives(_many, _check, _few, _check, close=(True, True))


def test_that_test_would_notice_positions_that_begin_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CommitLog, "continue_after", lambda self, position: None)
    with pytest.raises(AssertionError):
        lives(_many, _check, _few, _check, close=(True, True))


def test_a_build_is_resumed_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "PAGE_ROWS", 20)
    built: list[int] = []
    original = build.build_range
    broken = True

    async def one_range_only(*arguments: Any, **options: Any) -> int:
        if broken and built:
            raise RuntimeError("stop here")
        built.append(arguments[3].id)
        return await original(*arguments, **options)

    monkeypatch.setattr(workplace, "build_range", one_range_only)
    monkeypatch.setattr(Node, "inline_rows", lambda self: 1_000_000)

    async def first(node: Node) -> None:
        await _write(node, range(100))
        with pytest.raises(Exception, match="stop here"):
            await node.run(creation("by_v") + " AND build = {'wait': 'true'}")

    async def second(node: Node) -> None:
        nonlocal broken
        broken = False
        await node.check()

    lives(first, second, _check)
    # Each of the three tablets was read once, before or after the crash.
    assert len(built) == len(set(built)) == 3


def test_a_truncation_that_a_crash_interrupts_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(self: Views, view: bytes) -> None:
        """The crash comes before the view is emptied."""

    async def first(node: Node) -> None:
        await _many(node)
        monkeypatch.setattr(Views, "_empty", nothing)
        node.runtime.spawn("truncate", _ignoring(node.run("TRUNCATE t")))
        await node.runtime.clock.sleep(1)
        assert await node.run("SELECT * FROM t") == []
        monkeypatch.undo()

    async def second(node: Node) -> None:
        await node.check()
        assert await node.run("SELECT * FROM by_v") == []

    lives(first, second)


async def _ignoring(work: Awaitable[Any]) -> None:
    await work


def test_nothing_is_done_for_what_is_not_seen() -> None:
    assert Coordinator().handle(Seen(())) == []
