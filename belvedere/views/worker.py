"""What a worker does with calls for work: a pure state machine, events in, effects out.

A coordinator calls with a batch of tasks and its term. The same call again, from this or a later coordinator,
attaches to what runs and gets the same answer; what is finished is remembered, so nothing is done anew when
the coordinator changes. A call is answered as soon as something of it is finished (and a moment was left for
more), so that finished work is written down while the rest goes on. Calls of an older term are refused.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from belvedere.views.coordinator import Amount, Batch, DoneTasks, Lane, Task

#: How long finished tasks are gathered before a call is answered with them.
GATHERING = 0.2


class Outcome(Enum):
    FINISHED = "finished"
    #: The base or its views changed under the work.
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    #: The caller is no longer the coordinator.
    STALE = "stale"


# --- events ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Called:
    """`call` is the caller's own number for this call."""

    call: int
    term: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class HaltCalled:
    term: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class Done:
    """One tablet's tasks of what runs in a lane are done."""

    lane: Lane
    tasks: tuple[Task, ...]
    read: Amount


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing runs in the lane any more: all was done, or this is what came in between."""

    lane: Lane
    outcome: Outcome
    cause: str = ""


@dataclass(frozen=True, slots=True)
class GatheringOver:
    lane: Lane


@dataclass(frozen=True, slots=True)
class TasksAlive:
    """The tasks that the metadata store has: others need not be remembered."""

    tasks: frozenset[Task]


Event = Called | HaltCalled | Done | Ended | GatheringOver | TasksAlive


# --- effects -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begin:
    batch: Batch


@dataclass(frozen=True, slots=True)
class Stop:
    """What runs in the lane is to end soon, as interrupted."""

    lane: Lane


@dataclass(frozen=True, slots=True)
class Answer:
    call: int
    outcome: Outcome
    done: DoneTasks = ()
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Gather:
    """Say GatheringOver in a moment."""

    lane: Lane
    seconds: float = GATHERING


Effect = Begin | Stop | Answer | Gather


@dataclass(slots=True)
class _Running:
    batch: Batch
    #: Calls that wait for it.
    calls: list[Called] = field(default_factory=list)
    gathering: bool = False
    stopping: bool = False


@dataclass(slots=True)
class Worker:
    term: int = 0
    #: Finished tasks, with what was read for each.
    finished: dict[Task, Amount] = field(default_factory=dict)
    _running: dict[Lane, _Running] = field(default_factory=dict)
    #: Calls for something else than what runs, which was told to stop.
    _waiting: list[Called] = field(default_factory=list)
    #: What was to be halted before a call for it came, with the term of who said so. A coordinator has one
    #: call in a lane at a time: with the next one, whichever it is, this is over.
    _halted: dict[Lane, tuple[int, Batch]] = field(default_factory=dict)

    def handle(self, event: Event) -> list[Effect]:
        match event:
            case Called():
                return self._called(event)
            case HaltCalled(term, batch):
                return self._halt(term, batch)
            case Done(lane, tasks, read):
                return self._done(lane, tasks, read)
            case Ended(lane, outcome, cause):
                return self._ended(lane, outcome, cause)
            case GatheringOver(lane):
                running = self._running.get(lane)
                if running is not None:
                    running.gathering = False
                return [] if running is None else self._tell(running)
            case TasksAlive(tasks):
                self.finished = {task: read for task, read in self.finished.items() if task in tasks}
                return []

    def running(self, lane: Lane) -> Batch | None:
        found = self._running.get(lane)
        return None if found is None else found.batch

    def _called(self, call: Called) -> list[Effect]:
        if call.term < self.term:
            return [Answer(call.call, Outcome.STALE)]
        self.term = call.term
        lane, running = call.batch.lane, self._running.get(call.batch.lane)
        halted = self._halted.pop(lane, None)
        if running is not None and set(call.batch.tasks) <= set(running.batch.tasks) | set(self.finished):
            running.calls.append(call)
            return self._gather(running)
        done = self._finished_of(call.batch.tasks)
        if done:
            return [Answer(call.call, Outcome.FINISHED, done)]
        if halted == (call.term, call.batch):
            return [Answer(call.call, Outcome.INTERRUPTED)]
        if running is None:
            self._running[lane] = _Running(call.batch, [call])
            return [Begin(call.batch)]
        self._waiting.append(call)
        return self._stop(running)

    def _halt(self, term: int, batch: Batch) -> list[Effect]:
        if term < self.term:
            return []
        running = self._running.get(batch.lane)
        if running is not None and set(batch.tasks) <= set(running.batch.tasks):
            return self._stop(running)
        waiting = [call for call in self._waiting if call.batch == batch]
        self._waiting = [call for call in self._waiting if call.batch != batch]
        if not waiting:
            self._halted[batch.lane] = (term, batch)
        return [Answer(call.call, Outcome.INTERRUPTED) for call in waiting]

    def _stop(self, running: _Running) -> list[Effect]:
        if running.stopping:
            return []
        running.stopping = True
        return [Stop(running.batch.lane)]

    def _done(self, lane: Lane, tasks: Iterable[Task], read: Amount) -> list[Effect]:
        for task in tasks:
            self.finished[task] = read
        running = self._running.get(lane)
        return [] if running is None else self._gather(running)

    def _gather(self, running: _Running) -> list[Effect]:
        """If there is something to tell: soon."""
        ready = any(task in self.finished for call in running.calls for task in call.batch.tasks)
        if running.gathering or not ready:
            return []
        running.gathering = True
        return [Gather(running.batch.lane)]

    def _tell(self, running: _Running) -> list[Effect]:
        """Answer the calls of which something is finished."""
        effects: list[Effect] = []
        left: list[Called] = []
        for call in running.calls:
            done = self._finished_of(call.batch.tasks)
            if done:
                effects.append(Answer(call.call, Outcome.FINISHED, done))
            else:
                left.append(call)
        running.calls = left
        return effects

    def _ended(self, lane: Lane, outcome: Outcome, cause: str) -> list[Effect]:
        running = self._running.pop(lane, None)
        if running is None:
            return []
        effects = self._tell(running)
        effects += [Answer(call.call, outcome, (), cause) for call in running.calls]
        waiting = [call for call in self._waiting if call.batch.lane is lane]
        self._waiting = [call for call in self._waiting if call.batch.lane is not lane]
        for call in waiting:
            effects += self._called(call)
        return effects

    def _finished_of(self, tasks: Iterable[Task]) -> DoneTasks:
        return tuple((task, self.finished[task]) for task in tasks if task in self.finished)
