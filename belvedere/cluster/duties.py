"""What whoever leads the topology does: failover from the start, and what is added when it is ready."""

import asyncio

from belvedere.cluster.failover_leader import FailoverLeader
from belvedere.cluster.topology import Lead
from belvedere.meta.election import Tenure


class Duties:
    def __init__(self, failover: FailoverLeader) -> None:
        self.failover = failover
        self._more: asyncio.Future[Lead] = asyncio.get_running_loop().create_future()

    def add(self, lead: Lead) -> None:
        self._more.set_result(lead)

    async def lead(self, tenure: Tenure) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.failover.lead(tenure))
            group.create_task(self._lead_more(tenure))

    async def _lead_more(self, tenure: Tenure) -> None:
        lead = await asyncio.shield(self._more)
        await lead(tenure)
