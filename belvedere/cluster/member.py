"""What a node needs to be one of several: messages, membership, barriers, the topology office, put together.

What starts first ends last. On the way down the office is given back first, then what others asked ends, then
this node's own operations, then the lease goes; the metadata store is still open then.
"""

from belvedere.cluster.barrier import Barrier, KnownToAll
from belvedere.cluster.members import Registration
from belvedere.cluster.membership import LeaseListener, Membership, tell_nobody
from belvedere.cluster.operations import Operations
from belvedere.cluster.rpc import Rpc
from belvedere.cluster.rpc_settings import RpcSettings
from belvedere.cluster.topology import Lead, Leadership
from belvedere.meta.election import Tenure
from belvedere.meta.metadata import Metadata
from belvedere.meta.store import MetadataStore
from belvedere.runtime.api import Runtime


async def nothing_to_lead(tenure: Tenure) -> None:
    """The office without duties: that there is one leader is known, and nothing is asked of it."""


class Member:
    """`listen`, `join`, `leave`. Methods that others may call are offered on `rpc` before `join`."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: str,
        node: str,
        store: MetadataStore,
        metadata: Metadata,
        *,
        lease_seconds: float,
        lead: Lead = nothing_to_lead,
        on_lease: LeaseListener = tell_nobody,
        settings: RpcSettings | None = None,
    ) -> None:
        self._runtime = runtime
        self.rpc = Rpc(runtime, cluster, node, metadata, settings)
        self.operations = Operations(runtime)
        self.membership = Membership(
            runtime, store, metadata, self.rpc, self.operations, lease_seconds, on_lease
        )
        self.barrier = Barrier(runtime, metadata, self.rpc, self.operations)
        self.known_to_all = KnownToAll(runtime, self.barrier)
        self.leadership = Leadership(runtime, metadata, self.membership, node, lead)

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        return await self.rpc.listen(host, port)

    async def join(self, registration: Registration, former_lease: int | None = None) -> int:
        """Raises NodeIdTaken or NodeRefused."""
        incarnation = await self.membership.join(registration, former_lease)
        self.leadership.start()
        return incarnation

    async def leave(self) -> None:
        """Also after `join` has failed, or was never called."""
        await self.leadership.stop()
        await self.membership.leave()
        await self.rpc.close()
