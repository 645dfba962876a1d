"""Who talks to whom, and how much of it at once."""

from dataclasses import dataclass

from belvedere.cluster.rpc_frames import MEBIBYTE


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this node is to others: one life of one node of one cluster."""

    cluster: str
    node: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class Peer:
    """One life of another node, and where it listens."""

    node: str
    incarnation: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.node}#{self.incarnation} at {self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class RpcSettings:
    #: How long connecting and introducing may take.
    connect_seconds: float = 2.0
    #: Between attempts to connect, doubled with each that fails.
    first_pause: float = 0.05
    longest_pause: float = 2.0
    #: Per connection: requests that are not answered, and their bytes; beyond that they are refused. Also how
    #: many bytes of answers may wait to be read by who asked, before no more is read of what it asks.
    max_in_flight: int = 1024
    max_bytes: int = 32 * MEBIBYTE
    #: Requests of all peers together that run here at once.
    max_running: int = 8192
    #: While something is awaited: how often a silent peer is asked whether it is there, and after how many
    #: such intervals without a byte of it the connection is given up.
    heartbeat_seconds: float = 2.0
    heartbeats_missed: int = 3
