"""The engine on the real disk: restarts, locks, concurrent clients, files beside each other."""

import asyncio
from pathlib import Path

import pyarrow.parquet as pq

from belvedere.model.mutations import Mutation
from belvedere.model.positions import NOWHERE
from belvedere.model.rows import Row
from belvedere.model.token import token_of
from belvedere.runtime.real import RealRuntime
from belvedere.storage.commitlog import SyncPolicy
from belvedere.storage.engine import EngineOptions, StorageEngine, Write
from belvedere.storage.reads import PartitionRead, RangeRead
from tests.storage.engine_help import store_for, tablets_of
from tests.storage.replica_help import Told, chain
from tests.storage.storage_model import make_table, wire_int

TABLE = make_table(clustering=False, sets=False)


async def open_real(runtime: RealRuntime, path: Path, **options: object) -> StorageEngine:
    chosen = EngineOptions(segment_bytes=256 << 10, memtable_bytes=1 << 20)
    for name, value in options.items():
        setattr(chosen, name, value)
    return await StorageEngine.open(
        runtime, str(path / "data"), {TABLE.id: TABLE}, {TABLE.id: tablets_of(TABLE, 4)}, chosen
    )


async def write_some(engine: StorageEngine, numbers: range, value: bytes) -> None:
    for number in numbers:
        key = wire_int(number)
        row = Row(engine.log.position, 0, 0, True, None, [value, b"%d" % number, b"z" * 50])
        mutation = Mutation(TABLE.id, token_of(key), key, [(b"", row)])
        store = store_for(engine, mutation.token)
        position = engine.write_now(store, mutation)
        if position is None:
            position = await engine.write([Write(store, mutation)])
        await engine.durable(position)


async def check(engine: StorageEngine, count: int, value: bytes) -> None:
    for number in range(0, count, 37):
        key = wire_int(number)
        store = store_for(engine, token_of(key))
        found = await store.read(PartitionRead(token_of(key), key, row=b""), 0)
        assert found.rows[0][1].cells[:2] == [value, b"%d" % number]
    total = 0
    for store in engine.stores.values():
        page = await store.scan(RangeRead((store.first_token, b""), store.last_token, limit=0), 0)
        total += len(page.partitions)
    assert total == count


def test_concurrent_clients_restarts_and_readable_files(tmp_path: Path) -> None:
    async def main() -> None:
        runtime = RealRuntime(log=lambda *_, **__: None)
        for value in (b"one", b"two"):
            engine = await open_real(runtime, tmp_path)
            work = [write_some(engine, range(part, 3000, 20), value) for part in range(20)]
            await asyncio.gather(*work)
            await check(engine, 3000, value)
            await engine.close()
        engine = await open_real(runtime, tmp_path)
        await check(engine, 3000, b"two")
        await engine.flush()
        for store in engine.stores.values():
            await engine.compact(store)
        await check(engine, 3000, b"two")
        await engine.close()
        await runtime.close()

    asyncio.run(main())
    files = sorted((tmp_path / "data" / "tables").rglob("*.parquet"))
    assert len(files) == 4
    rows = [row for file in files for row in pq.read_table(file, columns=["k", "x"]).to_pylist()]
    assert sorted(row["k"] for row in rows) == list(range(3000))
    assert {row["x"] for row in rows} == {"two"}


def test_a_periodic_log_is_whole_after_an_orderly_end(tmp_path: Path) -> None:
    async def main() -> None:
        runtime = RealRuntime(log=lambda *_, **__: None)
        engine = await open_real(runtime, tmp_path, sync_policy=SyncPolicy.PERIODIC)
        await write_some(engine, range(500), b"v")
        await engine.close()
        engine = await open_real(runtime, tmp_path)
        await check(engine, 500, b"v")
        await engine.close()
        await runtime.close()

    asyncio.run(main())


def test_a_replicas_log_is_read_while_it_is_written(tmp_path: Path) -> None:
    """From segments that are full, from the one that is being filled, and from memory."""
    records = chain((0, 0), [(1 + n // 1000, n) for n in range(1, 4001)])

    async def open_replica(runtime: RealRuntime) -> StorageEngine:
        options = EngineOptions(segment_bytes=256 << 10, memtable_bytes=1 << 20, closed_segments=100)
        maps = {TABLE.id: tablets_of(TABLE, 1)}
        return await StorageEngine.open(
            runtime, str(tmp_path / "data"), {TABLE.id: TABLE}, maps, options, replicated=True
        )

    async def main() -> None:
        runtime = RealRuntime(log=lambda *_, **__: None)
        engine = await open_replica(runtime)
        replica, told = engine.replica(1), Told()
        done = False

        async def reader(start: int) -> int:
            count = 0
            while not done:
                at = (start + 997 * count) % max(1, replica.end.version)
                after = records[at - 1].position if at else NOWHERE
                found = await replica.read_tail(after, 200)
                assert found is not None
                assert found == (after, records[at : at + len(found[1])])
                count += 1
                await asyncio.sleep(0)  # What is in memory is read at once.
            return count

        reading = [asyncio.create_task(reader(start)) for start in (0, 300, 999)]
        for index in range(0, len(records), 5):
            while not replica.has_room():
                await asyncio.sleep(0.001)
            told.append(replica, records[index : index + 5], NOWHERE)
            if index % 50 == 0:
                await engine.durable(engine.log.newest)
                replica.apply(records[index].position)
        replica.apply(records[-1].position)
        await engine.durable(engine.log.newest)
        done = True
        assert min([await task for task in reading]) > 5
        assert len(told.written) == len(records) / 5
        await engine.close()
        engine = await open_replica(runtime)
        assert engine.replica(1).opened().records[-1] == records[-1]
        assert await engine.replica(1).read_tail(NOWHERE, 5000) == (NOWHERE, records)
        await engine.close()

    asyncio.run(main())
