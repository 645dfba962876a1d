"""What whoever leads the topology does about dead nodes: carries out what `Failover` decides."""

import asyncio

from belvedere.cluster.configuration import configuration_of, proposal_of
from belvedere.cluster.failover import (
    Deposed,
    Elected,
    Ended,
    Event,
    Failover,
    GraceOver,
    Placed,
    Reconfigure,
    Seen,
)
from belvedere.cluster.topology import OFFICE
from belvedere.meta import records
from belvedere.meta.election import Tenure
from belvedere.meta.metadata import Metadata, Proposal
from belvedere.meta.state import ClusterState, Tablet
from belvedere.meta.store import Absent, MetadataError, Unchanged
from belvedere.runtime.api import Runtime

#: After a try that came to nothing, in seconds.
_PAUSE = 0.3


class FailoverLeader:
    """Looks on from `start` on, and acts while it leads."""

    def __init__(self, runtime: Runtime, metadata: Metadata, grace: float) -> None:
        """`grace`: how long nodes may take to start with the cluster, in seconds."""
        self._runtime = runtime
        self._metadata = metadata
        self._grace = grace
        self._failover = Failover()
        self._tenure: Tenure | None = None

    def start(self) -> None:
        """Who was seen alive by the time of the election need not be given time to start."""
        self._metadata.listen(self._on_state)
        self._look(self._metadata.state)

    def _on_state(self, before: ClusterState, after: ClusterState) -> None:
        if before.tablet_maps is not after.tablet_maps or before.alive is not after.alive:
            self._look(after)

    async def lead(self, tenure: Tenure) -> None:
        """Until cancelled."""
        self._runtime.sometimes("topology.elected")
        self._tenure = tenure
        self._post(Elected())
        try:
            await self._runtime.clock.sleep(self._grace)
            self._post(GraceOver())
            await asyncio.get_running_loop().create_future()
        finally:
            self._tenure = None
            self._post(Deposed())

    def _look(self, state: ClusterState) -> None:
        prefix = records.alive_key("")
        alive = frozenset(key[len(prefix) :] for key, _ in state.starting_with(prefix))
        placed = [Placed(tablet.id, configuration_of(tablet)) for tablet in _tablets(state).values()]
        self._post(Seen(tuple(placed), alive))

    def _post(self, event: Event) -> None:
        for effect in self._failover.handle(event):
            self._runtime.spawn("topology.reconfigure", self._reconfigure(effect))

    async def _reconfigure(self, wanted: Reconfigure) -> None:
        try:
            state = await self._metadata.commit(lambda state: self._proposal(state, wanted))
            done = _tablets(state)[wanted.tablet].revision != wanted.configuration.revision
        except (MetadataError, KeyError) as error:
            self._runtime.log("warning", "topology.not_reconfigured", error=str(error))
            done = False
        if not done:
            await self._runtime.clock.sleep(_PAUSE)
        self._post(Ended(wanted.tablet))

    def _proposal(self, state: ClusterState, wanted: Reconfigure) -> Proposal | None:
        """None when it is no longer what is to be done."""
        tenure = self._tenure
        tablet = _tablets(state).get(wanted.tablet)
        if tenure is None or not tenure.holds or tablet is None:
            return None
        if tablet.revision != wanted.configuration.revision:
            return None
        gone = [records.alive_key(node) for node in wanted.gone]
        if any(key in state.entries for key in gone):
            return None
        asserts, updates = proposal_of(tablet, wanted.configuration)
        office = Unchanged(records.leader_key(OFFICE), tenure.term)
        return (*asserts, office, *(Absent(key) for key in gone)), updates


def _tablets(state: ClusterState) -> dict[int, Tablet]:
    return {tablet.id: tablet for tablets in state.tablet_maps.values() for tablet in tablets.tablets}
