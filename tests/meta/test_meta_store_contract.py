"""One contract for every metadata store: transactions, order, and following changes."""

import asyncio
import tempfile
from itertools import chain
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
    fold,
)
from belvedere.runtime.api import Runtime
from belvedere.runtime.real import run
from tests.meta.etcd_server import EtcdServer
from tests.meta.stores import Harness, Stores, in_simulation, on_etcd, on_sqlite, transaction


async def committed(store: MetadataStore, *parts: Any) -> int:
    """The revision of a transaction that must not be refused."""
    outcome = await store.commit(transaction(*parts))
    assert isinstance(outcome, Committed), outcome
    return outcome.revision


async def entries(store: MetadataStore) -> dict[str, Entry]:
    return dict((await store.load()).entries)


def folded(before: dict[str, Entry], changes: list[Change]) -> dict[str, Entry]:
    for change in changes:
        before = fold(before, change.revision, change.updates)
    return before


def test_a_new_store_is_empty(on_stores: Harness) -> None:
    async def test(on: Stores) -> None:
        loaded = await on.one.load()
        assert dict(loaded.entries) == {}
        assert await on.one.changes_since(loaded.revision) == []

    on_stores(test)


def test_revisions_grow_and_all_see_the_same(on_stores: Harness) -> None:
    async def test(on: Stores) -> None:
        first = await committed(on.one, Put("a", b"1"), Put("b", b""))
        second = await committed(on.other, Put("a", b"2"), Put("größe/x", b"\x00\xff"))
        third = await committed(on.one, Delete("b"), Delete("never there"))
        empty = await committed(on.other)
        assert 0 < first < second < third < empty
        for store in (on.one, on.other):
            loaded = await store.load()
            assert loaded.revision >= empty
            assert dict(loaded.entries) == {"a": Entry(b"2", second), "größe/x": Entry(b"\x00\xff", second)}

    on_stores(test)


ASSERTIONS = ["Absent new", "Absent a", "Unchanged a", "Unchanged a later", "Unchanged new", "Unchanged gone"]


@pytest.mark.parametrize("which", [*ASSERTIONS, "Absent gone"])
@pytest.mark.parametrize("large", [False, True])
def test_assertions(on_stores: Harness, which: str, large: bool) -> None:
    async def test(on: Stores) -> None:
        first = await committed(on.one, Put("a", b"1"), Put("gone", b""))
        second = await committed(on.one, Delete("gone"))
        kind, key, *later = which.split()
        assertion = Absent(key) if kind == "Absent" else Unchanged(key, second if later else first)
        others = [Absent(f"other {number}") for number in range(300 if large else 0)]
        written = [Put(f"other {number}", b"") for number in range(300 if large else 0)]
        answer = await on.other.commit(
            transaction(*others, assertion, Put("a", b"9"), Put("c", b"3"), *written)
        )
        loaded = await on.one.load()
        if which in ("Absent new", "Unchanged a", "Absent gone"):
            assert isinstance(answer, Committed)
            assert answer.revision > second
            assert loaded.entries["a"] == Entry(b"9", answer.revision)
            assert len(loaded.entries) == 2 + len(others)
        else:
            assert answer == Refused(assertion, second)
            assert dict(loaded.entries) == {"a": Entry(b"1", first)}

    on_stores(test)


def test_one_false_assertion_of_several_refuses_all(on_stores: Harness) -> None:
    async def test(on: Stores) -> None:
        first = await committed(on.one, Put("a", b""))
        wrong = Absent("a")
        answer = await on.one.commit(
            transaction(Absent("x"), Unchanged("a", first), wrong, Absent("y"), Put("x", b""))
        )
        assert answer == Refused(wrong, first)
        assert set(await entries(on.other)) == {"a"}

    on_stores(test)


@pytest.mark.parametrize("large", [False, True])
def test_the_same_id_lands_once(on_stores: Harness, large: bool) -> None:
    async def test(on: Stores) -> None:
        others = [Absent(f"other {number}") for number in range(300 if large else 0)]
        again = transaction(Absent("a"), *others, Put("a", b"1"))
        first = await on.one.commit(again)
        assert isinstance(first, Committed)
        assert await on.one.commit(again) == first
        second = await committed(on.one, Put("a", b"2"))
        # Its assertion is false by now, which is what it did itself.
        assert await on.other.commit(again) == first
        assert await entries(on.other) == {"a": Entry(b"2", second)}

    on_stores(test)


def test_a_transaction_may_be_large(on_stores: Harness) -> None:
    async def test(on: Stores) -> None:
        at = (await on.other.load()).revision
        await committed(on.one, *(Put(f"key {number}", b"%d" % number) for number in range(3000)))
        (change,) = await on.other.changes_since(at)
        assert len(change.updates) == 3000
        assert folded({}, [change]) == await entries(on.one)

    on_stores(test)


def test_changes_come_in_order_and_whole(on_stores: Harness) -> None:
    async def test(on: Stores) -> None:
        begin = (await on.one.load()).revision
        zero = await committed(on.one, Put("z", b""))
        first = await committed(on.one, Put("a", b"1"), Delete("z"), Put("b", b"2"))
        second = await committed(on.other, Delete("a"))
        changes = await on.one.changes_since(begin)
        assert [change.revision for change in changes] == [zero, first, second]
        assert {update.key: update for update in changes[1].updates} == {
            "a": Put("a", b"1"),
            "z": Delete("z"),
            "b": Put("b", b"2"),
        }
        assert changes[2].updates == (Delete("a"),)
        assert await on.other.changes_since(zero) == changes[1:]
        assert await on.one.changes_since(second) == []
        assert await on.one.changes_since(second + 99) == []
        # From further back than this handle was ever asked before.
        assert await on.other.changes_since(begin) == changes

    on_stores(test)


def test_the_last_of_two_updates_of_one_key_counts(on_stores: Harness) -> None:
    async def test(on: Stores) -> None:
        begin = (await on.one.load()).revision
        await committed(on.one, Put("a", b"1"), Put("a", b"2"), Put("b", b""), Delete("b"))
        assert {key: entry.value for key, entry in (await entries(on.one)).items()} == {"a": b"2"}
        assert folded({}, await on.other.changes_since(begin)) == await entries(on.one)

    on_stores(test)


def test_old_changes_are_compacted(on_stores: Harness) -> None:
    async def test(on: Stores) -> None:
        begin = (await on.one.load()).revision
        revisions = [await committed(on.one, Put("a", bytes([number]))) for number in range(7)]
        await on.compact(revisions[3] + 1)
        # Not the fourth itself: etcd keeps what was valid at the revision it compacts to.
        assert [change.revision for change in await on.other.changes_since(revisions[3])] == revisions[4:]
        for lost in (begin, revisions[0]):
            with pytest.raises(Compacted):
                await on.other.changes_since(lost)
        assert await entries(on.other) == {"a": Entry(b"\x06", revisions[-1])}
        last = await committed(on.one, Put("a", b"last"))
        assert [change.revision for change in await on.other.changes_since(revisions[-1])] == [last]

    on_stores(test, history=3)


def test_waiting_ends_at_once_if_there_is_something_newer(on_stores: Harness) -> None:
    async def test(on: Stores) -> None:
        begin = (await on.one.load()).revision
        await committed(on.one, Put("a", b""))
        await on.other.wait_beyond(begin)

    on_stores(test)


def test_waiting_hears_of_commits_from_anywhere(on_stores: Harness) -> None:
    async def test(on: Stores) -> None:
        for committer, waiter in ((on.one, on.one), (on.one, on.other), (on.other, on.one)):
            revision = (await on.one.load()).revision
            waiting = asyncio.ensure_future(waiter.wait_beyond(revision))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            landed = await committed(committer, Put("a", b""))
            await waiting
            assert [change.revision for change in await waiter.changes_since(revision)] == [landed]

    on_stores(test)


def test_increments_from_both_sides_are_never_lost(on_stores: Harness) -> None:
    async def increment(store: MetadataStore) -> None:
        while True:
            entry = (await store.load()).entries.get("n")
            held = Absent("n") if entry is None else Unchanged("n", entry.revision)
            count = 0 if entry is None else int(entry.value)
            if isinstance(await store.commit(transaction(held, Put("n", b"%d" % (count + 1)))), Committed):
                return

    async def test(on: Stores) -> None:
        await asyncio.gather(*(increment(store) for store in (on.one, on.other) * 10))
        assert (await entries(on.one))["n"].value == b"20"

    on_stores(test)


def test_concurrent_writers_and_followers_agree_on_one_order(on_stores: Harness) -> None:
    """Every handle writes at will; all see the same changes, and these add up to what is there."""

    async def write(store: MetadataStore, name: str) -> list[int]:
        revisions = []
        for number in range(25):
            parts: list[Any] = [Put(f"last of {name}", b"%d" % number)]
            parts.append(Delete("shared") if number % 3 == 2 else Put("shared", f"{name} {number}".encode()))
            revisions.append(await committed(store, *parts))
        return revisions

    async def follow(store: MetadataStore, begin: int, end: asyncio.Future[int]) -> list[Change]:
        seen: list[Change] = []
        while not end.done() or (seen[-1].revision if seen else begin) < end.result():
            at = seen[-1].revision if seen else begin
            try:
                async with asyncio.timeout(0.2):
                    await store.wait_beyond(at)
            except TimeoutError:
                continue
            seen += await store.changes_since(at)
        return seen

    async def test(on: Stores) -> None:
        stores = [on.one, on.other, await on.another()]
        begin = (await on.one.load()).revision
        end: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        followers = [asyncio.ensure_future(follow(store, begin, end)) for store in stores]
        written = await asyncio.gather(*(write(store, str(n)) for n, store in enumerate(stores)))
        end.set_result(max(max(revisions) for revisions in written))
        histories = await asyncio.gather(*followers)
        assert histories[0] == histories[1] == histories[2]
        assert [change.revision for change in histories[0]] == sorted(chain(*written))
        assert folded({}, histories[0]) == await entries(on.one)

    on_stores(test)


def test_sqlite_keeps_everything_over_a_restart(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> None:
        last = transaction(Put("b", b"2"))
        for expected, asked in ((0, transaction(Put("a", b"1"))), (1, last), (2, last)):
            store = SqliteStore(str(tmp_path / "meta"))
            await store.open()
            assert (await store.load()).revision == expected
            await store.commit(asked)
            await store.close()
        store = SqliteStore(str(tmp_path / "meta"))
        await store.open()
        assert dict((await store.load()).entries) == {"a": Entry(b"1", 1), "b": Entry(b"2", 2)}
        assert [change.revision for change in await store.changes_since(0)] == [1, 2]
        await store.close()

    run(main, log_level="error")


# --- against a dict ------------------------------------------------------------------------------------

KEYS = st.sampled_from(["a", "b", "c"])
#: `Unchanged` counts commits back from the present one: revisions themselves differ from store to store.
PARTS = st.one_of(
    st.builds(Absent, KEYS),
    st.builds(Unchanged, KEYS, st.integers(1, 6)),
    st.builds(Put, KEYS, st.binary(max_size=2)),
    st.builds(Delete, KEYS),
)
STEPS = st.lists(st.lists(PARTS, max_size=4), max_size=12)


async def does_what_a_dict_does(store: MetadataStore, steps: list[list[Any]]) -> None:
    begin = (await store.load()).revision
    model: dict[str, Entry] = {}
    revisions: list[int] = []
    for parts in steps:
        asked = _with_real_revisions(transaction(*parts), revisions)
        failed = [one for one in asked.asserts if not _holds(one, model)]
        outcome = await store.commit(asked)
        if failed:
            assert outcome == Refused(failed[0], outcome.revision)
            continue
        assert isinstance(outcome, Committed)
        assert outcome.revision > max(revisions, default=begin)
        revisions.append(outcome.revision)
        model = fold(model, outcome.revision, asked.updates)
    assert await entries(store) == model
    changes = await store.changes_since(begin)
    assert [change.revision for change in changes] == revisions
    assert folded({}, changes) == model


def _with_real_revisions(asked: Transaction, revisions: list[int]) -> Transaction:
    asserts = tuple(
        Unchanged(one.key, revisions[-one.revision] if one.revision <= len(revisions) else 1_000_000_000)
        if isinstance(one, Unchanged)
        else one
        for one in asked.asserts
    )
    return Transaction(asked.id, asserts, asked.updates)


def _holds(assertion: Absent | Unchanged, model: dict[str, Entry]) -> bool:
    if isinstance(assertion, Absent):
        return assertion.key not in model
    return assertion.key in model and model[assertion.key].revision == assertion.revision


@given(STEPS)
def test_memory_and_sqlite_do_what_a_dict_does(steps: list[list[Any]]) -> None:
    async def main(runtime: Runtime) -> None:
        await does_what_a_dict_does(MemoryStore(), steps)
        with tempfile.TemporaryDirectory() as directory:
            sqlite = SqliteStore(f"{directory}/meta")
            await sqlite.open()
            await does_what_a_dict_does(sqlite, steps)
            await sqlite.close()

    run(main, log_level="error")


@given(steps=STEPS)
def test_etcd_does_what_a_dict_does(etcd: EtcdServer, steps: list[list[Any]]) -> None:
    async def test(on: Stores) -> None:
        await does_what_a_dict_does(on.one, steps)

    on_etcd(test, etcd, 1000)


# --- concurrent writers --------------------------------------------------------------------------------


async def _write_at_will(store: MetadataStore, steps: list[list[Any]]) -> list[tuple[Transaction, Any, int]]:
    """Each step rests on what was just read, which others may have changed meanwhile."""
    done = []
    for parts in steps:
        loaded = await store.load()
        seen = [loaded.entries[key].revision if key in loaded.entries else 0 for key in "abc"]
        asked = transaction(
            *(
                Unchanged(part.key, seen["abc".index(part.key)] or 1_000_000_000)
                if isinstance(part, Unchanged)
                else part
                for part in parts
            )
        )
        done.append((asked, await store.commit(asked), loaded.revision))
    return done


async def writers_agree_on_one_history(on: Stores, plans: list[list[list[Any]]]) -> None:
    begin = (await on.one.load()).revision
    stores = [on.one, on.other, on.one]
    results = await asyncio.gather(*map(_write_at_will, stores, plans))
    changes = await on.other.changes_since(begin)
    states, state = {begin: dict[str, Entry]()}, dict[str, Entry]()
    for change in changes:
        states[change.revision] = state = fold(state, change.revision, change.updates)
    assert state == await entries(on.one)
    landed = set()
    for asked, outcome, seen in chain(*results):
        if isinstance(outcome, Committed):
            landed.add(outcome.revision)
            before = states[max(revision for revision in states if revision < outcome.revision)]
            assert all(_holds(one, before) for one in asked.asserts)
            assert states[outcome.revision] == fold(before, outcome.revision, asked.updates)
        else:
            shown = max((revision for revision in states if revision <= seen), default=begin)
            assert any(
                not _holds(outcome.failed, states[revision]) for revision in states if revision >= shown
            )
    assert landed == {change.revision for change in changes}


@given(plans=st.lists(STEPS, min_size=3, max_size=3))
def test_concurrent_writers_in_memory_make_one_history(plans: list[list[list[Any]]]) -> None:
    in_simulation(lambda on: writers_agree_on_one_history(on, plans), 1000)


@given(plans=st.lists(STEPS, min_size=3, max_size=3))
def test_concurrent_writers_in_sqlite_make_one_history(plans: list[list[list[Any]]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        on_sqlite(lambda on: writers_agree_on_one_history(on, plans), f"{directory}/meta", 1000)


@given(plans=st.lists(STEPS, min_size=3, max_size=3))
def test_concurrent_writers_in_etcd_make_one_history(etcd: EtcdServer, plans: list[list[list[Any]]]) -> None:
    on_etcd(lambda on: writers_agree_on_one_history(on, plans), etcd, 1000)
