"""The replicas of one node: opens those that the metadata gives it, brings messages to them, speaks for them.

A message that names a revision this node has not seen waits until it has; so nothing is dropped because a
tablet, or an epoch of it, is not known here yet. What waits is bounded, in number and time.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from belvedere.cluster import events
from belvedere.cluster.configuration import Configuration, Moment, configuration_of, proposal_of
from belvedere.cluster.log import Limits
from belvedere.cluster.messages import AnyMessage, NotServing, Overloaded, Reply, Request
from belvedere.cluster.ports import Opened, Peers, Stores
from belvedere.cluster.seat import Seat
from belvedere.meta import records
from belvedere.meta.metadata import Metadata
from belvedere.meta.state import ClusterState, Tablet
from belvedere.meta.store import OutcomeUnknown, Refused, StoreUnavailable, Transaction, Unchanged
from belvedere.model.positions import Position
from belvedere.runtime.api import Runtime, TaskHandle

#: Messages that wait for metadata or for their tablet to be opened, and for how long, in seconds.
HELD_MESSAGES = 4096
HELD_SECONDS = 10.0
#: Before a replica that could not be opened is tried again, in seconds.
_OPEN_PAUSE = 1.0
#: Requests of one sender that are remembered.
REMEMBERED_REQUESTS = 4096


@dataclass(slots=True)
class _Heard:
    """Numbers of requests that were taken from one life of a node. It counts up, so all that lie far behind
    the highest are old."""

    highest: int = 0
    recent: set[int] = field(default_factory=set)

    def take(self, number: int) -> bool:
        """Whether it is a new one."""
        if number in self.recent or number <= self.highest - REMEMBERED_REQUESTS:
            return False
        self.recent.add(number)
        self.highest = max(self.highest, number)
        if len(self.recent) > 2 * REMEMBERED_REQUESTS:
            oldest = self.highest - REMEMBERED_REQUESTS
            self.recent = {one for one in self.recent if one > oldest}
        return True


class Host:
    def __init__(
        self,
        runtime: Runtime,
        node: str,
        incarnation: int,
        metadata: Metadata,
        peers: Peers,
        stores: Stores,
        leased: Callable[[], bool],
        limits: Limits,
    ) -> None:
        """`leased`: whether this node certainly has its lease, and has seen all metadata up to when it got
        it."""
        self._runtime = runtime
        self._metadata = metadata
        self._peers = peers
        self._stores = stores
        self._leased = leased
        self._limits = limits
        self._begun_at = 0
        self._opening: set[int] = set()
        self._held: deque[tuple[float, str, AnyMessage]] = deque()
        self._heard: dict[tuple[str, int], _Heard] = {}
        self._catching_up_to = 0
        self._tasks: list[TaskHandle] = []
        self._broken = False
        self._closed = False
        self._tablets: dict[int, Tablet] = {}
        #: The last of each tablet, to be tried again: its number, and what it is.
        self._proposals: dict[int, tuple[int, Transaction]] = {}
        #: Names this life of the node in what outlives it.
        self._life = f"{node}#{incarnation}"
        self.node = node
        self.seats: dict[int, Seat] = {}
        #: Who answers of others are for, and who is asked for snapshots.
        self.on_reply: Callable[[Reply], None] = lambda reply: None
        self.on_snapshot_needed: Callable[[int, str], None] = lambda tablet, learner: None
        #: This node neither serves nor follows any more: others are to take its place.
        self.on_broken: Callable[[], None] = lambda: None
        #: For those who check: called after each event of a seat.
        self.watch: Callable[[Seat], None] | None = None

    def start(self) -> None:
        """On metadata that was loaded after this process began to live."""
        self._begun_at = self._metadata.state.revision
        self._metadata.listen(self._on_state)
        self._look(self._metadata.state)

    async def stop(self) -> None:
        self._closed = True
        for seat in self.seats.values():
            seat.close()
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(Exception):  # It is in the log.
                await task.wait()

    # --- what seats ask ------------------------------------------------------------------------------

    def moment(self) -> Moment:
        clock = self._runtime.clock
        return Moment(clock.monotonic(), clock.wall_micros(), not self._broken and self._leased())

    @property
    def leased(self) -> bool:
        return not self._broken and self._leased()

    def send(self, node: str, message: AnyMessage) -> None:
        if node == self.node:
            self._runtime.call_soon(lambda: self.receive(node, message))
        else:
            self._peers.send(node, message)

    def log_broken(self, error: Exception) -> None:
        """Nobody knows what the log holds: this node neither serves nor follows until it starts anew."""
        if not self._broken:
            self._runtime.log("error", "replication.log_broken", error=str(error))
        self._give_up()

    def replica_failed(self, tablet: int, error: Exception) -> None:
        self._runtime.log("error", "replication.replica_failed", tablet=tablet, error=repr(error))
        self._give_up()

    def _give_up(self) -> None:
        if not self._broken:
            self._broken = True
            for seat in self.seats.values():
                seat.close()
            self.on_broken()

    def restored(self, tablet: int, position: Position) -> None:
        """A snapshot is in place."""
        self.seats[tablet].post(events.Restored(position))

    def need_snapshot(self, tablet: int, learner: str) -> None:
        self.on_snapshot_needed(tablet, learner)

    def _spawn(self, name: str, work: object) -> None:
        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks.append(self._runtime.spawn(name, work))  # type: ignore[arg-type]

    # --- metadata ------------------------------------------------------------------------------------

    def _on_state(self, before: ClusterState, after: ClusterState) -> None:
        if before.tablet_maps is not after.tablet_maps:
            self._look(after)
        self._deliver_held()

    def _look(self, state: ClusterState) -> None:
        if self._closed or self._broken:
            return
        before, self._tablets = (
            self._tablets,
            {tablet.id: tablet for tablets in state.tablet_maps.values() for tablet in tablets.tablets},
        )
        for number in [number for number in self.seats if number not in self._tablets]:
            seat = self.seats.pop(number)
            seat.post(events.Withdrawn())
            seat.close()
        for tablet in self._tablets.values():
            known = before.get(tablet.id)
            if known is not None and known.revision == tablet.revision:
                continue
            if tablet.id in self.seats:
                self.seats[tablet.id].post(events.Configured(configuration_of(tablet)))
            elif self.node in tablet.replicas and tablet.id not in self._opening:
                self._opening.add(tablet.id)
                self._spawn("replication.open", self._open(tablet.id))

    async def _open(self, tablet: int) -> None:
        opened = await self._opened(tablet)
        self._opening.discard(tablet)
        if opened is None or self._closed:
            return
        seat = Seat(self._runtime, self, self.node, tablet, opened, self._limits, self._begun_at)
        self.seats[tablet] = seat
        known = self._tablets.get(tablet)
        if known is not None:
            seat.post(events.Configured(configuration_of(known)))
        self._deliver_held()

    async def _opened(self, tablet: int) -> Opened | None:
        """Until it succeeds, or the tablet is gone."""
        while tablet in self._tablets and not self._closed:
            try:
                return await self._stores.open(tablet)
            except Exception as error:
                if tablet in self._tablets:
                    self._runtime.log("warning", "replication.not_opened", tablet=tablet, error=repr(error))
                await self._runtime.clock.sleep(_OPEN_PAUSE)
        return None

    def catch_up(self, revision: int) -> None:
        if revision > max(self._catching_up_to, self._metadata.state.revision):
            self._catching_up_to = revision
            self._spawn("replication.catch_up", self._catch_up(revision))

    async def _catch_up(self, revision: int) -> None:
        try:
            async with asyncio.timeout(HELD_SECONDS):
                await self._metadata.catch_up(revision)
        except (StoreUnavailable, TimeoutError):
            # Whoever follows the metadata goes on trying; this was to be quicker.
            return
        finally:
            if self._catching_up_to == revision:
                self._catching_up_to = 0

    def propose(self, seat: Seat, number: int, configuration: Configuration) -> None:
        self._spawn("replication.propose", self._propose(seat, number, configuration))

    async def _propose(self, seat: Seat, number: int, configuration: Configuration) -> None:
        known, transaction = self._proposals.get(seat.tablet, (0, None))
        if known != number:
            transaction = self._transaction(seat.tablet, number, configuration)
        if transaction is None:
            seat.post(events.ProposalRefused(number))
            return
        self._proposals[seat.tablet] = number, transaction
        try:
            outcome = await self._metadata.attempt(transaction)
        except (OutcomeUnknown, StoreUnavailable):
            self._runtime.sometimes("replication.proposal_unanswered")
            seat.post(events.ProposalUnanswered(number))
            return
        try:
            await self._metadata.catch_up(outcome.revision)
        except StoreUnavailable:
            # It comes with the others, later. Until then it stays open what the configuration is.
            seat.post(events.ProposalUnanswered(number))
            return
        if isinstance(outcome, Refused):
            seat.post(events.ProposalRefused(number))

    def _transaction(self, number: int, proposal: int, configuration: Configuration) -> Transaction | None:
        """Whoever joins must have its lease: else the leader would take it out again at once."""
        tablet, entries = self._tablets.get(number), self._metadata.state.entries
        if tablet is None:
            return None
        asserts, updates = proposal_of(tablet, configuration)
        change = len(configuration.in_sync) - len(tablet.in_sync)
        self._runtime.sometimes("replication.backup_taken_out", change < 0)
        self._runtime.sometimes("replication.learner_proposed", change > 0)
        for node in configuration.in_sync:
            if node not in tablet.in_sync:
                alive = entries.get(records.alive_key(node))
                if alive is None:
                    return None
                asserts += (Unchanged(records.alive_key(node), alive.revision),)
        # The same proposal of the same life is the same transaction, however often it is tried.
        return Transaction(f"{self._life}/{number}/{proposal}".encode(), asserts, updates)

    # --- messages ------------------------------------------------------------------------------------

    def receive(self, sender: str, message: AnyMessage) -> None:
        if self._closed or self._broken:
            return
        if isinstance(message, Reply):
            self.on_reply(message)
        elif isinstance(message, Request) and not self._is_new(sender, message):
            self._runtime.sometimes("replication.repeated_request")
        elif not self._deliver(sender, message):
            self._hold(sender, message)

    def _is_new(self, sender: str, request: Request) -> bool:
        heard = self._heard.setdefault((sender, request.incarnation), _Heard())
        return heard.take(request.number)

    def _deliver(self, sender: str, message: AnyMessage) -> bool:
        """False if the message has to wait."""
        assert not isinstance(message, Reply)
        if message.revision > self._metadata.state.revision:
            return False
        seat = self.seats.get(message.tablet)
        if seat is None:
            if message.tablet in self._opening:
                return False
            if isinstance(message, Request):
                self._refuse(sender, message, "this node does not keep the tablet")
        elif isinstance(message, Request):
            seat.ask(sender, message)
        else:
            seat.take(sender, message)
        return True

    def _refuse(self, sender: str, request: Request, why: str) -> None:
        revision = min(request.revision, self._metadata.state.revision)
        heading = (request.tablet, request.epoch, revision)
        self.send(sender, Reply(*heading, request.incarnation, request.number, NotServing(why)))

    def _hold(self, sender: str, message: AnyMessage) -> None:
        self._runtime.sometimes("replication.held_message")
        if len(self._held) >= HELD_MESSAGES:
            if isinstance(message, Request):
                heading = (message.tablet, message.epoch, message.revision)
                reply = Reply(*heading, message.incarnation, message.number, Overloaded())
                self.send(sender, reply)
            return
        self._held.append((self._runtime.clock.monotonic() + HELD_SECONDS, sender, message))
        self.catch_up(message.revision)

    def _deliver_held(self) -> None:
        if not self._held:
            return
        held, self._held = self._held, deque()
        now = self._runtime.clock.monotonic()
        for until, sender, message in held:
            if now >= until:
                if isinstance(message, Request):
                    self._refuse(sender, message, "this node's metadata is behind")
            elif not self._deliver(sender, message):
                self._held.append((until, sender, message))
