"""The faulty line to a simulated metadata store does what it says, and what stands on it holds."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from belvedere.meta.election import Tenure, campaign
from belvedere.meta.leases import Lease
from belvedere.meta.metadata import Metadata, Proposal
from belvedere.meta.state import ClusterState
from belvedere.meta.store import (
    Absent,
    Committed,
    LeaseGone,
    OutcomeUnknown,
    Put,
    Refused,
    StoreUnavailable,
    Unchanged,
)
from belvedere.sim.metastore import MetadataService, ServiceClient, StoreFaults
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.world import World
from tests.meta.stores import transaction


def simulate(test: Callable[[World], Coroutine[Any, Any, None]], seed: int = 1) -> World:
    world = World(seed)
    world.run(test)
    world.check_no_failures()
    return world


def one_client(
    test: Callable[[World, MetadataService, ServiceClient], Coroutine[Any, Any, None]], **faults: Any
) -> None:
    async def main(world: World) -> None:
        service = MetadataService(world, faults=StoreFaults(**faults))
        runtime = world.boot("node")
        await runtime.perform(test(world, service, service.connect(runtime)))

    simulate(main)


def test_unavailable_changes_nothing() -> None:
    async def test(world: World, service: MetadataService, store: ServiceClient) -> None:
        with pytest.raises(StoreUnavailable):
            await store.commit(transaction(Put("a", b"")))
        await asyncio.sleep(60)
        assert (await service.inner.load()).entries == {}

    one_client(test, unavailable=1.0)


def test_lost_never_lands_and_a_retry_does() -> None:
    async def test(world: World, service: MetadataService, store: ServiceClient) -> None:
        asked = transaction(Absent("a"), Put("a", b""))
        with pytest.raises(OutcomeUnknown):
            await store.commit(asked)
        await asyncio.sleep(60)
        assert (await service.inner.load()).entries == {}
        service.faults.lost = 0.0
        assert await store.commit(asked) == Committed(1)

    one_client(test, lost=1.0)


def test_landed_is_found_out_by_a_retry() -> None:
    async def test(world: World, service: MetadataService, store: ServiceClient) -> None:
        asked = transaction(Absent("a"), Put("a", b""))
        with pytest.raises(OutcomeUnknown):
            await store.commit(asked)
        assert set((await service.inner.load()).entries) == {"a"}
        service.faults.landed = 0.0
        assert await store.commit(asked) == Committed(1)

    one_client(test, landed=1.0)


def test_late_lands_after_its_sender_gave_up_unless_it_was_refused_meanwhile() -> None:
    async def test(world: World, service: MetadataService, store: ServiceClient) -> None:
        one, two = (transaction(Absent(key), Put(key, b"late")) for key in ("one", "two"))
        for asked in (one, two):
            with pytest.raises(OutcomeUnknown):
                await store.commit(asked)
        assert (await service.inner.load()).entries == {}
        service.faults.late = 0.0
        taken = await store.commit(transaction(Put("two", b"taken")))
        assert await store.commit(two) == Refused(Absent("two"), taken.revision)
        await service.inner.commit(transaction(Put("two", b"freed")))
        await asyncio.sleep(60)
        loaded = await service.inner.load()
        assert {key: entry.value for key, entry in loaded.entries.items()} == {
            "one": b"late",
            "two": b"freed",
        }
        assert (await store.commit(one)).revision <= loaded.revision

    one_client(test, late=1.0)


def test_what_was_sent_arrives_though_its_sender_died() -> None:
    async def main(world: World) -> None:
        service = MetadataService(world, faults=StoreFaults(delay=(0.5, 0.50001)))
        runtime = world.boot("node")
        runtime.spawn("commit", _commit_one(service.connect(runtime)))
        await world.sleep(0.01)
        world.crash("node")
        await world.sleep(60)
        assert set((await service.inner.load()).entries) == {"a"}

    async def _commit_one(store: ServiceClient) -> None:
        await store.commit(transaction(Put("a", b"")))
        raise AssertionError("a dead node went on")

    simulate(main)


def test_a_machine_that_is_cut_off_is_alone_with_that() -> None:
    async def main(world: World) -> None:
        service = MetadataService(world)
        runtimes = [world.boot(name) for name in ("left", "right")]
        left, right = (service.connect(runtime) for runtime in runtimes)
        waiting = asyncio.ensure_future(runtimes[0].perform(left.wait_beyond(1)))
        service.cut_off.add("left")
        for call in (left.load(), left.commit(transaction()), left.wait_beyond(0), left.grant(1)):
            with pytest.raises(StoreUnavailable):
                await runtimes[0].perform(call)
        assert isinstance(await runtimes[1].perform(right.commit(transaction(Put("a", b"")))), Committed)
        with pytest.raises(StoreUnavailable):
            await waiting
        service.cut_off.clear()
        assert set((await runtimes[0].perform(left.load())).entries) == {"a"}

    simulate(main)


def increment(state: ClusterState) -> Proposal:
    entry = state.entries.get("n")
    held = Absent("n") if entry is None else Unchanged("n", entry.revision)
    return (held,), (Put("n", b"%d" % (1 + (0 if entry is None else int(entry.value)))),)


@pytest.mark.parametrize("seed", range(10))
def test_committed_is_counted_once_refused_never_and_unknown_at_most_once(seed: int) -> None:
    outcomes: Counter[str] = Counter()

    async def work(runtime: SimRuntime, metadata: Metadata) -> None:
        for _ in range(15):
            try:
                await metadata.commit(increment)
                outcomes["committed"] += 1
            except StoreUnavailable:
                outcomes["not"] += 1
            except OutcomeUnknown:
                outcomes["unknown"] += 1

    async def main(world: World) -> None:
        service = MetadataService(
            world, faults=StoreFaults(unavailable=0.05, lost=0.05, landed=0.05, late=0.05)
        )
        nodes = []
        for name in ("a", "b", "c"):
            runtime = world.boot(name)
            metadata = Metadata(runtime, service.connect(runtime))
            while True:
                try:
                    await runtime.perform(metadata.start())
                    break
                except StoreUnavailable:
                    continue
            nodes.append((runtime, metadata))
        await asyncio.gather(*(runtime.perform(work(runtime, node)) for runtime, node in nodes))
        service.faults = StoreFaults()
        await world.sleep(60)
        loaded = await service.inner.load()
        count = int(loaded.entries["n"].value)
        assert outcomes["committed"] <= count <= outcomes["committed"] + outcomes["unknown"]
        for _, node in nodes:
            assert dict(node.state.entries) == dict(loaded.entries)

    simulate(main, seed)
    assert outcomes["committed"] > 0


@pytest.mark.parametrize("slowest", [2e-4, 8.0])
@pytest.mark.parametrize("seed", range(10))
def test_a_holder_stops_before_the_store_ends_its_lease(seed: int, slowest: float) -> None:
    """Quick answers leave only the clocks to disagree; slow ones must not be counted as the lease's time."""

    async def main(world: World) -> None:
        service = MetadataService(world, faults=StoreFaults(delay=(slowest / 2, slowest), patience=1e3))
        runtime = world.boot("node")
        store = service.connect(runtime)
        store._slowness = 1.0
        lease = await runtime.perform(Lease.take(runtime, store, 60.0))
        await world.sleep(world.fault_random.random() * 90)
        service.cut_off.add("node")
        if world.fault_random.random() < 0.5:
            world.pause("node", 30)
        while lease.valid:
            runs_out = service.inner._leases[lease.id].runs_out
            assert world.loop.time() < runs_out
            await world.sleep(0.1 if world.loop.time() < runs_out - 1 else 0.001)
        assert world.loop.time() > 20

    simulate(main, seed)


class Candidate:
    """A node that wants the office for as long as it lives."""

    def __init__(self, runtime: SimRuntime, service: MetadataService) -> None:
        self.runtime = runtime
        self.metadata = Metadata(runtime, service.connect(runtime))
        self.tenure: Tenure | None = None
        self.terms: list[int] = []

    async def live(self) -> None:
        store = self.metadata._store
        started = False
        while True:
            try:
                if not started:
                    await self.metadata.start()
                    started = True
                lease = await Lease.take(self.runtime, store, 3.0)
                self.tenure = await campaign(
                    self.runtime, self.metadata, "building", self.runtime.machine, lease
                )
                self.terms.append(self.tenure.term)
                await lease.lost()
            except (StoreUnavailable, LeaseGone):
                await self.runtime.clock.sleep(0.1)


@pytest.mark.parametrize("seed", range(25))
def test_there_is_never_a_second_leader(seed: int) -> None:
    """Clocks drift, nodes are stopped, crash and lose the store; looked at from outside at every moment."""
    leaders: list[str] = []
    terms: dict[int, str] = {}

    async def watch(world: World, candidates: dict[str, Candidate]) -> None:
        while True:
            now = {name for name, one in candidates.items() if one.tenure is not None and one.tenure.holds}
            assert len(now) <= 1, f"{now} lead at {world.loop.time()}"
            leaders.extend(now)
            for name, candidate in candidates.items():
                for term in candidate.terms:
                    assert terms.setdefault(
                        term, f"{name}#{candidate.runtime.incarnation.number}"
                    ).startswith(name)
            await world.sleep(0.001)

    async def main(world: World) -> None:
        service = MetadataService(world, faults=StoreFaults(0.03, 0.03, 0.03, 0.03, patience=1.0))
        candidates: dict[str, Candidate] = {}

        def boot(name: str) -> None:
            runtime = world.boot(name)
            candidates[name] = Candidate(runtime, service)
            runtime.spawn("candidate", candidates[name].live())

        for name in ("a", "b", "c"):
            boot(name)
        watching = asyncio.ensure_future(watch(world, candidates))
        faults = world.fault_random
        for _ in range(12):
            await world.sleep(faults.random() * 4)
            name = faults.choice(sorted(candidates))
            match faults.choice(["pause", "crash", "cut", "away", "none"]):
                case "pause":
                    world.pause(name, faults.random() * 8)
                case "crash":
                    world.crash(name)
                    del candidates[name]
                    boot(name)
                case "cut":
                    service.cut_off = {name}
                case "away":
                    service.away = True
                case _:
                    service.away = False
                    service.cut_off = set()
        # Healed, somebody leads again before long, and goes on.
        service.away, service.cut_off, service.faults = False, set(), StoreFaults()
        await world.sleep(20)
        leaders.clear()
        await world.sleep(5)
        assert len(set(leaders)) == 1
        assert len(leaders) > 4000
        watching.cancel()

    world = World(seed)
    world.run(main)
    world.check_no_failures()
    assert terms


def test_the_same_seed_gives_the_same_run() -> None:
    async def main(world: World) -> None:
        service = MetadataService(world, faults=StoreFaults(0.1, 0.1, 0.1, 0.1))
        runtimes = [world.boot(name) for name in ("a", "b")]
        for runtime in runtimes:
            runtime.spawn("candidate", Candidate(runtime, service).live())
        await world.sleep(60)

    digests = {seed: {simulate(main, seed).trace.digest for _ in range(2)} for seed in (1, 2)}
    assert all(len(found) == 1 for found in digests.values())
    assert digests[1] != digests[2]
