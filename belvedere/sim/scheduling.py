"""Which of the steps that could run runs next: the three policies of a seed.

A real loop is first in, first out. That order alone hides races, since it is the kindest: `RandomOrder` picks
any ready step; `PriorityOrder` gives every strand (a task, or a kind of callback) a priority and runs the
highest, with a few changes on the way, which finds bugs that need one strand to be held back for long
(probabilistic concurrency testing).
"""

import collections
import random
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

H = TypeVar("H")


class Schedule(Protocol[H]):
    name: str

    def push(self, step: H) -> None: ...
    def pop(self) -> H: ...
    def __len__(self) -> int: ...


class FirstInFirstOut(Generic[H]):
    name = "fifo"

    def __init__(self) -> None:
        self._ready: collections.deque[H] = collections.deque()

    def push(self, step: H) -> None:
        self._ready.append(step)

    def pop(self) -> H:
        return self._ready.popleft()

    def __len__(self) -> int:
        return len(self._ready)


class RandomOrder(Generic[H]):
    name = "random"

    def __init__(self, generator: random.Random) -> None:
        self._ready: list[H] = []
        self._random = generator.random

    def push(self, step: H) -> None:
        self._ready.append(step)

    def pop(self) -> H:
        ready = self._ready
        chosen = int(self._random() * len(ready))
        ready[chosen], ready[-1] = ready[-1], ready[chosen]
        return ready.pop()

    def __len__(self) -> int:
        return len(self._ready)


class PriorityOrder(Generic[H]):
    name = "pct"

    def __init__(self, generator: random.Random, strand_of: Callable[[H], str]) -> None:
        self._ready: list[H] = []
        self._generator = generator
        self._strand_of = strand_of
        self._priorities: dict[str, float] = {}
        # Strict priorities starve: a strand that never rests would hang the run. So all are redrawn now
        # and then, rarely enough that one order holds for a whole exchange of messages.
        self._period = generator.choice((30, 100, 300, 1000, 3000))
        self._left = self._period

    def push(self, step: H) -> None:
        self._ready.append(step)

    def _priority(self, step: H) -> float:
        strand = self._strand_of(step)
        priority = self._priorities.get(strand)
        if priority is None:
            priority = self._priorities[strand] = self._generator.random()
        return priority

    def pop(self) -> H:
        self._left -= 1
        if self._left <= 0:
            self._left = self._period
            self._priorities.clear()
        ready = self._ready
        if len(ready) == 1:
            return ready.pop()
        # The first of equals wins, so one strand's steps keep their order.
        return ready.pop(max(range(len(ready)), key=lambda index: self._priority(ready[index])))

    def __len__(self) -> int:
        return len(self._ready)


POLICIES = ("fifo", "random", "pct")


def make_schedule(policy: str, generator: random.Random, strand_of: Callable[[H], str]) -> Schedule[H]:
    if policy == "fifo":
        return FirstInFirstOut()
    if policy == "random":
        return RandomOrder(generator)
    if policy == "pct":
        return PriorityOrder(generator, strand_of)
    raise ValueError(f"unknown scheduling policy {policy!r}; one of {', '.join(POLICIES)}")
