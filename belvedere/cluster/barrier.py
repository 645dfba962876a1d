"""Barrier(R): from its return on no operation works, or ever will, on metadata older than revision R.

Every node that is alive is asked until it has applied R and has no operation in flight that began under an
older snapshot. One that does not answer is passed over only when it is fenced: its life is over in a state
of the metadata, so its lease has run out by its own clock, too, and it refuses to serve. If it comes back, it
does so after R and with nothing old in flight (`Membership`). A node that joins meanwhile begins after R.
"""

import asyncio

from belvedere.cluster import members
from belvedere.cluster.operations import Operations
from belvedere.cluster.rpc import Method, Rpc
from belvedere.cluster.rpc_errors import RpcError
from belvedere.cluster.rpc_server import Caller
from belvedere.cluster.rpc_settings import Peer
from belvedere.meta.metadata import Metadata
from belvedere.runtime.api import Runtime

#: How long one question may take; asked again until there is an answer or the node is fenced.
_ATTEMPT = 2.0
_PAUSE = 0.1

#: Answered once the node has applied the revision and nothing older is in flight.
REACH: Method[int, None] = Method("barrier.reach", int, type(None))


class BarrierTimeout(Exception):
    """Some node has not reached the revision in time. It may any moment: pass the barrier again."""


class Barrier:
    def __init__(self, runtime: Runtime, metadata: Metadata, rpc: Rpc, operations: Operations) -> None:
        self._runtime = runtime
        self._metadata = metadata
        self._rpc = rpc
        self._operations = operations
        rpc.serve(REACH, self._reach)

    async def wait(self, revision: int, within: float | None = None) -> None:
        """Raises BarrierTimeout. Without `within` it returns when it is true, however long that takes: a node
        that can be reached by its lease and not by us holds it up."""
        waiting: dict[Peer, None] = {}
        try:
            async with asyncio.timeout(within):
                await self._rpc.caught_up(revision)
                waiting |= dict.fromkeys(members.living(self._metadata.state))
                await asyncio.gather(*(self._passed_by(peer, revision, waiting) for peer in list(waiting)))
        except TimeoutError:
            names = ", ".join(str(peer) for peer in waiting) or "this node"
            raise BarrierTimeout(f"revision {revision} has not been reached in time by: {names}") from None

    async def _passed_by(self, peer: Peer, revision: int, waiting: dict[Peer, None]) -> None:
        if self._is_this_node(peer):
            await self._operations.none_before(revision)
        else:
            while not self._is_fenced(peer) and not await self._has_reached(peer, revision):
                await self._runtime.clock.sleep(_PAUSE)
        del waiting[peer]

    async def _has_reached(self, peer: Peer, revision: int) -> bool:
        try:
            await self._rpc.call(peer, REACH, revision, _ATTEMPT)
        except RpcError as error:
            self._runtime.log("debug", "barrier.not_reached", peer=str(peer), cause=str(error))
            return False
        return True

    def _is_this_node(self, peer: Peer) -> bool:
        own = self._rpc.identity
        return own is not None and (peer.node, peer.incarnation) == (own.node, own.incarnation)

    def _is_fenced(self, peer: Peer) -> bool:
        return not members.is_alive(self._metadata.state, peer)

    async def _reach(self, caller: Caller, revision: int) -> None:
        await self._rpc.caught_up(revision)
        await self._operations.none_before(revision)
