"""Carries the messages of replication between nodes, over requests that nobody waits for the answers of.

What is sent within one step of the event loop travels together. A message that certainly did not arrive is as
good as lost, but for requests: whoever asked is told that nobody was there, and may ask somebody else.
"""

from collections.abc import Callable

import msgspec

from belvedere.cluster import members
from belvedere.cluster.messages import (
    AnyMessage,
    Append,
    Failed,
    NotServing,
    Outcome,
    Reply,
    Request,
    TailOf,
    Unknown,
)
from belvedere.cluster.rpc import Method, Rpc
from belvedere.cluster.rpc_errors import RpcError
from belvedere.cluster.rpc_frames import FrameTooLarge
from belvedere.cluster.rpc_server import Caller
from belvedere.cluster.rpc_settings import Peer
from belvedere.meta.metadata import Metadata
from belvedere.runtime.api import Runtime

#: How long a message may be on its way, in seconds; its sender says it again sooner.
_WITHIN = 5.0
#: About how many bytes travel together.
_PARCEL_BYTES = 1 << 20

MAIL: Method[list[AnyMessage], None] = Method("replication.mail", list[AnyMessage], type(None))


class Mail:
    """A node's `cluster.ports.Peers`."""

    def __init__(self, runtime: Runtime, rpc: Rpc, metadata: Metadata) -> None:
        self._runtime = runtime
        self._rpc = rpc
        self._metadata = metadata
        self._waiting: dict[str, list[AnyMessage]] = {}
        #: Who is handed what arrives.
        self.receive: Callable[[str, AnyMessage], None] = lambda sender, message: None
        rpc.serve_at_once(MAIL, self._arrived)

    def send(self, node: str, message: AnyMessage) -> None:
        waiting = self._waiting.get(node)
        if waiting is None:
            waiting = self._waiting[node] = []
            self._runtime.call_soon(lambda: self._post(node))
        waiting.append(message)

    def _arrived(self, caller: Caller, messages: list[AnyMessage]) -> None:
        for message in messages:
            self.receive(caller.node, message)

    def _post(self, node: str) -> None:
        messages = self._waiting.pop(node)
        peer = members.peer_of(self._metadata.state, node)
        if peer is None:
            self._return(node, messages, NotServing(f"node {node} is down"))
            return
        parcel: list[AnyMessage] = []
        size = 0
        for message in messages:
            parcel.append(message)
            size += _weight(message)
            if size >= _PARCEL_BYTES:
                self._runtime.spawn("mail", self._carry(peer, parcel))
                parcel, size = [], 0
        if parcel:
            self._runtime.spawn("mail", self._carry(peer, parcel))

    async def _carry(self, peer: Peer, parcel: list[AnyMessage]) -> None:
        try:
            await self._rpc.call(peer, MAIL, parcel, _WITHIN)
        except RpcError as error:
            lost: Outcome
            if error.may_have_happened:
                lost = Unknown(f"{peer.node}: {error}")
            else:
                lost = NotServing(f"{peer.node} cannot be reached: {error}")
            self._return(peer.node, parcel, lost)
        except FrameTooLarge as error:
            self._refuse(peer.node, parcel, str(error))

    def _refuse(self, node: str, parcel: list[AnyMessage], why: str) -> None:
        """What is too large for a frame never arrives: who waits for it is told."""
        self._runtime.log("error", "mail.too_large", to=node, error=why)
        failed = Failed("FrameTooLarge", why)
        self._return(node, parcel, failed)
        for message in parcel:
            if isinstance(message, Reply):
                self.send(node, msgspec.structs.replace(message, outcome=failed))

    def _return(self, node: str, messages: list[AnyMessage], outcome: Outcome) -> None:
        for message in messages:
            if isinstance(message, Request):
                heading = (message.tablet, message.epoch, self._metadata.state.revision)
                self.receive(node, Reply(*heading, message.incarnation, message.number, outcome))


def _weight(message: AnyMessage) -> int:
    match message:
        case Append() | TailOf():
            return 64 + sum(32 + len(record.data) for record in message.records)
        case Request():
            return 64 + len(message.body)
        case Reply():
            return 64 + len(getattr(message.outcome, "result", b""))
    return 64
