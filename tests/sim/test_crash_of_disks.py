"""What a crash leaves on a simulated disk: all that was synced, and any part of what was not."""

import asyncio
import collections
import random
from collections.abc import Callable, Coroutine

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.runtime.errors import DiskBroken, DiskFull, FileMissing, ReadOnlyDisk
from belvedere.sim.filesystem import FileSystem, Resize, Write
from belvedere.sim.incarnation import MachineCrashed
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.world import World

SEEDS = range(60)


def after_crash(
    seed: int,
    work: Callable[[SimRuntime], Coroutine[None, None, None]],
    path: str,
    *,
    lose_unsynced: bool = True,
) -> bytes | None:
    """The file's content after `work` and a crash; None when it is gone."""

    async def main(world: World) -> bytes | None:
        runtime = world.boot("machine")
        await runtime.perform(work(runtime))
        world.crash("machine", lose_unsynced=lose_unsynced)
        runtime = world.boot("machine")
        return await runtime.disk.read(path) if await runtime.disk.exists(path) else None

    return World(seed).run(main)


async def durable_file(runtime: SimRuntime, content: bytes = b"", **options: int) -> None:
    await runtime.disk.make_directory("d")
    file = await runtime.disk.append("d/f", **options)
    await runtime.disk.sync_directory("d")
    await file.write_and_sync(content)
    await file.close()


def test_what_was_synced_is_kept() -> None:
    async def work(runtime: SimRuntime) -> None:
        await durable_file(runtime, b"one")
        file = await runtime.disk.append("d/f")
        await file.write(b"two")
        await file.write(b"three")
        await file.sync()
        await file.write_and_sync(b"four")

    for seed in SEEDS:
        assert after_crash(seed, work, "d/f") == b"onetwothreefour"


def test_what_was_not_synced_is_kept_lost_or_torn() -> None:
    page = 4096
    outcomes: collections.Counter[str] = collections.Counter()

    async def work(runtime: SimRuntime) -> None:
        await durable_file(runtime, b"s" * 100, preallocate=16 * page)
        file = await runtime.disk.append("d/f", position=100)
        await file.write(b"x" * (8 * page))

    for seed in SEEDS:
        content = after_crash(seed, work, "d/f")
        assert content is not None
        assert len(content) == 16 * page
        assert content[:100] == b"s" * 100
        written = content[100 : 100 + 8 * page].count(b"x")
        assert content.count(b"x") + 100 + content.count(b"\0") == 16 * page
        outcomes["kept" if written == 8 * page else "lost" if written == 0 else "torn"] += 1
    assert outcomes["kept"] >= 3
    assert outcomes["lost"] >= 3
    assert outcomes["torn"] >= 3


def test_a_killed_process_loses_nothing_it_wrote() -> None:
    async def work(runtime: SimRuntime) -> None:
        await runtime.disk.make_directory("d")
        file = await runtime.disk.append("d/f")
        await file.write(b"written")

    for seed in SEEDS:
        assert after_crash(seed, work, "d/f", lose_unsynced=False) == b"written"


def test_names_need_their_directory_synced() -> None:
    found: collections.Counter[bytes | None] = collections.Counter()

    async def create(runtime: SimRuntime) -> None:
        await runtime.disk.make_directory("d")
        await runtime.disk.write("d/f", b"content")

    async def replace(runtime: SimRuntime) -> None:
        await create(runtime)
        await runtime.disk.sync_directory("d")
        await runtime.disk.write("d/new", b"replaced")
        await runtime.disk.rename("d/new", "d/f")

    async def replace_durably(runtime: SimRuntime) -> None:
        await replace(runtime)
        await runtime.disk.sync_directory("d")

    for seed in SEEDS:
        found[after_crash(seed, create, "d/f")] += 1
    assert {*found} == {None, b"content"}
    found.clear()
    for seed in SEEDS:
        found[after_crash(seed, replace, "d/f")] += 1
    assert {*found} == {b"content", b"replaced"}
    for seed in SEEDS:
        assert after_crash(seed, replace_durably, "d/f") == b"replaced"


def test_a_synced_rename_does_not_let_the_old_name_come_back() -> None:
    async def work(runtime: SimRuntime) -> None:
        await runtime.disk.make_directory("d")
        await runtime.disk.make_directory("e")
        await runtime.disk.write("d/f", b"moved")
        await runtime.disk.rename("d/f", "e/f")
        await runtime.disk.sync_directory("e")

    for seed in SEEDS:
        assert after_crash(seed, work, "e/f") == b"moved"
        assert after_crash(seed, work, "d/f") is None


def test_a_new_directory_is_durable_at_once() -> None:
    async def work(runtime: SimRuntime) -> None:
        await runtime.disk.make_directory("a/b/c")
        await runtime.disk.remove_tree("a/b")
        await runtime.disk.make_directory("a/b/c")
        await runtime.disk.write("a/b/c/f", b"x")
        await runtime.disk.sync_directory("a/b/c")

    for seed in SEEDS:
        assert after_crash(seed, work, "a/b/c/f") == b"x"


def test_a_sync_under_way_promises_nothing() -> None:
    found: collections.Counter[bytes | None] = collections.Counter()

    async def main(world: World) -> bytes | None:
        runtime = world.boot("machine")
        await runtime.perform(durable_file(runtime, b""))
        file = await runtime.disk.append("d/f")
        asyncio.get_running_loop().call_later(world.fault_random.random() * 4e-3, world.crash, "machine")
        try:
            await file.write_and_sync(b"data")
        except MachineCrashed:
            acknowledged = False
        else:
            acknowledged = True
            await world.sleep(0.005)
        content = world.disk("machine").peek("d/f")
        assert content == b"data" or not acknowledged
        return content

    for seed in SEEDS:
        found[World(seed).run(main)] += 1
    assert {b"", b"data"} <= {*found}


def test_full_read_only_and_broken_disks() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("machine")
        disk, faults = runtime.disk, world.disk("machine").faults
        await disk.make_directory("d")
        reserved = await disk.append("d/reserved", preallocate=100)
        faults.full = True
        await reserved.write_and_sync(b"x" * 100)
        with pytest.raises(DiskFull):
            await reserved.write(b"y")
        assert reserved.position == 100
        with pytest.raises(DiskFull):
            await disk.append("d/other", preallocate=1)
        with pytest.raises(DiskFull):
            await disk.write("d/other", b"x")
        assert await disk.free_bytes("d") == 0
        faults.full = False
        faults.capacity = 1000
        free = await disk.free_bytes("d")
        assert free == 900
        with pytest.raises(DiskFull):
            await disk.write("d/other", bytes(901))
        await disk.write("d/other", bytes(900))
        await disk.remove("d/other")
        faults.read_only = True
        for attempt in (
            disk.write("d/other", b""),
            disk.append("d/reserved"),
            disk.rename("d/reserved", "d/b"),
            disk.remove("d/reserved"),
            disk.make_directory("e"),
        ):
            with pytest.raises(ReadOnlyDisk):
                await attempt
        assert await disk.read("d/reserved") == b"x" * 100
        await disk.make_directory("d")
        faults.read_only = False
        faults.broken_reads = 1.0
        with pytest.raises(DiskBroken):
            await disk.read("d/reserved")
        faults.broken_reads = 0.0
        world.disk("machine").corrupt("d/reserved", 5, b"!")
        assert (await disk.read("d/reserved"))[:7] == b"xxxxx!x"

    World(3).run(main)


def test_after_a_failed_sync_data_is_in_memory_only() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("machine")
        await durable_file(runtime, b"good ")
        file = await runtime.disk.append("d/f")
        world.disk("machine").faults.broken_syncs = 1.0
        with pytest.raises(DiskBroken):
            await file.write_and_sync(b"lost")
        world.disk("machine").faults.broken_syncs = 0.0
        with pytest.raises(DiskBroken, match="earlier sync"):
            await file.sync()
        again = await runtime.disk.append("d/f", position=0)
        await again.sync()
        assert await runtime.disk.read("d/f") == b"good lost"
        world.crash("machine")
        assert world.disk("machine").peek("d/f") == b"good "

    for seed in range(5):
        World(seed).run(main)


def test_writes_that_queue_leave_no_hole_when_one_fails() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("machine")
        world.disk("machine").faults.capacity = 100
        file = await runtime.disk.append("f")
        results = await asyncio.gather(
            file.write(b"a" * 90),
            file.write(b"b" * 20),
            file.write_and_sync(b"c" * 10),
            return_exceptions=True,
        )
        assert [type(result) for result in results] == [type(None), DiskFull, type(None)]
        assert file.position == 100
        assert await runtime.disk.read("f") == b"a" * 90 + b"c" * 10
        world.disk("machine").faults.broken_syncs = 1.0
        results = await asyncio.gather(file.sync(), file.write(b""), return_exceptions=True)
        assert [type(result) for result in results] == [DiskBroken, DiskBroken]

    World(0, policy="fifo").run(main)


def test_locks_die_with_their_holder() -> None:
    async def main(world: World) -> None:
        first = world.boot("machine")
        await first.disk.lock("lock")
        world.crash("machine", lose_unsynced=False)
        second = world.boot("machine")
        await second.disk.lock("lock")

    World(0).run(main)


# A dumb twin: a dictionary of paths to content, and what of it was made durable. Directories are few and
# fixed; whatever happens, what the twin knows to be durable must come back after the crash.

NAMES = ["d/a", "d/b", "e/a"]
names = st.sampled_from(NAMES)
operations = st.one_of(
    st.tuples(st.just("write"), names, st.integers(0, 40), st.binary(min_size=1, max_size=20)),
    st.tuples(st.just("resize"), names, st.integers(0, 60)),
    st.tuples(st.just("sync"), names),
    st.tuples(st.just("rename"), names, names),
    st.tuples(st.just("remove"), names),
    st.tuples(st.just("sync_directories")),
)


@given(st.lists(operations, max_size=30), st.integers(0, 2**32))
def test_reads_agree_with_a_dictionary_and_synced_state_survives(steps: list[tuple], seed: int) -> None:  # type: ignore[type-arg]
    files = FileSystem()
    files.make_directory("d")
    files.make_directory("e")
    twin: dict[str, bytearray] = {}
    for step in steps:
        match step:
            case ("write", name, offset, data):
                files.create(name).change(Write(offset, data))
                content = twin.setdefault(name, bytearray())
                content.extend(bytes(max(0, offset - len(content))))
                content[offset : offset + len(data)] = data
            case ("resize", name, length):
                files.create(name).change(Resize(length))
                content = twin.setdefault(name, bytearray())
                twin[name] = bytearray(content[:length].ljust(length, b"\0"))
            case ("sync", name) if name in twin:
                files.file(name).make_durable(files.file(name).changes)
            case ("rename", source, target) if source in twin:
                files.rename(source, target)
                if source != target:
                    twin[target] = twin.pop(source)
            case ("remove", name):
                if name in twin:
                    files.remove(name)
                    del twin[name]
                else:
                    with pytest.raises(FileMissing):
                        files.remove(name)
            case ("sync_directories",):
                files.sync_directory("d")
                files.sync_directory("e")
    assert {name: bytes(files.file(name).content) for name in NAMES if files.find(name)} == twin
    for file in files.every_file():
        file.make_durable(file.changes)
    files.sync_directory("d")
    files.sync_directory("e")
    files.crash(random.Random(seed))
    assert {name: bytes(files.file(name).content) for name in NAMES if files.find(name)} == twin


@given(st.lists(operations, max_size=30), st.integers(0, 2**32))
def test_every_byte_after_a_crash_was_there_at_some_time(steps: list[tuple], seed: int) -> None:  # type: ignore[type-arg]
    """Nothing is made up: each name holds a file that some operation put there, each byte was written or is
    the zero of a hole, and a name whose directory was synced last of all is what it was."""
    files = FileSystem()
    files.make_directory("d")
    files.make_directory("e")
    ever: dict[str, dict[int, None]] = {name: {} for name in NAMES}
    for step in steps:
        match step:
            case ("write", name, offset, data):
                files.create(name).change(Write(offset, data))
            case ("rename", source, target) if files.find(source):
                files.rename(source, target)
            case ("remove", name) if files.find(name):
                files.remove(name)
            case ("sync", name) if files.find(name):
                files.file(name).make_durable(files.file(name).changes)
        for name in NAMES:
            if node := files.find(name):
                ever[name][node.number] = None
    files.crash(random.Random(seed))
    for name in NAMES:
        if node := files.find(name):
            assert node.number in ever[name]
            assert not files.file(name).unsynced
            assert files.file(name).content == files.file(name).durable
