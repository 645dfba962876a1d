"""The primary of a tablet: orders its writes, and answers when they are where they must be.

One object is one reign: an unbroken chain of epochs with this replica as primary. It goes through phases:

- *claiming*: the process has restarted in the epoch in which it was primary before. What it sent then may
  still be on its way, so it begins a new epoch before anything else.
- *settling*: the replicas in sync may hold records that this one does not, and the reverse. It asks all of
  them, takes over the longest log (all are prefixes of one sequence), and brings everybody up to it. Only
  then is it certain what was committed.
- *serving*, while the node's lease is valid.

A write is acknowledged when it is on disk at every replica in sync, and at one whose joining is proposed. A
backup that makes no progress in time is taken out first: the proposal must have landed. While it is unknown
whether a proposal landed, both what it was made from and what it would make must be served.
"""

import math
from collections import deque
from dataclasses import dataclass
from enum import Enum

from belvedere.cluster.configuration import Configuration, Level, Moment
from belvedere.cluster.events import (
    Answer,
    Decided,
    Effect,
    Looked,
    Propose,
    ReadAsked,
    TailGone,
    TailRead,
    WriteAsked,
)
from belvedere.cluster.followers import Feeding, Follower
from belvedere.cluster.log import Limits, Log
from belvedere.cluster.messages import (
    Done,
    NotServing,
    Outcome,
    Overloaded,
    ReplicaMessage,
    StaleEpoch,
    Standing,
    TailOf,
    Unavailable,
    Unknown,
)
from belvedere.cluster.reads import Reads
from belvedere.model.positions import NOWHERE, Position, Record

#: How soon to look again whether the lease is back, when answers wait for it.
_LEASE_POLL = 0.1


class Phase(Enum):
    CLAIMING = "claiming"
    SETTLING = "settling"
    SERVING = "serving"


@dataclass(frozen=True, slots=True)
class _Write:
    position: Position
    request: int
    level: Level


@dataclass(slots=True)
class _Proposed:
    number: int
    configuration: Configuration
    #: When to say it again; None while the metadata store is being asked.
    retry_at: float | None = None


class Primary:
    def __init__(
        self,
        tablet: int,
        node: str,
        configuration: Configuration,
        log: Log,
        limits: Limits,
        first_proposal: int,
        claims: bool,
    ) -> None:
        self._node = node
        self._log = log
        self._limits = limits
        self._feeding = Feeding(tablet, configuration, log, limits)
        self._followers: dict[str, Follower] = {}
        self._writes: deque[_Write] = deque()
        self._reads = Reads()
        self._notice_at: float | None = None
        self._poll_at: float | None = None
        self.configuration = configuration
        self.phase = Phase.CLAIMING if claims else Phase.SETTLING
        self.proposed: _Proposed | None = None
        #: Numbers of proposals grow over all reigns of this process.
        self.next_proposal = first_proposal

    # --- a reign begins, goes on, ends ---------------------------------------------------------------

    def begin(self, now: Moment) -> list[Effect]:
        if self.phase is Phase.CLAIMING:
            return self._propose(self.configuration.next(self.configuration.in_sync))
        self._meet_followers(now)
        asked = [self._feeding.ask_tail(follower) for follower in self._in_sync()]
        return asked + self._advance(now)

    def reconfigure(self, configuration: Configuration, now: Moment) -> list[Effect]:
        """The next epoch, with the same primary."""
        before = self.configuration
        self.configuration = self._feeding.configuration = configuration
        # Whoever wrote this one: what was made from the one before can never land now.
        self.proposed = None
        if self.phase is Phase.CLAIMING:
            self.phase = Phase.SETTLING
            return self.begin(now)
        for node in before.in_sync:
            if node not in configuration.in_sync:
                self._followers.pop(node, None)
        self._meet_followers(now)
        effects: list[Effect] = []
        for follower in self._in_sync():
            if follower.owes_since is not None:
                # What is on its way names the old epoch and may be refused.
                effects += self._say_again(follower)
        return effects + self._advance(now)

    def _meet_followers(self, now: Moment) -> None:
        known, self._followers = self._followers, {}
        for node in self.configuration.replicas:
            if node != self._node:
                self._followers[node] = known.get(node) or Follower(node)
        for follower in self._in_sync():
            self._watch(follower, now, progress=True)

    def leave(self) -> list[Effect]:
        why = "another replica became primary"
        effects: list[Effect] = [Answer(write.request, Unknown(why)) for write in self._writes]
        self._writes.clear()
        return effects + self._reads.drop(why)

    # --- operations ----------------------------------------------------------------------------------

    def write(self, event: WriteAsked, now: Moment) -> list[Effect]:
        refusal = self._refusal(event.epoch, event.level, now)
        if refusal is not None:
            return [Answer(event.request, refusal)]
        return self._order(event.request, event.level, event, now)

    def read(self, event: ReadAsked, now: Moment) -> list[Effect]:
        refusal = self._refusal(event.epoch, event.level, now, idle=event.idle)
        if refusal is not None:
            return [Answer(event.request, refusal)]
        if event.idle:
            self._reads.idle.add(event.request)
        if event.to_write and not self._sees_everything():
            self._reads.behind.append((self._log.last, event.request, event.level, math.inf))
            return []
        return [self._reads.look(event.request, event.level)]

    def _sees_everything(self) -> bool:
        """Who reads in order to write must see all writes of the key that were ordered before. No more of
        them come: the key is held."""
        return self._log.committed == self._log.last

    def _refusal(self, epoch: int, level: Level, now: Moment, idle: bool = False) -> Outcome | None:
        if self.phase is not Phase.SERVING:
            return NotServing(f"the primary is {self.phase.value}")
        if not self._may_serve(now):
            return NotServing("the primary does not hold its lease")
        if epoch != self.configuration.epoch:
            return StaleEpoch(self.configuration.revision)
        in_sync = len(self.configuration.in_sync)
        needed = level.needed(len(self.configuration.replicas))
        if in_sync < needed:
            return Unavailable(needed, in_sync)
        if not idle and len(self._writes) + len(self._reads) >= self._limits.pending:
            return Overloaded()
        return None

    def serves(self, now: Moment) -> bool:
        return self.phase is Phase.SERVING and self._may_serve(now)

    def _may_serve(self, now: Moment) -> bool:
        """Nobody else can have become primary while the lease is valid. It is valid by the own monotonic
        clock, less a margin: if clocks run apart by more than the margin, two primaries may serve at once."""
        return now.leased

    def looked(self, event: Looked, now: Moment) -> list[Effect]:
        self._reads.looked(event)
        return self._release(now)

    def decided(self, event: Decided, now: Moment) -> list[Effect]:
        """Of this reign: what a read under another one has seen may be gone."""
        level = self._reads.looking.pop(event.request, None)
        return [] if level is None else self._order(event.request, level, event, now)

    def _order(self, request: int, level: Level, wanted: WriteAsked | Decided, now: Moment) -> list[Effect]:
        log = self._log
        version = max(self._next_version(now), wanted.least)
        position = Position(self.configuration.epoch, version)
        record = Record(position, log.last, wanted.data)
        self._writes.append(_Write(position, request, level))
        effects: list[Effect] = [log.append((record,))]
        effects += self._feeding.spread(record, list(self._followers.values()))
        for follower in self._in_sync():
            self._watch(follower, now)
        return effects

    def _next_version(self, now: Moment) -> int:
        """The clock, but always more than what any primary gave before: the log was settled."""
        return max(now.micros, self._log.last.version + 1)

    # --- what followers say --------------------------------------------------------------------------

    def receive(self, sender: str, message: ReplicaMessage, now: Moment) -> list[Effect]:
        follower = self._followers.get(sender)
        if follower is None or self.phase is Phase.CLAIMING:
            return []
        match message:
            case TailOf() if self.phase is Phase.SETTLING and not follower.settled:
                return self._take_over(follower, message, now)
            case Standing() if self.phase is Phase.SERVING or follower.settled:
                return self._standing(follower, message, now)
        return []

    def _take_over(self, follower: Follower, message: TailOf, now: Moment) -> list[Effect]:
        """While settling: what a replica in sync has and we do not becomes ours."""
        log = self._log
        effects: list[Effect] = []
        fresh: list[Record] = []
        last = log.last
        for record in message.records:
            if record.previous == last:
                fresh.append(record)
                last = record.position
        if fresh:
            effects.append(log.append(fresh))
        if message.last > log.last:
            effects.append(self._feeding.ask_tail(follower))
        else:
            if message.last not in log.tail:
                raise AssertionError(f"{follower.node} is in sync, and ends at a foreign {message.last}")
            follower.settled = True
            follower.matched = follower.sent = message.last
        self._watch(follower, now, progress=True)
        for other in self._in_sync():
            if other.settled and (other is follower or fresh):
                effects += self._feeding.feed(other)
        return effects + self._advance(now)

    def _standing(self, follower: Follower, message: Standing, now: Moment) -> list[Effect]:
        in_sync = follower.node in self.configuration.in_sync
        progress, effects = self._feeding.standing(follower, message, in_sync)
        effects += self._advance(now)
        if in_sync:
            self._watch(follower, now, progress)
        elif self._may_join(follower, now):
            effects += self._propose(self.configuration.joined_by(follower.node))
        return effects

    def _may_join(self, follower: Follower, now: Moment) -> bool:
        """It has all that was acknowledged; and from the proposal on, what is to be acknowledged waits for
        it, too."""
        return self.serves(now) and self.proposed is None and self._has_caught_up(follower)

    def _has_caught_up(self, follower: Follower) -> bool:
        return follower.matched is not None and follower.durable >= self._log.committed

    def tail_read(self, event: TailRead) -> list[Effect]:
        follower = self._followers.get(event.node)
        return [] if follower is None else self._feeding.tail_read(follower, event)

    def tail_gone(self, event: TailGone) -> list[Effect]:
        follower = self._followers.get(event.node)
        return [] if follower is None else self._feeding.tail_gone(follower)

    # --- committing ----------------------------------------------------------------------------------

    def written(self, now: Moment) -> list[Effect]:
        return self._advance(now)

    def _advance(self, now: Moment) -> list[Effect]:
        if self.phase is Phase.CLAIMING:
            return []
        effects = self._log.commit(self._agreed())
        if self._notice_at is None and self._some_untold():
            self._notice_at = now.seconds + self._limits.notice
        if self.phase is Phase.SETTLING and self._is_settled():
            self.phase = Phase.SERVING
        return effects + self._release(now)

    def _some_untold(self) -> bool:
        committed = self._log.committed
        return any(follower.told_committed < committed for follower in self._in_sync())

    def _agreed(self) -> Position:
        """On disk at everybody who could become primary."""
        agreed = self._log.durable
        for node in self._required():
            agreed = min(agreed, self._followers[node].durable)
        return agreed

    def _required(self) -> list[str]:
        """Besides this node."""
        required = [node for node in self.configuration.in_sync if node != self._node]
        if self.proposed is not None:
            joining = self.proposed.configuration.in_sync
            required += [node for node in joining if node not in self.configuration.in_sync]
        return required

    def _is_settled(self) -> bool:
        everybody = all(follower.settled for follower in self._in_sync())
        return everybody and self._log.committed == self._log.last

    def _release(self, now: Moment) -> list[Effect]:
        """Answer what may be answered."""
        self._poll_at = None
        if self.phase is not Phase.SERVING:
            return []
        if not self._may_serve(now):
            if self._writes or self._reads.wait:
                self._poll_at = now.seconds + _LEASE_POLL
            return []
        effects: list[Effect] = []
        in_sync, replicas = len(self.configuration.in_sync), len(self.configuration.replicas)
        while self._writes and self._writes[0].position <= self._log.committed:
            write = self._writes.popleft()
            if in_sync >= write.level.needed(replicas):
                effects.append(Answer(write.request, Done()))
            else:
                effects.append(Answer(write.request, Unknown("too few replicas are left in sync")))
        return effects + self._reads.release(self._log.committed)

    # --- time ----------------------------------------------------------------------------------------

    @property
    def wake_at(self) -> float | None:
        moments = [at for at in (self._notice_at, self._poll_at) if at is not None]
        if self.proposed is not None and self.proposed.retry_at is not None:
            moments.append(self.proposed.retry_at)
        moments += [one.resend_at for one in self._in_sync() if one.owes_since is not None]
        return min(moments, default=None)

    def tick(self, now: Moment) -> list[Effect]:
        effects = self._retry_proposal(now)
        late: list[str] = []
        for follower in self._in_sync():
            if follower.owes_since is None or now.seconds < follower.resend_at:
                continue
            follower.resend_at = now.seconds + self._limits.resend
            effects += self._say_again(follower)
            if now.seconds - follower.owes_since >= self._limits.patience:
                late.append(follower.node)
        if late and self.proposed is None and self._may_serve(now):
            effects += self._propose(self.configuration.without(late))
        return effects + self._notice(now) + self._release(now)

    def _say_again(self, follower: Follower) -> list[Effect]:
        if self.phase is Phase.SETTLING and not follower.settled:
            return [self._feeding.ask_tail(follower)]
        follower.sent = follower.matched
        return self._feeding.feed(follower)

    def _notice(self, now: Moment) -> list[Effect]:
        """Tell what was committed to those who did not hear of it with something else."""
        if self._notice_at is None or now.seconds < self._notice_at:
            return []
        self._notice_at = None
        effects: list[Effect] = []
        for follower in self._in_sync():
            if follower.told_committed < self._log.committed and follower.sent == self._log.last:
                effects += self._feeding.feed(follower)
                self._watch(follower, now)
        return effects

    def _in_sync(self) -> list[Follower]:
        followers = self._followers
        return [followers[node] for node in self.configuration.in_sync if node in followers]

    def _watch(self, follower: Follower, now: Moment, progress: bool = False) -> None:
        owes = (
            (self.phase is Phase.SETTLING and not follower.settled)
            or follower.durable < self._log.last
            or follower.knows_committed < follower.told_committed
        )
        if not owes:
            follower.owes_since = None
        elif follower.owes_since is None or progress:
            self._feeding.restart_clock(follower, now)

    # --- proposals -----------------------------------------------------------------------------------

    def _propose(self, configuration: Configuration) -> list[Effect]:
        self.proposed = _Proposed(self.next_proposal, configuration)
        self.next_proposal += 1
        return [Propose(self.proposed.number, configuration)]

    def proposal_refused(self, number: int, now: Moment) -> list[Effect]:
        if self.proposed is None or self.proposed.number != number:
            return []
        self.proposed = None
        return self._advance(now)

    def proposal_unanswered(self, number: int, now: Moment) -> None:
        if self.proposed is not None and self.proposed.number == number:
            self.proposed.retry_at = now.seconds + self._limits.retry

    def _retry_proposal(self, now: Moment) -> list[Effect]:
        """The same once more: the store knows whether it landed the first time."""
        proposed = self.proposed
        if proposed is None or proposed.retry_at is None or now.seconds < proposed.retry_at:
            return []
        proposed.retry_at = None
        return [Propose(proposed.number, proposed.configuration)]

    def check_invariants(self) -> None:
        log = self._log
        assert NOWHERE <= log.tail.base <= log.committed <= log.durable <= log.last
        positions = [write.position for write in self._writes]
        assert positions == sorted(positions)
