"""The search for an order in which one register could have carried out all that it did."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from belvedere.sim.checkers.history import Value


class GaveUpSearching(Exception):
    """Too many places were visited."""


@dataclass(frozen=True, slots=True)
class Move:
    """One operation as the search sees it: when it may happen, on what value, and to what end. Unset is what
    it does not care for."""

    began: int
    #: None: it may happen at any time after it began, or never.
    ended: int | None
    needs: Value | msgspec.UnsetType = msgspec.UNSET
    refuses: Value | msgspec.UnsetType = msgspec.UNSET
    writes: Value | msgspec.UnsetType = msgspec.UNSET

    def fits(self, value: Value) -> bool:
        needs, refuses = self.needs, self.refuses
        return (needs is msgspec.UNSET or needs == value) and (refuses is msgspec.UNSET or refuses != value)


class _Place(NamedTuple):
    """How far a search has come: what was taken of the moves that must happen (all before `first`, and those
    whose bits are set, counted from there), which of the others (`used`), and what the register holds."""

    first: int
    taken: int
    used: int
    value: Value


def can_be_ordered(required: Sequence[Move], optional: Sequence[Move], initial: Value, effort: int) -> bool:
    """`optional` are the moves without an end."""
    search = _Search(required, optional)
    visited: set[_Place] = set()
    waiting = [_Place(0, 0, 0, initial)]
    while waiting:
        place, horizon, opened = search.settled(waiting.pop())
        if place.first == len(required):
            return True
        if place in visited:
            continue
        if len(visited) == effort:
            raise GaveUpSearching
        visited.add(place)
        # The most promising comes last, and is looked at first.
        waiting += search.by_optional(place, horizon, opened)
        waiting += search.by_required(place, opened)
    return False


class _Search:
    def __init__(self, required: Sequence[Move], optional: Sequence[Move]) -> None:
        self._required = sorted(required, key=lambda move: move.began)
        self._ends = [0 if move.ended is None else move.ended for move in self._required]
        self._optional = sorted(optional, key=lambda move: move.began)
        self._last = max(self._ends, default=0)

    def settled(self, place: _Place) -> tuple[_Place, int, list[int]]:
        """The place after everything was taken that fits and changes nothing; the first end among what is
        left; the required moves that may come next, for nothing that is left had ended before they began."""
        first, taken, used, value = place
        horizon = self._last
        opened = []
        for number in range(first, len(self._required)):
            move = self._required[number]
            if move.began > horizon:
                break
            if taken >> (number - first) & 1:
                continue
            if move.writes is msgspec.UNSET and move.fits(value):
                taken |= 1 << (number - first)
                continue
            opened.append(number)
            horizon = min(horizon, self._ends[number])
        while taken & 1:
            first += 1
            taken >>= 1
        return _Place(first, taken, used, value), horizon, opened

    def by_required(self, place: _Place, opened: Sequence[int]) -> list[_Place]:
        """Whichever ends first is the last: it has the least choice."""
        found = []
        for number in sorted(opened, key=lambda number: -self._ends[number]):
            move = self._required[number]
            if move.writes is not msgspec.UNSET and move.fits(place.value):
                taken = place.taken | 1 << (number - place.first)
                found.append(_Place(place.first, taken, place.used, move.writes))
        return found

    def by_optional(self, place: _Place, horizon: int, opened: Sequence[int]) -> list[_Place]:
        """Only those of which the next move sees something, and one of those that are alike."""
        fitting: dict[tuple[Value | msgspec.UnsetType, Value], int] = {}
        next_moves = [self._required[number] for number in opened]
        for number, move in enumerate(self._optional):
            if move.began > horizon:
                break
            if place.used >> number & 1:
                continue
            next_moves.append(move)
            if move.writes is not msgspec.UNSET and move.fits(place.value):
                fitting.setdefault((move.needs, move.writes), number)
        return [
            place._replace(used=place.used | 1 << number, value=value)
            for (_, value), number in fitting.items()
            if value != place.value and any(_notices(move, place.value, value) for move in next_moves)
        ]


def _notices(move: Move, before: Value, after: Value) -> bool:
    """Whether it may come after the change, but not before."""
    return move.fits(after) and not move.fits(before)
