"""What can become of a message to another node. Each says whether the other may have acted on it."""


class RpcError(Exception):
    """`may_have_happened` is False only if the peer certainly did not begin what it was asked."""

    may_have_happened = False


class PeerUnreachable(RpcError):
    """No connection could be made, so nothing was sent."""


class PeerLost(RpcError):
    """The connection broke while the answer was awaited. It says nothing about the peer, nor its disks."""

    may_have_happened = True


class DeadlinePassed(RpcError):
    """No answer in time. `may_have_happened` is False if the message had not even left."""

    may_have_happened = True

    def __init__(self, message: str, sent: bool = True) -> None:
        super().__init__(message)
        self.may_have_happened = sent


class Overloaded(RpcError):
    """Too much is under way already, here or there; nothing was begun."""


class Behind(RpcError):
    """The receiver could not catch up in time with the metadata that the message was written under. If that
    was we, with an answer: what was asked has happened."""

    def __init__(self, message: str, may_have_happened: bool = False) -> None:
        super().__init__(message)
        self.may_have_happened = may_have_happened


class WrongPeer(RpcError):
    """At that address is another node, another life of the node, or another cluster."""


class NotMember(RpcError):
    """The receiver's metadata does not know the sender as a member of the cluster."""


class Superseded(RpcError):
    """The receiver knows a later incarnation of the sender: this one is dead, whatever it believes."""


class NotServing(RpcError):
    """The receiver is starting, stopping, or without its lease."""


class VersionMismatch(RpcError):
    """There is no version of the protocol that both sides speak."""


class UnknownMethod(RpcError):
    """The receiver does not have what it was asked for: it is older, or newer."""


class RemoteFailure(RpcError):
    """The peer's handler raised. `kind` names what: a broken disk there is `DiskBroken`, not a lost peer."""

    may_have_happened = True

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}" if text else kind)
        self.kind = kind
        self.text = text


class RpcClosed(RpcError):
    """This node's own side is closed."""


#: Why a peer ends a connection.
FAREWELLS: dict[str, type[RpcError]] = {
    kind.__name__: kind for kind in (WrongPeer, NotMember, Superseded, NotServing, VersionMismatch)
}
#: Why a peer did not begin what it was asked.
FAILURES: dict[str, type[RpcError]] = {
    kind.__name__: kind for kind in (Overloaded, Behind, NotMember, Superseded, NotServing, UnknownMethod)
}


def as_error(kind: str, text: str, begun: bool) -> RpcError:
    """A failure that a peer reported."""
    if kind == DeadlinePassed.__name__:
        return DeadlinePassed(text, sent=begun)
    if begun or kind not in FAILURES:
        return RemoteFailure(kind, text)
    return FAILURES[kind](text)


def as_farewell(kind: str, text: str) -> RpcError:
    return FAREWELLS.get(kind, PeerUnreachable)(text or kind)
