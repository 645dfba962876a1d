"""Leases on every store: what is put under one goes with it, and everybody sees it go."""

import asyncio

import pytest

from belvedere.meta.leases import Lease
from belvedere.meta.store import (
    Absent,
    Change,
    Committed,
    Delete,
    LeaseGone,
    MetadataStore,
    Put,
    Refused,
    Unchanged,
)
from tests.meta.stores import Harness, Stores, transaction

#: etcd counts in whole seconds and has a least one.
SHORTEST = 1.0


async def changes_until(store: MetadataStore, at: int, key: str) -> list[Change]:
    """Follow until `key` is deleted."""
    seen: list[Change] = []
    while not any(Delete(key) in change.updates for change in seen):
        await store.wait_beyond(at)
        seen += await store.changes_since(at)
        at = seen[-1].revision if seen else at
    return seen


def test_what_is_under_a_lease_goes_when_it_runs_out(on_stores: Harness) -> None:
    async def test(on: Stores) -> None:
        clock = on.runtime.clock
        begin = (await on.one.load()).revision
        sent = clock.monotonic()
        granted = await on.one.grant(SHORTEST)
        assert granted.seconds >= SHORTEST
        await on.one.commit(transaction(Put("free", b"")))
        await on.one.commit(transaction(Put("a", b"1", granted.lease), Put("b", b"2", granted.lease)))
        # Nobody does anything with the store: whoever follows sees the keys go, and not before their time.
        changes = await changes_until(on.other, begin, "a")
        assert clock.monotonic() >= sent + granted.seconds
        assert len(changes) == 3
        assert set(changes[1].updates) == {Put("a", b"1", granted.lease), Put("b", b"2", granted.lease)}
        assert set(changes[2].updates) == {Delete("a"), Delete("b")}
        loaded = await on.one.load()
        assert set(loaded.entries) == {"free"}
        assert loaded.revision >= changes[2].revision
        with pytest.raises(LeaseGone):
            await on.one.keep_alive(granted.lease)
        assert await on.one.changes_since(begin) == changes

    on_stores(test)


def test_a_lease_lives_while_it_is_kept_alive(on_stores: Harness) -> None:
    async def test(on: Stores) -> None:
        granted = await on.one.grant(SHORTEST)
        outcome = await on.one.commit(transaction(Put("a", b"", granted.lease)))
        for _ in range(8):
            await on.runtime.clock.sleep(granted.seconds / 3)
            # From whichever process: the lease belongs to who knows its number.
            assert await on.other.keep_alive(granted.lease) >= SHORTEST
        assert await on.other.commit(transaction(Unchanged("a", outcome.revision))) != outcome
        assert set((await on.one.load()).entries) == {"a"}
        await changes_until(on.one, outcome.revision, "a")

    on_stores(test)


def test_a_revoked_lease_takes_its_keys_along_at_once(on_stores: Harness) -> None:
    async def test(on: Stores) -> None:
        granted = await on.one.grant(60)
        outcome = await on.one.commit(transaction(Put("a", b"", granted.lease)))
        await on.other.revoke(granted.lease)
        await on.other.revoke(granted.lease)
        assert set((await on.one.load()).entries) == set()
        (change,) = await changes_until(on.one, outcome.revision, "a")
        assert change.updates == (Delete("a"),)
        with pytest.raises(LeaseGone):
            await on.one.keep_alive(granted.lease)

    on_stores(test)


@pytest.mark.parametrize("large", [False, True])
def test_nothing_is_committed_under_a_lease_that_is_gone(on_stores: Harness, large: bool) -> None:
    async def test(on: Stores) -> None:
        granted = await on.one.grant(60)
        await on.one.revoke(granted.lease)
        others = [Absent(f"other {number}") for number in range(300 if large else 1)]
        asked = transaction(*others, Put("b", b""), Put("a", b"", granted.lease))
        for _ in range(2):
            with pytest.raises(LeaseGone):
                await on.other.commit(asked)
        assert set((await on.one.load()).entries) == set()
        # The handle goes on as before.
        assert isinstance(await on.other.commit(transaction(Put("c", b""))), Committed)

    on_stores(test)


def test_a_key_belongs_to_the_lease_it_was_last_put_under(on_stores: Harness) -> None:
    async def test(on: Stores) -> None:
        old, new = await on.one.grant(60), await on.one.grant(60)
        await on.one.commit(transaction(*(Put(key, b"", old.lease) for key in "abcd")))
        await on.one.commit(transaction(Put("b", b""), Put("c", b"", new.lease), Delete("d")))
        await on.one.commit(transaction(Put("d", b"again")))
        await on.one.revoke(old.lease)
        assert set((await on.other.load()).entries) == {"b", "c", "d"}
        await on.one.revoke(new.lease)
        assert set((await on.other.load()).entries) == {"b", "d"}

    on_stores(test)


def test_a_transaction_that_landed_has_landed_though_its_lease_is_gone(on_stores: Harness) -> None:
    async def test(on: Stores) -> None:
        granted = await on.one.grant(60)
        asked = transaction(Absent("a"), Put("a", b"", granted.lease))
        outcome = await on.one.commit(asked)
        assert isinstance(outcome, Committed)
        await on.one.revoke(granted.lease)
        assert await on.one.commit(asked) == outcome
        assert await on.other.commit(asked) == outcome
        assert set((await on.other.load()).entries) == set()

    on_stores(test)


def test_only_one_of_two_gets_the_key_and_the_next_when_it_is_gone(on_stores: Harness) -> None:
    async def test(on: Stores) -> None:
        leases = [await on.one.grant(60), await on.one.grant(60)]
        first = await on.one.commit(transaction(Absent("leader"), Put("leader", b"1", leases[0].lease)))
        refused = await on.other.commit(transaction(Absent("leader"), Put("leader", b"2", leases[1].lease)))
        assert isinstance(first, Committed)
        assert refused == Refused(Absent("leader"), first.revision)
        await on.one.revoke(leases[0].lease)
        second = await on.other.commit(transaction(Absent("leader"), Put("leader", b"2", leases[1].lease)))
        assert isinstance(second, Committed)
        assert second.revision > first.revision

    on_stores(test)


def test_a_holder_keeps_its_lease_and_knows_until_when(on_stores: Harness) -> None:
    async def test(on: Stores) -> None:
        clock = on.runtime.clock
        sent = clock.monotonic()
        lease = await Lease.take(on.runtime, on.one, SHORTEST)
        assert lease.valid
        assert lease.valid_until > sent
        outcome = await on.one.commit(transaction(Put("a", b"", lease.id)))
        held_for = 3 * (lease.valid_until - sent)
        while clock.monotonic() < sent + held_for:
            assert lease.valid
            await clock.sleep(0.1)
        assert set((await on.other.load()).entries) == {"a"}
        # Somebody else ends it: the holder hears of it when it renews.
        await on.other.revoke(lease.id)
        await lease.lost()
        assert not lease.valid
        again = await Lease.take(on.runtime, on.one, 60)
        await on.one.commit(transaction(Put("b", b"", again.id)))
        await again.end()
        assert not again.valid
        await changes_until(on.other, outcome.revision, "b")

    on_stores(test)


def test_waiting_for_a_lease_that_ends_soon_does_not_wait_for_a_longer_one(on_stores: Harness) -> None:
    async def test(on: Stores) -> None:
        long = await on.one.grant(60)
        at = await on.one.commit(transaction(Put("long", b"", long.lease)))
        waiting = asyncio.ensure_future(changes_until(on.other, at.revision, "short"))
        await asyncio.sleep(0.05)
        short = await on.one.grant(SHORTEST)
        sent = on.runtime.clock.monotonic()
        await on.one.commit(transaction(Put("short", b"", short.lease)))
        await waiting
        assert on.runtime.clock.monotonic() < sent + 10
        assert set((await on.one.load()).entries) == {"long"}

    on_stores(test)
