"""A replica that is not primary: in sync, or a learner on its way there.

Both take what follows their last record and nothing else. Who is in sync has only what every primary to come
will have, so it never cuts. A learner may hold the tail of a deposed primary that nobody was told of: it
says where its log ends, is told how far it agrees, and cuts the rest before it takes anything.
"""

from collections.abc import Sequence

from belvedere.cluster.configuration import Configuration, Level, Moment
from belvedere.cluster.events import Answer, Effect, Looked, ReadAsked, Send, SendWhenDurable
from belvedere.cluster.log import Limits, Log
from belvedere.cluster.messages import (
    Append,
    AskTail,
    CutBack,
    NotServing,
    Overloaded,
    ReplicaMessage,
    StaleEpoch,
    Standing,
    TailOf,
)
from belvedere.cluster.reads import Reads
from belvedere.cluster.tail import within
from belvedere.model.positions import Record


class Backup:
    def __init__(
        self, tablet: int, node: str, configuration: Configuration, log: Log, limits: Limits
    ) -> None:
        self._tablet = tablet
        self._node = node
        self._log = log
        self._limits = limits
        self._reads = Reads()
        #: The primary has answered this replica since it took its part.
        self._greeted = False
        self._ask_at: float | None = None
        self.configuration = configuration

    @property
    def wake_at(self) -> float | None:
        return min((at for at in (self._ask_at, self._reads.wake_at) if at is not None), default=None)

    @property
    def in_sync(self) -> bool:
        return self._node in self.configuration.in_sync

    def begin(self, now: Moment) -> list[Effect]:
        return self.reconfigure(self.configuration, now)

    def reconfigure(self, configuration: Configuration, now: Moment) -> list[Effect]:
        self.configuration = configuration
        dropped = [] if self.in_sync else self._reads.drop("this replica is not in sync")
        self._ask_at = None
        return dropped + self.tick(now)

    def leave(self) -> list[Effect]:
        return self._reads.drop("this replica has another part now")

    def tick(self, now: Moment) -> list[Effect]:
        """A learner asks again and again: the primary keeps no watch over it. Who is in sync asks until it is
        answered once: it may have been down, and not know any more what is committed."""
        effects = self._reads.look_in_any_case(now.seconds)
        if self.in_sync and self._greeted:
            self._ask_at = None
        elif self._ask_at is None or now.seconds >= self._ask_at:
            self._ask_at = now.seconds + self._limits.retry
            effects.append(Send(self.configuration.primary, self._standing(waits=True)))
        return effects

    def written(self, now: Moment) -> list[Effect]:
        return []

    # --- following -----------------------------------------------------------------------------------

    def receive(self, sender: str, message: ReplicaMessage, now: Moment) -> list[Effect]:
        if sender != self.configuration.primary:
            return []
        match message:
            case Append():
                return self._append(message)
            case CutBack() if not self.in_sync:
                return self._cut_back(message)
            case AskTail():
                records = self._log.tail.after(message.after, self._limits.batch)
                records = within(records, self._limits.batch_bytes)
                answer = TailOf(*self._heading, self._log.last, records)
                return [Send(sender, answer)]
        return []

    def _append(self, message: Append) -> list[Effect]:
        log = self._log
        self._greeted = True
        fresh = self._fresh(message)
        if fresh is None:
            return [Send(self.configuration.primary, self._standing(waits=True))]
        effects: list[Effect] = [log.append(fresh)] if fresh else []
        agreed = message.records[-1].position if message.records else message.previous
        effects += log.commit(min(message.committed, agreed))
        effects += self._reads.release(log.committed)
        answer = Standing(*self._heading, log.last, log.last, log.committed)
        effects.append(SendWhenDurable(self.configuration.primary, answer, log.last))
        return effects

    def _fresh(self, message: Append) -> Sequence[Record] | None:
        """What of the message follows the own log; None if it does not connect."""
        last = self._log.last
        if message.previous == last:
            return message.records
        for index, record in enumerate(message.records):
            if record.position == last:
                return message.records[index + 1 :]
        agreed = message.records[-1].position if message.records else message.previous
        return () if agreed in self._log.tail else None

    def _cut_back(self, message: CutBack) -> list[Effect]:
        if message.last != self._log.last:
            return []
        cut = self._log.cut(message.to)
        return [cut, Send(self.configuration.primary, self._standing(waits=True))]

    @property
    def _heading(self) -> tuple[int, int, int]:
        return self._tablet, self.configuration.epoch, self.configuration.revision

    def _standing(self, waits: bool) -> Standing:
        log = self._log
        return Standing(*self._heading, log.last, log.durable, log.committed, waits)

    # --- reads for ONE -------------------------------------------------------------------------------

    def read(self, event: ReadAsked, now: Moment) -> list[Effect]:
        if not self.in_sync or event.to_write or event.level is not Level.ONE:
            return [Answer(event.request, NotServing("this replica is not the primary"))]
        if not now.leased:
            return [Answer(event.request, NotServing("this node does not hold its lease"))]
        if not self._greeted:
            # It started a moment ago: what it knows to be committed may be very old.
            return [Answer(event.request, NotServing("this replica has not heard from the primary yet"))]
        if event.epoch != self.configuration.epoch:
            return [Answer(event.request, StaleEpoch(self.configuration.revision))]
        if len(self._reads) >= self._limits.pending:
            return [Answer(event.request, Overloaded())]
        if self._log.committed < self._log.last:
            # What was acknowledged is in this log, and soon known to be committed: whoever was told of it
            # shall see it here.
            until = now.seconds + self._limits.linger
            self._reads.behind.append((self._log.last, event.request, event.level, until))
            return []
        return [self._reads.look(event.request, event.level)]

    def looked(self, event: Looked, now: Moment) -> list[Effect]:
        self._reads.looked(event)
        return self._reads.release(self._log.committed)
