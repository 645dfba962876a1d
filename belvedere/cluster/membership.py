"""This node as a member of its cluster: registered, alive under a lease, and what it knows of the others.

A life ends when its lease is lost. The node then serves nothing, lets what is in flight end, and joins again
as a new incarnation: whatever skipped it meanwhile can rely on nothing older being under way once it is back.
"""

import asyncio
from collections.abc import Awaitable, Callable

from belvedere.cluster import members
from belvedere.cluster.members import Confirmed, NodeChange, NodeIdTaken, Registration
from belvedere.cluster.operations import Operations
from belvedere.cluster.rpc import Method, Rpc
from belvedere.cluster.rpc_errors import NotServing, RpcError
from belvedere.cluster.rpc_server import Caller
from belvedere.cluster.rpc_settings import Peer
from belvedere.meta.leases import Lease
from belvedere.meta.metadata import Metadata
from belvedere.meta.state import ClusterState
from belvedere.meta.store import LeaseGone, MetadataError, MetadataStore, OutcomeUnknown, StoreUnavailable
from belvedere.runtime.api import Runtime, TaskHandle
from belvedere.runtime.errors import DiskError

#: Between attempts to join, to reach a node, or the store.
_PAUSE = 0.2
#: How long one attempt to reach a peer may take.
_ATTEMPT = 1.0
#: How long a node that leaves waits for operations in flight.
_LEAVING = 10.0

#: A direct exchange: who gets the answer has heard this very life of the node.
GREET: Method[None, None] = Method("membership.greet", type(None), type(None))

ChangeListener = Callable[[NodeChange], None]
#: Told of each lease before anything is put under it: whoever finds it after a crash may revoke it.
LeaseListener = Callable[[int], Awaitable[None]]


async def tell_nobody(lease: int) -> None:
    """For nodes that leave nothing behind."""


class NotConfirmed(Exception):
    """The node is not alive, or did not answer this node in time."""


class Membership:
    """`join`, then perhaps `confirmed`, then `leave`."""

    def __init__(
        self,
        runtime: Runtime,
        store: MetadataStore,
        metadata: Metadata,
        rpc: Rpc,
        operations: Operations,
        lease_seconds: float,
        on_lease: LeaseListener = tell_nobody,
    ) -> None:
        self._runtime = runtime
        self._on_lease = on_lease
        self._store = store
        self._metadata = metadata
        self._rpc = rpc
        self._operations = operations
        self._lease_seconds = lease_seconds
        self._confirmed = Confirmed()
        self._listeners: list[ChangeListener] = []
        self._keeper: TaskHandle | None = None
        self._life = 0
        self._clients_at: tuple[str, int] | None = None
        self.lease: Lease | None = None
        rpc.serve_at_once(GREET, self._greeted)
        metadata.listen(self._on_state)

    # --- joining and leaving -------------------------------------------------------------------------

    async def join(self, registration: Registration, former_lease: int | None = None) -> int:
        """Become a member; returns the incarnation. `former_lease` is that of an earlier life of which the
        caller knows for certain that it is over, so that nobody has to wait for the lease to run out.

        Raises NodeIdTaken if a node of this name is alive, and NodeRefused.
        """
        if former_lease is not None:
            await self._revoke(former_lease)
        await self._join(registration)
        self._keeper = self._runtime.spawn("membership", self._keep(registration))
        return self._life

    async def _revoke(self, former: int) -> None:
        try:
            await self._store.revoke(former)
        except (StoreUnavailable, OutcomeUnknown) as error:
            self._runtime.log("info", "membership.former_lease_runs_out", cause=str(error))

    async def _join(self, registration: Registration) -> None:
        while True:
            lease = await Lease.take(self._runtime, self._store, self._lease_seconds)
            try:
                await self._on_lease(lease.id)
                state = await self._claim(registration, lease)
            except LeaseGone:
                # It ran out while somebody of this name was alive, or the store away.
                await self._runtime.clock.sleep(_PAUSE)
                continue
            except BaseException:
                await lease.end()
                raise
            self._begin_life(state.nodes[registration.node].incarnation, lease)
            return

    async def _claim(self, registration: Registration, lease: Lease) -> ClusterState:
        """The first state in which the node lives under this lease. Who was killed still counts as alive
        until its lease has run out; who still is when that time has passed is another process."""
        until = self._runtime.clock.monotonic() + 1.5 * self._lease_seconds
        while True:
            try:
                state = await self._metadata.commit(
                    lambda state: members.claiming(state, registration, lease.id)
                )
            except NodeIdTaken as taken:
                if await self._rpc.answers_to(taken.peer, _ATTEMPT):
                    raise
                await self._until_gone(taken, until - self._runtime.clock.monotonic())
                continue
            except OutcomeUnknown:
                await self._runtime.clock.sleep(_PAUSE)
                continue
            held = state.alive.get(registration.node)
            if held is None or held.lease != lease.id:
                raise LeaseGone("the lease ran out while the node joined")
            return state

    async def _until_gone(self, taken: NodeIdTaken, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._metadata.until(lambda state: not members.is_alive(state, taken.peer))
        except TimeoutError:
            raise taken from None

    def _begin_life(self, incarnation: int, lease: Lease) -> None:
        self._life, self.lease = incarnation, lease
        self._rpc.introduce(incarnation)
        self._operations.open(lease)
        self._runtime.log("info", "membership.joined", node=self._rpc.node, incarnation=incarnation)

    async def _keep(self, registration: Registration) -> None:
        while self.lease is not None:
            await self.lease.lost()
            self._runtime.log("warning", "membership.lost", node=self._rpc.node, incarnation=self._life)
            await self._end_life()
            while True:
                try:
                    await self._join(registration)
                    await self._announce()
                    break
                except (MetadataError, NodeIdTaken, DiskError) as error:
                    self._runtime.log("warning", "membership.not_back", cause=str(error))
                    await self._runtime.clock.sleep(_PAUSE)

    async def _end_life(self) -> None:
        """Nothing that began in this life may go on in the next one."""
        self._operations.close()
        self._rpc.retire()
        await self._operations.none()

    async def announce(self, host: str, port: int) -> None:
        """Clients are answered at this address from now on: others may tell them."""
        self._clients_at = host, port
        await self._announce()

    async def _announce(self) -> None:
        if self._clients_at is not None and self.lease is not None:
            node, lease, (host, port) = self._rpc.node, self.lease.id, self._clients_at
            await self._metadata.commit(lambda state: members.announcing(state, node, lease, host, port))

    async def leave(self) -> None:
        """Let what is in flight end, then give the lease back: others know at once. The node stays
        registered; `forget` is for those that do not come back."""
        if self._keeper is not None:
            self._keeper.cancel()
            await self._keeper.wait()
        try:
            async with asyncio.timeout(_LEAVING):
                await self._end_life()
        except TimeoutError:
            # Its clients are gone. The lease is left to run out: nothing old is under way after that.
            self._runtime.log("warning", "membership.left_in_flight", count=self._operations.count)
            if self.lease is not None:
                self.lease.abandon()
        else:
            if self.lease is not None:
                await self.lease.end()
        self.lease = None

    async def forget(self, node: str) -> None:
        """Remove another node for good. Raises NodeRefused while it is alive, or has tablets."""
        await self._metadata.commit(lambda state: members.forgetting(state, node))

    # --- others --------------------------------------------------------------------------------------

    @property
    def incarnation(self) -> int:
        return self._life

    def listen(self, listener: ChangeListener) -> None:
        """Hear which nodes come and go, this one too."""
        self._listeners.append(listener)

    async def confirmed(self, node: str, within: float) -> Peer:
        """The living incarnation of a node, once a direct exchange with it has succeeded. To be alive in the
        metadata is not enough: it may be cut off from us. Raises NotConfirmed."""
        trouble = "it is not alive"
        try:
            async with asyncio.timeout(within):
                while True:
                    state = await self._metadata.until(lambda state: members.peer_of(state, node) is not None)
                    peer = members.peer_of(state, node)
                    assert peer is not None
                    if self._confirmed.holds(peer):
                        return peer
                    try:
                        await self._rpc.call(peer, GREET, None, _ATTEMPT)
                    except RpcError as error:
                        trouble = str(error)
                        await self._runtime.clock.sleep(_PAUSE)
                        continue
                    if members.is_alive(self._metadata.state, peer):
                        self._confirmed.heard(peer)
        except TimeoutError:
            raise NotConfirmed(f"node {node} could not be reached within {within:.3g} s: {trouble}") from None

    def _greeted(self, caller: Caller, _: None) -> None:
        if not self._operations.allowed:
            raise NotServing("this node has no valid lease")

    def _on_state(self, before: ClusterState, after: ClusterState) -> None:
        self._confirmed.keep_only(after.alive)
        for change in members.changes(before, after):
            for listener in self._listeners:
                listener(change)
