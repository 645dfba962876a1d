"""What is to be done next for views that are not built: a pure state machine, events in, effects out.

Tasks live in the metadata store, one for each range of the base that is not yet in the view. One range is
worked on at a time, for all views of the base that still need it, so that the base is read once. Bases take
turns. That a task runs, or failed and waits for its next try, is known here only: after a crash all of it
begins again, and doing work twice changes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

FIRST_PAUSE = 0.5
LAST_PAUSE = 60.0


@dataclass(frozen=True, slots=True)
class Task:
    view: bytes
    #: The tablet of the base whose range is to be read.
    tablet: int
    #: When it was written: a task that was finished and written again is another one.
    revision: int


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
class Batch:
    """One range of a base, for some of its views."""

    base: bytes
    tablet: int
    tasks: tuple[Task, ...]


# --- events ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Seen:
    """The views that are not built now; what is not named is built or gone."""

    views: tuple[OpenView, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    batch: Batch
    rows: int


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The range changed under the work. What is to be done now, the metadata store says."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Failed:
    batch: Batch
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


Event = Seen | Finished | Interrupted | Failed | Emptied | RetryDue | TruncationBegan | TruncationEnded


# --- effects -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Build:
    batch: Batch


@dataclass(frozen=True, slots=True)
class Complete:
    """Delete finished tasks; with its last one a view is built."""

    batch: Batch
    rows: int


@dataclass(frozen=True, slots=True)
class Empty:
    """Remove what a view holds, then say that its tasks may begin."""

    view: bytes


@dataclass(frozen=True, slots=True)
class RetryAfter:
    seconds: float
    what: "Retried"


Effect = Build | Complete | Empty | RetryAfter

#: A range (base, tablet), or a view to be emptied.
Retried = tuple[bytes, int] | bytes


@dataclass(slots=True)
class Trouble:
    """How often work for a view failed in a row, and how the last time."""

    attempts: int
    cause: str


@dataclass(slots=True)
class Coordinator:
    views: dict[bytes, OpenView] = field(default_factory=dict)
    #: For status: views whose last attempt failed.
    troubles: dict[bytes, Trouble] = field(default_factory=dict)
    running: Batch | None = None
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
            case Seen(views):
                self._see(views)
            case Finished(batch, rows):
                self.running = None
                self._finished.update(batch.tasks)
                self._succeeded((batch.base, batch.tablet), batch)
                effects.append(Complete(batch, rows))
            case Interrupted():
                self.running = None
            case Failed(batch, cause):
                if self.running == batch:
                    self.running = None
                # Also when the work was done and could not be written down.
                self._finished.difference_update(batch.tasks)
                failed = [task.view for task in batch.tasks]
                effects.append(self._failed((batch.base, batch.tablet), failed, cause))
            case Emptied(view, None):
                self._emptying.discard(view)
                self._attempts.pop(view, None)
                self.troubles.pop(view, None)
            case Emptied(view, cause):
                self._emptying.discard(view)
                effects.append(self._failed(view, (view,), cause or ""))
            case RetryDue(what):
                self._pausing.discard(what)
            case TruncationBegan(base):
                self._truncating.append(base)
            case TruncationEnded(base):
                self._truncating.remove(base)
        return effects + self._next()

    def _see(self, views: Iterable[OpenView]) -> None:
        self.views = {view.id: view for view in views}
        known = {task for view in self.views.values() for task in view.tasks}
        self._finished &= known
        for view in [view for view in self.troubles if view not in self.views]:
            del self.troubles[view]
        bases = {view.base for view in self.views.values()}
        self._turns = {base: turn for base, turn in self._turns.items() if base in bases}
        self._attempts = {
            what: count for what, count in self._attempts.items() if self._is_known(what, bases)
        }

    def _is_known(self, what: Retried, bases: set[bytes]) -> bool:
        return what in self.views if isinstance(what, bytes) else what[0] in bases

    def _succeeded(self, what: Retried, batch: Batch) -> None:
        self._attempts.pop(what, None)
        for task in batch.tasks:
            self.troubles.pop(task.view, None)

    def _failed(self, what: Retried, views: Iterable[bytes], cause: str) -> RetryAfter:
        attempts = self._attempts[what] = self._attempts.get(what, 0) + 1
        self._pausing.add(what)
        for view in views:
            self.troubles[view] = Trouble(attempts, cause)
        return RetryAfter(min(FIRST_PAUSE * 2.0 ** min(attempts - 1, 20), LAST_PAUSE), what)

    # --- choosing ------------------------------------------------------------------------------------

    def _next(self) -> list[Effect]:
        effects: list[Effect] = []
        for view in self.views.values():
            idle = view.id not in self._emptying and view.id not in self._pausing
            if view.empty_first and idle and view.base not in self._truncating:
                self._emptying.add(view.id)
                effects.append(Empty(view.id))
        if self.running is None:
            batch = self._choose()
            if batch is not None:
                self.running = batch
                effects.append(Build(batch))
        return effects

    def _choose(self) -> Batch | None:
        ranges: dict[tuple[bytes, int], list[Task]] = {}
        priorities: dict[bytes, int] = {}
        for view in self.views.values():
            if view.held or view.empty_first or view.base in self._truncating:
                continue
            for task in view.tasks:
                place = (view.base, task.tablet)
                if task not in self._finished and place not in self._pausing:
                    ranges.setdefault(place, []).append(task)
                    priorities[view.base] = max(view.priority, priorities.get(view.base, view.priority))
        if not ranges:
            return None
        base = min(priorities, key=lambda base: (-priorities[base], self._turns.get(base, 0), base))
        self._turn += 1
        self._turns[base] = self._turn
        place = min(place for place in ranges if place[0] == base)
        return Batch(*place, tuple(ranges[place]))
