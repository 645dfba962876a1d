"""What must hold of a replicated cluster, told from outside the code that is to uphold it."""

from collections.abc import Mapping, Sequence

import msgspec

from belvedere.cluster.primary import Primary
from belvedere.cluster.seat import Seat
from belvedere.meta import records
from belvedere.meta.store import Change, Put
from belvedere.sim.checkers.history import Kind, Outcome
from belvedere.sim.checkers.linearizability import GaveUp, check
from belvedere.sim.replication.clients import Asked, number_of
from belvedere.sim.replication.keyvalue import KeyValueStore
from belvedere.sim.replication.node import SimNode


class Broken(AssertionError):
    """Something that must hold did not."""


class Watch:
    """Looks at every step: never two who would serve one tablet at the same moment."""

    def __init__(self, nodes: Mapping[str, SimNode]) -> None:
        self._nodes = nodes
        self._server: dict[int, SimNode] = {}
        self.failure: str | None = None

    def __call__(self, node: SimNode, seat: Seat) -> None:
        replica = seat.replica
        replica.check_invariants()
        if not isinstance(replica.role, Primary) or self._server.get(seat.tablet) is node:
            return
        if not _serves(node, seat.tablet):
            return
        for other in self._nodes.values():
            if other is not node and _serves(other, seat.tablet) and self.failure is None:
                self.failure = f"tablet {seat.tablet} is served by {other.name} and by {node.name}"
        self._server[seat.tablet] = node


def _serves(node: SimNode, tablet: int) -> bool:
    seat = node.host.seats.get(tablet)
    alive = node.runtime.incarnation.alive
    return alive and seat is not None and seat.replica.serves(node.host.moment())


def check_configurations(changes: Sequence[Change]) -> None:
    """They form one chain: epochs go up by one, a new primary was in sync before, so nobody else has all."""
    known: dict[str, records.TabletRecord] = {}
    for change in changes:
        for update in change.updates:
            if not update.key.startswith("tablets/"):
                continue
            if not isinstance(update, Put):
                raise Broken(f"{update.key} was deleted")
            after = msgspec.json.decode(update.value, type=records.TabletRecord)
            before = known.get(update.key)
            known[update.key] = after
            if before is None:
                continue
            joined = set(after.in_sync) - set(before.in_sync)
            if after.epoch != before.epoch + 1:
                raise Broken(f"{update.key} went from epoch {before.epoch} to {after.epoch}")
            if after.primary not in before.in_sync or after.primary not in after.in_sync:
                raise Broken(f"{update.key} has primary {after.primary}, who is not in sync")
            if joined and after.primary != before.primary:
                raise Broken(f"{update.key}: {joined} joined under a new primary")
            if not set(after.in_sync) <= set(after.replicas):
                raise Broken(f"{update.key}: in sync are {after.in_sync}, of {after.replicas}")


def newest_tablets(changes: Sequence[Change]) -> dict[int, records.TabletRecord]:
    newest: dict[str, bytes] = {}
    for change in changes:
        for update in change.updates:
            if update.key.startswith("tablets/") and isinstance(update, Put):
                newest[update.key] = update.value
    return {
        int(key.rpartition("/")[2]): msgspec.json.decode(value, type=records.TabletRecord)
        for key, value in newest.items()
    }


def check_replicas(tablet: int, stores: Mapping[str, KeyValueStore]) -> None:
    """At rest: the same records in the same order, the same shown to readers, versions growing."""
    first, *others = stores.values()
    versions = [record.position.version for record in first.records]
    if versions != sorted(set(versions)):
        raise Broken(f"tablet {tablet}: commit versions do not grow: {versions}")
    for other in others:
        if other.records != first.records or other.shown != first.shown:
            raise Broken(f"tablet {tablet}: replicas {', '.join(stores)} differ at rest")


def check_told(asked: Asked, final: Mapping[int, KeyValueStore]) -> None:
    """Against the one sequence of writes that every replica has at the end."""
    written: dict[str, list[int]] = {}
    for store in final.values():
        for record in store.records:
            key, _, value = record.data.partition(b"=")
            written.setdefault(key.decode(), []).append(int(value))
    for operation in asked.history.operations:
        if operation.kind is Kind.READ:
            continue
        times = written.get(operation.key, []).count(operation.value)  # type: ignore[arg-type]
        if operation.outcome is Outcome.DONE and times == 0:
            raise Broken(f"{operation.key}: {operation.describe()} was acknowledged, and is lost")
        if operation.outcome in (Outcome.FAILED, Outcome.REFUSED) and times > 0:
            raise Broken(f"{operation.key}: {operation.describe()} was refused, and was carried out")
        if times > 1:
            raise Broken(f"{operation.key}: {operation.describe()} was carried out {times} times")
    for name, shown in asked.weak_reads:
        number = number_of(shown)
        if number is not None and number not in written.get(name, []):
            raise Broken(f"{name}: a read at ONE was shown {number}, which was taken back")


def check_history(asked: Asked) -> None:
    found = check(asked.history)
    if found is not None and not isinstance(found, GaveUp):
        raise Broken(f"not linearizable: {found}")
