"""Requests between the nodes of a cluster, over the runtime's network.

Every message carries the revision of its sender's metadata, and whoever is behind catches up before it looks
at the message: within the deadline, and with a clear error when that passes. So nothing is ever refused
because somebody has not yet learned of a table, a node or a tablet.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from belvedere.cluster.rpc_errors import (
    Behind,
    DeadlinePassed,
    NotServing,
    RpcClosed,
    RpcError,
    Superseded,
    WrongPeer,
)
from belvedere.cluster.rpc_link import Link
from belvedere.cluster.rpc_server import Caller, Incoming, Served
from belvedere.cluster.rpc_settings import Identity, Peer, RpcSettings
from belvedere.meta.metadata import Metadata
from belvedere.meta.state import ClusterState
from belvedere.meta.store import StoreUnavailable
from belvedere.runtime.api import Listener, Runtime

Q = TypeVar("Q")
A = TypeVar("A")

#: Between looks for newer metadata while the store is away.
_PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class Method(Generic[Q, A]):
    """What one node may ask of another. Both types are such as msgspec writes; fields that are added later
    need defaults."""

    name: str
    question: type[Q]
    answer: type[A]


class Rpc:
    """`listen`, `introduce` once the node is a member, `close`. Until it is introduced, and after it was
    `retired`, it neither asks nor answers: others are told so."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: str,
        node: str,
        metadata: Metadata,
        settings: RpcSettings | None = None,
    ) -> None:
        self.runtime = runtime
        self.cluster = cluster
        self.node = node
        self.metadata = metadata
        self.settings = settings or RpcSettings()
        self.identity: Identity | None = None
        self.methods: dict[str, Served] = {}
        #: How many requests of others run here.
        self.running = 0
        self._incoming: dict[Incoming, None] = {}
        self._links: dict[Peer, Link] = {}
        self._listener: Listener | None = None
        self._closed = False
        metadata.listen(self._on_state)

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Returns the address, with the port that was picked if it was 0."""
        self._listener = await self.runtime.network.listen(host, port, lambda: Incoming(self))
        return self._listener.address

    def introduce(self, incarnation: int) -> None:
        self.identity = Identity(self.cluster, self.node, incarnation)

    def retire(self) -> None:
        """This life of the node is over: nothing is asked or answered in its name any more."""
        self.identity = None
        for incoming in list(self._incoming):
            incoming.end(NotServing("this node is leaving, or lost its lease"))
        self._drop_links(lambda peer: True, NotServing("this node is not a member of the cluster now"))

    async def close(self) -> None:
        """What others asked is cancelled, who here waits for others gets RpcClosed."""
        self._closed = True
        if self._listener is not None:
            await self._listener.close()
        self._drop_links(lambda peer: True, RpcClosed("this node is stopping"))
        self.retire()

    # --- offering ------------------------------------------------------------------------------------

    def serve(self, method: Method[Q, A], handler: Callable[[Caller, Q], Awaitable[A]]) -> None:
        """As a task for each request. It is cancelled when nobody waits for it any more: what must not be
        left half done runs in a task of its own."""
        self._offer(method, None, handler)

    def serve_at_once(self, method: Method[Q, A], handler: Callable[[Caller, Q], A]) -> None:
        """Within the step in which the request came, if the metadata is new enough."""
        self._offer(method, handler, None)

    def _offer(
        self,
        method: Method[Q, A],
        at_once: Callable[[Caller, Q], A] | None,
        task: Callable[[Caller, Q], Awaitable[A]] | None,
    ) -> None:
        decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(method.question)
        self.methods[method.name] = Served(decoder.decode, msgspec.msgpack.encode, at_once, task)

    # --- asking --------------------------------------------------------------------------------------

    async def call(self, peer: Peer, method: Method[Q, A], question: Q, within: float) -> A:
        """Ask this very life of a node. Raises an RpcError, which says whether it may have acted on it."""
        identity = self.identity
        if identity is None:
            raise NotServing("this node is not a member of the cluster at the moment")
        body = await self._ask(
            self._link(identity, peer), method.name, msgspec.msgpack.encode(question), within
        )
        return msgspec.msgpack.decode(body, type=method.answer)

    async def _ask(self, link: Link, method: str, body: bytes, within: float) -> bytes:
        request = link.ask(method, body, self.runtime.clock.monotonic() + within)
        answered = False
        try:
            async with asyncio.timeout(within) as limit:
                answer = await link.answer(request)
                answered = True
                await self.caught_up(answer.revision)
                return answer.body
        except TimeoutError:
            if not limit.expired():
                raise
            if answered:
                raise Behind(
                    f"{link.peer} has answered by newer metadata, which this node could not get in time",
                    may_have_happened=True,
                ) from None
            trouble = "" if link.trouble is None else f": {link.trouble}"
            message = f"{method} was not answered by {link.peer} within {within:.3g} s{trouble}"
            raise DeadlinePassed(message, sent=request.sent) from None

    async def answers_to(self, peer: Peer, within: float) -> bool:
        """Whether somebody at this address says that it is this life of a node, for one that is no member
        itself (yet)."""
        anonymous = Identity(self.cluster, peer.node, 0)
        link = Link(self.runtime, anonymous, peer, lambda: 0, self.settings)
        try:
            async with asyncio.timeout(within):
                await link.answer(link.ask("", b"", self.runtime.clock.monotonic() + within))
        except (TimeoutError, RpcError) as error:
            # Incarnation 0 is nobody: the right one objects to that, and any other to being taken for it.
            return isinstance(error, Superseded)
        finally:
            link.close(RpcClosed("only asked who is there"))
        return True

    def _link(self, identity: Identity, peer: Peer) -> Link:
        if self._closed:
            raise RpcClosed("this node is stopping")
        link = self._links.get(peer)
        if link is None:
            link = Link(self.runtime, identity, peer, lambda: self.metadata.state.revision, self.settings)
            self._links[peer] = link
        return link

    # --- metadata ------------------------------------------------------------------------------------

    @property
    def state(self) -> ClusterState:
        return self.metadata.state

    async def caught_up(self, revision: int) -> None:
        """Return once this node knows the metadata up to this revision; give it a timeout."""
        while self.metadata.state.revision < revision:
            try:
                await self.metadata.catch_up(revision)
            except StoreUnavailable:
                await self.runtime.clock.sleep(_PAUSE)

    def _on_state(self, before: ClusterState, after: ClusterState) -> None:
        """Links to lives that are over end; a peer that was merely cut off from the store keeps its own."""
        if before.nodes is after.nodes:
            return

        def over(peer: Peer) -> bool:
            now = after.nodes.get(peer.node)
            return peer.node in before.nodes if now is None else now.incarnation > peer.incarnation

        self._drop_links(over, WrongPeer("that life of the node is over"))

    def _drop_links(self, over: Callable[[Peer], bool], error: RpcError) -> None:
        for peer in [peer for peer in self._links if over(peer)]:
            self._links.pop(peer).close(error)

    # --- what incoming connections call --------------------------------------------------------------

    def admit(self, incoming: Incoming) -> None:
        self._incoming[incoming] = None

    def forget(self, incoming: Incoming) -> None:
        self._incoming.pop(incoming, None)
