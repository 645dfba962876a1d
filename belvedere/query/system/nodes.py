"""`system_views.nodes`: the members of the cluster, alive or not, as the metadata has them."""

from collections.abc import Callable, Iterable

from belvedere.meta.election import leader_of
from belvedere.meta.state import ClusterState, Node
from belvedere.query.system.define import define
from belvedere.query.system.virtual import VirtualRow, VirtualTable


def nodes(state: Callable[[], ClusterState], own: Callable[[], str]) -> VirtualTable:
    return define(
        "system_views.nodes",
        "node text",
        "",
        """address text; data_center text; incarnation bigint; internal_address text; leader boolean;
        rack text; state text; version text""",
        lambda: rows(state(), own()),
        "the nodes of the cluster",
    )


def rows(state: ClusterState, own: str) -> Iterable[VirtualRow]:
    leader = leader_of(state, "topology")
    for node in state.nodes.values():
        yield {
            "node": node.id,
            "address": f"{node.host}:{node.port}" if node.port else None,
            "data_center": node.datacenter,
            "incarnation": node.incarnation,
            "internal_address": f"{node.internal_host}:{node.internal_port}" if node.internal_port else None,
            "leader": leader is not None and leader.node == node.id,
            "rack": node.rack,
            "state": _state(state, node, own),
            "version": node.version,
        }


def _state(state: ClusterState, node: Node, own: str) -> str:
    if not node.incarnation:
        # A node that is alone holds no lease.
        return "UP" if node.id == own else "DOWN"
    held = state.alive.get(node.id)
    if held is None:
        return "DOWN"
    return "UP" if held.answers else "JOINING"
