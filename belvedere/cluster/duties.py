"""What whoever leads the topology does: failover from the start, and what is added when it is ready."""

import asyncio

from belvedere.cluster.failover_leader import FailoverLeader
from belvedere.cluster.topology import Lead
from belvedere.meta.election import Tenure
from belvedere.runtime.api import Runtime

#: Before a duty that failed is begun again, in seconds.
_PAUSE = 1.0


class Duties:
    """Each for itself: what goes wrong with one does not end the others."""

    def __init__(self, runtime: Runtime, failover: FailoverLeader) -> None:
        self._runtime = runtime
        self.failover = failover
        self._more: asyncio.Future[Lead] = asyncio.get_running_loop().create_future()

    def add(self, lead: Lead) -> None:
        self._more.set_result(lead)

    async def lead(self, tenure: Tenure) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._again_and_again(self.failover.lead, tenure))
            group.create_task(self._again_and_again(self._lead_more, tenure))

    async def _lead_more(self, tenure: Tenure) -> None:
        lead = await asyncio.shield(self._more)
        await lead(tenure)

    async def _again_and_again(self, lead: Lead, tenure: Tenure) -> None:
        while True:
            try:
                await lead(tenure)
            except Exception as error:
                self._runtime.log("error", "topology.lead_failed", term=tenure.term, error=repr(error))
            await self._runtime.clock.sleep(_PAUSE)
