"""The metadata store in etcd v3: for clusters of many machines. Several clusters may share one etcd.

Revisions are etcd's own: they grow with every transaction, and skip what others do in the same etcd.
"""

import asyncio
import math
from dataclasses import dataclass
from typing import Any

from belvedere.meta.etcd_follower import EtcdFollower
from belvedere.meta.etcd_layout import FEW_ASSERTIONS, LANDED, Layout, first_broken, head_and_id, head_of
from belvedere.meta.store import (
    Assertion,
    Change,
    Committed,
    Entry,
    Granted,
    LeaseGone,
    Loaded,
    OutcomeUnknown,
    Put,
    Refused,
    StoreUnavailable,
    Transaction,
)
from belvedere.runtime.api import Runtime
from belvedere.runtime.etcd_client import EtcdAway, EtcdClient, EtcdError, EtcdNotFound, EtcdRejected

#: For so many seconds after the first try, a retry with the same id is sure to find out what became of it.
RETRY_SECONDS = 300.0
_ID_LEASE_SECONDS = round(2.5 * RETRY_SECONDS)

#: How often a large transaction is checked anew because others commit in between.
_CHECKS = 30


@dataclass(frozen=True, slots=True)
class _IdLease:
    """What ids are put under. It is never renewed, so they go with it.

    A transaction begins under one only while that has at least RETRY_SECONDS to live, and stays with it in
    every retry. A try that comes too late, or lingers on its way for too long, names a lease that is no more,
    and cannot land.
    """

    lease: int
    good_until: float
    over_at: float


class EtcdStore:
    def __init__(
        self, runtime: Runtime, client: EtcdClient, cluster: str = "belvedere", history: int = 10_000
    ) -> None:
        self._runtime = runtime
        self._client = client
        self._layout = Layout(cluster)
        self._follower = EtcdFollower(runtime, client, self._layout, history)
        self._id_lease: _IdLease | None = None
        #: Transactions that were sent and not answered, with what their id is under.
        self._undecided: dict[bytes, _IdLease] = {}

    async def open(self) -> None:
        self._client.open()
        await self._head()

    async def close(self) -> None:
        self._follower.close()
        await self._client.close()

    async def load(self) -> Loaded:
        layout = self._layout
        answer = await _reading(self._client.range(key=layout.state, range_end=layout.state_end))
        found = ((layout.key_of(kv.key), kv) for kv in answer.kvs)
        entries = {key: Entry(kv.value, kv.mod_revision) for key, kv in found if key is not None}
        return Loaded(answer.header.revision, entries)

    async def changes_since(self, revision: int) -> list[Change]:
        return await self._follower.changes(revision, await self._head())

    async def wait_beyond(self, revision: int) -> None:
        await self._follower.wait_beyond(revision)

    async def commit(self, transaction: Transaction) -> Committed | Refused:
        tried_under = self._undecided.get(transaction.id)
        if tried_under is not None:
            return await self._retry(transaction, tried_under)
        try:
            return await self._first_try(transaction)
        except EtcdNotFound as error:
            # The ids' lease may have gone with the data of an etcd that was set up anew: take a new one.
            self._id_lease = None
            gone = error
        try:
            return await self._first_try(transaction)
        except EtcdNotFound:
            if _uses_leases(transaction):
                raise LeaseGone(str(gone)) from gone
            raise StoreUnavailable(str(gone)) from gone

    async def grant(self, seconds: float) -> Granted:
        lease, granted = await _reading(self._client.grant(max(1, math.ceil(seconds))))
        return Granted(lease, granted)

    async def keep_alive(self, lease: int) -> float:
        try:
            return float(await self._client.keep_alive(lease))
        except EtcdNotFound as error:
            raise LeaseGone(str(error)) from error
        except EtcdError as error:
            raise StoreUnavailable(str(error)) from error

    async def revoke(self, lease: int) -> None:
        try:
            await self._client.revoke(lease)
        except EtcdNotFound:
            return
        except EtcdError as error:
            raise OutcomeUnknown(str(error)) from error

    async def _head(self) -> int:
        """The revision of the newest transaction, whoever made it."""
        answer = await _reading(self._client.range(key=self._layout.head, keys_only=True))
        return answer.kvs[0].mod_revision if answer.kvs else 0

    async def _first_try(self, transaction: Transaction) -> Committed | Refused:
        """Raises EtcdNotFound when a lease is gone."""
        id_lease = await self._present_id_lease()
        self._undecided[transaction.id] = id_lease
        try:
            outcome = await self._try(transaction, id_lease, settle=False)
        except (OutcomeUnknown, asyncio.CancelledError):
            raise
        except BaseException:
            del self._undecided[transaction.id]
            raise
        return self._decided(transaction, outcome)

    async def _retry(self, transaction: Transaction, id_lease: _IdLease) -> Committed | Refused:
        """Until this is decided, nothing may be called refused: the earlier try could still land."""
        try:
            outcome = await self._try(transaction, id_lease, settle=True)
        except EtcdNotFound:
            outcome = await self._settle(transaction, id_lease)
        except (EtcdRejected, StoreUnavailable) as error:
            raise OutcomeUnknown(str(error)) from error
        return self._decided(transaction, outcome)

    def _decided(self, transaction: Transaction, outcome: Committed | Refused | None) -> Committed | Refused:
        del self._undecided[transaction.id]
        if outcome is not None:
            return outcome
        if _uses_leases(transaction):
            raise LeaseGone("a lease that the transaction puts keys under has ended")
        raise StoreUnavailable("an earlier try of the transaction was refused, and none can land any more")

    async def _settle(self, transaction: Transaction, id_lease: _IdLease) -> Committed | None:
        """See to it that the transaction has landed or never will; None for the latter."""
        try:
            answer = await self._client.transact(self._layout.settlement(transaction, id_lease.lease))
        except EtcdNotFound as error:
            raise OutcomeUnknown(
                f"it was too late to find out: ids are kept for {RETRY_SECONDS:.0f} s"
            ) from error
        except EtcdError as error:
            raise OutcomeUnknown(str(error)) from error
        if answer.succeeded:
            return None
        _, own = head_and_id(answer)
        return Committed(own.mod_revision) if own.value == LANDED else None

    async def _try(
        self, transaction: Transaction, id_lease: _IdLease, settle: bool
    ) -> Committed | Refused | None:
        """None when an earlier try was refused and the reason is no longer there to be shown."""
        if len(transaction.asserts) > FEW_ASSERTIONS:
            return await self._try_large(transaction, id_lease, settle)
        answer = await self._send(self._layout.write(transaction, id_lease.lease, settle))
        if answer.succeeded:
            return Committed(answer.header.revision)
        head, own = head_and_id(answer)
        if own is not None and own.value == LANDED:
            return Committed(own.mod_revision)
        return _refusal(transaction, head, self._layout.found(answer))

    async def _try_large(
        self, transaction: Transaction, id_lease: _IdLease, settle: bool
    ) -> Committed | Refused | None:
        """Every transaction moves the head: what is checked holds for as long as the head stays."""
        for _ in range(_CHECKS):
            heads: set[int] = set()
            found: dict[str, Any] = {}
            for request in self._layout.checks(transaction):
                answer = await _reading(self._client.transact(request))
                heads.add(head_of(answer))
                found |= self._layout.found(answer)
            if len(heads) > 1:
                continue
            (head,) = heads
            if first_broken(transaction.asserts, found) is not None:
                landed = await self._landed(transaction, id_lease, settle)
                return landed or _refusal(transaction, head, found)
            leased: list[Assertion] = [
                one for one in transaction.asserts if one.key in found and found[one.key].lease
            ]
            answer = await self._send(self._layout.write_at(transaction, id_lease.lease, head, leased))
            if answer.succeeded:
                return Committed(answer.header.revision)
            _, own = head_and_id(answer)
            if own is not None:
                landed = Committed(own.mod_revision) if own.value == LANDED else None
                return landed or _refusal(transaction, head, found)
        raise StoreUnavailable("others commit too often for a transaction as large as this; try again")

    async def _landed(self, transaction: Transaction, id_lease: _IdLease, settle: bool) -> Committed | None:
        """Whether a transaction whose assertions are broken broke them itself."""
        if settle:
            return await self._settle(transaction, id_lease)
        answer = await _reading(self._client.range(key=self._layout.id(transaction)))
        if answer.kvs and answer.kvs[0].value == LANDED:
            return Committed(answer.kvs[0].mod_revision)
        return None

    async def _send(self, request: Any) -> Any:
        try:
            return await self._client.transact(request)
        except EtcdAway as error:
            raise StoreUnavailable(str(error)) from error
        except EtcdNotFound:
            raise
        except EtcdRejected as error:
            raise StoreUnavailable(str(error)) from error
        except EtcdError as error:
            raise OutcomeUnknown(str(error)) from error

    async def _present_id_lease(self) -> _IdLease:
        now = self._runtime.clock.monotonic()
        if self._id_lease is None or now >= self._id_lease.good_until:
            lease, seconds = await _reading(self._client.grant(_ID_LEASE_SECONDS))
            self._id_lease = _IdLease(lease, now + seconds / 2 - 1.0, now + 2.0 * seconds)
            self._undecided = {one: under for one, under in self._undecided.items() if now < under.over_at}
        return self._id_lease


def _refusal(transaction: Transaction, head: int, found: dict[str, Any]) -> Refused | None:
    newest = max([head, *(kv.mod_revision for kv in found.values())])
    if not transaction.asserts:
        return None
    # Refused by an earlier try and fine by now: no later try may land, so it stays refused.
    return Refused(first_broken(transaction.asserts, found) or transaction.asserts[0], newest)


def _uses_leases(transaction: Transaction) -> bool:
    return any(isinstance(update, Put) and update.lease is not None for update in transaction.updates)


async def _reading(call: Any) -> Any:
    """What changes nothing, or nothing that matters."""
    try:
        return await call
    except EtcdError as error:
        raise StoreUnavailable(str(error)) from error
