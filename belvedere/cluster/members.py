"""Who belongs to the cluster and who lives, decided on states of the metadata. Pure.

A node is registered by its NodeRecord, which stays while it is down. It is alive while `alive/<node>` is
there, a key under its lease: the store removes it only after the holder has stopped believing in the lease.
There is one such key for each node, so no two lives of a node can be alive at once.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from belvedere.cluster.rpc_errors import NotMember, RpcError, Superseded
from belvedere.cluster.rpc_settings import Peer
from belvedere.meta import records
from belvedere.meta.metadata import Proposal
from belvedere.meta.state import ClusterState
from belvedere.meta.store import Absent, Assertion, Delete, Put, Unchanged, Update

#: What this version can do that a cluster must agree on.
FEATURES = frozenset({"rpc-1"})


class NodeRefused(Exception):
    """This node may not become a member as it is; the message says what to do."""


class NodeIdTaken(Exception):
    """A node of this name is alive. `peer` is that one."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(f"a node named {peer.node} is running already: {peer}")
        self.peer = peer


@dataclass(frozen=True, slots=True)
class Registration:
    """What a node says of itself when it becomes a member."""

    node: str
    cluster: str
    #: Given to the cluster if this node is its first one.
    cluster_id: str
    internal_host: str
    internal_port: int
    datacenter: str = "datacenter1"
    rack: str = "rack1"
    version: str = ""
    features: frozenset[str] = FEATURES


def claiming(state: ClusterState, registration: Registration, lease: int) -> Proposal | None:
    """Register a node and let it live under a lease, with the next incarnation. All claims stand in one line,
    since each takes its number from the same sequence. None if this lease has it already."""
    name = registration.node
    held = state.alive.get(name)
    if held is not None and held.lease == lease:
        return None
    check_cluster(state, registration.cluster)
    if held is not None:
        raise NodeIdTaken(peer_of(state, name) or Peer(name, held.incarnation, "?", 0))
    _check_company(state, registration)
    last, before = state.entries.get(records.INCARNATION_SEQUENCE), state.nodes.get(name)
    incarnation = 1 if last is None else int(last.value) + 1
    record = records.NodeRecord(
        "" if before is None else before.host,
        0 if before is None else before.port,
        registration.datacenter,
        registration.rack,
        registration.version,
        registration.internal_host,
        registration.internal_port,
        incarnation,
        sorted(registration.features),
    )
    alive = records.encode(records.AliveRecord(incarnation, lease))
    updates: list[Update] = [
        Put(records.INCARNATION_SEQUENCE, str(incarnation).encode()),
        Put(records.node_key(name), records.encode(record)),
        Put(records.alive_key(name), alive, lease),
    ]
    if records.CLUSTER not in state.entries:
        cluster = records.ClusterRecord(registration.cluster, registration.cluster_id)
        updates.append(Put(records.CLUSTER, records.encode(cluster)))
    return tuple(_as_seen(state, update.key) for update in updates), tuple(updates)


def announcing(state: ClusterState, node: str, lease: int, host: str, port: int) -> Proposal | None:
    """The node answers clients at this address, as long as it lives under this lease. None if it says so
    already, or lives no more."""
    record, held = state.nodes.get(node), state.alive.get(node)
    if record is None or held is None or held.lease != lease:
        return None
    if held.answers and (record.host, record.port) == (host, port):
        return None
    key, alive = records.node_key(node), records.alive_key(node)
    known = msgspec.json.decode(state.entries[key].value, type=records.NodeRecord)
    now = records.encode(msgspec.structs.replace(known, host=host, port=port))
    answering = records.encode(records.AliveRecord(held.incarnation, lease, True))
    return (_as_seen(state, key), _as_seen(state, alive)), (Put(key, now), Put(alive, answering, lease))


def check_cluster(state: ClusterState, name: str) -> None:
    known = cluster_of(state)
    if known is not None and known.name != name:
        raise NodeRefused(f"the metadata store is that of cluster {known.name}, not of {name}")
    if known is None and any(not node.incarnation for node in state.nodes.values()):
        raise NodeRefused("the metadata store is that of a server that is alone, not of a cluster")


def _check_company(state: ClusterState, registration: Registration) -> None:
    others = sorted(name for name in state.nodes if name != registration.node)
    missing = sorted(features_on(state, without=registration.node) - registration.features) if others else []
    if missing:
        raise NodeRefused(f"this version lacks what the cluster uses already: {', '.join(missing)}")


def _as_seen(state: ClusterState, key: str) -> Assertion:
    entry = state.entries.get(key)
    return Absent(key) if entry is None else Unchanged(key, entry.revision)


def forgetting(state: ClusterState, node: str) -> Proposal | None:
    """Remove a node for good. Refused while it is alive, or has tablets."""
    if node not in state.nodes:
        return None
    if node in state.alive:
        raise NodeRefused(f"node {node} is alive: stop it first")
    for tablet_map in state.tablet_maps.values():
        if any(node == tablet.primary or node in tablet.replicas for tablet in tablet_map.tablets):
            raise NodeRefused(f"node {node} still has tablets")
    key, alive = records.node_key(node), records.alive_key(node)
    sequence = records.INCARNATION_SEQUENCE
    return (_as_seen(state, key), Absent(alive), _as_seen(state, sequence)), (Delete(key),)


def cluster_of(state: ClusterState) -> records.ClusterRecord | None:
    entry = state.entries.get(records.CLUSTER)
    return None if entry is None else records.decode_cluster(entry.value)


def features_on(state: ClusterState, without: str = "") -> frozenset[str]:
    """A feature is on when all registered nodes have it."""
    found = [node.features for node in state.nodes.values() if node.id != without]
    return frozenset.intersection(*found) if found else frozenset()


def peer_of(state: ClusterState, node: str) -> Peer | None:
    """The living incarnation of a node, None if it is not alive."""
    record, alive = state.nodes.get(node), state.alive.get(node)
    if record is None or alive is None or record.incarnation != alive.incarnation:
        return None
    return Peer(node, record.incarnation, record.internal_host, record.internal_port)


def living(state: ClusterState) -> list[Peer]:
    return [peer for peer in (peer_of(state, node) for node in state.alive) if peer is not None]


def is_alive(state: ClusterState, peer: Peer) -> bool:
    """Whether this very life of the node goes on, by this state."""
    held = state.alive.get(peer.node)
    return held is not None and held.incarnation == peer.incarnation


def standing(state: ClusterState, node: str, incarnation: int) -> RpcError | None:
    """Why a message of this life of a node must not be heard, by a state that is as new as the message."""
    record = state.nodes.get(node)
    if record is None or record.incarnation < incarnation:
        return NotMember(f"{node}#{incarnation} is not a member of the cluster")
    if record.incarnation > incarnation:
        return Superseded(f"{node}#{incarnation} is dead: there is {node}#{record.incarnation}")
    return None


@dataclass(frozen=True, slots=True)
class NodeChange:
    """`what` is one of NEW_NODE, UP, DOWN, REMOVED_NODE; host and port are where clients reach the node."""

    what: str
    node: str
    host: str
    port: int


def changes(before: ClusterState, after: ClusterState) -> Sequence[NodeChange]:
    """As clients see it, in an order that they can follow: a node is new before it is up, and down before it
    is removed. One that lives and does not answer clients yet is not up."""
    if before.alive is after.alive and before.nodes is after.nodes:
        return ()
    found: list[NodeChange] = []
    for name in sorted(before.nodes.keys() | after.nodes.keys()):
        old, new = _address(before, name), _address(after, name)
        was, now = _answering(before, name), _answering(after, name)
        moved = old is not None and new is not None and old != new
        if old is not None and was is not None and (was != now or moved):
            found.append(NodeChange("DOWN", name, *old))
        if old is not None and (new is None or moved):
            found.append(NodeChange("REMOVED_NODE", name, *old))
        if new is not None and (old is None or moved):
            found.append(NodeChange("NEW_NODE", name, *new))
        if new is not None and now is not None and (was != now or moved):
            found.append(NodeChange("UP", name, *new))
    return found


def _address(state: ClusterState, name: str) -> tuple[str, int] | None:
    node = state.nodes.get(name)
    return None if node is None or not node.port else (node.host, node.port)


def _answering(state: ClusterState, name: str) -> int | None:
    """The incarnation that answers clients."""
    held = state.alive.get(name)
    return held.incarnation if held is not None and held.answers else None


class Confirmed:
    """With which lives of other nodes a direct exchange has succeeded, while they last."""

    def __init__(self) -> None:
        self._heard: dict[str, int] = {}

    def heard(self, peer: Peer) -> None:
        if self._heard.get(peer.node, 0) < peer.incarnation:
            self._heard[peer.node] = peer.incarnation

    def holds(self, peer: Peer) -> bool:
        return self._heard.get(peer.node) == peer.incarnation

    def keep_only(self, alive: Collection[str]) -> None:
        for node in [node for node in self._heard if node not in alive]:
            del self._heard[node]
