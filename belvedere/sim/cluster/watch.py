"""Looks into all nodes at every step of a replica: no two may be about to serve one tablet at one moment.

What clients see tells as much only when one of them happens to read where the other has just written.
"""

from collections.abc import Mapping

from belvedere.cluster.primary import Primary
from belvedere.cluster.seat import Seat
from belvedere.sim.cluster.nodes import Node


class Watch:
    def __init__(self, nodes: Mapping[str, Node], findings: list[str]) -> None:
        self._nodes = nodes
        self._findings = findings
        #: Who was the last to serve each tablet.
        self._server: dict[int, Node] = {}

    def __call__(self, node: Node, seat: Seat) -> None:
        tablet = seat.tablet
        if not isinstance(seat.replica.role, Primary) or self._server.get(tablet) is node:
            return
        if not _serves(node, tablet):
            return
        for other in self._nodes.values():
            if other is not node and _serves(other, tablet):
                self._findings.append(
                    f"tablet {tablet} is served by {other.runtime.machine} and by {node.runtime.machine}"
                )
        self._server[tablet] = node


def _serves(node: Node, tablet: int) -> bool:
    host = node.replication.host
    seat = host.seats.get(tablet)
    return node.runtime.incarnation.alive and seat is not None and seat.replica.serves(host.moment())
