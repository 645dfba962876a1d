"""Reads under way at a replica: none is answered before what it saw is committed."""

from belvedere.cluster.configuration import Level
from belvedere.cluster.events import Answer, Effect, Looked
from belvedere.cluster.messages import Done, NotServing
from belvedere.model.positions import Position


class Reads:
    def __init__(self) -> None:
        #: Asked, and looking.
        self.looking: dict[int, Level] = {}
        #: Looked, and waiting until what was seen is committed.
        self.waiting: list[tuple[Position, int]] = []

    def __len__(self) -> int:
        return len(self.looking) + len(self.waiting)

    def looked(self, event: Looked) -> None:
        if self.looking.pop(event.request, None) is not None:
            self.waiting.append((event.seen, event.request))

    def release(self, committed: Position) -> list[Effect]:
        if not self.waiting:
            return []
        ready = [request for seen, request in self.waiting if seen <= committed]
        if ready:
            self.waiting = [one for one in self.waiting if one[0] > committed]
        return [Answer(request, Done()) for request in ready]

    def drop(self, why: str) -> list[Effect]:
        """Nothing came of them, so whoever asked may ask again."""
        requests = [*self.looking, *(request for _, request in self.waiting)]
        self.looking.clear()
        self.waiting.clear()
        return [Answer(request, NotServing(why)) for request in requests]
