"""One contract for every metadata store. Two handles stand for two processes on one store."""

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.meta.memory import MemoryStore
from belvedere.meta.sqlite import SqliteStore
from belvedere.meta.store import (
    Absent,
    Change,
    Committed,
    Compacted,
    Delete,
    Entry,
    MetadataStore,
    Put,
    Refused,
    Transaction,
    Unchanged,
    Update,
    fold,
)
from belvedere.runtime.api import Runtime
from belvedere.runtime.real import run

Test = Callable[[MetadataStore, MetadataStore], Coroutine[Any, Any, None]]
Harness = Callable[..., None]


@pytest.fixture(params=["memory", "sqlite"])
def on_stores(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    def run_test(test: Test, history: int = 1000) -> None:
        async def main(runtime: Runtime) -> None:
            async with asyncio.timeout(100):
                if request.param == "memory":
                    store = MemoryStore(history)
                    await test(store, store)
                    return
                first, second = (SqliteStore(str(tmp_path / "meta"), history) for _ in range(2))
                await first.open()
                await second.open()
                try:
                    await test(first, second)
                finally:
                    await first.close()
                    await second.close()

        run(main, log_level="error")

    return run_test


_ids = iter(range(1, 1_000_000))


def transaction(*parts: Any) -> Transaction:
    """Assertions and updates, in any order, under a fresh id."""
    asserts = tuple(part for part in parts if isinstance(part, Absent | Unchanged))
    updates = tuple(part for part in parts if isinstance(part, Put | Delete))
    return Transaction(next(_ids).to_bytes(16), asserts, updates)


def test_a_new_store_is_empty(on_stores: Harness) -> None:
    async def test(one: MetadataStore, other: MetadataStore) -> None:
        loaded = await one.load()
        assert (loaded.revision, dict(loaded.entries)) == (0, {})
        assert await one.changes_since(0) == []

    on_stores(test)


def test_commits_are_numbered_and_seen_by_all(on_stores: Harness) -> None:
    async def test(one: MetadataStore, other: MetadataStore) -> None:
        assert await one.commit(transaction(Put("a", b"1"), Put("b", b""))) == Committed(1)
        assert await other.commit(transaction(Put("a", b"2"), Put("größe/x", b"\x00\xff"))) == Committed(2)
        assert await one.commit(transaction(Delete("b"), Delete("never there"))) == Committed(3)
        for store in (one, other):
            loaded = await store.load()
            assert loaded.revision == 3
            assert dict(loaded.entries) == {"a": Entry(b"2", 2), "größe/x": Entry(b"\x00\xff", 2)}

    on_stores(test)


@pytest.mark.parametrize(
    ("assertion", "holds"),
    [
        (Absent("new"), True),
        (Absent("a"), False),
        (Unchanged("a", 1), True),
        (Unchanged("a", 2), False),
        (Unchanged("new", 1), False),
        (Unchanged("gone", 1), False),
        (Absent("gone"), True),
    ],
)
def test_assertions(on_stores: Harness, assertion: Absent | Unchanged, holds: bool) -> None:
    async def test(one: MetadataStore, other: MetadataStore) -> None:
        await one.commit(transaction(Put("a", b"1"), Put("gone", b"")))
        await one.commit(transaction(Delete("gone")))
        answer = await other.commit(transaction(assertion, Put("a", b"9"), Put("c", b"3")))
        loaded = await one.load()
        if holds:
            assert answer == Committed(3)
            assert loaded.entries["a"] == Entry(b"9", 3)
        else:
            assert answer == Refused(assertion, 2)
            assert loaded.revision == 2
            assert dict(loaded.entries) == {"a": Entry(b"1", 1)}

    on_stores(test)


def test_one_false_assertion_of_several_refuses_all(on_stores: Harness) -> None:
    async def test(one: MetadataStore, other: MetadataStore) -> None:
        await one.commit(transaction(Put("a", b"")))
        wrong = Absent("a")
        answer = await one.commit(
            transaction(Absent("x"), Unchanged("a", 1), wrong, Absent("y"), Put("x", b""))
        )
        assert answer == Refused(wrong, 1)
        assert set((await other.load()).entries) == {"a"}

    on_stores(test)


def test_the_same_id_lands_once(on_stores: Harness) -> None:
    async def test(one: MetadataStore, other: MetadataStore) -> None:
        again = transaction(Absent("a"), Put("a", b"1"))
        assert await one.commit(again) == Committed(1)
        await one.commit(transaction(Put("a", b"2")))
        # Its assertion is false by now, which is what it did itself.
        assert await other.commit(again) == Committed(1)
        loaded = await other.load()
        assert loaded.revision == 2
        assert loaded.entries["a"].value == b"2"

    on_stores(test)


def test_changes_come_in_order_and_whole(on_stores: Harness) -> None:
    async def test(one: MetadataStore, other: MetadataStore) -> None:
        first: tuple[Update, ...] = (Put("a", b"1"), Delete("z"), Put("b", b"2"))
        await one.commit(transaction(*first))
        await other.commit(transaction(Delete("a")))
        expected = [Change(1, first), Change(2, (Delete("a"),))]
        assert await one.changes_since(0) == expected
        assert await other.changes_since(1) == expected[1:]
        assert await one.changes_since(2) == []
        assert await one.changes_since(99) == []

    on_stores(test)


def test_old_changes_are_compacted(on_stores: Harness) -> None:
    async def test(one: MetadataStore, other: MetadataStore) -> None:
        for number in range(1, 8):
            await one.commit(transaction(Put("a", bytes([number]))))
        assert [change.revision for change in await other.changes_since(4)] == [5, 6, 7]
        for lost in (0, 3):
            with pytest.raises(Compacted):
                await other.changes_since(lost)
        assert (await other.load()).entries["a"] == Entry(b"\x07", 7)

    on_stores(test, history=3)


def test_waiting_ends_at_once_if_there_is_something_newer(on_stores: Harness) -> None:
    async def test(one: MetadataStore, other: MetadataStore) -> None:
        await one.commit(transaction(Put("a", b"")))
        await other.wait_beyond(0)

    on_stores(test)


def test_waiting_hears_of_commits_from_anywhere(on_stores: Harness) -> None:
    async def test(one: MetadataStore, other: MetadataStore) -> None:
        for committer, waiter in ((one, one), (one, other), (other, one)):
            revision = (await one.load()).revision
            waiting = asyncio.ensure_future(waiter.wait_beyond(revision))
            await asyncio.sleep(0)
            assert not waiting.done()
            await committer.commit(transaction(Put("a", b"")))
            await waiting
            assert (await waiter.load()).revision == revision + 1

    on_stores(test)


def test_increments_from_both_sides_are_never_lost(on_stores: Harness) -> None:
    async def increment(store: MetadataStore) -> None:
        while True:
            entry = (await store.load()).entries.get("n")
            held = Absent("n") if entry is None else Unchanged("n", entry.revision)
            count = 0 if entry is None else int(entry.value)
            if isinstance(await store.commit(transaction(held, Put("n", b"%d" % (count + 1)))), Committed):
                return

    async def test(one: MetadataStore, other: MetadataStore) -> None:
        await asyncio.gather(*(increment(store) for store in (one, other) * 10))
        assert (await one.load()).entries["n"] == Entry(b"20", 20)

    on_stores(test)


def test_sqlite_keeps_everything_over_a_restart(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> None:
        last = transaction(Put("b", b"2"))
        for expected, committed in ((0, transaction(Put("a", b"1"))), (1, last), (2, last)):
            store = SqliteStore(str(tmp_path / "meta"))
            await store.open()
            assert (await store.load()).revision == expected
            await store.commit(committed)
            await store.close()
        store = SqliteStore(str(tmp_path / "meta"))
        await store.open()
        assert dict((await store.load()).entries) == {"a": Entry(b"1", 1), "b": Entry(b"2", 2)}
        assert [change.revision for change in await store.changes_since(0)] == [1, 2]
        await store.close()

    run(main, log_level="error")


KEYS = st.sampled_from(["a", "b", "c"])
PARTS = st.one_of(
    st.builds(Absent, KEYS),
    st.builds(Unchanged, KEYS, st.integers(1, 6)),
    st.builds(Put, KEYS, st.binary(max_size=2)),
    st.builds(Delete, KEYS),
)


@given(st.lists(st.lists(PARTS, max_size=4), max_size=12))
def test_both_stores_do_what_a_dict_does(steps: list[list[Any]]) -> None:
    async def main(runtime: Runtime) -> None:
        with tempfile.TemporaryDirectory() as directory:
            await compare(MemoryStore(), SqliteStore(f"{directory}/meta"))

    async def compare(memory: MemoryStore, sqlite: SqliteStore) -> None:
        await sqlite.open()
        model: dict[str, tuple[bytes, int]] = {}
        revision = 0
        for parts in steps:
            asked = transaction(*parts)
            failed = [a for a in asked.asserts if not _holds(a, model)]
            if not failed:
                revision += 1
                for update in asked.updates:
                    if isinstance(update, Put):
                        model[update.key] = (update.value, revision)
                    else:
                        model.pop(update.key, None)
            expected = Refused(failed[0], revision) if failed else Committed(revision)
            assert await memory.commit(asked) == expected
            assert await sqlite.commit(asked) == expected
        for store in (memory, sqlite):
            loaded = await store.load()
            assert {k: (e.value, e.revision) for k, e in loaded.entries.items()} == model
            folded: dict[str, Entry] = {}
            for change in await store.changes_since(0):
                folded = fold(folded, change.revision, change.updates)
            assert folded == dict(loaded.entries)
        await sqlite.close()

    run(main, log_level="error")


def _holds(assertion: Absent | Unchanged, model: dict[str, tuple[bytes, int]]) -> bool:
    if isinstance(assertion, Absent):
        return assertion.key not in model
    return assertion.key in model and model[assertion.key][1] == assertion.revision
