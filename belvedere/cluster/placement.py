"""Which nodes keep a new table's tablets, and which one of them leads each. Pure: the state alone decides.

Nodes that live come first, then racks that have no replica of the tablet yet, then whoever has the least of
this table, so that no single table weighs on few nodes. As long as that goes round evenly, the ring that
drivers are told of decides between equals; of the tablets that are left over, who has the least of all
tables.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from belvedere.cluster.ring import RANGES_PER_NODE, Ring, first_token
from belvedere.meta.state import ClusterState, Node, Tablet

#: In a keyspace's replication: what stands for all nodes, where others name a datacenter.
ANYWHERE = "replication_factor"

_MOST_TABLETS = 32


class NoPlace(Exception):
    """No node would keep the table."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Of one new, empty tablet."""

    primary: str
    replicas: tuple[str, ...]
    #: Those that live: writes need not wait until somebody has taken out the others.
    in_sync: tuple[str, ...]


def factors(replication: Mapping[str, str]) -> dict[str, int]:
    """How many nodes of each datacenter, or of all, are to keep a tablet."""
    return {name: int(text) for name, text in replication.items() if name != "class"}


def pool(state: ClusterState, name: str) -> list[Node]:
    """The nodes from which a factor chooses, alive or not."""
    return [node for node in state.nodes.values() if name in (ANYWHERE, node.datacenter)]


def default_tablets(state: ClusterState, replication: Mapping[str, str]) -> int:
    """Into how many tablets to cut a table about which nobody said anything."""
    nodes = {node.id for name, count in factors(replication).items() if count for node in pool(state, name)}
    return max(1, min(RANGES_PER_NODE * len(nodes), _MOST_TABLETS))


def place(state: ClusterState, replication: Mapping[str, str], count: int) -> list[Placement]:
    """Of a table's tablets, equal ranges in token order. Raises NoPlace. A factor larger than the number of
    its nodes takes them all."""
    return _Placing(state, replication).tablets(count)


def renewed(state: ClusterState, tablet: Tablet) -> Placement:
    """Of an empty tablet in place of this one: the same replicas, led by a living one if there is any. They
    all have everything that it holds, so those that live are in sync."""
    in_sync = tuple(node for node in tablet.replicas if node in state.alive) or tablet.replicas
    primary = tablet.primary if tablet.primary in in_sync else in_sync[0]
    return Placement(primary, tablet.replicas, in_sync)


class _Placing:
    def __init__(self, state: ClusterState, replication: Mapping[str, str]) -> None:
        self._alive = state.alive
        self._pools = [
            (count, nodes)
            for name, count in factors(replication).items()
            if count and (nodes := pool(state, name))
        ]
        if not self._pools:
            raise NoPlace("by the replication of its keyspace, no node does")
        tablets = [tablet for found in state.tablet_maps.values() for tablet in found.tablets]
        self._replicas_of_all = Counter(node for tablet in tablets for node in tablet.replicas)
        self._primaries_of_all = Counter(tablet.primary for tablet in tablets)
        self._replicas: Counter[str] = Counter()
        self._primaries: Counter[str] = Counter()
        self._ring = Ring(state.nodes)

    def tablets(self, count: int) -> list[Placement]:
        able = {node.id for _, nodes in self._pools for node in nodes}
        in_turns = count - count % len(able & self._alive.keys() or able)
        placed = []
        for number in range(count):
            placement = self._tablet(first_token(number, count), along_ring=number < in_turns)
            self._primaries[placement.primary] += 1
            self._replicas.update(placement.replicas)
            self._primaries_of_all[placement.primary] += 1
            self._replicas_of_all.update(placement.replicas)
            placed.append(placement)
        return placed

    def _tablet(self, token: int, *, along_ring: bool) -> Placement:
        """The primary first: choosing it among replicas would leave no choice where they are few."""

        def ordered(node: Node, first: tuple[int, ...], loads: tuple[int, ...]) -> tuple[int, ...]:
            distance = self._ring.distance(node.id, token)
            rest = (distance, *loads) if along_ring else (*loads, distance)
            return (node.id not in self._alive, *first, *rest)

        def as_primary(node: Node) -> tuple[int, ...]:
            name = node.id
            loads = (self._replicas[name], self._primaries_of_all[name], self._replicas_of_all[name])
            return ordered(node, (self._primaries[name],), loads)

        def as_replica(node: Node) -> tuple[int, ...]:
            name = node.id
            first = (racks[node.datacenter, node.rack], self._replicas[name])
            return ordered(node, first, (self._replicas_of_all[name],))

        primary = min((node for _, nodes in self._pools for node in nodes), key=as_primary)
        chosen = [primary]
        for count, nodes in self._pools:
            left = [node for node in nodes if node is not primary]
            for _ in range(min(count - (primary in nodes), len(left))):
                racks = Counter((node.datacenter, node.rack) for node in chosen)
                chosen.append(min(left, key=as_replica))
                left.remove(chosen[-1])
        replicas = tuple(node.id for node in chosen)
        living = tuple(node for node in replicas if node in self._alive)
        return Placement(primary.id, replicas, living or replicas)
