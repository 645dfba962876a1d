"""Which nodes keep a new table's tablets, and which one of them leads each. Pure, and the same for the same
state and seed.

Nodes that live come first, then racks that have no replica of the tablet yet, then whoever has the least: of
this table, so that no single table weighs on few nodes, then of all tables. What is still equal the seed
decides, so that small tables do not all begin at the same node.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import xxhash

from belvedere.meta.state import ClusterState, Node, Tablet

#: In a keyspace's replication: what stands for all nodes, where others name a datacenter.
ANYWHERE = "replication_factor"

_PER_NODE, _MOST = 2, 32


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
    return max(1, min(_PER_NODE * len(nodes), _MOST))


def place(state: ClusterState, replication: Mapping[str, str], count: int, seed: bytes) -> list[Placement]:
    """Of a table's tablets in token order. Raises NoPlace. A factor larger than its nodes takes them all."""
    return _Placing(state, replication, seed).tablets(count)


def renewed(state: ClusterState, tablet: Tablet) -> Placement:
    """Of an empty tablet in place of this one: the same replicas, led by a living one if there is any. They
    all have everything that it holds, so those that live are in sync."""
    in_sync = tuple(node for node in tablet.replicas if node in state.alive) or tablet.replicas
    primary = tablet.primary if tablet.primary in in_sync else in_sync[0]
    return Placement(primary, tablet.replicas, in_sync)


class _Placing:
    def __init__(self, state: ClusterState, replication: Mapping[str, str], seed: bytes) -> None:
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
        self._lots = {name: xxhash.xxh3_64_intdigest(seed + name.encode()) for name in state.nodes}

    def tablets(self, count: int) -> list[Placement]:
        placed = []
        for _ in range(count):
            placement = self._tablet()
            self._primaries[placement.primary] += 1
            self._replicas.update(placement.replicas)
            self._primaries_of_all[placement.primary] += 1
            self._replicas_of_all.update(placement.replicas)
            placed.append(placement)
        return placed

    def _tablet(self) -> Placement:
        """The primary first: choosing it among replicas would leave no choice where they are few."""
        everybody = [node for _, nodes in self._pools for node in nodes]
        primary = min(everybody, key=self._as_primary)
        chosen = [primary]
        for count, nodes in self._pools:
            left = [node for node in nodes if node is not primary]
            wanted = count - (primary in nodes)
            while wanted > 0 and left:
                racks = Counter((node.datacenter, node.rack) for node in chosen)
                node = min(left, key=lambda node: self._as_replica(node, racks))
                left.remove(node)
                chosen.append(node)
                wanted -= 1
        replicas = tuple(node.id for node in chosen)
        living = tuple(node for node in replicas if node in self._alive)
        return Placement(primary.id, replicas, living or replicas)

    def _as_primary(self, node: Node) -> tuple[int, ...]:
        name = node.id
        return (
            name not in self._alive,
            self._primaries[name],
            self._replicas[name],
            self._primaries_of_all[name],
            self._replicas_of_all[name],
            self._lots[name],
        )

    def _as_replica(self, node: Node, racks: Mapping[tuple[str, str], int]) -> tuple[int, ...]:
        name = node.id
        return (
            name not in self._alive,
            racks[node.datacenter, node.rack],
            self._replicas[name],
            self._replicas_of_all[name],
            self._lots[name],
        )
