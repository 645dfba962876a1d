"""The safeguards of replication, each switched off by a patch, to show that the scenario misses it."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from belvedere.cluster import events, failover, failover_leader, host
from belvedere.cluster.backup import Backup
from belvedere.cluster.configuration import Configuration
from belvedere.cluster.followers import Feeding
from belvedere.cluster.host import Host
from belvedere.cluster.locks import KeyLocks
from belvedere.cluster.messages import Append, CutBack, Standing, TailOf
from belvedere.cluster.primary import Primary
from belvedere.cluster.replica import TabletReplica
from belvedere.cluster.seat import Seat
from belvedere.cluster.tail import Tail
from belvedere.meta import leases
from belvedere.meta.memory import MemoryStore
from belvedere.meta.store import Granted
from belvedere.model.positions import Position, Record

Patch = AbstractContextManager[Any]


# --- who may serve -----------------------------------------------------------------------------------


def lease_not_checked() -> Patch:
    return patch.object(Primary, "_may_serve", lambda self, now: True)


def no_margin() -> Patch:
    return patch.object(leases, "_MARGIN", 0.0)


def lost_lease_not_waited_out() -> Patch:
    """The store ends leases before their holders know."""

    async def grant(self: MemoryStore, seconds: float) -> Granted:
        granted = await original_grant(self, seconds * 0.6)
        return Granted(granted.lease, seconds)

    async def keep_alive(self: MemoryStore, lease: int) -> float:
        return await original_keep(self, lease) / 0.6

    original_grant, original_keep = MemoryStore.grant, MemoryStore.keep_alive
    return patch.multiple(MemoryStore, grant=grant, keep_alive=keep_alive)


def failover_does_not_look_at_the_lease_again() -> Patch:
    """A leader that is behind takes the place of a node that is back."""
    original = failover_leader.FailoverLeader._proposal

    def proposal(self: Any, state: Any, wanted: Any) -> Any:
        found = original(self, state, dataclasses_replace(wanted, gone=()))
        return found

    return patch.object(failover_leader.FailoverLeader, "_proposal", proposal)


def dataclasses_replace(wanted: failover.Reconfigure, gone: tuple[str, ...]) -> failover.Reconfigure:
    return failover.Reconfigure(wanted.tablet, wanted.configuration, gone)


# --- epochs ------------------------------------------------------------------------------------------


def backup_listens_to_old_epochs() -> Patch:
    original = TabletReplica._received

    def received(self: TabletReplica, event: events.Received, now: Any) -> Any:
        if isinstance(self.role, Backup) and isinstance(event.message, Append):
            return self.role._append(event.message)
        return original(self, event, now)

    return patch.object(TabletReplica, "_received", received)


def primary_listens_to_old_epochs() -> Patch:
    original = TabletReplica._received

    def received(self: TabletReplica, event: events.Received, now: Any) -> Any:
        if isinstance(self.role, Primary) and isinstance(event.message, Standing | TailOf):
            return self.role.receive(event.sender, event.message, now)
        return original(self, event, now)

    return patch.object(TabletReplica, "_received", received)


def restarted_primary_keeps_its_epoch() -> Patch:
    original = Primary.__init__

    def init(self: Primary, *arguments: Any) -> None:
        original(self, *arguments[:-1], False)

    return patch.object(Primary, "__init__", init)


def versions_by_the_clock_alone() -> Patch:
    """But for those of one epoch."""

    def next_version(self: Primary, now: Any) -> int:
        last = self._log.last
        own = last.version + 1 if last.epoch == self.configuration.epoch else 1
        return max(now.micros, own)

    return patch.object(Primary, "_next_version", next_version)


# --- acknowledging -----------------------------------------------------------------------------------


def backups_not_waited_for() -> Patch:
    return patch.object(Primary, "_required", lambda self: [])


def one_backup_is_enough() -> Patch:
    original = Primary._required
    return patch.object(Primary, "_required", lambda self: original(self)[:1])


def backup_answers_before_disk() -> Patch:
    def send(self: Seat, effect: events.SendWhenDurable) -> None:
        self._house.send(effect.node, effect.message)

    return patch.object(Seat, "_send_when_durable", send)


def primary_answers_before_disk() -> Patch:
    original = Primary._agreed

    def agreed(self: Primary) -> Position:
        self._log.durable = self._log.last
        return original(self)

    return patch.object(Primary, "_agreed", agreed)


def removal_not_waited_for() -> Patch:
    original = Primary._required

    def required(self: Primary) -> list[str]:
        proposed = self.proposed
        return [node for node in original(self) if proposed is None or node in proposed.configuration.in_sync]

    return patch.object(Primary, "_required", required)


def joining_not_waited_for() -> Patch:
    def required(self: Primary) -> list[str]:
        return [node for node in self.configuration.in_sync if node != self._node]

    return patch.object(Primary, "_required", required)


def unknown_proposal_taken_for_refused() -> Patch:
    def unanswered(self: Primary, number: int, now: Any) -> None:
        self.proposal_refused(number, now)

    return patch.object(Primary, "proposal_unanswered", unanswered)


def updates_do_not_see_what_was_ordered() -> Patch:
    """They look at once, past writes that are not committed yet."""
    return patch.object(Primary, "_sees_everything", lambda self: True)


def shown_before_it_is_committed() -> Patch:
    original = Seat._append

    def append(self: Seat, effect: events.AppendToLog) -> None:
        original(self, effect)
        self._store.apply(effect.records[-1].position)

    return patch.object(Seat, "_append", append)


# --- one sequence ------------------------------------------------------------------------------------


def tail_not_settled() -> Patch:
    return patch.object(Primary, "_is_settled", lambda self: True)


def learner_joins_at_once() -> Patch:
    return patch.object(Primary, "_has_caught_up", lambda self, follower: follower.matched is not None)


def _append_anything(self: Tail, record: Record) -> None:
    self._records.append(record)
    self._positions.append(record.position)
    self.last = record.position


def divergent_tail_not_cut() -> Patch:
    """Learner and primary agree to forget about it."""

    def elsewhere(self: Feeding, follower: Any, said: Standing, in_sync: bool) -> Any:
        follower.sent = follower.matched = self._log.tail.floor(said.last)
        return self.feed(follower)

    def fresh(self: Backup, message: Append) -> Sequence[Record] | None:
        return [record for record in message.records if record.position > self._log.last]

    @contextmanager
    def planted() -> Any:
        with (
            patch.object(Tail, "append", _append_anything),
            patch.object(Feeding, "_elsewhere", elsewhere),
            patch.object(Backup, "_fresh", fresh),
        ):
            yield

    return planted()


def late_cuts_carried_out() -> Patch:
    """A learner cuts whatever it is told to, even if it was told long ago."""

    def cut_back(self: Backup, message: CutBack) -> Any:
        if message.to >= self._log.last:
            return []
        self._log.committed = min(self._log.committed, message.to)
        cut = self._log.cut(message.to)
        return [cut, events.Send(self.configuration.primary, self._standing(waits=True))]

    return patch.object(Backup, "_cut_back", cut_back)


def gaps_not_noticed() -> Patch:
    def fresh(self: Backup, message: Append) -> Sequence[Record] | None:
        return [record for record in message.records if record.position > self._log.last]

    @contextmanager
    def planted() -> Any:
        with patch.object(Tail, "append", _append_anything), patch.object(Backup, "_fresh", fresh):
            yield

    return planted()


def successor_need_not_be_in_sync() -> Patch:
    original = failover._without_dead

    def without_dead(placed: failover.Placed, load: dict[str, int]) -> Any:
        c = placed.configuration
        alive = tuple(node for node in c.replicas if node in load)
        if c.primary in load or not alive:
            return original(placed, load)
        gone = tuple(node for node in c.in_sync if node not in load)
        return failover.Reconfigure(placed.tablet, c.next(alive, alive[-1]), gone)

    return patch.object(failover, "_without_dead", without_dead)


def configuration_put_without_compare() -> Patch:
    def proposal_of(tablet: Any, proposed: Configuration) -> Any:
        _, updates = original(tablet, proposed)
        return (), updates

    original = host.proposal_of
    stack = ExitStack()
    stack.enter_context(patch.object(host, "proposal_of", proposal_of))
    stack.enter_context(patch.object(failover_leader, "proposal_of", proposal_of))
    return stack


# --- requests ----------------------------------------------------------------------------------------


def updates_without_lock() -> Patch:
    return patch.multiple(KeyLocks, take=lambda self, key, then: then(), release=lambda self, key: None)


def writes_pass_updates() -> Patch:
    return patch.object(KeyLocks, "is_held", lambda self, key: False)


def repeated_requests_carried_out() -> Patch:
    return patch.object(Host, "_is_new", lambda self, sender, request: True)


def requests_without_incarnation() -> Patch:
    def is_new(self: Host, sender: str, request: Any) -> bool:
        return self._heard.setdefault((sender, 0), host._Heard()).take(request.number)

    return patch.object(Host, "_is_new", is_new)


def proposals_without_incarnation() -> Patch:
    original = Host.__init__

    def init(self: Host, *arguments: Any) -> None:
        original(self, *arguments)
        self._life = self.node

    return patch.object(Host, "__init__", init)


@dataclass(frozen=True)
class Bug:
    plant: Callable[[], Patch]
    #: Seeds within which it is found.
    seeds: int

    @property
    def name(self) -> str:
        return self.plant.__name__

    @property
    def is_common(self) -> bool:
        return self.seeds <= 60


ALL = [
    Bug(lease_not_checked, 60),
    Bug(no_margin, 60),
    Bug(lost_lease_not_waited_out, 60),
    Bug(failover_does_not_look_at_the_lease_again, 300),
    Bug(backup_listens_to_old_epochs, 2000),
    Bug(primary_listens_to_old_epochs, 2500),
    Bug(restarted_primary_keeps_its_epoch, 5000),
    Bug(versions_by_the_clock_alone, 20),
    Bug(backups_not_waited_for, 20),
    Bug(one_backup_is_enough, 60),
    Bug(backup_answers_before_disk, 60),
    Bug(primary_answers_before_disk, 1000),
    Bug(removal_not_waited_for, 600),
    Bug(joining_not_waited_for, 5000),
    Bug(unknown_proposal_taken_for_refused, 40),
    Bug(updates_do_not_see_what_was_ordered, 20),
    Bug(shown_before_it_is_committed, 500),
    Bug(tail_not_settled, 20),
    Bug(learner_joins_at_once, 1200),
    Bug(divergent_tail_not_cut, 20),
    Bug(late_cuts_carried_out, 5000),
    Bug(gaps_not_noticed, 20),
    Bug(successor_need_not_be_in_sync, 40),
    Bug(configuration_put_without_compare, 60),
    Bug(updates_without_lock, 60),
    Bug(writes_pass_updates, 60),
    Bug(repeated_requests_carried_out, 20),
    Bug(requests_without_incarnation, 300),
    Bug(proposals_without_incarnation, 60),
]
