"""A cluster of bare state machines: every message, sync and proposal moves when a command says so."""

from dataclasses import dataclass, field

from belvedere.cluster import events, messages
from belvedere.cluster.configuration import Configuration, Level, Moment
from belvedere.cluster.failover import Elected, Failover, GraceOver, Placed, Seen
from belvedere.cluster.log import Limits, Log
from belvedere.cluster.primary import Primary
from belvedere.cluster.replica import TabletReplica
from belvedere.cluster.tail import Tail
from belvedere.model.positions import NOWHERE, Position, Record

TABLET = 1
LIMITS = Limits(pending=4, batch=3, window=8, remembered=2, patience=2.0)


def at(position: Position) -> str:
    return f"{position.epoch}:{position.version}"


def listed(records: tuple[Record, ...]) -> str:
    return "[" + " ".join(at(record.position) for record in records) + "]"


def told(outcome: messages.Outcome) -> str:
    match outcome:
        case messages.Unknown(why) | messages.NotServing(why):
            return f"{type(outcome).__name__}: {why}"
        case messages.StaleEpoch(revision):
            return f"StaleEpoch, see revision {revision}"
        case messages.Unavailable(needed, alive):
            return f"Unavailable: {needed} needed, {alive} in sync"
    return type(outcome).__name__


def said(message: messages.ReplicaMessage) -> str:
    head = f"{type(message).__name__} e{message.epoch}"
    match message:
        case messages.Append():
            body = (
                f"after {at(message.previous)} {listed(message.records)}, committed {at(message.committed)}"
            )
        case messages.Standing():
            body = f"last {at(message.last)}, on disk {at(message.durable)}"
            body += f", committed {at(message.committed)}" + (", waits" if message.waits else "")
        case messages.CutBack():
            body = f"from {at(message.last)} to {at(message.to)}"
        case messages.AskTail():
            body = f"beyond {at(message.after)}"
        case messages.TailOf():
            body = f"last {at(message.last)} {listed(message.records)}"
        case _:
            body = f"see revision {message.revision}"
    return f"{head} {body}"


def shown(configuration: Configuration) -> str:
    learners = [node for node in configuration.replicas if node not in configuration.in_sync]
    text = f"epoch {configuration.epoch}, primary {configuration.primary}"
    text += f", in sync {' '.join(configuration.in_sync)}"
    return text + (f", learning {' '.join(learners)}" if learners else "")


def folded(lines: list[str]) -> list[str]:
    """The same line many times is one line."""
    runs: list[tuple[str, int]] = []
    for line in lines:
        if runs and runs[-1][0] == line:
            runs[-1] = (line, runs[-1][1] + 1)
        else:
            runs.append((line, 1))
    return [line if count == 1 else f"{line} ({count} times)" for line, count in runs]


@dataclass
class Actor:
    name: str
    replica: TabletReplica
    leased: bool = True
    #: What survives a crash, with what is known to be committed.
    disk: list[Record] = field(default_factory=list)
    committed: Position = NOWHERE
    #: Its log, on disk or not.
    log: list[Record] = field(default_factory=list)
    when_durable: list[tuple[Position, str, messages.ReplicaMessage]] = field(default_factory=list)
    proposal: events.Propose | None = None


class Stage:
    def __init__(self) -> None:
        self.actors: dict[str, Actor] = {}
        self.down: set[str] = set()
        self.cut_off: set[str] = set()
        self.record: Configuration
        self.on_the_way: list[tuple[str, str, messages.ReplicaMessage]] = []
        self.kept: list[tuple[str, str, messages.ReplicaMessage]] = []
        self.seconds = 100.0
        self.requests: dict[int, str] = {}
        self.out: list[str] = []

    def do(self, line: str) -> str:
        """Carry out one command; what happened, as text."""
        self.out = []
        command, *words = line.split()
        getattr(self, "do_" + command.replace("-", "_"))(*words)
        for actor in self._up():
            actor.replica.check_invariants()
        return "\n".join(folded(self.out)) or "ok"

    def _up(self) -> list[Actor]:
        return [actor for name, actor in self.actors.items() if name not in self.down]

    # --- commands ------------------------------------------------------------------------------------

    def do_cluster(self, *names: str) -> None:
        self.record = Configuration(1, names[0], names, names, 10)
        for name in names:
            self.actors[name] = self._actor(name, 0)
        for name in names:
            self._post(name, events.Configured(self.record))
        self.do_run()

    def _actor(
        self, name: str, begun_at: int, disk: list[Record] | None = None, committed: Position = NOWHERE
    ) -> Actor:
        records = disk or []
        log = Log(Tail(NOWHERE, records), committed, LIMITS.remembered)
        replica = TabletReplica(TABLET, name, log, LIMITS, begun_at)
        return Actor(name, replica, disk=records, committed=committed, log=list(records))

    def do_write(self, name: str, request: str, level: str = "QUORUM") -> None:
        """By somebody who knows the epoch that this replica knows."""
        event = events.WriteAsked(self._number(request), self._epoch(name), Level(level), request.encode())
        self._post(name, event)

    def do_write_at(self, name: str, epoch: str, request: str) -> None:
        event = events.WriteAsked(self._number(request), int(epoch), Level.QUORUM, request.encode())
        self._post(name, event)

    def do_read(self, name: str, request: str, level: str = "QUORUM") -> None:
        """Sees everything that this replica shows."""
        self._post(name, events.ReadAsked(self._number(request), self._epoch(name), Level(level)))

    def do_update(self, name: str, request: str) -> None:
        event = events.ReadAsked(self._number(request), self._epoch(name), Level.QUORUM, to_write=True)
        self._post(name, event)

    def do_decide(self, name: str, request: str) -> None:
        self._post(name, events.Decided(self._number(request), request.encode()))

    def do_fsync(self, *names: str) -> None:
        for name in names:
            self._sync(self.actors[name])

    def do_deliver(self, *links: str) -> None:
        """Everything that is on its way on these links (all, if none is named), once."""
        moving = [one for one in self.on_the_way if not links or f"{one[0]}>{one[1]}" in links]
        self.on_the_way = [one for one in self.on_the_way if one not in moving]
        for sender, target, message in moving:
            self._arrive(sender, target, message)

    def do_deliver_twice(self, link: str) -> None:
        again = [one for one in self.on_the_way if f"{one[0]}>{one[1]}" == link]
        self.do_deliver(link)
        for sender, target, message in again:
            self._arrive(sender, target, message)

    def do_keep(self) -> None:
        """Everything that is on its way will arrive once more."""
        self.kept = list(self.on_the_way)

    def do_replay(self) -> None:
        self.on_the_way += self.kept

    def do_drop(self, *links: str) -> None:
        kept = [one for one in self.on_the_way if f"{one[0]}>{one[1]}" not in links]
        self.out.append(f"{len(self.on_the_way) - len(kept)} lost")
        self.on_the_way = kept

    def do_run(self) -> None:
        """Sync and deliver until nothing moves; proposals stay where they are."""
        moved = True
        while moved:
            moved = bool(self.on_the_way)
            self.do_deliver()
            for actor in self._up():
                moved = self._sync(actor) or moved

    def do_pass(self, milliseconds: str) -> None:
        until = self.seconds + int(milliseconds) / 1000
        while True:
            wakes = [actor.replica.wake_at for actor in self._up()]
            soonest = min((wake for wake in wakes if wake is not None), default=until)
            if soonest > until:
                break
            self.seconds = max(self.seconds, soonest) + 1e-9
            due = [one for one in self._up() if (one.replica.wake_at or until) <= self.seconds]
            for actor in due:
                self._post(actor.name, events.Tick())
            if not due:
                break
        self.seconds = max(self.seconds, until)

    def do_lease(self, name: str, state: str) -> None:
        self.actors[name].leased = state == "on"

    def do_isolate(self, *names: str) -> None:
        self.cut_off |= set(names)

    def do_heal(self) -> None:
        self.cut_off.clear()

    def do_crash(self, name: str) -> None:
        self.down.add(name)
        self.on_the_way = [one for one in self.on_the_way if one[1] != name]
        actor = self.actors[name]
        lost = actor.replica.log.tail.count_after(actor.disk[-1].position if actor.disk else NOWHERE)
        self.out.append(f"{name} is down, {lost} records were not on disk")

    def do_restart(self, name: str) -> None:
        self.down.discard(name)
        old = self.actors[name]
        self.actors[name] = self._actor(name, self.record.revision, old.disk, old.committed)
        self._post(name, events.Configured(self.record))

    def do_see(self, *names: str) -> None:
        """The newest metadata reaches these nodes (all, if none is named)."""
        for actor in self._up():
            if not names or actor.name in names:
                self._post(actor.name, events.Configured(self.record))

    def do_land(self, name: str) -> None:
        """The node's proposal reaches the metadata store, and the answer reaches the node."""
        number = self._try(name)
        self._post(name, events.Configured(self.record))
        if number is not None:
            self._post(name, events.ProposalRefused(number))

    def do_land_unheard(self, name: str) -> None:
        """It reaches the store; the answer is lost."""
        asked = self.actors[name].proposal
        assert asked is not None
        self._try(name)
        self._post(name, events.ProposalUnanswered(asked.number))

    def do_lose_proposal(self, name: str) -> None:
        actor = self.actors[name]
        assert actor.proposal is not None
        number, actor.proposal = actor.proposal.number, None
        self._post(name, events.ProposalUnanswered(number))

    def do_failover(self, *alive: str) -> None:
        """What the leader does when only these nodes hold their lease."""
        leader = Failover()
        leader.handle(Elected())
        leader.handle(GraceOver())
        effects = leader.handle(Seen((Placed(TABLET, self.record),), frozenset(alive)))
        for effect in effects:
            self._write(effect.configuration)
        if not effects:
            self.out.append("nothing can be done")

    def do_dump(self) -> None:
        for actor in self._up():
            replica = actor.replica
            role = "out"
            if isinstance(replica.role, Primary):
                role = replica.role.phase.value
            elif replica.role is not None:
                role = "in sync" if replica.role.in_sync else "learner"
            log = replica.log
            records = " ".join(at(record.position) for record in actor.disk) or "nothing"
            self.out.append(
                f"{actor.name}: {role}, last {at(log.last)}, committed {at(log.committed)}; on disk {records}"
            )

    # --- what moves ----------------------------------------------------------------------------------

    def _number(self, request: str) -> int:
        for number, name in self.requests.items():
            if name == request:
                return number
        self.requests[len(self.requests) + 1] = request
        return len(self.requests)

    def _epoch(self, name: str) -> int:
        configuration = self.actors[name].replica.configuration
        assert configuration is not None
        return configuration.epoch

    def _try(self, name: str) -> int | None:
        """The proposal's number if it was refused."""
        actor = self.actors[name]
        assert actor.proposal is not None, f"{name} has not proposed anything"
        asked, actor.proposal = actor.proposal, None
        if asked.configuration.revision != self.record.revision:
            self.out.append(f"store: refused, the record is of revision {self.record.revision}")
            return asked.number
        self._write(asked.configuration)
        return None

    def _write(self, c: Configuration) -> None:
        revision = self.record.revision + 1
        self.record = Configuration(c.epoch, c.primary, c.in_sync, c.replicas, revision)
        self.out.append(f"store: revision {revision}: {shown(self.record)}")

    def _arrive(self, sender: str, target: str, message: messages.ReplicaMessage) -> None:
        if target in self.down:
            return
        known = self.actors[target].replica.configuration
        if known is None or message.revision > known.revision:
            # What the host does with a message that names a newer revision.
            self._post(target, events.Configured(self.record))
        self._post(target, events.Received(sender, message))

    def _sync(self, actor: Actor) -> bool:
        log = actor.replica.log
        if log.durable == log.last:
            return False
        actor.disk = list(actor.log)
        actor.committed = log.committed
        self._post(actor.name, events.Durable(log.last))
        ready = [one for one in actor.when_durable if one[0] <= log.durable]
        actor.when_durable = [one for one in actor.when_durable if one[0] > log.durable]
        for _, node, message in ready:
            self._send(actor.name, node, message)
        return True

    def _send(self, sender: str, target: str, message: messages.ReplicaMessage) -> None:
        lost = sender in self.cut_off or target in self.cut_off or target in self.down
        self.out.append(f"{sender} > {target}: {said(message)}" + (" (lost)" if lost else ""))
        if not lost:
            self.on_the_way.append((sender, target, message))

    def _post(self, name: str, event: events.Event) -> None:
        actor = self.actors[name]
        now = Moment(self.seconds, round((self.seconds - 100) * 1000), actor.leased)
        for effect in actor.replica.handle(event, now):
            self._carry_out(actor, effect)

    def _carry_out(self, actor: Actor, effect: events.Effect) -> None:
        name = actor.name
        match effect:
            case events.AppendToLog(records):
                self.out.append(f"{name}: append {listed(records)}")
                actor.log += records
            case events.ApplyUpTo(position):
                self.out.append(f"{name}: apply up to {at(position)}")
            case events.CutLog(position):
                self.out.append(f"{name}: cut back to {at(position)}")
                actor.log = [record for record in actor.log if record.position <= position]
                actor.disk = [record for record in actor.disk if record.position <= position]
                actor.when_durable = [one for one in actor.when_durable if one[0] <= position]
            case events.Send(node, message):
                self._send(name, node, message)
            case events.SendWhenDurable(node, message, position):
                if position <= actor.replica.log.durable:
                    self._send(name, node, message)
                else:
                    actor.when_durable.append((position, node, message))
            case events.Propose(number, configuration):
                self.out.append(f"{name}: propose #{number}: {shown(configuration)}")
                actor.proposal = effect
            case events.CatchUp(revision):
                self.out.append(f"{name}: catch up with revision {revision}")
                self._post(name, events.Configured(self.record))
            case events.Answer(request, outcome):
                self.out.append(f"{name}: answer {self.requests[request]}: {told(outcome)}")
            case events.Look(request):
                asked = self.requests[request]
                if not asked.startswith("u"):
                    self._post(name, events.Looked(request, actor.replica.log.committed))
            case events.ReadTail(node, position):
                self._read_tail(actor, node, position)
            case events.NeedSnapshot(node):
                self.out.append(f"{name}: {node} needs a snapshot")

    def _read_tail(self, actor: Actor, node: str, after: Position) -> None:
        if after < (actor.disk[0].previous if actor.disk else NOWHERE):
            self._post(actor.name, events.TailGone(node))
            return
        floor = max([NOWHERE, *(one.position for one in actor.disk if one.position <= after)])
        found = tuple(one for one in actor.disk if one.position > floor)[: LIMITS.batch]
        self._post(actor.name, events.TailRead(node, after, floor, found))

    def do_restore(self, name: str, position: str) -> None:
        """A snapshot is in place that holds everything up to there."""
        epoch, _, version = position.partition(":")
        self.actors[name].disk = self.actors[name].log = []
        self._post(name, events.Restored(Position(int(epoch), int(version))))

    def do_forget_log(self, name: str, count: str) -> None:
        """The oldest records of its log are no longer kept."""
        self.actors[name].disk = self.actors[name].disk[int(count) :]
