"""Barrier(R): from its return on no operation works, or ever will, on metadata older than revision R.

Every node that is alive is asked until it has applied R and has no operation in flight that began under an
older snapshot. One that does not answer is passed over only when it is fenced: its life is over in a state
of the metadata, so its lease has run out by its own clock, too, and it refuses to serve. If it comes back, it
does so after R and with nothing old in flight (`Membership`). A node that joins meanwhile begins after R.
"""

import asyncio
from collections.abc import Sequence

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
#: How long the answer to a change of the schema waits.
PATIENCE = 8.0

#: Answered once the node has applied the revision and nothing older is in flight.
REACH: Method[int, None] = Method("barrier.reach", int, type(None))


class BarrierTimeout(Exception):
    """Some node has not reached the revision in time. It may any moment: pass the barrier again."""

    def __init__(self, revision: int, waiting: Sequence[Peer]) -> None:
        names = ", ".join(map(str, waiting)) or "this node"
        super().__init__(f"revision {revision} has not been reached in time by: {names}")
        #: Who has not; nobody if it is this node that does not know the revision itself.
        self.waiting = waiting


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
            raise BarrierTimeout(revision, list(waiting)) from None

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


class KnownToAll:
    """What the answer to a change of the schema waits for: that whichever node the client asks next knows of
    it. Not forever: a node that cannot be reached must not keep the others from changing tables."""

    def __init__(self, runtime: Runtime, barrier: Barrier, patience: float = PATIENCE) -> None:
        self._runtime = runtime
        self._barrier = barrier
        self._patience = patience

    async def passed(self, revision: int) -> str | None:
        """What to tell the client if there are nodes that do not know the revision, or None."""
        try:
            await self._barrier.wait(revision, self._patience)
        except BarrierTimeout as error:
            names = ", ".join(peer.node for peer in error.waiting)
            self._runtime.log("warning", "schema.not_known_to_all", revision=revision, nodes=names)
            return (
                f"The change is made, but after {self._patience:g} s it is not known to all nodes, or older "
                f"statements still run there: {names or 'this node'}"
            )
        return None
