"""What the topology leader does about nodes whose lease has run out: pure, events in, effects out.

Where such a node was primary, a survivor that is in sync takes its place; where it was a backup, it is taken
out, so that writes go on. What the leader wants is data, with the epoch it was made from; the transaction
also demands that the node's lease is still gone when it lands, and that the leader still is the leader. So
neither a leader that is behind nor a node that came back in the meantime can end up with two primaries.
"""

from dataclasses import dataclass, field

import msgspec

from belvedere.cluster.configuration import Configuration


class Placed(msgspec.Struct, frozen=True):
    tablet: int
    configuration: Configuration


class Seen(msgspec.Struct, frozen=True):
    """All tablets, and the nodes whose lease has not run out, at one revision."""

    tablets: tuple[Placed, ...]
    alive: frozenset[str]


class Ended(msgspec.Struct, frozen=True):
    """An attempt is over, whatever came of it; what became of the tablet, the next Seen says."""

    tablet: int


class Reconfigure(msgspec.Struct, frozen=True):
    tablet: int
    configuration: Configuration
    #: Nodes that lose their part: none may have its lease when this lands.
    gone: tuple[str, ...]


class Elected(msgspec.Struct, frozen=True):
    pass


class Deposed(msgspec.Struct, frozen=True):
    pass


class GraceOver(msgspec.Struct, frozen=True):
    """Nodes had time to start since the election."""


Event = Seen | Ended | Elected | Deposed | GraceOver


@dataclass(slots=True)
class Failover:
    """Nodes that this process never saw alive get some grace: when a whole cluster starts again, the first
    node that is up should not take all others out."""

    _seen: Seen | None = None
    _elected: bool = False
    _grace: bool = True
    _met: set[str] = field(default_factory=set)
    _under_way: set[int] = field(default_factory=set)

    def handle(self, event: Event) -> list[Reconfigure]:
        match event:
            case Seen(alive=alive):
                self._seen = event
                self._met |= alive
            case Ended(tablet):
                self._under_way.discard(tablet)
            case Elected():
                self._elected = True
            case Deposed():
                self._elected = False
            case GraceOver():
                self._grace = False
        return self._decide()

    def _decide(self) -> list[Reconfigure]:
        if self._seen is None or not self._elected:
            return []
        alive = set(self._seen.alive)
        if self._grace:
            everybody = {node for one in self._seen.tablets for node in one.configuration.in_sync}
            alive |= everybody - self._met
        load = dict.fromkeys(sorted(alive), 0)
        for placed in self._seen.tablets:
            if placed.configuration.primary in load:
                load[placed.configuration.primary] += 1
        effects: list[Reconfigure] = []
        for placed in self._seen.tablets:
            if placed.tablet in self._under_way:
                continue
            wanted = _without_dead(placed, load)
            if wanted is not None:
                load[wanted.configuration.primary] += 1
                self._under_way.add(placed.tablet)
                effects.append(wanted)
        return effects


def _without_dead(placed: Placed, load: dict[str, int]) -> Reconfigure | None:
    """`load`: the living, and of how many tablets each is primary."""
    before = placed.configuration
    survivors = tuple(node for node in before.in_sync if node in load)
    gone = tuple(node for node in before.in_sync if node not in load)
    if not gone or not survivors:
        # Only who is in sync has everything; if nobody of them lives, the tablet waits for one.
        return None
    primary = before.primary
    if primary in gone:
        primary = min(survivors, key=lambda node: (load[node], before.replicas.index(node)))
    return Reconfigure(placed.tablet, before.next(survivors, primary), gone)
