"""Safeguards of whole nodes, each switched off on purpose, and in how many seeds that must be found."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import msgspec

from belvedere.cluster import events
from belvedere.cluster.backup import Backup
from belvedere.cluster.barrier import Barrier
from belvedere.cluster.configuration import Level
from belvedere.cluster.messages import Done, Kind
from belvedere.cluster.operations import Operations
from belvedere.cluster.ports import Found
from belvedere.cluster.primary import Primary
from belvedere.cluster.router import Router
from belvedere.model.positions import NOWHERE
from belvedere.query.database import Database
from belvedere.query.keeping import ALWAYS
from belvedere.query.replicated import outbox, tablet_rows
from belvedere.query.replicated.access import LeveledAccess
from belvedere.query.replicated.operations import CHANGED
from belvedere.query.replicated.outbox import Outbox
from belvedere.query.replicated.replicas import Replicas
from belvedere.query.replicated.tablet_rows import TabletRows
from belvedere.query.schema import truncate

Patch = AbstractContextManager[Any]


# --- the outbox ---------------------------------------------------------------------------------------


def new_primary_does_not_deliver() -> Patch:
    """What was ordered before its reign is its predecessor's business."""
    original = Outbox.learn

    def learn(self: Outbox, version: int, write: Any) -> None:
        if self._may_deliver():
            original(self, version, write)
        else:
            self._newest = max(self._newest, version)

    return patch.object(Outbox, "learn", learn)


def undelivered_forgotten_at_a_restart() -> Patch:
    return patch.object(TabletRows, "learn", lambda self, opened: None)


def delivered_before_it_is() -> Patch:
    """Records say that everything has arrived that was ordered before them."""
    return patch.object(Outbox, "delivered", property(lambda self: self._newest))


def parts_of_batches_stay_where_they_are() -> Patch:
    async def deliver_all(self: Outbox, version: int, write: Any) -> bool:
        return await original(self, version, msgspec.structs.replace(write, others=[], targets=[]))

    original = Outbox._deliver_all
    return patch.object(Outbox, "_deliver_all", deliver_all)


def failed_deliveries_count() -> Patch:
    original = Replicas._write

    async def write(self: Replicas, *arguments: Any) -> bool:
        await original(self, *arguments)
        return True

    return patch.object(Replicas, "_write", write)


def images_without_versions() -> Patch:
    """An image wins by when it arrives where there is nothing newer, not by its record's version."""
    original = outbox.stamp
    return patch.object(outbox, "stamp", lambda mutation, version: original(mutation, 1))


# --- deciding and dating ------------------------------------------------------------------------------


def updates_do_not_see_what_was_ordered() -> Patch:
    return patch.object(Primary, "_sees_everything", lambda self: True)


class _Anything:
    """Equal to whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False


def what_was_seen_not_compared() -> Patch:
    """What a statement was decided by may have changed by the time it is ordered."""
    return patch.object(tablet_rows, "digest", lambda found: _Anything())


def writes_dated_by_whoever_asks() -> Patch:
    return patch.object(TabletRows, "_dated", lambda self, change: change)


def dates_of_others_not_asked_for() -> Patch:
    async def nothing(self: LeveledAccess, others: Any) -> int:
        return 0

    return patch.object(LeveledAccess, "_latest_date", nothing)


def batches_of_two_moments() -> Patch:
    """Its first part may go to a newer tablet than those that its other parts name."""
    original = LeveledAccess._ask

    async def ask(self: LeveledAccess, *arguments: Any) -> Any:
        return await original(self, *arguments[:5])

    return patch.object(LeveledAccess, "_ask", ask)


def written_batches_look_refused() -> Patch:
    async def delivered(self: LeveledAccess, table: Any, token: int) -> None:
        await self.delivered(table, token)

    return patch.object(LeveledAccess, "_parts_delivered", delivered)


def parts_of_batches_not_waited_for() -> Patch:
    async def nothing(self: LeveledAccess, table: Any, token: int) -> None:
        return None

    return patch.object(LeveledAccess, "_parts_delivered", nothing)


# --- primaries, replicas, and who may answer ----------------------------------------------------------


def answered_before_it_is_committed() -> Patch:
    original = Primary._order

    def order(self: Primary, request: int, *arguments: Any) -> Any:
        effects = original(self, request, *arguments)
        self._writes.pop()
        return [*effects, events.Answer(request, Done())]

    return patch.object(Primary, "_order", order)


def serves_without_a_valid_lease() -> Patch:
    stack = ExitStack()
    stack.enter_context(patch.object(Operations, "check", lambda self: None))
    stack.enter_context(patch.object(Operations, "close", lambda self: None))
    allowed = property(lambda self: self._lease is not None)
    stack.enter_context(patch.object(Operations, "allowed", allowed))
    return stack


def reads_at_one_from_any_replica() -> Patch:
    """In sync or not."""

    def read(self: Backup, event: Any, now: Any) -> Any:
        self._reads.looking[event.request] = event.level
        return [events.Look(event.request)]

    def target(self: Router, tablet: Any, kind: str, level: Level) -> str:
        if kind == Kind.READ and level is Level.ONE and self._host.node in tablet.replicas:
            return self._host.node
        return original(self, tablet, kind, level)

    original = Router._target
    stack = ExitStack()
    stack.enter_context(patch.object(Backup, "read", read))
    stack.enter_context(patch.object(Router, "_target", target))
    return stack


# --- views --------------------------------------------------------------------------------------------


def builds_begin_at_once() -> Patch:
    """Neither the barrier is passed nor a mark written: rows are read that do not have yet what was ordered
    before, by primaries that may not know the view."""
    original = Barrier.wait

    async def wait(self: Barrier, revision: int, within: float | None = None) -> None:
        if within != 30.0:
            await original(self, revision, within)

    async def nothing(self: LeveledAccess, table: Any, token: int) -> None:
        return None

    stack = ExitStack()
    stack.enter_context(patch.object(Barrier, "wait", wait))
    stack.enter_context(patch.object(LeveledAccess, "write_mark", nothing))
    return stack


def builds_newer_than_what_they_read() -> Patch:
    """Images win against those of writes that came while rows were read."""

    async def scan_stored(self: LeveledAccess, *arguments: Any) -> Any:
        found = await original(self, *arguments)
        found.version += 10_000_000
        return found

    original = LeveledAccess.scan_stored
    return patch.object(LeveledAccess, "scan_stored", scan_stored)


def views_not_looked_at_again() -> Patch:
    """A write that waited for the disk goes by the views that there were when it began."""

    async def update(self: TabletRows, change: Any) -> Found:
        change, makers = self._dated(change), self._makers
        changes = await self.store.changes(change.mutation, ALWAYS) if change.mutation and makers else []
        return Found(CHANGED, NOWHERE, self._written(change, self._updates(change, makers, changes)))

    return patch.object(TabletRows, "_update", update)


# --- the schema ---------------------------------------------------------------------------------------


def truncation_keeps_tablets() -> Patch:
    return patch.object(truncate, "_renewing", lambda state, tables: [])


def truncation_keeps_tablets_of_views() -> Patch:
    original = truncate._renewing
    return patch.object(truncate, "_renewing", lambda state, tables: original(state, tables[:1]))


def unknown_names_not_looked_up() -> Patch:
    return patch.object(Database, "knows_more", lambda self, unknown: None)


@dataclass(frozen=True)
class Bug:
    plant: Callable[[], Patch]
    #: Only seeds with this work are tried: so many of them, from 0 on.
    work: str
    seeds: int
    #: Looked for in long runs only.
    rare: bool = False

    @property
    def name(self) -> str:
        return self.plant.__name__


BUGS = [
    Bug(new_primary_does_not_deliver, "batches", 20),
    Bug(undelivered_forgotten_at_a_restart, "batches", 40),
    Bug(delivered_before_it_is, "batches", 10),
    Bug(parts_of_batches_stay_where_they_are, "batches", 10),
    Bug(failed_deliveries_count, "batches", 20),
    Bug(parts_of_batches_not_waited_for, "batches", 10),
    Bug(written_batches_look_refused, "batches", 250, rare=True),
    Bug(images_without_versions, "rows", 20),
    Bug(updates_do_not_see_what_was_ordered, "registers", 20),
    Bug(what_was_seen_not_compared, "registers", 40),
    Bug(what_was_seen_not_compared, "counters", 10),
    Bug(writes_dated_by_whoever_asks, "registers", 10),
    Bug(dates_of_others_not_asked_for, "registers", 250, rare=True),
    Bug(answered_before_it_is_committed, "registers", 10),
    Bug(serves_without_a_valid_lease, "registers", 60, rare=True),
    Bug(builds_begin_at_once, "rows", 100, rare=True),
    Bug(builds_newer_than_what_they_read, "rows", 20),
    Bug(batches_of_two_moments, "truncation", 300, rare=True),
    Bug(truncation_keeps_tablets, "truncation", 10),
    Bug(truncation_keeps_tablets_of_views, "rows", 20),
    Bug(unknown_names_not_looked_up, "schema", 40),
]
