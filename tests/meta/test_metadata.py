"""A node's view of the metadata: it follows, commits exactly once, and survives what stores do."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from belvedere.meta.memory import MemoryStore
from belvedere.meta.metadata import Metadata, Proposal
from belvedere.meta.state import ClusterState
from belvedere.meta.store import (
    Absent,
    Change,
    Committed,
    Loaded,
    OutcomeUnknown,
    Put,
    Refused,
    StoreUnavailable,
    Transaction,
    Unchanged,
)
from belvedere.runtime.api import Runtime
from belvedere.sim.world import World
from tests.meta.slow_store import SlowStore

Test = Callable[[Runtime], Coroutine[Any, Any, None]]


@pytest.fixture(params=[("fifo", 1), ("random", 2), ("pct", 3)], ids=lambda p: f"{p[0]}-{p[1]}")
def simulated(request: pytest.FixtureRequest) -> Callable[[Test], World]:
    def run_test(test: Test) -> World:
        policy, seed = request.param
        world = World(seed, policy=policy)

        async def main(world: World) -> None:
            runtime = world.boot("machine")
            await runtime.perform(test(runtime))

        world.run(main)
        return world

    return run_test


class BadStore:
    """A memory store that fails as told: `failures` holds what happens to the coming calls of commit."""

    def __init__(self, inner: MemoryStore) -> None:
        self.inner = inner
        self.failures: list[str] = []
        self.away = False

    async def load(self) -> Loaded:
        return await self.inner.load()

    async def commit(self, transaction: Transaction) -> Committed | Refused:
        failure = self.failures.pop(0) if self.failures else ""
        if failure == "unavailable":
            raise StoreUnavailable("away")
        if failure == "lost":
            raise OutcomeUnknown("cut off before")
        outcome = await self.inner.commit(transaction)
        if failure == "landed":
            raise OutcomeUnknown("cut off after")
        return outcome

    async def changes_since(self, revision: int) -> list[Change]:
        if self.away:
            raise StoreUnavailable("away")
        return await self.inner.changes_since(revision)

    async def wait_beyond(self, revision: int) -> None:
        if self.away:
            raise StoreUnavailable("away")
        await self.inner.wait_beyond(revision)

    async def close(self) -> None:
        await self.inner.close()


def increment(key: str = "n") -> Callable[[ClusterState], Proposal]:
    def propose(state: ClusterState) -> Proposal:
        entry = state.entries.get(key)
        held = Absent(key) if entry is None else Unchanged(key, entry.revision)
        return (held,), (Put(key, b"%d" % (1 + (0 if entry is None else int(entry.value)))),)

    return propose


def count(metadata: Metadata, key: str = "n") -> int:
    entry = metadata.state.entries.get(key)
    return 0 if entry is None else int(entry.value)


async def started(runtime: Runtime, store: Any) -> Metadata:
    metadata = Metadata(runtime, store)
    await metadata.start()
    return metadata


async def until(runtime: Runtime, condition: Callable[[], bool]) -> None:
    while not condition():
        await runtime.clock.sleep(0.01)


def test_commits_are_in_the_state_on_return(simulated: Callable[[Test], World]) -> None:
    async def test(runtime: Runtime) -> None:
        metadata = await started(runtime, MemoryStore())
        state = await metadata.commit(increment())
        assert state.entries["n"].value == b"1"
        assert metadata.state is state
        assert (await metadata.commit(lambda state: None)) is state
        await metadata.stop()

    simulated(test)


def test_many_committers_on_two_nodes_lose_nothing(simulated: Callable[[Test], World]) -> None:
    async def test(runtime: Runtime) -> None:
        store = SlowStore(runtime, MemoryStore())
        nodes = [await started(runtime, store) for _ in range(2)]
        await asyncio.gather(*(node.commit(increment()) for node in nodes * 60))
        await until(runtime, lambda: all(count(node) == 120 for node in nodes))
        assert nodes[0].state.revision == 120
        for node in nodes:
            await node.stop()

    simulated(test)


def test_every_listener_hears_every_revision_in_order(simulated: Callable[[Test], World]) -> None:
    async def test(runtime: Runtime) -> None:
        store = MemoryStore()
        writer, reader = [await started(runtime, store) for _ in range(2)]
        heard: list[tuple[int, int]] = []

        def broken(before: ClusterState, after: ClusterState) -> None:
            raise RuntimeError("a bug")

        reader.listen(broken)
        reader.listen(lambda before, after: heard.append((before.revision, after.revision)))
        await asyncio.gather(*(writer.commit(increment(str(key))) for key in range(20)))
        await reader.catch_up(20)
        assert heard == [(revision, revision + 1) for revision in range(20)]
        await writer.stop()
        await reader.stop()

    assert any("a bug" in line for line in map(str, simulated(test).log_lines))


def test_catching_up_waits_for_the_revision(simulated: Callable[[Test], World]) -> None:
    async def test(runtime: Runtime) -> None:
        store = MemoryStore()
        writer, reader = [await started(runtime, store) for _ in range(2)]
        waiting = asyncio.gather(*(reader.catch_up(revision) for revision in (3, 1, 2)))
        for _ in range(3):
            await writer.commit(increment())
        await waiting
        assert reader.state.revision == 3
        await writer.stop()
        await reader.stop()

    simulated(test)


class CountingStore(SlowStore):
    """Slow, and counts who asks for changes; `broken` calls fail."""

    def __init__(self, runtime: Runtime, inner: MemoryStore) -> None:
        super().__init__(runtime, inner)
        self.asked = 0
        self.broken = 0

    async def changes_since(self, revision: int) -> list[Change]:
        self.asked += 1
        if self.broken:
            self.broken -= 1
            await self._pause()
            raise StoreUnavailable("away")
        return await super().changes_since(revision)

    async def wait_beyond(self, revision: int) -> None:
        await asyncio.get_running_loop().create_future()


def test_all_who_look_at_once_share_a_look_that_began_after_they_came(
    simulated: Callable[[Test], World],
) -> None:
    async def test(runtime: Runtime) -> None:
        inner = MemoryStore()
        store = CountingStore(runtime, inner)
        reader, writer = await started(runtime, store), await started(runtime, inner)
        for wave in range(1, 20):
            store.asked = 0

            async def look(number: int) -> None:
                await runtime.clock.sleep(0.001 * number)
                await writer.commit(increment())
                newest = writer.state.revision
                await reader.refresh()
                assert reader.state.revision >= newest

            await asyncio.gather(*(look(number % 3) for number in range(50)))
            assert 1 <= store.asked <= 8, wave
        await reader.stop()
        await writer.stop()

    simulated(test)


def test_a_look_that_failed_is_not_taken_for_one(simulated: Callable[[Test], World]) -> None:
    async def test(runtime: Runtime) -> None:
        inner = MemoryStore()
        store = CountingStore(runtime, inner)
        reader, writer = await started(runtime, store), await started(runtime, inner)
        await writer.commit(increment())
        store.broken = 2
        looks = await asyncio.gather(*(reader.refresh() for _ in range(5)), return_exceptions=True)
        assert [type(one) for one in looks].count(StoreUnavailable) == 2
        assert reader.state.revision == writer.state.revision
        assert store.asked == 3
        await reader.stop()
        await writer.stop()

    simulated(test)


@pytest.mark.parametrize(
    "failures", [["landed"], ["lost"], ["lost", "landed", "lost"], ["landed", "lost"] * 2]
)
def test_an_unknown_outcome_is_found_out(simulated: Callable[[Test], World], failures: list[str]) -> None:
    async def test(runtime: Runtime) -> None:
        store = BadStore(MemoryStore())
        metadata = await started(runtime, store)
        store.failures = list(failures)
        await metadata.commit(increment())
        assert count(metadata) == 1
        assert store.inner._revision == 1
        await metadata.stop()

    simulated(test)


def test_an_outcome_that_stays_unknown_is_reported_as_such(simulated: Callable[[Test], World]) -> None:
    async def test(runtime: Runtime) -> None:
        store = BadStore(MemoryStore())
        metadata = await started(runtime, store)
        store.failures = ["landed"] + ["lost"] * 9
        with pytest.raises(OutcomeUnknown):
            await metadata.commit(increment())
        # It had landed, and the node learns of it as of any other change.
        await until(runtime, lambda: count(metadata) == 1)
        await metadata.stop()

    simulated(test)


def test_an_unavailable_store_changes_nothing(simulated: Callable[[Test], World]) -> None:
    async def test(runtime: Runtime) -> None:
        store = BadStore(MemoryStore())
        metadata = await started(runtime, store)
        store.failures = ["unavailable"]
        with pytest.raises(StoreUnavailable):
            await metadata.commit(increment())
        assert store.inner._revision == 0
        await metadata.commit(increment())
        assert count(metadata) == 1
        await metadata.stop()

    simulated(test)


def test_a_change_that_cannot_be_seen_is_not_called_refused(simulated: Callable[[Test], World]) -> None:
    async def test(runtime: Runtime) -> None:
        store = BadStore(MemoryStore())
        metadata = await started(runtime, store)
        store.away = True
        with pytest.raises(OutcomeUnknown):
            await metadata.commit(increment())
        store.away = False
        await until(runtime, lambda: count(metadata) == 1)
        await metadata.stop()

    simulated(test)


def test_a_node_that_was_away_follows_again(simulated: Callable[[Test], World]) -> None:
    async def test(runtime: Runtime) -> None:
        inner = MemoryStore(history=2)
        store = BadStore(inner)
        writer, reader = await started(runtime, inner), await started(runtime, store)
        heard: list[tuple[int, int]] = []
        reader.listen(lambda before, after: heard.append((before.revision, after.revision)))
        store.away = True
        await writer.commit(increment())
        await until(runtime, lambda: reader.state.revision < writer.state.revision)
        for _ in range(9):
            await writer.commit(increment())
        await runtime.clock.sleep(5)
        store.away = False
        # What it missed is no longer kept: it loads the whole store.
        await until(runtime, lambda: count(reader) == 10)
        assert heard[-1][1] == 10
        await writer.commit(increment())
        await until(runtime, lambda: count(reader) == 11)
        assert [before for before, _ in heard[1:]] == [after for _, after in heard[:-1]]
        await writer.stop()
        await reader.stop()

    simulated(test)


def test_a_refusal_by_the_proposal_reaches_the_caller(simulated: Callable[[Test], World]) -> None:
    async def test(runtime: Runtime) -> None:
        metadata = await started(runtime, MemoryStore())

        def refuse(state: ClusterState) -> Proposal:
            raise ValueError("not like this")

        with pytest.raises(ValueError, match="not like this"):
            await metadata.commit(refuse)
        assert metadata.state.revision == 0
        await metadata.stop()

    simulated(test)


def test_a_refusal_is_never_due_to_an_old_state(simulated: Callable[[Test], World]) -> None:
    async def test(runtime: Runtime) -> None:
        store = MemoryStore()
        writer, reader = await started(runtime, store), await started(runtime, SlowStore(runtime, store))

        def needs_it(state: ClusterState) -> Proposal | None:
            if "n" not in state.entries:
                raise ValueError("there is no n")
            return None if state.entries["n"].value >= b"2" else increment()(state)

        await writer.commit(increment())
        # Another client was told of the change; this node has not heard of it yet.
        assert count(reader) == 0
        await reader.commit(needs_it)
        assert count(reader) == 2
        await writer.stop()
        await reader.stop()

    simulated(test)
