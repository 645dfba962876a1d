"""What befalls a cluster: drawn from a seed, carried out on its processes."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.cluster.chaos.nodes import Node, Nodes
from tests.meta.etcd_server import EtcdServer

#: What one node may suffer, and how often. `nap` is shorter than a lease, `sleep` longer. `desert`: it is
#: killed after a while in which no other heard it, so nobody else has what it did then. `outlive`: the others
#: are killed, and are back when it is killed itself: they must not serve what only it knows to be old.
ONE = {"kill": 4, "sleep": 4, "desert": 2, "outlive": 1, "nap": 1, "stop": 1}
#: What all may suffer. `leave`: they are asked to stop, one after the other.
ALL = {"kill all": 3, "sleep all": 1, "leave": 1}
_DESERTED_SECONDS = 0.5
#: What the metadata store may suffer, if it is a process of its own.
STORE = {"pause store": 1, "kill store": 1}


@dataclass(frozen=True, slots=True)
class Fault:
    kind: str
    #: Which node; 0: not one of them, but all, or the metadata store.
    node: int
    #: From its beginning until it is undone, and from then until the next one, in seconds.
    lasts: float
    calm: float

    def __str__(self) -> str:
        whom = f" n{self.node}" if self.node else ""
        return f"{self.kind}{whom} for {self.lasts:.1f} s, then {self.calm:.1f} s of calm"


def drawn(
    seed: int, seconds: float, nodes: int, lease_seconds: float, *, with_store: bool = False
) -> list[Fault]:
    """Faults for about so long."""
    draw = random.Random(f"nemesis {seed}")
    faults: list[Fault] = []
    left = seconds
    while left > 0:
        everybody = bool(faults) and draw.random() < 0.25
        kinds = (ALL | STORE if with_store else ALL) if everybody else ONE
        kind = draw.choices(list(kinds), list(kinds.values()))[0]
        lasts = _lasting(draw, kind, lease_seconds)
        # Often too short for the node to catch up before the next one suffers.
        calm = draw.uniform(0.2, 1.0) if draw.random() < 0.4 else draw.uniform(2.0, 4.0)
        faults.append(Fault(kind, 0 if everybody else draw.randint(1, nodes), lasts, calm))
        left -= lasts + calm
    return faults


def _lasting(draw: random.Random, kind: str, lease_seconds: float) -> float:
    match kind:
        case "nap" | "kill store":
            return draw.uniform(0.2, 0.7) * lease_seconds
        case "pause store":
            return draw.uniform(0.3, 2.5) * lease_seconds
        case "sleep" | "sleep all" | "outlive":
            return draw.uniform(1.2, 2.5) * lease_seconds
        case _ if draw.random() < 0.5:
            # It is back before anybody knows that it was away.
            return draw.uniform(0.0, 0.3) * lease_seconds
        case _:
            return draw.uniform(1.0, 2.5) * lease_seconds


def befall(
    nodes: Nodes, faults: list[Fault], say: Callable[[str], None], store: EtcdServer | None = None
) -> None:
    """One after the other."""
    for fault in faults:
        say(str(fault))
        if fault.kind in STORE:
            assert store is not None
            _befall_store(store, fault)
        else:
            _befall_nodes(nodes, fault)
        time.sleep(fault.calm)


def _befall_nodes(nodes: Nodes, fault: Fault) -> None:
    suffering = [nodes[fault.node]] if fault.node else nodes.all
    if fault.kind == "outlive":
        _outlive(nodes, suffering[0], fault.lasts)
        return
    if fault.kind == "leave":
        _leave(nodes, fault.lasts)
        return
    for node in suffering:
        match fault.kind:
            case "kill" | "kill all":
                node.kill()
            case "desert":
                _desert(nodes, node)
            case "stop":
                node.stop()
            case _:
                node.pause()
    time.sleep(fault.lasts)
    if fault.kind in ("kill", "kill all", "desert", "stop"):
        nodes.start()
    else:
        for node in suffering:
            node.resume()


def _desert(nodes: Nodes, node: Node) -> None:
    others = [other for other in nodes.all if other is not node]
    for other in others:
        other.pause()
    time.sleep(_DESERTED_SECONDS)
    node.kill()
    for other in others:
        other.resume()


def _leave(nodes: Nodes, pause: float) -> None:
    for node in nodes.all:
        node.stop()
        time.sleep(pause)
    nodes.start()


def _outlive(nodes: Nodes, node: Node, seconds: float) -> None:
    others = [other for other in nodes.all if other is not node]
    for other in others:
        other.kill()
    time.sleep(seconds)
    node.kill()
    for other in others:
        other.launch()
    for other in others:
        other.wait_until_ready()
    time.sleep(_DESERTED_SECONDS)
    nodes.start()


def _befall_store(store: EtcdServer, fault: Fault) -> None:
    if fault.kind == "pause store":
        store.pause()
        time.sleep(fault.lasts)
        store.resume()
    else:
        store.kill()
        time.sleep(fault.lasts)
        store.start()
        store.wait_until_healthy()
