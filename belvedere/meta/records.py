"""How schema, tablets and nodes are written in the metadata store: keys and JSON values.

Layout, one key per thing so that unrelated changes never collide:

    keyspaces/<name>              KeyspaceRecord
    types/<keyspace>/<name>       TypeRecord
    tables/<keyspace>/<name>      TableRecord, of a table or a materialized view
    tablets/<table id>/<id>       TabletRecord
    nodes/<node id>               NodeRecord
    alive/<node id>               AliveRecord, under the node's lease: there while the node lives
    cluster                       ClusterRecord, put by the first node and never changed
    leaders/<office>              LeaderRecord, under the leader's lease; the revision is the term
    sequences/tablet              the next free tablet id
    sequences/incarnation         the last incarnation of any node
"""

import msgspec


class KeyspaceRecord(msgspec.Struct, frozen=True):
    replication: dict[str, str]
    durable_writes: bool = True


class TypeRecord(msgspec.Struct, frozen=True):
    fields: list[tuple[str, str]]


class ColumnRecord(msgspec.Struct, frozen=True, array_like=True):
    name: str
    type: str
    kind: str
    position: int
    descending: bool = False
    hidden: bool = False


class ViewRecord(msgspec.Struct, frozen=True):
    base: str
    base_id: str
    where: str
    selects_all: bool = False


class TableRecord(msgspec.Struct, frozen=True):
    id: str
    columns: list[ColumnRecord]
    options: dict[str, object]
    regular_ordinals: int
    static_ordinals: int
    dropped: list[tuple[str, str, str, int]] = []
    view: ViewRecord | None = None


class LeaderRecord(msgspec.Struct, frozen=True):
    node: str
    lease: int


class TabletRecord(msgspec.Struct, frozen=True):
    """Tokens first_token..last_token, both included, as text: JSON readers elsewhere lose 64-bit integers."""

    first_token: str
    last_token: str
    epoch: int
    primary: str
    #: All nodes that shall keep it.
    replicas: list[str]
    #: Those that have every acknowledged write on disk; the others are catching up. Empty: all have.
    in_sync: list[str] = []


class NodeRecord(msgspec.Struct, frozen=True):
    """A node that belongs to the cluster, alive or not. `host` and `port` are where it answers CQL, or did
    when it last lived; port 0 if it never did."""

    host: str
    port: int
    datacenter: str = "datacenter1"
    rack: str = "rack1"
    version: str = ""
    #: Where other nodes reach it; empty for one that is alone.
    internal_host: str = ""
    internal_port: int = 0
    #: Its present or last life; larger than that of any node that began before.
    incarnation: int = 0
    features: list[str] = []


class AliveRecord(msgspec.Struct, frozen=True):
    incarnation: int
    lease: int
    #: Whether it answers clients yet, at the address in its NodeRecord.
    answers: bool = False


class ClusterRecord(msgspec.Struct, frozen=True):
    name: str
    #: Tells it from others of the same name.
    id: str


TABLET_SEQUENCE = "sequences/tablet"
INCARNATION_SEQUENCE = "sequences/incarnation"
CLUSTER = "cluster"


def keyspace_key(name: str) -> str:
    return f"keyspaces/{name}"


def type_key(keyspace: str, name: str) -> str:
    return f"types/{keyspace}/{name}"


def table_key(keyspace: str, name: str) -> str:
    return f"tables/{keyspace}/{name}"


def tablet_key(table_id: bytes, tablet_id: int) -> str:
    return f"tablets/{table_id.hex()}/{tablet_id:010d}"


def node_key(node_id: str) -> str:
    return f"nodes/{node_id}"


def alive_key(node_id: str) -> str:
    return f"alive/{node_id}"


def encode(record: msgspec.Struct) -> bytes:
    return msgspec.json.encode(record)


def decode_cluster(value: bytes) -> ClusterRecord:
    return msgspec.json.decode(value, type=ClusterRecord)


def leader_key(office: str) -> str:
    return f"leaders/{office}"
