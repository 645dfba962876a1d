"""Safeguards between nodes, each switched off on purpose, and in how many seeds that must be found."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import msgspec

from belvedere.cluster import members, rpc_server
from belvedere.cluster.barrier import Barrier
from belvedere.cluster.members import Confirmed
from belvedere.cluster.membership import Membership
from belvedere.cluster.operations import Operations
from belvedere.cluster.rpc import Rpc
from belvedere.cluster.rpc_server import Incoming
from belvedere.meta.election import Tenure

Planted = AbstractContextManager[Any]


@dataclass(frozen=True)
class Bug:
    plant: Callable[[], Planted]
    #: Found within so many seeds from 0 on.
    seeds: int
    #: Part of what is said of it.
    told: str

    @property
    def name(self) -> str:
        return self.plant.__name__


async def _nothing(*_: Any) -> None:
    return None


def applied_revision_not_awaited() -> Planted:
    """Messages are looked at by whatever metadata is there."""
    return patch.object(Rpc, "caught_up", _nothing)


def operations_in_flight_not_counted() -> Planted:
    return patch.object(Operations, "none_before", _nothing)


def unreachable_nodes_passed_over() -> Planted:
    """A barrier does not wait until a node that does not answer is fenced."""
    original = Barrier._has_reached

    async def has_reached(self: Barrier, *arguments: Any) -> bool:
        await original(self, *arguments)
        return True

    return patch.object(Barrier, "_has_reached", has_reached)


def dead_incarnations_heard() -> Planted:
    return patch.object(rpc_server, "standing", lambda *_: None)


def _hello_with(changed: Callable[[Incoming], dict[str, Any]]) -> Planted:
    original = Incoming._objection

    def objection(self: Incoming, hello: Any) -> Any:
        return original(self, msgspec.structs.replace(hello, **changed(self)))

    return patch.object(Incoming, "_objection", objection)


def other_clusters_heard() -> Planted:
    return _hello_with(lambda incoming: {"cluster": incoming._host.cluster})


def messages_for_an_earlier_life_taken() -> Planted:
    """Whoever listens at an address is taken for whoever listened there before."""

    def own(incoming: Incoming) -> dict[str, Any]:
        identity = incoming._host.identity
        return {} if identity is None else {"wanted_incarnation": identity.incarnation}

    return _hello_with(own)


def operations_allowed_without_a_valid_lease() -> Planted:
    return patch.object(Operations, "allowed", property(lambda self: self._lease is not None))


def office_held_without_a_valid_lease() -> Planted:
    def holds(self: Tenure) -> bool:
        entry = self._metadata.state.entries.get("leaders/topology")
        return entry is not None and entry.revision == self.term

    return patch.object(Tenure, "holds", property(holds))


def back_with_old_operations_in_flight() -> Planted:
    async def end_life(self: Membership) -> None:
        self._operations.close()
        self._rpc.retire()

    return patch.object(Membership, "_end_life", end_life)


def believed_without_an_exchange() -> Planted:
    return patch.object(Confirmed, "holds", lambda *_: True)


def living_names_taken() -> Planted:
    original = members.claiming

    def claiming(state: Any, registration: Any, lease: int) -> Any:
        held = state.alive.get(registration.node)
        if held is None or held.lease == lease:
            return original(state, registration, lease)
        others = {name: one for name, one in state.alive.items() if name != registration.node}
        return original(type(state)(**{**vars(state), "alive": others}), registration, lease)

    return patch.object(members, "claiming", claiming)


BUGS = [
    Bug(applied_revision_not_awaited, 5, "does not know it"),
    Bug(operations_in_flight_not_counted, 5, "in flight after a barrier"),
    Bug(unreachable_nodes_passed_over, 20, "after"),
    Bug(dead_incarnations_heard, 60, "heard"),
    Bug(other_clusters_heard, 5, "of cluster other"),
    Bug(messages_for_an_earlier_life_taken, 60, ""),
    Bug(operations_allowed_without_a_valid_lease, 20, ""),
    Bug(office_held_without_a_valid_lease, 20, "several hold the office"),
    Bug(back_with_old_operations_in_flight, 60, "in flight after a barrier"),
    Bug(believed_without_an_exchange, 5, "never heard of it"),
    Bug(living_names_taken, 20, "two lives"),
]
