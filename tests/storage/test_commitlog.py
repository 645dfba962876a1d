"""The commit log in simulation: durability, replay, damage, full and broken disks."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.runtime.errors import DiskBroken
from belvedere.sim.incarnation import MachineCrashed
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.world import World
from belvedere.storage.commitlog import CommitLog, SyncPolicy
from belvedere.storage.errors import LogBroken, LogCorrupt, LogFull, LogUnavailable, MutationTooLarge
from belvedere.storage.logformat import HEADER_BYTES, SegmentReader, decode_frame, encode_frame

SEGMENT = 4096


def in_world(main: Callable[[World], Coroutine[Any, Any, Any]], seed: int = 1, **options: Any) -> Any:
    world = World(seed, **options)
    result = world.run(main)
    world.check_no_failures()
    return result


async def open_log(
    runtime: SimRuntime, policy: SyncPolicy = SyncPolicy.GROUP, segment: int = SEGMENT
) -> tuple[CommitLog, list[bytes]]:
    log = await CommitLog.open(runtime, "log", policy, segment)
    found = [record async for _, records in log.replay() for record in records]
    await log.start()
    return log, found


async def replayed(world: World) -> list[bytes]:
    """What a restart finds; the machine is down again afterwards."""
    runtime = world.boot("node")
    _, found = await runtime.perform(open_log(runtime))
    world.crash("node", lose_unsynced=False)
    return found


async def append_waiting(log: CommitLog, record: bytes) -> int:
    while (position := log.append(record)) is None:
        await log.space(len(record))
    return position


def test_records_come_back_in_order() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def write() -> None:
            log, found = await open_log(runtime)
            assert found == []
            for number in range(500):
                position = await append_waiting(log, b"%d" % number * 5)
                if number % 7 == 0:
                    await log.wait(position)
            await log.wait(position)
            assert log.durable == position

        await runtime.perform(write())
        world.crash("node")
        assert await replayed(world) == [b"%d" % number * 5 for number in range(500)]

    in_world(main)


def test_appends_of_one_step_share_a_frame() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def write() -> None:
            log, _ = await open_log(runtime)
            positions = {log.append(b"x") for _ in range(10)}
            assert len(positions) == 1
            await log.wait(positions.pop())
            assert log.statistics()["frames_written"] == 1

        await runtime.perform(write())

    in_world(main)


def test_acknowledged_records_survive_crashes_at_random_points() -> None:
    async def main(world: World) -> int:
        acknowledged: list[bytes] = []
        appended: list[bytes] = []
        torn = 0

        async def client(log: CommitLog, runtime: SimRuntime, name: int) -> None:
            number = 0
            while True:
                record = b"%d-%d-%d " % (runtime.incarnation.number, name, number) * (1 + number % 40)
                number += 1
                position = log.append(record)
                if position is None:
                    await log.space(len(record))
                    continue
                appended.append(record)
                await log.wait(position)
                acknowledged.append(record)

        async def serve(runtime: SimRuntime) -> None:
            log, found = await open_log(runtime)
            assert [record for record in acknowledged if record not in set(found)] == []
            assert [record for record in found if record not in set(appended)] == []
            for name in range(4):
                runtime.spawn("client", client(log, runtime, name))

        for _ in range(6):
            runtime = world.boot("node")
            try:
                await runtime.perform(serve(runtime))
            except MachineCrashed:
                continue
            await world.sleep(world.fault_random.random() * 0.3)
            torn += world.disk("node").torn_writes
            world.crash("node", lose_unsynced=world.fault_random.random() < 0.8)
        assert len(acknowledged) > 20
        return torn

    assert sum(in_world(main, seed) for seed in range(12)) > 0


def test_a_batch_survives_whole_or_not_at_all() -> None:
    async def main(world: World) -> None:
        async def serve(runtime: SimRuntime) -> None:
            log, found = await open_log(runtime)
            batches: dict[bytes, int] = {}
            for record in found:
                batches[record[:8]] = batches.get(record[:8], 0) + 1
            assert set(batches.values()) <= {10}
            for number in range(2000):
                name = b"%03d-%04d" % (runtime.incarnation.number, number)
                batch = [name + b"." * (number % 50)] * 10
                while log.append_many(batch) is None:
                    await log.space(sum(map(len, batch)) + 80)
                if number % 3:
                    await runtime.clock.sleep(0.001)

        for _ in range(5):
            runtime = world.boot("node")
            work = asyncio.create_task(runtime.perform(serve(runtime)))
            await world.sleep(0.05 + world.fault_random.random() * 0.4)
            world.crash("node")
            with pytest.raises(MachineCrashed):
                await work

    for seed in range(5):
        in_world(main, seed)


async def _five_frames(world: World) -> None:
    runtime = world.boot("node")

    async def write() -> None:
        log, _ = await open_log(runtime)
        for number in range(5):
            position = log.append(b"record %d" % number)
            assert position is not None
            await log.wait(position)

    await runtime.perform(write())
    world.crash("node", lose_unsynced=False)


FRAME = HEADER_BYTES + 8 + len(b"record 0")


def test_a_damaged_last_frame_is_a_torn_tail() -> None:
    async def main(world: World) -> None:
        await _five_frames(world)
        world.disk("node").corrupt("log/log-0000000001", 5 * FRAME - 1, b"?")
        expected = [b"record %d" % number for number in range(4)]
        assert await replayed(world) == expected
        # The tail was cut off for good: what is written now follows the fourth record.
        runtime = world.boot("node")

        async def go_on() -> None:
            log, found = await open_log(runtime)
            assert found == expected
            position = log.append(b"after")
            assert position == 5
            await log.wait(position)

        await runtime.perform(go_on())
        world.crash("node")
        assert await replayed(world) == [*expected, b"after"]

    in_world(main)


@pytest.mark.parametrize("offset", [0, 10, HEADER_BYTES - 1, HEADER_BYTES + 1, FRAME * 3 + 5])
def test_damage_in_the_middle_is_refused_with_path_and_offset(offset: int) -> None:
    async def main(world: World) -> None:
        await _five_frames(world)
        world.disk("node").corrupt("log/log-0000000001", offset, b"\xff\xfe")
        with pytest.raises(LogCorrupt, match="log-0000000001") as raised:
            await replayed(world)
        assert f"offset {offset // FRAME * FRAME} " in str(raised.value)

    in_world(main)


def test_a_lost_end_of_one_segment_is_noticed_in_the_next() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def write() -> None:
            log, _ = await open_log(runtime)
            for number in range(12):
                await log.wait(await append_waiting(log, b"%03d" % number * 300))

        await runtime.perform(write())
        world.crash("node", lose_unsynced=False)
        # Wipe the second half of the first segment: its last frames become zeros.
        world.disk("node").corrupt("log/log-0000000001", 2000, bytes(SEGMENT - 2000))
        with pytest.raises(LogCorrupt):
            await replayed(world)

    in_world(main)


def test_a_lost_segment_or_identity_is_noticed() -> None:
    async def main(world: World, name: str) -> None:
        runtime = world.boot("node")

        async def write() -> None:
            log, _ = await open_log(runtime)
            for number in range(20):
                await log.wait(await append_waiting(log, b"%03d" % number * 300))

        await runtime.perform(write())
        world.crash("node", lose_unsynced=False)
        runtime = world.boot("node")
        await runtime.perform(runtime.disk.remove(f"log/{name}"))
        world.crash("node", lose_unsynced=False)
        with pytest.raises(LogCorrupt):
            await replayed(world)

    in_world(lambda world: main(world, "log-0000000002"))
    in_world(lambda world: main(world, "log.json"))


def test_frames_of_other_segments_and_logs_are_not_taken() -> None:
    ours = encode_frame(b"8 bytes.", 7, 3, [b"a", b"bb"])
    frame = decode_frame(ours, 0, b"8 bytes.", 7)
    assert frame is not None
    assert (frame.number, frame.records, frame.end) == (3, [b"a", b"bb"], len(ours))
    assert decode_frame(ours, 0, b"8 bytes.", 8) is None
    assert decode_frame(ours, 0, b"8 others", 7) is None
    assert decode_frame(ours, 1, b"8 bytes.", 7) is None
    old = encode_frame(b"8 bytes.", 5, 4, [b"old"])
    reader = SegmentReader(b"8 bytes.")
    assert [f.number for f in reader.frames("path", 7, ours + old)] == [3]


@given(st.lists(st.binary(max_size=40), max_size=5), st.data())
def test_any_flipped_bit_of_a_frame_is_noticed(records: list[bytes], data: st.DataObject) -> None:
    frame = bytearray(encode_frame(b"8 bytes.", 1, 1, records))
    bit = data.draw(st.integers(0, len(frame) * 8 - 1))
    frame[bit // 8] ^= 1 << bit % 8
    assert decode_frame(bytes(frame), 0, b"8 bytes.", 1) is None


def test_a_full_disk_refuses_appends_before_taking_them_and_recovers() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")
        faults = world.disk("node").faults

        async def write() -> list[bytes]:
            log, _ = await open_log(runtime)
            await log.space(100)
            await runtime.clock.sleep(0.1)
            faults.full = True
            taken: list[bytes] = []

            async def fill() -> None:
                for number in range(100):
                    record = b"%03d" % number * 100
                    position = await append_waiting(log, record)
                    taken.append(record)
                    await log.wait(position)

            with pytest.raises(LogFull, match="no space"):
                await fill()
            assert 10 < len(taken) < 100
            with pytest.raises(LogFull):
                log.append(b"x" * 300)
            assert log.full is not None
            faults.full = False
            await runtime.clock.sleep(20)
            assert log.full is None
            taken.append(b"y" * 300)
            await log.wait(await append_waiting(log, taken[-1]))
            return taken

        taken = await runtime.perform(write())
        world.crash("node")
        assert await replayed(world) == taken

    in_world(main)


def test_a_log_on_a_full_disk_starts_and_takes_records_later() -> None:
    async def main(world: World) -> None:
        await _five_frames(world)
        world.disk("node").faults.full = True
        runtime = world.boot("node")

        async def write() -> None:
            log, found = await open_log(runtime)
            assert len(found) == 5
            with pytest.raises(LogFull):
                log.append(b"refused")
            world.disk("node").faults.full = False
            await runtime.clock.sleep(20)
            position = log.append(b"taken")
            assert position == 6
            await log.wait(position)

        await runtime.perform(write())

    in_world(main)


def test_a_failed_sync_breaks_the_log_for_everyone() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def write() -> None:
            log, _ = await open_log(runtime)
            first = log.append(b"durable")
            assert first is not None
            await log.wait(first)
            world.disk("node").faults.broken_syncs = 1.0
            told: list[LogUnavailable | None] = []
            second = log.append(b"lost")
            assert second is not None
            log.on_durable(second, told.append)
            with pytest.raises(LogBroken):
                await log.wait(second)
            assert [type(error) for error in told] == [LogBroken]
            world.disk("node").faults.broken_syncs = 0.0
            with pytest.raises(LogBroken):
                log.append(b"refused")
            with pytest.raises(LogBroken):
                await log.space(10)
            with pytest.raises(LogBroken):
                await log.wait(second)
            log.on_durable(first, told.append)
            assert told[1:] == [None]

        await runtime.perform(write())
        world.crash("node")
        assert await replayed(world) == [b"durable"]

    in_world(main)


def test_a_record_larger_than_a_frame_may_be_is_refused() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def write() -> None:
            log, _ = await open_log(runtime)
            with pytest.raises(MutationTooLarge, match="too large for the maximum size of 2048"):
                log.append(b"x" * 4000)
            with pytest.raises(MutationTooLarge):
                await log.space(4000)

        await runtime.perform(write())

    in_world(main)


def test_segments_that_nobody_needs_go_and_a_crash_leaves_no_gap() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")
        retired = [0]

        async def write() -> None:
            log, _ = await open_log(runtime)
            number = 0
            while True:
                position = await append_waiting(log, b"%06d" % number * 60)
                number += 1
                await log.wait(position)
                if number % 25 == 0:
                    retired[0] = position - 10
                    log.retire(position - 10)

        work = asyncio.create_task(runtime.perform(write()))
        await world.sleep(1 + world.fault_random.random())
        world.crash("node")
        with pytest.raises(MachineCrashed):
            await work
        found = await replayed(world)
        numbers = [int(record[:6]) for record in found]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        assert 0 < numbers[0] < retired[0]

    for seed in range(5):
        in_world(main, seed)


@pytest.mark.parametrize("policy", [SyncPolicy.PERIODIC, SyncPolicy.NONE])
def test_relaxed_policies_answer_at_once_and_survive_a_killed_process(policy: SyncPolicy) -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def write() -> None:
            log, _ = await open_log(runtime, policy)
            for number in range(30):
                position = log.append(b"%d" % number)
                assert position is not None
                assert log.durable == position
                await log.wait(position)
            await runtime.clock.sleep(0.5)

        await runtime.perform(write())
        world.crash("node", lose_unsynced=policy is SyncPolicy.PERIODIC)
        assert await replayed(world) == [b"%d" % number for number in range(30)]

    in_world(main)


def test_what_a_killed_process_left_unsynced_is_made_durable_before_it_is_replayed() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def write() -> None:
            log, _ = await open_log(runtime, SyncPolicy.NONE)
            for number in range(20):
                await append_waiting(log, b"%03d" % number * 200)
            await runtime.clock.sleep(0.5)

        await runtime.perform(write())
        world.crash("node", lose_unsynced=False)
        first = await replayed(world)
        assert len(first) == 20
        runtime = world.boot("node")
        world.crash("node", lose_unsynced=True)
        assert await replayed(world) == first

    in_world(main)


def test_a_frame_whose_sync_failed_is_written_again_before_it_is_replayed() -> None:
    """After a failed sync the kernel shows the bytes and takes them for clean: syncing them again would do
    nothing, and a power failure would take back what the replay has shown."""

    async def main(world: World) -> None:
        runtime = world.boot("node")
        faults = world.disk("node").faults

        async def write() -> None:
            log, _ = await open_log(runtime)
            position = log.append(b"durable")
            assert position is not None
            await log.wait(position)
            faults.broken_syncs = 1.0
            position = log.append(b"not synced")
            assert position is not None
            with pytest.raises(LogBroken):
                await log.wait(position)

        await runtime.perform(write())
        faults.broken_syncs = 0.0
        world.crash("node", lose_unsynced=False)
        runtime = world.boot("node")
        _, found = await runtime.perform(open_log(runtime))
        assert found == [b"durable", b"not synced"]
        world.crash("node", lose_unsynced=True)
        assert await replayed(world) == found

    in_world(main)


def test_closing_makes_everything_durable() -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def write() -> None:
            log, _ = await open_log(runtime)
            for number in range(5):
                assert log.append(b"%d" % number) is not None
            await log.close()
            with pytest.raises(LogUnavailable):
                log.append(b"too late")

        await runtime.perform(write())
        world.crash("node")
        assert await replayed(world) == [b"0", b"1", b"2", b"3", b"4"]

    in_world(main)


def test_random_write_errors_never_lose_what_was_acknowledged() -> None:
    async def main(world: World) -> None:
        acknowledged: list[bytes] = []
        faults = world.disk("node").faults

        async def serve(runtime: SimRuntime) -> None:
            log, found = await open_log(runtime)
            assert [record for record in acknowledged if record not in set(found)] == []
            faults.broken_syncs = faults.broken_writes = 0.02
            try:
                for number in range(200):
                    record = b"%d-%d" % (runtime.incarnation.number, number)
                    await log.wait(await append_waiting(log, record))
                    acknowledged.append(record)
            except LogUnavailable:
                world.mark("broken")

        for _ in range(4):
            runtime = world.boot("node")
            try:
                await runtime.perform(serve(runtime))
            except DiskBroken:
                world.mark("refused to open")
            faults.broken_syncs = faults.broken_writes = 0.0
            world.crash("node")
        assert acknowledged

    for seed in range(8):
        in_world(main, seed)


@pytest.mark.parametrize("breaks", [False, True])
def test_a_callback_that_fails_does_not_stop_the_others(breaks: bool) -> None:
    async def main(world: World) -> None:
        runtime = world.boot("node")

        async def life() -> None:
            log, _ = await open_log(runtime)

            def bad(_: object) -> None:
                raise RuntimeError("a bug")

            told: list[object] = []
            for callback in (bad, told.append):
                log.on_durable(await append_waiting(log, b"one"), callback)
            if breaks:
                world.disk("node").faults.broken_syncs = 1.0
            await runtime.clock.sleep(1)
            assert told == [log.broken]
            assert (log.broken is not None) == breaks
            if not breaks:
                await asyncio.wait_for(log.wait(await append_waiting(log, b"two")), 10)

        await runtime.perform(life())

    in_world(main)
