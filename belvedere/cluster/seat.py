"""The hands of one replica: carries out what its state machine decides, and tells it what happened."""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from belvedere.cluster import events
from belvedere.cluster.backup import Backup
from belvedere.cluster.configuration import Configuration, Moment
from belvedere.cluster.events import Effect, Event
from belvedere.cluster.locks import KeyLocks
from belvedere.cluster.log import Limits, Log
from belvedere.cluster.messages import (
    AnyMessage,
    Append,
    Done,
    Failed,
    Kind,
    Outcome,
    Overloaded,
    ReplicaMessage,
    Reply,
    Request,
    TailOf,
)
from belvedere.cluster.ports import Found, Opened, TabletStore
from belvedere.cluster.primary import Primary
from belvedere.cluster.replica import TabletReplica
from belvedere.cluster.tail import Tail, within
from belvedere.model.positions import NOWHERE, Position
from belvedere.runtime.api import Runtime


class House(Protocol):
    """What a seat asks of its node."""

    watch: "Callable[[Seat], None] | None"

    def moment(self) -> Moment: ...
    def send(self, node: str, message: AnyMessage) -> None: ...
    def catch_up(self, revision: int) -> None: ...
    def propose(self, seat: "Seat", number: int, configuration: Configuration) -> None: ...
    def log_broken(self, error: Exception) -> None: ...
    def replica_failed(self, tablet: int, error: Exception) -> None: ...
    def need_snapshot(self, tablet: int, learner: str) -> None: ...


class _Asked(msgspec.Struct):
    sender: str
    request: Request
    result: bytes = b""
    #: Held by an update that has not decided yet.
    key: bytes | None = None


class Seat:
    def __init__(
        self,
        runtime: Runtime,
        house: House,
        node: str,
        tablet: int,
        opened: Opened,
        limits: Limits,
        begun_at: int,
    ) -> None:
        self._runtime = runtime
        self._house = house
        self._limits = limits
        self._store: TabletStore = opened.store
        log = Log(Tail(opened.base, opened.records), opened.committed, limits.remembered)
        self.tablet = tablet
        self.replica = TabletReplica(tablet, node, log, limits, begun_at)
        self._events: deque[Event] = deque()
        self._busy = False
        self._closed = False
        self._cancel_timer: Callable[[], None] | None = None
        self._timer_at = 0.0
        self._unsent: list[tuple[Position, str, ReplicaMessage]] = []
        self._asked: dict[int, _Asked] = {}
        self._next_request = 0
        self._locks = KeyLocks()
        #: Counts cuts: what was read from the log before one may be gone.
        self._cuts = 0
        self._hands: dict[type[Effect], Callable[[Any], None]] = {
            events.AppendToLog: self._append,
            events.ApplyUpTo: self._apply,
            events.CutLog: self._cut,
            events.Send: self._send,
            events.SendWhenDurable: self._send_when_durable,
            events.Propose: self._propose,
            events.CatchUp: self._catch_up,
            events.Look: self._look,
            events.Answer: self._answer,
            events.ReadTail: self._read_tail,
            events.NeedSnapshot: self._need_snapshot,
        }

    def moment(self) -> Moment:
        return self._house.moment()

    def lacks(self, position: Position, primary: str) -> bool:
        """A learner of this primary, whose log ends before the position."""
        role, log = self.replica.role, self.replica.log
        if not isinstance(role, Backup) or role.in_sync or role.configuration.primary != primary:
            return False
        return log.last < position

    def post(self, event: Event) -> None:
        """What happens while an event is being dealt with has its turn after it."""
        self._events.append(event)
        if self._busy or self._closed:
            return
        self._busy = True
        now, hands = self._house.moment(), self._hands
        try:
            while self._events:
                for effect in self.replica.handle(self._events.popleft(), now):
                    hands[type(effect)](effect)
        except Exception as error:
            # Half of an event was dealt with: nobody knows any more what this replica is.
            self.close()
            self._house.replica_failed(self.tablet, error)
            return
        finally:
            self._busy = False
        self._set_timer(now.seconds)
        if self._house.watch is not None:
            self._house.watch(self)

    def close(self) -> None:
        self._closed = True
        if self._cancel_timer is not None:
            self._cancel_timer()

    def take(self, sender: str, message: ReplicaMessage) -> None:
        brings = isinstance(message, Append | TailOf) and bool(message.records)
        if brings and not self._store.has_room():
            # As if it had been lost: it is sent again. If that lasts, others go on without this replica.
            return
        self.post(events.Received(sender, message))

    # --- time ----------------------------------------------------------------------------------------

    def _set_timer(self, now: float) -> None:
        wake_at = self.replica.wake_at
        if wake_at is None or (self._cancel_timer is not None and self._timer_at <= wake_at):
            return
        if self._cancel_timer is not None:
            self._cancel_timer()
        self._timer_at = wake_at
        self._cancel_timer = self._runtime.call_later(max(0.0, wake_at - now), self._wake)

    def _wake(self) -> None:
        self._cancel_timer = None
        wake_at = self.replica.wake_at
        now = self._house.moment().seconds
        if wake_at is not None and wake_at <= now:
            self.post(events.Tick())
        else:
            self._set_timer(now)

    # --- log and messages ----------------------------------------------------------------------------

    def _append(self, effect: events.AppendToLog) -> None:
        last = effect.records[-1].position
        role = self.replica.role
        took_over = isinstance(role, Primary) and last.epoch < role.configuration.epoch
        self._runtime.sometimes("replication.took_over_a_longer_log", took_over)

        def written(error: Exception | None) -> None:
            if error is None:
                self._written(last)
            else:
                self._house.log_broken(error)

        self._store.append(effect.records, effect.committed, written)

    def _written(self, position: Position) -> None:
        if self._closed:
            return
        self.post(events.Durable(position))
        durable = self.replica.log.durable
        ready = [one for one in self._unsent if one[0] <= durable]
        if ready:
            self._unsent = [one for one in self._unsent if one[0] > durable]
            for _, node, message in ready:
                self._house.send(node, message)

    def _apply(self, effect: events.ApplyUpTo) -> None:
        self._store.apply(effect.position)

    def _cut(self, effect: events.CutLog) -> None:
        self._cuts += 1
        self._runtime.sometimes("replication.cut_back")
        self._unsent = [one for one in self._unsent if one[0] <= effect.position]
        self._store.cut(effect.position)

    def _send(self, effect: events.Send) -> None:
        self._house.send(effect.node, effect.message)

    def _send_when_durable(self, effect: events.SendWhenDurable) -> None:
        if effect.position <= self.replica.log.durable:
            self._house.send(effect.node, effect.message)
        else:
            self._unsent.append((effect.position, effect.node, effect.message))

    def _read_tail(self, effect: events.ReadTail) -> None:
        self._runtime.sometimes("replication.read_from_disk")
        self._runtime.spawn("replication.read_tail", self._read(effect.node, effect.position, self._cuts))

    async def _read(self, node: str, after: Position, cuts: int) -> None:
        try:
            found = await self._store.read_tail(after, self._limits.batch)
        except Exception as error:
            # A snapshot does as well, if that can be read.
            self._runtime.log("warning", "replication.log_not_read", tablet=self.tablet, error=repr(error))
            found = None
        if self._cuts != cuts:
            return
        if found is None:
            self.post(events.TailGone(node))
        else:
            floor, records = found
            self.post(events.TailRead(node, after, floor, within(records, self._limits.batch_bytes)))

    def _need_snapshot(self, effect: events.NeedSnapshot) -> None:
        self._house.need_snapshot(self.tablet, effect.node)

    # --- configurations ------------------------------------------------------------------------------

    def _propose(self, effect: events.Propose) -> None:
        self._house.propose(self, effect.number, effect.configuration)

    def _catch_up(self, effect: events.CatchUp) -> None:
        self._house.catch_up(effect.revision)

    # --- requests ------------------------------------------------------------------------------------

    def ask(self, sender: str, request: Request) -> None:
        self._next_request += 1
        number = self._next_request
        asked = self._asked[number] = _Asked(sender, request)
        if len(self._asked) > 2 * self._limits.pending:
            self._reply(number, Overloaded())
        elif request.kind in (Kind.READ, Kind.FRESH):
            idle = request.kind == Kind.FRESH
            self.post(events.ReadAsked(number, request.epoch, request.level, idle=idle))
        elif not self._store.has_room() or not self._store.takes_write(request.body):
            self._reply(number, Overloaded())
        elif request.kind == Kind.UPDATE:
            self._update(number, asked)
        else:
            self._write(number, asked)

    def _write(self, number: int, asked: _Asked) -> None:
        """Not past an update of the same key that has not decided yet."""
        body = asked.request.body
        if not self._locks.any_held or not self._locks.is_held(self._store.key_of(body)):
            if self._order_at_once(number, asked):
                return
        self._update(number, asked)

    def _update(self, number: int, asked: _Asked) -> None:
        request = asked.request
        key = self._store.key_of(request.body)

        def turn() -> None:
            asked.key = key
            if request.kind == Kind.WRITE and self._order_at_once(number, asked):
                self._unlock(asked)
            else:
                self.post(events.ReadAsked(number, request.epoch, request.level, to_write=True))

        self._locks.take(key, turn)

    def _order_at_once(self, number: int, asked: _Asked) -> bool:
        """False for a write that has to look at what is stored."""
        request = asked.request
        try:
            written = self._store.at_once(request.body)
        except Exception as error:
            self._fail(number, error)
            return True
        if written is None:
            return False
        self.post(events.WriteAsked(number, request.epoch, request.level, written.data, written.least))
        return True

    def _look(self, effect: events.Look) -> None:
        asked = self._asked[effect.request]
        update = asked.request.kind == Kind.UPDATE
        try:
            found = self._store.look_now(asked.request.body, update)
        except Exception as error:
            self._looked_in_vain(effect.request, error)
            return
        if found is not None:
            self._found(effect.request, found)
        else:
            self._runtime.spawn("replication.look", self._look_on_disk(effect.request, asked, update))

    async def _look_on_disk(self, number: int, asked: _Asked, update: bool) -> None:
        try:
            found = await self._store.look(asked.request.body, update)
        except Exception as error:
            self._looked_in_vain(number, error)
            return
        self._found(number, found)

    def _looked_in_vain(self, number: int, error: Exception) -> None:
        self._runtime.log("warning", "replication.read_failed", tablet=self.tablet, error=repr(error))
        self._fail(number, error)
        self.post(events.Looked(number, NOWHERE))

    def _fail(self, number: int, error: Exception) -> None:
        self._reply(number, Failed(type(error).__name__, str(error)))

    def _found(self, number: int, found: Found) -> None:
        asked = self._asked.get(number)
        if asked is None:
            # Answered meanwhile: this replica is no longer what it was.
            return
        asked.result = found.result
        if found.written is None:
            self.post(events.Looked(number, found.seen))
        else:
            self.post(events.Decided(number, found.written.data, found.written.least))
        self._unlock(asked)

    def _unlock(self, asked: _Asked) -> None:
        key, asked.key = asked.key, None
        if key is not None:
            self._locks.release(key)

    def _answer(self, effect: events.Answer) -> None:
        self._reply(effect.request, effect.outcome)

    def _reply(self, number: int, outcome: Outcome) -> None:
        asked = self._asked.pop(number, None)
        if asked is None:
            return
        if isinstance(outcome, Done):
            outcome = Done(asked.result)
        request, known = asked.request, self.replica.configuration
        revision = request.revision if known is None else known.revision
        reply = Reply(self.tablet, request.epoch, revision, request.incarnation, request.number, outcome)
        self._house.send(asked.sender, reply)
        self._unlock(asked)
