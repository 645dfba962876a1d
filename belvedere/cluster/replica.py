"""One replica of a tablet: a pure state machine, events in, effects out; no clock, no waiting.

What it is, the tablet's configuration says: primary, backup in sync, learner, or out of it. A configuration
comes from the metadata store alone, newest first or not at all. Messages of other epochs than its own are not
listened to: who speaks of an older one is told to catch up, and so does this replica when it hears of a newer
one. docs/replication.md tells the protocol as a whole.
"""

from belvedere.cluster.backup import Backup
from belvedere.cluster.configuration import Configuration, Moment
from belvedere.cluster.events import (
    Answer,
    CatchUp,
    Configured,
    Decided,
    Durable,
    Effect,
    Event,
    Looked,
    ProposalRefused,
    ProposalUnanswered,
    ReadAsked,
    Received,
    Restored,
    Send,
    TailGone,
    TailRead,
    Tick,
    Withdrawn,
    WriteAsked,
)
from belvedere.cluster.log import Limits, Log
from belvedere.cluster.messages import Append, AskTail, NotServing, Stale, Standing
from belvedere.cluster.primary import Primary
from belvedere.model.positions import Position


class TabletReplica:
    """`begun_at` is the revision of the metadata that this process found when it started: a reign that is
    older than that was another process's."""

    def __init__(self, tablet: int, node: str, log: Log, limits: Limits, begun_at: int) -> None:
        self.tablet = tablet
        self.node = node
        self.log = log
        self.limits = limits
        self.configuration: Configuration | None = None
        self.role: Primary | Backup | None = None
        self._begun_at = begun_at
        self._next_proposal = 1

    def serves(self, now: Moment) -> bool:
        """As primary."""
        return isinstance(self.role, Primary) and self.role.serves(now)

    @property
    def wake_at(self) -> float | None:
        """When to say Tick, by the monotonic clock."""
        return None if self.role is None else self.role.wake_at

    def handle(self, event: Event, now: Moment) -> list[Effect]:
        match event:
            case Received():
                return self._received(event, now)
            case Durable(position):
                self.log.written(position)
                return [] if self.role is None else self.role.written(now)
            case Tick():
                return [] if self.role is None else self.role.tick(now)
            case WriteAsked(request):
                if isinstance(self.role, Primary):
                    return self.role.write(event, now)
                return [Answer(request, NotServing("this replica is not the primary"))]
            case ReadAsked(request):
                if self.role is None:
                    return [Answer(request, NotServing("this node does not keep the tablet"))]
                return self.role.read(event, now)
            case Looked():
                return [] if self.role is None else self.role.looked(event, now)
            case Configured(configuration):
                return self._configured(configuration, now)
            case Withdrawn():
                effects = self._leave()
                self.role = None
                return effects
            case Restored(position):
                return self._restored(position, now)
            case _ if isinstance(self.role, Primary):
                return self._of_primary(self.role, event, now)
        return []

    def _restored(self, position: Position, now: Moment) -> list[Effect]:
        if not isinstance(self.role, Backup) or self.role.in_sync:
            raise AssertionError("only a learner is given a snapshot")
        self.log.restart(position)
        return self.role.begin(now)

    def _of_primary(self, primary: Primary, event: Event, now: Moment) -> list[Effect]:
        match event:
            case Decided():
                return primary.decided(event, now)
            case ProposalRefused(number):
                return primary.proposal_refused(number, now)
            case ProposalUnanswered(number):
                primary.proposal_unanswered(number, now)
            case TailRead():
                return primary.tail_read(event)
            case TailGone():
                return primary.tail_gone(event)
        return []

    def _received(self, event: Received, now: Moment) -> list[Effect]:
        known, message = self.configuration, event.message
        if known is None or self.role is None:
            return []
        if isinstance(message, Stale):
            return [CatchUp(message.revision)] if message.revision > known.revision else []
        if message.epoch == known.epoch:
            return self.role.receive(event.sender, message, now)
        if message.epoch > known.epoch:
            return [CatchUp(message.revision)]
        waits = isinstance(message, Append | AskTail) or (isinstance(message, Standing) and message.waits)
        heading = (self.tablet, known.epoch, known.revision)
        return [Send(event.sender, Stale(*heading))] if waits else []

    # --- configurations ------------------------------------------------------------------------------

    def _configured(self, configuration: Configuration, now: Moment) -> list[Effect]:
        before, role = self.configuration, self.role
        if before is not None and configuration.revision <= before.revision:
            return []
        self.configuration = configuration
        if configuration.primary == self.node:
            follows = before is not None and configuration.epoch == before.epoch + 1
            if isinstance(role, Primary) and follows:
                return role.reconfigure(configuration, now)
            return self._reign(configuration, now)
        if self.node not in configuration.replicas:
            effects = self._leave()
            self.role = None
            return effects
        if isinstance(role, Backup):
            return role.reconfigure(configuration, now)
        effects = self._leave()
        self.role = Backup(self.tablet, self.node, configuration, self.log, self.limits)
        return effects + self.role.begin(now)

    def _reign(self, configuration: Configuration, now: Moment) -> list[Effect]:
        effects = self._leave()
        claims = configuration.revision <= self._begun_at
        self.role = Primary(
            self.tablet, self.node, configuration, self.log, self.limits, self._next_proposal, claims
        )
        return effects + self.role.begin(now)

    def _leave(self) -> list[Effect]:
        if self.role is None:
            return []
        if isinstance(self.role, Primary):
            self._next_proposal = self.role.next_proposal
        return self.role.leave()

    def check_invariants(self) -> None:
        assert self.log.tail.base <= self.log.committed <= self.log.last
        assert self.log.durable <= self.log.last
        if isinstance(self.role, Primary):
            self.role.check_invariants()
