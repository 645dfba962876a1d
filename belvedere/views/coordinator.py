"""What is to be done next for views: a pure state machine, events in, effects out.

Tasks live in the metadata store: `build_range`, a range of a base that is not yet in a view, and
`process_staging`, loaded files that a base's views do not show yet. The coordinator gives them to a worker in
batches: of one base at a time in each lane, all its views together, so that the base is read once; bases take
turns. A call is answered when some of its tasks are finished, and made again for the rest. That a task runs,
or failed and waits for its next try, is known here and to the worker only: after a crash it all begins again,
and doing work twice changes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

FIRST_PAUSE = 0.5
LAST_PAUSE = 60.0
#: Tablets of a base in one batch: then it is another base's turn.
TABLETS_AT_ONCE = 16


class Amount(NamedTuple):
    """How much of a base was read."""

    rows: int = 0
    bytes: int = 0

    def plus(self, other: "Amount") -> "Amount":
        return Amount(self.rows + other.rows, self.bytes + other.bytes)


class Lane(Enum):
    """Where work is done. Small work does not wait behind large work."""

    INLINE = "inline"
    #: On Spark.
    JOB = "spark"


@dataclass(frozen=True, slots=True)
class Task:
    #: The tablet of the base whose range, or whose loaded files, are to be read.
    tablet: int
    #: When it was written: a task that was finished and written again is another one.
    revision: int
    #: build_range: the view. process_staging is for all views of the base.
    view: bytes = b""
    #: process_staging: the load.
    load: str = ""


DoneTasks = tuple[tuple[Task, Amount], ...]


@dataclass(frozen=True, slots=True)
class OpenView:
    """A view that is not built, as the metadata store tells of it."""

    id: bytes
    base: bytes
    tasks: tuple[Task, ...]
    empty_first: bool = False
    held: bool = False
    priority: int = 0


@dataclass(frozen=True, slots=True)
class OpenLoads:
    """Loads into a table that its views do not show yet."""

    base: bytes
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """Some tasks of one base: all are ranges to be built, or all are loads to be brought in."""

    base: bytes
    lane: Lane
    tasks: tuple[Task, ...]

    @property
    def stages(self) -> bool:
        return bool(self.tasks) and bool(self.tasks[0].load)


# --- events ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Seen:
    """The views that are not built now, and the loads that views wait for; what is not named is done or
    gone. Work for the `large` bases is a job for Spark."""

    views: tuple[OpenView, ...]
    loads: tuple[OpenLoads, ...] = ()
    large: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True)
class Finished:
    """These of a batch's tasks are done, each with what was read for it."""

    batch: Batch
    done: DoneTasks


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The ranges changed under the work. What is to be done now, the metadata store says."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Failed:
    batch: Batch
    cause: str


@dataclass(frozen=True, slots=True)
class NotWrittenDown:
    """Finished tasks could not be deleted: the metadata store did not take it."""

    base: bytes
    tasks: tuple[Task, ...]
    cause: str


@dataclass(frozen=True, slots=True)
class Emptied:
    view: bytes
    #: None if it worked.
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class RetryDue:
    what: "Retried"


@dataclass(frozen=True, slots=True)
class TruncationBegan:
    """Nothing is built from a base while its rows are being removed."""

    base: bytes


@dataclass(frozen=True, slots=True)
class TruncationEnded:
    base: bytes


Event = (
    Seen
    | Finished
    | Interrupted
    | Failed
    | NotWrittenDown
    | Emptied
    | RetryDue
    | TruncationBegan
    | TruncationEnded
)


# --- effects -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Call:
    """Ask a worker to do a batch; whoever is asked again attaches to what runs."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Halt:
    """Nobody wants what a batch would give: held, dropped or truncated."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Complete:
    """Delete finished tasks; with its last one a view is built."""

    base: bytes
    done: DoneTasks


@dataclass(frozen=True, slots=True)
class Empty:
    """Remove what a view holds, then say that its tasks may begin."""

    view: bytes


@dataclass(frozen=True, slots=True)
class RetryAfter:
    seconds: float
    what: "Retried"


Effect = Call | Halt | Complete | Empty | RetryAfter

#: A tablet's work (base, tablet), or a view to be emptied.
Retried = tuple[bytes, int] | bytes


@dataclass(slots=True)
class Trouble:
    """How often work for a view failed in a row, and how the last time."""

    attempts: int
    cause: str


@dataclass(slots=True)
class Coordinator:
    views: dict[bytes, OpenView] = field(default_factory=dict)
    loads: dict[bytes, OpenLoads] = field(default_factory=dict)
    #: For status: views (or bases, for loads) whose last attempt failed.
    troubles: dict[bytes, Trouble] = field(default_factory=dict)
    running: dict[Lane, Batch] = field(default_factory=dict)
    _large: frozenset[bytes] = frozenset()
    _halting: set[Lane] = field(default_factory=set)
    _emptying: set[bytes] = field(default_factory=set)
    #: Done, though the metadata store may not say so yet.
    _finished: set[Task] = field(default_factory=set)
    _attempts: dict[Retried, int] = field(default_factory=dict)
    _pausing: set[Retried] = field(default_factory=set)
    _truncating: list[bytes] = field(default_factory=list)
    #: When each base last had its turn.
    _turns: dict[bytes, int] = field(default_factory=dict)
    _turn: int = 0

    def handle(self, event: Event) -> list[Effect]:
        effects: list[Effect] = []
        match event:
            case Seen(views, loads, large):
                self._see(views, loads, large)
            case Finished(batch, done):
                effects += self._progress(batch, done)
            case Interrupted(batch):
                self._ended(batch)
            case Failed(batch, cause):
                self._ended(batch)
                effects += self._failed(batch.base, batch.tasks, cause)
            case NotWrittenDown(base, tasks, cause):
                self._finished.difference_update(tasks)
                effects += self._failed(base, tasks, cause)
            case Emptied(view, None):
                self._emptying.discard(view)
                self._attempts.pop(view, None)
                self.troubles.pop(view, None)
            case Emptied(view, cause):
                self._emptying.discard(view)
                effects.append(self._pause(view, (view,), cause or ""))
            case RetryDue(what):
                self._pausing.discard(what)
            case TruncationBegan(base):
                self._truncating.append(base)
            case TruncationEnded(base):
                self._truncating.remove(base)
        return effects + self._halt_unwanted() + self._next()

    def _see(self, views: Iterable[OpenView], loads: Iterable[OpenLoads], large: frozenset[bytes]) -> None:
        self.views = {view.id: view for view in views}
        self.loads = {one.base: one for one in loads}
        self._large = large
        known = {task for view in self.views.values() for task in view.tasks}
        self._finished &= known | {task for one in self.loads.values() for task in one.tasks}
        for trouble in [trouble for trouble in self.troubles if trouble not in {*self.views, *self.loads}]:
            del self.troubles[trouble]
        bases = {view.base for view in self.views.values()} | set(self.loads)
        self._turns = {base: turn for base, turn in self._turns.items() if base in bases}
        self._attempts = {
            what: count for what, count in self._attempts.items() if self._is_known(what, bases)
        }

    def _is_known(self, what: Retried, bases: set[bytes]) -> bool:
        return what in self.views if isinstance(what, bytes) else what[0] in bases

    # --- what became of a call -----------------------------------------------------------------------

    def _progress(self, batch: Batch, done: DoneTasks) -> list[Effect]:
        """Some tasks are done: write that down, and ask again for the rest."""
        self._ended(batch)
        finished = {task for task, _ in done}
        self._finished |= finished
        for task in finished:
            self._attempts.pop((batch.base, task.tablet), None)
            self.troubles.pop(task.view or batch.base, None)
        effects: list[Effect] = [Complete(batch.base, done)] if done else []
        left = tuple(task for task in batch.tasks if task not in finished)
        if left:
            rest = Batch(batch.base, batch.lane, left)
            self.running[batch.lane] = rest
            effects.append(Call(rest))
        return effects

    def _ended(self, batch: Batch) -> None:
        if self.running.get(batch.lane) == batch:
            del self.running[batch.lane]
            self._halting.discard(batch.lane)

    def _failed(self, base: bytes, tasks: Iterable[Task], cause: str) -> list[Effect]:
        views: dict[int, list[bytes]] = {}
        for task in tasks:
            views.setdefault(task.tablet, []).append(task.view or base)
        return [self._pause((base, tablet), named, cause) for tablet, named in views.items()]

    def _pause(self, what: Retried, views: Iterable[bytes], cause: str) -> RetryAfter:
        attempts = self._attempts[what] = self._attempts.get(what, 0) + 1
        self._pausing.add(what)
        for view in views:
            self.troubles[view] = Trouble(attempts, cause)
        return RetryAfter(min(FIRST_PAUSE * 2.0 ** min(attempts - 1, 20), LAST_PAUSE), what)

    def _halt_unwanted(self) -> list[Effect]:
        effects: list[Effect] = []
        for lane, batch in self.running.items():
            if lane not in self._halting and not any(
                self._is_wanted(batch.base, task) for task in batch.tasks
            ):
                self._halting.add(lane)
                effects.append(Halt(batch))
        return effects

    def _is_wanted(self, base: bytes, task: Task) -> bool:
        if base in self._truncating:
            return False
        if task.load:
            return base in self.loads and task in self.loads[base].tasks
        view = self.views.get(task.view)
        return view is not None and not view.held and not view.empty_first and task in view.tasks

    # --- choosing ------------------------------------------------------------------------------------

    def _next(self) -> list[Effect]:
        effects: list[Effect] = []
        for view in self.views.values():
            idle = view.id not in self._emptying and view.id not in self._pausing
            if view.empty_first and idle and view.base not in self._truncating:
                self._emptying.add(view.id)
                effects.append(Empty(view.id))
        for lane in Lane:
            if lane not in self.running:
                batch = self._choose(lane)
                if batch is not None:
                    self.running[lane] = batch
                    effects.append(Call(batch))
        return effects

    def _choose(self, lane: Lane) -> Batch | None:
        found: dict[bytes, list[Task]] = {}
        priorities: dict[bytes, int] = {}
        busy = {batch.base for batch in self.running.values()}
        for base, tasks, priority in self._open():
            wanted = [task for task in tasks if self._may_begin(base, task)]
            if wanted and base not in busy and (base in self._large) == (lane is Lane.JOB):
                found.setdefault(base, []).extend(wanted)
                priorities[base] = max(priority, priorities.get(base, priority))
        if not found:
            return None
        base = min(priorities, key=lambda base: (-priorities[base], self._turns.get(base, 0), base))
        self._turn += 1
        self._turns[base] = self._turn
        return Batch(base, lane, _first_tablets(found[base]))

    def _open(self) -> Iterable[tuple[bytes, tuple[Task, ...], int]]:
        """Loads first: what was loaded is to be seen soon, and a build reads it with everything else."""
        for one in self.loads.values():
            yield (
                one.base,
                one.tasks,
                max((v.priority for v in self.views.values() if v.base == one.base), default=0),
            )
        for view in self.views.values():
            yield view.base, view.tasks, view.priority

    def _may_begin(self, base: bytes, task: Task) -> bool:
        pausing = (base, task.tablet) in self._pausing
        return task not in self._finished and not pausing and self._is_wanted(base, task)


def _first_tablets(tasks: list[Task]) -> tuple[Task, ...]:
    """As many as a batch may hold; ranges to be built never together with loads."""
    stages = any(task.load for task in tasks)
    same = [task for task in tasks if bool(task.load) == stages]
    tablets = sorted({task.tablet for task in same})[:TABLETS_AT_ONCE]
    return tuple(task for tablet in tablets for task in same if task.tablet == tablet)
