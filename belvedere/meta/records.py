"""How schema, tablets and nodes are written in the metadata store: keys and JSON values.

Layout, one key per thing so that unrelated changes never collide:

    keyspaces/<name>              KeyspaceRecord
    types/<keyspace>/<name>       TypeRecord
    tables/<keyspace>/<name>      TableRecord, of a table or a materialized view
    tablets/<table id>/<id>       TabletRecord
    nodes/<node id>               NodeRecord
    alive/<node id>               AliveRecord, under the node's lease: there while the node lives
    leaders/<office>              LeaderRecord, under the leader's lease; the revision is the term
    sequences/tablet              the next free tablet id
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
    host: str
    port: int
    datacenter: str = "datacenter1"
    rack: str = "rack1"
    version: str = ""


class AliveRecord(msgspec.Struct, frozen=True):
    incarnation: int
    lease: int


TABLET_SEQUENCE = "sequences/tablet"


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


def leader_key(office: str) -> str:
    return f"leaders/{office}"
