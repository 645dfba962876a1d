"""The topology leader on a running node: stands for election, and carries out what `Failover` decides."""

from belvedere.cluster.configuration import configuration_of, proposal_of
from belvedere.cluster.failover import (
    Elected,
    Ended,
    Event,
    Failover,
    GraceOver,
    Placed,
    Reconfigure,
    Seen,
)
from belvedere.meta import records
from belvedere.meta.election import Tenure, campaign
from belvedere.meta.leases import Lease
from belvedere.meta.metadata import Metadata, Proposal
from belvedere.meta.state import ClusterState, Tablet
from belvedere.meta.store import Absent, LeaseGone, MetadataError, Unchanged
from belvedere.runtime.api import Runtime

OFFICE = "topology"
#: After a try that came to nothing, in seconds.
_PAUSE = 0.3


class FailoverLeader:
    """For as long as one lease lasts."""

    def __init__(self, runtime: Runtime, node: str, metadata: Metadata, lease: Lease, grace: float) -> None:
        """`grace`: how long nodes may take to start with the cluster, in seconds."""
        self._runtime = runtime
        self._node = node
        self._metadata = metadata
        self._lease = lease
        self._grace = grace
        self._failover = Failover()
        self._tenure: Tenure | None = None
        self._ended = False

    async def run(self) -> None:
        """Ends when the lease is gone."""
        stop = self._metadata.listen(lambda before, after: self._look(after))
        try:
            self._look(self._metadata.state)
            self._tenure = await campaign(self._runtime, self._metadata, OFFICE, self._node, self._lease)
            self._runtime.sometimes("topology.elected")
            self._post(Elected())
            cancel = self._runtime.call_later(self._grace, lambda: self._post(GraceOver()))
            await self._lease.lost()
            cancel()
        except LeaseGone:
            return
        finally:
            self._ended = True
            stop()

    def _look(self, state: ClusterState) -> None:
        prefix = records.alive_key("")
        alive = frozenset(key[len(prefix) :] for key, _ in state.starting_with(prefix))
        placed = [Placed(tablet.id, configuration_of(tablet)) for tablet in _tablets(state).values()]
        self._post(Seen(tuple(placed), alive))

    def _post(self, event: Event) -> None:
        if self._ended:
            return
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
