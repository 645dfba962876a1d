"""What clients of the simulated cluster remember of what they asked and were told, for the end."""

from dataclasses import dataclass, field

from belvedere.sim.checkers.history import History, Value


@dataclass
class Told:
    """One thing that a client wanted: moments of the world's time, in nanoseconds."""

    began: int
    ended: int | None = None
    #: True: it was done; False: certainly not, and never will be; None: nobody knows.
    done: bool | None = None


@dataclass
class Batch(Told):
    """Writes `number` under each of these keys; all at once, or not at all."""

    number: int = 0
    keys: tuple[int, ...] = ()


@dataclass
class Insert(Told):
    """Of one row, or of several by one batch: all of them are there, or none."""

    numbers: tuple[int, ...] = ()


@dataclass
class Increment(Told):
    key: int = 0


@dataclass
class WeakRead:
    """At ONE: it may be a little old."""

    key: str
    value: Value
    began: int


@dataclass
class Memory:
    history: History
    weak_reads: list[WeakRead] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    increments: list[Increment] = field(default_factory=list)
    inserts: list[Insert] = field(default_factory=list)
    truncations: list[Told] = field(default_factory=list)
    values: int = 0
    stopped: bool = False

    def next_value(self) -> int:
        self.values += 1
        return self.values
