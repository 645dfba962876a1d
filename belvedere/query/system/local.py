"""The keyspaces `system` and `system_views`: this node, its peers, and what it is doing."""

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from belvedere.cluster.ring import Ring
from belvedere.meta.state import ClusterState, Node
from belvedere.model.schema import Keyspace
from belvedere.model.token import token_of
from belvedere.query.system.define import as_address, as_uuid, define, stable_uuid, system_keyspace
from belvedere.query.system.nodes import nodes
from belvedere.query.system.status import built_views, procedures, status, table_status, view_builds
from belvedere.query.system.tablets import tablets
from belvedere.query.system.virtual import VirtualRow, VirtualTable

#: What clients may expect of us; cqlsh and drivers look at it.
RELEASE_VERSION = "5.0.0"
CQL_VERSION = "3.4.7"
PROTOCOL_VERSION = "5"
PARTITIONER = "org.apache.cassandra.dht.Murmur3Partitioner"


@dataclass(frozen=True, slots=True)
class LocalNode:
    """Who this node is to clients. `host` and `port` are where they reach it."""

    host_id: bytes
    cluster_name: str = "belvedere"
    host: str = "127.0.0.1"
    port: int = 9042
    datacenter: str = "datacenter1"
    rack: str = "rack1"
    #: The node's id in ClusterState.nodes, so that it is not listed as its own peer.
    node_id: str = ""


@dataclass(slots=True)
class SystemSources:
    """Where rows come from. The functions are called anew for each SELECT."""

    local: LocalNode
    state: Callable[[], ClusterState]
    #: Rows of system_views.clients and system_views.settings.
    clients: Callable[[], Iterable[VirtualRow]] = tuple
    settings: Callable[[], Iterable[tuple[str, str]]] = tuple
    #: Facts about this node, and rows of system_views.table_status.
    status: Callable[[], Iterable[tuple[str, str]]] = tuple
    table_status: Callable[[], Iterable[VirtualRow]] = tuple
    view_builds: Callable[[], Iterable[VirtualRow]] = tuple
    procedures: Callable[[], Iterable[VirtualRow]] = tuple

    def schema_version(self) -> bytes:
        return as_uuid(self.state().schema_digest)


def system(sources: SystemSources) -> Keyspace:
    tables = [_local(sources), _peers(sources), _peers_v2(sources), *_always_empty()]
    return system_keyspace("system", [*tables, built_views(lambda: sources.view_builds())])


def system_views(sources: SystemSources) -> Keyspace:
    tables = [_settings(sources), _clients(sources), tablets(sources.state)]
    tables.append(nodes(sources.state, lambda: sources.local.node_id))
    tables += [status(lambda: sources.status()), table_status(lambda: sources.table_status())]
    tables += [view_builds(lambda: sources.view_builds()), procedures(lambda: sources.procedures())]
    return system_keyspace("system_views", tables)


def _tokens(state: ClusterState, node_id: str, host_id: bytes) -> set[str]:
    """Drivers want every host to own tokens. Tablets decide who owns what, so one is enough of one that is
    alone."""
    node = state.nodes.get(node_id)
    if node is None or not node.incarnation:
        return {str(token_of(host_id))}
    return {str(token) for token in Ring(state.nodes).tokens(node_id)}


def _local(sources: SystemSources) -> VirtualTable:
    def rows() -> Iterable[VirtualRow]:
        local = sources.local
        address = as_address(local.host)
        yield {
            "key": "local",
            "bootstrapped": "COMPLETED",
            "broadcast_address": address,
            "broadcast_port": 7000,
            "cluster_name": local.cluster_name,
            "cql_version": CQL_VERSION,
            "data_center": local.datacenter,
            "gossip_generation": 1,
            "host_id": local.host_id,
            "listen_address": address,
            "listen_port": 7000,
            "native_protocol_version": PROTOCOL_VERSION,
            "partitioner": PARTITIONER,
            "rack": local.rack,
            "release_version": RELEASE_VERSION,
            "rpc_address": address,
            "rpc_port": local.port,
            "schema_version": sources.schema_version(),
            "tokens": _tokens(sources.state(), local.node_id, local.host_id),
        }

    return define(
        "system.local",
        "key text",
        "",
        """bootstrapped text; broadcast_address inet; broadcast_port int; cluster_name text; cql_version text;
        data_center text; gossip_generation int; host_id uuid; listen_address inet; listen_port int;
        native_protocol_version text; partitioner text; rack text; release_version text; rpc_address inet;
        rpc_port int; schema_version uuid; tokens set<text>; truncated_at map<uuid, blob>""",
        rows,
        "information about the local node",
    )


def host_id_of(node_id: str) -> bytes:
    """Clients know nodes by UUIDs."""
    try:
        return uuid.UUID(node_id).bytes
    except ValueError:
        return stable_uuid(f"node {node_id}")


def _others(sources: SystemSources) -> list[Node]:
    """Nodes to which clients may be sent at this moment."""
    local, state = sources.local, sources.state()
    return [
        node
        for node in state.nodes.values()
        if node.id in state.alive
        and state.alive[node.id].answers
        and node.id != local.node_id
        and host_id_of(node.id) != local.host_id
    ]


def _peers_v2(sources: SystemSources) -> VirtualTable:
    def rows() -> Iterable[VirtualRow]:
        for node in _others(sources):
            address, host_id = as_address(node.host), host_id_of(node.id)
            yield {
                "peer": address,
                # Two nodes may share an address; the port tells them apart.
                "peer_port": node.port,
                "data_center": node.datacenter,
                "host_id": host_id,
                "native_address": address,
                "native_port": node.port,
                "rack": node.rack,
                "release_version": RELEASE_VERSION,
                "schema_version": sources.schema_version(),
                "tokens": _tokens(sources.state(), node.id, host_id),
            }

    return define(
        "system.peers_v2",
        "peer inet",
        "peer_port int",
        """data_center text; host_id uuid; native_address inet; native_port int; preferred_ip inet;
        preferred_port int; rack text; release_version text; schema_version uuid; tokens set<text>""",
        rows,
        "information about known peers in the cluster",
    )


def _peers(sources: SystemSources) -> VirtualTable:
    def rows() -> Iterable[VirtualRow]:
        for node in _others(sources):
            address, host_id = as_address(node.host), host_id_of(node.id)
            yield {
                "peer": address,
                "data_center": node.datacenter,
                "host_id": host_id,
                "rack": node.rack,
                "release_version": RELEASE_VERSION,
                "rpc_address": address,
                "schema_version": sources.schema_version(),
                "tokens": _tokens(sources.state(), node.id, host_id),
            }

    return define(
        "system.peers",
        "peer inet",
        "",
        """data_center text; host_id uuid; preferred_ip inet; rack text; release_version text;
        rpc_address inet; schema_version uuid; tokens set<text>""",
        rows,
        "information about known peers in the cluster",
    )


def _no_rows() -> Iterable[VirtualRow]:
    return ()


def _always_empty() -> list[VirtualTable]:
    """Tables that clients ask about and that have nothing to say here."""
    return [
        define("system.IndexInfo", "table_name text", "index_name text", "value blob", _no_rows),
        define(
            "system.size_estimates",
            "keyspace_name text",
            "table_name text; range_start text; range_end text",
            "mean_partition_size bigint; partitions_count bigint",
            _no_rows,
        ),
        define(
            "system.table_estimates",
            "keyspace_name text",
            "table_name text; range_type text; range_start text; range_end text",
            "mean_partition_size bigint; partitions_count bigint",
            _no_rows,
        ),
        define("system.available_ranges_v2", "keyspace_name text", "", "full_ranges set<blob>", _no_rows),
    ]


def _settings(sources: SystemSources) -> VirtualTable:
    def rows() -> Iterable[VirtualRow]:
        for name, value in sources.settings():
            yield {"name": name, "value": value}

    return define("system_views.settings", "name text", "", "value text", rows, "current settings")


def _clients(sources: SystemSources) -> VirtualTable:
    return define(
        "system_views.clients",
        "address inet",
        "port int",
        """client_options frozen<map<text, text>>; connection_stage text; driver_name text;
        driver_version text; hostname text; keyspace_name text; protocol_version int;
        request_count bigint; ssl_enabled boolean; username text""",
        lambda: sources.clients(),
        "currently connected clients",
    )
