"""The office "topology": one node at a time leads, in terms that grow.

Whoever is elected runs `lead` until the tenure is over. What it does asks `Tenure.holds` before each act, and
sends its term along: that is what makes it safe; being cancelled here only ends its work sooner.
"""

from collections.abc import Awaitable, Callable

from belvedere.cluster.membership import Membership
from belvedere.meta import records
from belvedere.meta.election import Tenure, campaign
from belvedere.meta.metadata import Metadata
from belvedere.meta.state import ClusterState
from belvedere.meta.store import LeaseGone, MetadataError
from belvedere.runtime.api import Runtime, TaskHandle

OFFICE = "topology"

#: Between elections while this node has no lease.
_PAUSE = 0.2

#: What a leader does. Cancelled when its time is over; if it returns before, it stays in office.
Lead = Callable[[Tenure], Awaitable[None]]


class Leadership:
    """Stands for an office as long as it is started. `lead` is begun anew with each term."""

    def __init__(
        self, runtime: Runtime, metadata: Metadata, membership: Membership, node: str, lead: Lead
    ) -> None:
        self._runtime = runtime
        self._metadata = metadata
        self._membership = membership
        self._node = node
        self._lead = lead
        self._task: TaskHandle | None = None
        self.tenure: Tenure | None = None

    def start(self) -> None:
        self._task = self._runtime.spawn("topology", self._stand())

    async def stop(self) -> None:
        """What the leader does has ended when this returns, and another node may be elected."""
        if self._task is not None:
            self._task.cancel()
            await self._task.wait()
        if self.tenure is not None:
            try:
                await self.tenure.resign()
            except MetadataError as error:
                # The office goes with the lease.
                self._runtime.log("info", "topology.not_resigned", cause=str(error))
            self.tenure = None

    async def _stand(self) -> None:
        while True:
            lease = self._membership.lease
            if lease is None or not lease.valid:
                await self._runtime.clock.sleep(_PAUSE)
                continue
            try:
                tenure = await campaign(self._runtime, self._metadata, OFFICE, self._node, lease)
            except LeaseGone:
                await self._runtime.clock.sleep(_PAUSE)
                continue
            await self._serve(tenure)

    async def _serve(self, tenure: Tenure) -> None:
        self.tenure = tenure
        self._runtime.log("info", "topology.elected", node=self._node, term=tenure.term)
        work = self._runtime.spawn("topology.lead", self._work(tenure))
        try:
            await self._until_over(tenure)
        finally:
            work.cancel()
            await work.wait()
        self.tenure = None
        self._runtime.log("info", "topology.over", node=self._node, term=tenure.term)

    async def _work(self, tenure: Tenure) -> None:
        try:
            await self._lead(tenure)
        except Exception as error:
            self._runtime.log("error", "topology.lead_failed", term=tenure.term, error=repr(error))

    async def _until_over(self, tenure: Tenure) -> None:
        """While the store is away nobody is told; the tenure itself knows that it does not hold."""
        key = records.leader_key(OFFICE)

        def over(state: ClusterState) -> bool:
            entry = state.entries.get(key)
            return entry is None or entry.revision != tenure.term

        await self._metadata.until(over)
