"""What a primary knows of each follower, and what it sends them."""

from dataclasses import dataclass

from belvedere.cluster.configuration import Configuration, Moment
from belvedere.cluster.events import Effect, NeedSnapshot, ReadTail, Send, TailRead
from belvedere.cluster.log import Limits, Log
from belvedere.cluster.messages import Append, AskTail, CutBack, Standing
from belvedere.cluster.tail import within
from belvedere.model.positions import NOWHERE, Position, Record


@dataclass(slots=True)
class Follower:
    node: str
    #: The last of the primary's records that it is known to hold; None: it has not said yet.
    matched: Position | None = None
    #: What was sent up to, arrived or not.
    sent: Position | None = None
    #: On its disk.
    durable: Position = NOWHERE
    #: What it knows to be committed, and what it was told.
    knows_committed: Position = NOWHERE
    told_committed: Position = NOWHERE
    #: It has told a new primary where its log ends, and the primary has all of that.
    settled: bool = False
    #: Since when it owes an answer and makes no progress.
    owes_since: float | None = None
    resend_at: float = 0.0
    #: What it needs is being read from disk.
    reading: bool = False


class Feeding:
    """Makes the messages of one reign."""

    def __init__(self, tablet: int, configuration: Configuration, log: Log, limits: Limits) -> None:
        self._tablet = tablet
        self._log = log
        self._limits = limits
        self.configuration = configuration

    @property
    def heading(self) -> tuple[int, int, int]:
        return self._tablet, self.configuration.epoch, self.configuration.revision

    def ask_tail(self, follower: Follower) -> Effect:
        return Send(follower.node, AskTail(*self.heading, self._log.last))

    def feed(self, follower: Follower) -> list[Effect]:
        """The next batch after what was sent. An empty one asks where the follower is."""
        tail, sent = self._log.tail, follower.sent
        if sent is None:
            return [self._append(follower, tail.last, ())]
        if sent < tail.base:
            if follower.reading:
                return []
            follower.reading = True
            return [ReadTail(follower.node, sent)]
        records = within(tail.after(sent, self._limits.batch), self._limits.batch_bytes)
        if records:
            follower.sent = records[-1].position
        return [self._append(follower, sent, records)]

    def spread(self, record: Record, followers: list[Follower]) -> list[Effect]:
        """A new record, to everybody who has been sent all that came before it."""
        message = Append(*self.heading, record.previous, (record,), self._log.committed)
        effects: list[Effect] = []
        for follower in followers:
            if follower.sent == record.previous and self._has_room(follower):
                follower.sent = record.position
                follower.told_committed = self._log.committed
                effects.append(Send(follower.node, message))
        return effects

    def _has_room(self, follower: Follower) -> bool:
        matched = follower.matched
        return matched is not None and self._log.tail.count_after(matched) <= self._limits.window

    def _append(self, follower: Follower, previous: Position, records: tuple[Record, ...]) -> Effect:
        committed = follower.told_committed = self._log.committed
        return Send(follower.node, Append(*self.heading, previous, records, committed))

    def standing(self, follower: Follower, said: Standing, in_sync: bool) -> tuple[bool, list[Effect]]:
        """Whether that was progress."""
        tail = self._log.tail
        if said.last not in tail:
            return False, self._elsewhere(follower, said, in_sync)
        follower.matched = said.last
        # Less than before, if it started anew.
        follower.knows_committed = said.committed
        progress = said.durable > follower.durable
        if progress:
            follower.durable = said.durable
        if said.waits or follower.sent is None or follower.sent < said.last:
            follower.sent = said.last
        if said.waits or follower.sent == said.last != tail.last:
            return progress, self.feed(follower)
        return progress, []

    def _elsewhere(self, follower: Follower, said: Standing, in_sync: bool) -> list[Effect]:
        tail = self._log.tail
        if said.last < tail.base:
            follower.sent = said.last
            return self.feed(follower)
        if in_sync:
            raise AssertionError(f"{follower.node} is in sync, and its log ends at a foreign {said.last}")
        return [Send(follower.node, CutBack(*self.heading, said.last, tail.floor(said.last)))]

    def tail_read(self, follower: Follower, event: TailRead) -> list[Effect]:
        follower.reading = False
        if event.floor != event.asked:
            return [Send(follower.node, CutBack(*self.heading, event.asked, event.floor))]
        if not event.records:
            return []
        follower.sent = event.records[-1].position
        return [self._append(follower, event.floor, event.records)]

    def tail_gone(self, follower: Follower) -> list[Effect]:
        follower.reading = False
        return [NeedSnapshot(follower.node)]

    def restart_clock(self, follower: Follower, now: Moment) -> None:
        follower.owes_since = now.seconds
        follower.resend_at = now.seconds + self._limits.resend
