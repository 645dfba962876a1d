"""Files from outside: all or nothing, in all tablets or none; staged files, which compaction leaves alone."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from belvedere.model.mutations import Mutation
from belvedere.model.rows import Row
from belvedere.model.token import token_of
from belvedere.runtime.errors import DiskError, FileMissing
from belvedere.sim.world import World
from belvedere.storage.engine import StorageEngine
from belvedere.storage.errors import CommitRefused, CommitUnknown, ForeignFile
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.reads import PartitionRead
from belvedere.storage.sstable_write import build_sstable
from belvedere.storage.tablet import TabletStore
from belvedere.storage.tablet_attach import NewFile
from tests.storage.engine_help import in_world, open_engine, small_options, store_for, write
from tests.storage.storage_model import make_table, wire_int

TABLE = make_table(clustering=False, sets=False)
OTHER = replace(TABLE, id=bytes(15) + b"o")
NOW = 1_000_000
QUIET = {"compaction": False, "memtable_bytes": 1 << 30, "segment_bytes": 1 << 20}


def row(value: bytes, timestamp: int) -> Row:
    return Row(timestamp, 0, 0, True, None, [value, b"y", b"z"])


def put(number: int, value: bytes = b"written", timestamp: int = 10) -> Mutation:
    key = wire_int(number)
    return Mutation(TABLE.id, token_of(key), key, [(b"", row(value, timestamp))])


async def made(
    runtime: Any, store: TabletStore, name: str, numbers: Iterable[int], value: bytes, timestamp: int = 20
) -> NewFile:
    """An sstable in the exchange with those of these keys that are the tablet's."""
    keys = [(token_of(wire_int(n)), wire_int(n)) for n in numbers]
    partitions = [
        StoredPartition(token, key, None, (), None, [(b"", row(value, timestamp))])
        for token, key in sorted(keys)
        if store.first_token <= token <= store.last_token
    ]
    built = build_sstable(TABLE, partitions)
    await runtime.disk.make_directory("exchange")
    path = f"exchange/{name}-{store.id}.parquet"
    await runtime.disk.write(path, built.data)
    await runtime.disk.sync_directory("exchange")
    return NewFile(path, built.facts)


async def value(engine: StorageEngine, number: int) -> bytes | None:
    key = wire_int(number)
    found = await store_for(engine, token_of(key)).read(PartitionRead(token_of(key), key, row=b""), NOW)
    return found.rows[0][1].cells[0] if found.rows else None  # type: ignore[return-value]


async def values(engine: StorageEngine, numbers: Iterable[int]) -> set[bytes | None]:
    return {await value(engine, number) for number in numbers}


async def opened(runtime: Any, tablets: int = 1, **changes: Any) -> tuple[StorageEngine, list[TabletStore]]:
    engine = await open_engine(runtime, TABLE, tablets, small_options(**{**QUIET, **changes}))
    return engine, list(engine.stores.values())


async def parts_of(
    runtime: Any, stores: Sequence[TabletStore], name: str, numbers: Iterable[int], value: bytes
) -> list[tuple[TabletStore, list[NewFile]]]:
    numbers = list(numbers)
    return [(store, [await made(runtime, store, name, numbers, value)]) for store in stores]


async def names_in(runtime: Any, store: TabletStore) -> list[str]:
    return [name for name in await runtime.disk.list(store.directory) if name.startswith("sst-")]


def run(main: Any) -> None:
    async def performed(world: World) -> None:
        runtime = world.boot("node")
        await runtime.perform(main(world, runtime))

    in_world(performed)


def test_attached_rows_are_there_and_stay() -> None:
    async def main(world: World, runtime: Any) -> None:
        engine, (store,) = await opened(runtime)
        await write(engine, put(1, timestamp=30))
        await write(engine, put(2, timestamp=10))
        new = await made(runtime, store, "a", range(5), b"loaded")
        before = store.flushed_version, store.last_version
        await store.attach([new])
        assert (store.flushed_version, store.last_version) == before
        assert await value(engine, 1) == b"written"
        assert await values(engine, (0, 2, 3, 4)) == {b"loaded"}
        # The file is linked: it is the exchange's, too.
        assert await runtime.disk.exists(new.path)
        await engine.close()
        await runtime.disk.remove_tree("exchange")
        engine, (store,) = await opened(runtime)
        assert await value(engine, 1) == b"written"
        assert await values(engine, (0, 2, 3, 4)) == {b"loaded"}
        await engine.compact(store)
        assert await values(engine, (0, 2, 3, 4)) == {b"loaded"}
        await engine.close()

    run(main)


def test_a_file_that_cannot_be_linked_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(world: World, runtime: Any) -> None:
        engine, (store,) = await opened(runtime)
        new = await made(runtime, store, "a", range(5), b"loaded")

        async def link(source: str, target: str) -> None:
            raise DiskError("invalid cross-device link", target)

        monkeypatch.setattr(runtime.disk, "link", link)
        await store.attach([new])
        await runtime.disk.remove(new.path)
        assert await values(engine, range(5)) == {b"loaded"}
        await engine.close()

    run(main)


def test_what_does_not_belong_here_is_refused() -> None:
    async def main(world: World, runtime: Any) -> None:
        engine, (first, second) = await opened(runtime, 2)
        new = await made(runtime, first, "a", range(9), b"loaded")
        with pytest.raises(ForeignFile):
            await second.attach([new])
        key = wire_int(1)
        foreign = build_sstable(OTHER, [StoredPartition(token_of(key), key, rows=[(b"", row(b"v", 1))])])
        await runtime.disk.write("exchange/b.parquet", foreign.data)
        with pytest.raises(ForeignFile):
            await store_for(engine, token_of(key)).attach([NewFile("exchange/b.parquet", foreign.facts)])
        with pytest.raises(FileMissing):
            await first.attach([new, NewFile("exchange/c.parquet", new.facts)])
        assert await names_in(runtime, first) == await names_in(runtime, second) == []
        assert await values(engine, range(9)) == {None}
        await engine.close()

    run(main)


def test_a_check_that_refuses_leaves_nothing() -> None:
    async def main(world: World, runtime: Any) -> None:
        engine, stores = await opened(runtime, 3)
        parts = await parts_of(runtime, stores, "a", range(30), b"loaded")

        def refuse() -> None:
            raise ValueError("the view was begun again")

        with pytest.raises(ValueError, match="begun again"):
            await engine.attach(parts, load="l", check=refuse)
        for store in stores:
            assert await names_in(runtime, store) == []
            assert store.attached == ()
        await engine.attach(parts, load="l")
        assert await values(engine, range(30)) == {b"loaded"}
        await engine.close()

    run(main)


def test_a_load_is_attached_once() -> None:
    async def main(world: World, runtime: Any) -> None:
        engine, stores = await opened(runtime, 2)
        parts = await parts_of(runtime, stores, "a", range(30), b"loaded")
        await engine.attach(parts[:1], load="l")
        await engine.attach(parts, load="l")
        assert [store.statistics()["files"] for store in stores] == [1, 1]
        await engine.close()
        engine, stores = await opened(runtime, 2)
        assert [store.attached for store in stores] == [("l",), ("l",)]
        await engine.attach(
            [(store, files) for store, (_, files) in zip(stores, parts, strict=True)], load="l"
        )
        assert [store.statistics()["files"] for store in stores] == [1, 1]
        for store in stores:
            await store.settle(["l"])
        await engine.close()
        engine, stores = await opened(runtime, 2)
        assert [store.attached for store in stores] == [(), ()]
        await engine.close()

    run(main)


def test_readers_see_a_load_in_all_tablets_or_in_none() -> None:
    async def main(world: World, runtime: Any) -> None:
        engine, stores = await opened(runtime, 3)
        parts = await parts_of(runtime, stores, "a", range(30), b"loaded")
        attaching = asyncio.ensure_future(engine.attach(parts, load="l"))
        seen = []
        while not attaching.done():
            # Nothing is awaited in between: what is seen is one instant.
            seen.append(tuple(store.statistics()["files"] for store in stores))
            await runtime.clock.sleep(0.0001)
        await attaching
        assert set(seen) <= {(0, 0, 0), (1, 1, 1)}
        assert len(seen) > 10
        await engine.close()

    run(main)


@pytest.mark.parametrize("broken", [0, 1, 2])
def test_when_one_tablet_refuses_no_tablet_has_it(monkeypatch: pytest.MonkeyPatch, broken: int) -> None:
    async def main(world: World, runtime: Any) -> None:
        engine, stores = await opened(runtime, 3)
        await write(engine, put(1, b"before"))
        await engine.flush()
        names = [await names_in(runtime, store) for store in stores]
        parts = await parts_of(runtime, stores, "a", range(30), b"loaded")
        real = runtime.disk.write

        async def failing(path: str, data: bytes) -> None:
            if path == f"{stores[broken].directory}/manifest.json.new":
                raise DiskError("input/output error", path)
            await real(path, data)

        monkeypatch.setattr(runtime.disk, "write", failing)
        with pytest.raises(CommitRefused):
            await engine.attach(parts, load="l")
        monkeypatch.undo()
        assert [await names_in(runtime, store) for store in stores] == names
        assert await values(engine, range(30)) == {None, b"before"}

    async def again(world: World, runtime: Any) -> None:
        engine, stores = await opened(runtime, 3)
        assert await values(engine, range(30)) == {None, b"before"}
        assert [store.attached for store in stores] == [(), (), ()]
        await engine.close()

    _two_lives(main, again)


def _two_lives(first: Any, second: Any, seed: int = 1) -> None:
    """A crash in between."""

    async def scenario(world: World) -> None:
        runtime = world.boot("node")
        await runtime.perform(first(world, runtime))
        world.crash("node")
        runtime = world.boot("node")
        await runtime.perform(second(world, runtime))

    in_world(scenario, seed)


def test_an_unknown_commit_is_settled_by_the_next_change(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(world: World, runtime: Any) -> None:
        engine, stores = await opened(runtime, 2)
        parts = await parts_of(runtime, stores, "a", range(30), b"loaded")
        real = runtime.disk.rename
        broken = True

        async def failing(source: str, target: str) -> None:
            await real(source, target)
            if broken and target.startswith(stores[1].directory):
                raise DiskError("input/output error", target)

        monkeypatch.setattr(runtime.disk, "rename", failing)
        with pytest.raises(CommitUnknown):
            await engine.attach(parts, load="l")
        assert await values(engine, range(30)) == {None}
        broken = False
        await engine.attach(parts, load="l")
        assert await values(engine, range(30)) == {b"loaded"}
        await engine.close()
        engine, stores = await opened(runtime, 2)
        assert [store.statistics()["files"] for store in stores] == [1, 1]
        assert await values(engine, range(30)) == {b"loaded"}
        await engine.close()

    run(main)


def test_it_is_carried_to_its_end_when_its_caller_goes_away() -> None:
    async def main(world: World, runtime: Any) -> None:
        engine, stores = await opened(runtime, 2)
        parts = await parts_of(runtime, stores, "a", range(30), b"loaded")
        attaching = asyncio.ensure_future(engine.attach(parts, load="l"))
        await runtime.clock.sleep(0.002)
        assert not attaching.done()
        attaching.cancel()
        await asyncio.gather(attaching, return_exceptions=True)
        for store in stores:
            await store.removals()
        assert await values(engine, range(30)) == {b"loaded"}
        await engine.close()

    run(main)


def test_staged_files_are_left_alone_until_they_are_ordinary() -> None:
    async def main(world: World, runtime: Any) -> None:
        engine, (store,) = await opened(runtime)
        for number in range(6):
            await write(engine, put(number))
            await engine.flush()
        await store.attach([await made(runtime, store, "a", range(5), b"first")], load="a", staged=True)
        await store.attach([await made(runtime, store, "b", range(4), b"second", 21)], load="b", staged=True)
        assert store.staged_loads == ("a", "b")
        assert await engine.compact(store)
        assert store.statistics()["files"] == 3
        assert await value(engine, 4) == b"first"
        with await store.snapshot() as snapshot:
            assert len(snapshot.ordinary) == 1
            assert [load for load, _, _ in snapshot.staged] == ["a", "b"]
        await engine.close()
        engine, (store,) = await opened(runtime)
        assert store.staged_loads == ("a", "b")
        await store.unstage(["a"])
        assert store.staged_loads == ("b",)
        await engine.compact(store)
        assert store.statistics()["files"] == 2
        await store.unstage(["b"])
        await engine.compact(store)
        assert store.statistics()["files"] == 1
        assert (await value(engine, 4), await value(engine, 0)) == (b"first", b"second")
        await engine.close()
        engine, (store,) = await opened(runtime)
        assert store.staged_loads == ()
        await engine.close()

    run(main)


def test_truncation_forgets_loads() -> None:
    async def main(world: World, runtime: Any) -> None:
        engine, (store,) = await opened(runtime)
        new = await made(runtime, store, "a", range(5), b"loaded")
        await store.attach([new], load="a", staged=True)
        await engine.truncate(store)
        assert (store.staged_loads, store.attached) == ((), ())
        assert await values(engine, range(5)) == {None}
        await store.attach([new], load="a", staged=True)
        assert await values(engine, range(5)) == {b"loaded"}
        await engine.close()

    run(main)


def test_a_tombstone_stays_that_deletes_rows_of_a_file_that_came_meanwhile() -> None:
    """The compaction began when nothing was as old as the tombstone. Had it gone, the row of the file would
    come back after readers (and views) had learned that it is deleted."""

    async def main(world: World, runtime: Any) -> None:
        engine, (store,) = await opened(runtime)
        key = wire_int(1)
        await write(engine, Mutation(TABLE.id, token_of(key), key, [], deletion=(50, 1)))
        await engine.flush()
        new = await made(runtime, store, "a", range(5), b"loaded", 40)
        later = 10**9
        compacting = asyncio.ensure_future(store.compact(later, everything=True))
        await runtime.clock.sleep(0)
        await store.attach([new])
        assert await value(engine, 1) is None
        await compacting
        assert await value(engine, 1) is None
        assert await store.compact(later, everything=True)
        assert await value(engine, 1) is None
        await engine.close()

    run(main)


def test_snapshots_at_one_cut_hold_a_load_whole_or_not_at_all() -> None:
    async def main(world: World, runtime: Any) -> None:
        engine, stores = await opened(runtime, 3)
        for number in range(30):
            await write(engine, put(number))
        parts = await parts_of(runtime, stores, "a", range(30), b"loaded")
        seen = set()
        for pause in range(20):
            for number in range(30):
                await write(engine, put(number, timestamp=11 + pause))

            async def attach_soon(load: str = f"l{pause}", after: float = 0.001 * pause) -> None:
                await runtime.clock.sleep(after)
                await engine.attach(parts, load=load)

            attaching = asyncio.ensure_future(attach_soon())
            versions = [store.last_version for store in stores]
            snapshots = await engine.snapshots(stores)
            counts = {sum(facts.first_version == 0 for _, facts in snapshot.files) for snapshot in snapshots}
            assert len(counts) == 1
            assert [s.version >= v for s, v in zip(snapshots, versions, strict=True)] == [True] * 3
            seen.add(counts.pop() - pause)
            for snapshot in snapshots:
                snapshot.release()
            await attaching
        assert seen == {0, 1}
        await engine.close()

    run(main)
