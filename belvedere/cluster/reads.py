"""Reads under way at a replica: none is answered before what it saw is committed."""

import math

from belvedere.cluster.configuration import Level
from belvedere.cluster.events import Answer, Effect, Look, Looked
from belvedere.cluster.messages import Done, NotServing
from belvedere.model.positions import Position


class Reads:
    def __init__(self) -> None:
        #: Asked, and to look once everything up to the position can be seen; or at a time, in any case.
        self.behind: list[tuple[Position, int, Level, float]] = []
        #: Asked, and looking.
        self.looking: dict[int, Level] = {}
        #: Of those that look: these wait for others, and do not count.
        self.idle: set[int] = set()
        #: Looked, and waiting until what was seen is committed.
        self.waiting: list[tuple[Position, int]] = []

    def __len__(self) -> int:
        return len(self.behind) + len(self.looking) - len(self.idle) + len(self.waiting)

    @property
    def wait(self) -> bool:
        return bool(self.behind or self.waiting)

    def look(self, request: int, level: Level) -> Effect:
        self.looking[request] = level
        return Look(request)

    def looked(self, event: Looked) -> None:
        self.idle.discard(event.request)
        if self.looking.pop(event.request, None) is not None:
            self.waiting.append((event.seen, event.request))

    def release(self, committed: Position) -> list[Effect]:
        effects: list[Effect] = []
        if self.waiting:
            effects += [Answer(request, Done()) for seen, request in self.waiting if seen <= committed]
            if effects:
                self.waiting = [one for one in self.waiting if one[0] > committed]
        if self.behind:
            ready = [one for one in self.behind if one[0] <= committed]
            if ready:
                self.behind = [one for one in self.behind if one[0] > committed]
                effects += [self.look(request, level) for _, request, level, _ in ready]
        return effects

    @property
    def wake_at(self) -> float | None:
        return min((until for *_, until in self.behind if until < math.inf), default=None)

    def look_in_any_case(self, now: float) -> list[Effect]:
        """Those that have waited long enough."""
        late = [one for one in self.behind if one[3] <= now]
        if late:
            self.behind = [one for one in self.behind if one[3] > now]
        return [self.look(request, level) for _, request, level, _ in late]

    def drop(self, why: str) -> list[Effect]:
        """Nothing came of them, so whoever asked may ask again."""
        requests = [
            *(request for _, request, *_ in self.behind),
            *self.looking,
            *(request for _, request in self.waiting),
        ]
        self.behind.clear()
        self.looking.clear()
        self.idle.clear()
        self.waiting.clear()
        return [Answer(request, NotServing(why)) for request in requests]
