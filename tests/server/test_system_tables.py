"""What `system` and its like answer, asked through the SELECT of the query floor."""

import asyncio
import uuid
from dataclasses import replace
from typing import Any

import pytest

from belvedere.cql.parser import parse_statement
from belvedere.cql.syntax import Select
from belvedere.meta import records
from belvedere.meta.records import (
    AliveRecord,
    ColumnRecord,
    KeyspaceRecord,
    NodeRecord,
    TableRecord,
    TabletRecord,
    TypeRecord,
    ViewRecord,
)
from belvedere.meta.state import EMPTY, ClusterState, advance
from belvedere.meta.store import Put
from belvedere.query.access import Execution
from belvedere.query.results import Result, Rows
from belvedere.query.schema_view import KeyspacesView
from belvedere.query.select.plan import plan_select
from belvedere.query.system.tables import SYSTEM_KEYSPACES, LocalNode, SystemSources, SystemTables

HOST_ID = uuid.UUID("11111111-2222-4333-8444-555555555555")
VIEW_ID = uuid.UUID("bbbbbbbb-2222-4333-8444-555555555555").bytes
TABLE_ID = uuid.UUID("aaaaaaaa-2222-4333-8444-555555555555").bytes

ENTRIES = {
    records.keyspace_key("shop"): KeyspaceRecord({"class": "SimpleStrategy", "replication_factor": "1"}),
    records.type_key("shop", "place"): TypeRecord([("street", "text"), ("spots", "list<int>")]),
    records.table_key("shop", "orders"): TableRecord(
        TABLE_ID.hex(),
        [
            ColumnRecord("id", "int", "partition_key", 0),
            ColumnRecord("at", "timestamp", "clustering", 0, True),
            ColumnRecord("note", "text", "static", 0),
            ColumnRecord("where", "frozen<place>", "regular", 0),
        ],
        {"comment": "of customers", "default_time_to_live": 60, "caching": {"keys": "NONE"}},
        1,
        1,
        [("old", "int", "regular", 1_700_000_000_123_456)],
    ),
    records.table_key("shop", "by_place"): TableRecord(
        VIEW_ID.hex(),
        [
            ColumnRecord("where", "frozen<place>", "partition_key", 0),
            ColumnRecord("id", "int", "clustering", 0),
            ColumnRecord("at", "timestamp", "clustering", 1),
            ColumnRecord("_write_times", "blob", "regular", 0, hidden=True),
        ],
        {"comment": "for the map", "build": {"wait": "true"}},
        1,
        0,
        view=ViewRecord("orders", TABLE_ID.hex(), '"where" IS NOT NULL AND id > 5', True),
    ),
    records.tablet_key(TABLE_ID, 7): TabletRecord(str(-(2**63)), str(2**63 - 1), 3, "n1", ["n1"]),
    records.node_key(str(HOST_ID)): NodeRecord("127.0.0.1", 9042),
    records.node_key("other"): NodeRecord("10.0.0.2", 9043, "dc2", "r2", incarnation=2),
    records.alive_key("other"): AliveRecord(2, 7, True),
    records.node_key("joins"): NodeRecord("10.0.0.3", 9043, incarnation=3),
    records.alive_key("joins"): AliveRecord(3, 8, False),
    records.node_key("down"): NodeRecord("10.0.0.4", 9043, incarnation=1),
}


def state_with(entries: dict[str, Any]) -> ClusterState:
    return advance(EMPTY, 1, tuple(Put(key, records.encode(record)) for key, record in entries.items()))


@pytest.fixture
def tables() -> SystemTables:
    state = state_with(ENTRIES)
    return SystemTables(SystemSources(LocalNode(HOST_ID.bytes, node_id=str(HOST_ID)), lambda: state))


def ask(tables: SystemTables, text: str) -> list[dict[str, Any]]:
    async def main() -> Result:
        node = parse_statement(text)
        assert isinstance(node, Select)
        view = KeyspacesView(tables.with_users({}))
        result = plan_select(node, view, None).execute(Execution(None))  # type: ignore[arg-type]
        return result if isinstance(result, Result) else await result

    result = asyncio.run(main())
    assert isinstance(result, Rows)
    return [
        {
            column.name: None if wire is None else column.type.decode(wire)
            for column, wire in zip(result.columns, row, strict=True)
        }
        for row in result.rows
    ]


def test_local_says_who_the_node_is(tables: SystemTables) -> None:
    (row,) = ask(tables, "SELECT * FROM system.local WHERE key = 'local'")
    assert row["host_id"] == HOST_ID
    assert row["release_version"].startswith("5.0.")
    assert row["partitioner"] == "org.apache.cassandra.dht.Murmur3Partitioner"
    assert (row["rpc_address"], row["rpc_port"]) == ("127.0.0.1", 9042)
    assert len(row["tokens"]) == 1
    assert all(-(2**63) <= int(token) < 2**63 for token in row["tokens"])
    assert row["schema_version"].version == 3
    tables.sources.local = replace(tables.sources.local, port=5555, cluster_name="x", host="db.example")
    (row,) = ask(tables, "SELECT rpc_port, cluster_name, rpc_address FROM system.local")
    assert row == {"rpc_port": 5555, "cluster_name": "x", "rpc_address": "127.0.0.1"}


def test_schema_version_follows_the_schema_and_nothing_else(tables: SystemTables) -> None:
    def version(entries: dict[str, Any]) -> object:
        state = state_with(entries)
        tables.sources.state = lambda: state
        (row,) = ask(tables, "SELECT schema_version FROM system.local")
        return row["schema_version"]

    without_node = {key: record for key, record in ENTRIES.items() if not key.startswith("nodes/")}
    without_type = {key: record for key, record in ENTRIES.items() if "orders" not in key}
    assert version(ENTRIES) == version(without_node)
    assert version(ENTRIES) != version(without_type)


def test_peers_are_the_other_nodes(tables: SystemTables) -> None:
    (row,) = ask(tables, "SELECT * FROM system.peers_v2")
    assert (row["native_address"], row["native_port"], row["data_center"]) == ("10.0.0.2", 9043, "dc2")
    assert row["host_id"] != HOST_ID
    (local,) = ask(tables, "SELECT * FROM system.local")
    assert row["schema_version"] == local["schema_version"]
    assert row["tokens"] not in (None, local["tokens"])
    (old,) = ask(tables, "SELECT * FROM system.peers")
    assert (old["peer"], old["host_id"]) == ("10.0.0.2", row["host_id"])


def test_schema_as_tables(tables: SystemTables) -> None:
    (keyspace,) = ask(tables, "SELECT * FROM system_schema.keyspaces WHERE keyspace_name = 'shop'")
    assert keyspace["replication"] == {
        "class": "org.apache.cassandra.locator.SimpleStrategy",
        "replication_factor": "1",
    }
    (table,) = ask(
        tables, "SELECT * FROM system_schema.tables WHERE keyspace_name = 'shop' AND table_name = 'orders'"
    )
    assert (table["id"].bytes, table["flags"]) == (TABLE_ID, {"compound"})
    assert (table["comment"], table["default_time_to_live"]) == ("of customers", 60)
    assert (table["caching"], table["gc_grace_seconds"]) == ({"keys": "NONE"}, 864_000)
    assert table["compaction"]["class"].endswith("SizeTieredCompactionStrategy")
    columns = ask(
        tables,
        "SELECT * FROM system_schema.columns WHERE keyspace_name = 'shop' AND table_name = 'orders'",
    )
    described = {
        row["column_name"]: (row["kind"], row["position"], row["clustering_order"], row["type"])
        for row in columns
    }
    assert described == {
        "id": ("partition_key", 0, "none", "int"),
        "at": ("clustering", 0, "desc", "timestamp"),
        "note": ("static", -1, "none", "text"),
        "where": ("regular", -1, "none", "frozen<place>"),
    }
    (type_,) = ask(tables, "SELECT * FROM system_schema.types")
    assert (type_["type_name"], type_["field_names"]) == ("place", ["street", "spots"])
    assert type_["field_types"] == ["text", "list<int>"]
    (dropped,) = ask(tables, "SELECT * FROM system_schema.dropped_columns")
    assert (dropped["column_name"], dropped["dropped_time"].microsecond) == ("old", 123_000)


def test_views_are_apart_from_tables(tables: SystemTables) -> None:
    (view,) = ask(tables, "SELECT * FROM system_schema.views")
    assert (view["keyspace_name"], view["view_name"], view["id"].bytes) == ("shop", "by_place", VIEW_ID)
    assert (view["base_table_name"], view["base_table_id"].bytes) == ("orders", TABLE_ID)
    assert view["where_clause"] == '"where" IS NOT NULL AND id > 5'
    assert (view["include_all_columns"], view["comment"]) == (True, "for the map")
    assert view["gc_grace_seconds"] == 864_000
    shop = ask(tables, "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'shop'")
    assert shop == [{"table_name": "orders"}]
    columns = ask(
        tables,
        "SELECT column_name, kind, position FROM system_schema.columns "
        "WHERE keyspace_name = 'shop' AND table_name = 'by_place'",
    )
    assert sorted(tuple(row.values()) for row in columns) == [
        ("at", "clustering", 1),
        ("id", "clustering", 0),
        ("where", "partition_key", 0),
    ]


def test_tablets(tables: SystemTables) -> None:
    (row,) = ask(tables, "SELECT * FROM system_views.tablets")
    assert (row["table_name"], row["tablet_id"], row["epoch"], row["replicas"]) == ("orders", 7, 3, ["n1"])
    assert (row["first_token"], row["last_token"]) == (-(2**63), 2**63 - 1)


def test_clients_and_settings_come_from_the_server(tables: SystemTables) -> None:
    assert ask(tables, "SELECT * FROM system_views.clients") == []
    tables.sources.clients = lambda: [{"address": "127.0.0.1", "port": 5, "driver_name": "d"}]
    tables.sources.settings = lambda: [("max_connections", "10")]
    (row,) = ask(tables, "SELECT port, driver_name FROM system_views.clients")
    assert row == {"port": 5, "driver_name": "d"}
    (row,) = ask(tables, "SELECT * FROM system_views.settings")
    assert row == {"name": "max_connections", "value": "10"}


def test_every_system_table_answers_and_is_described(tables: SystemTables) -> None:
    assert set(tables.keyspaces) == set(SYSTEM_KEYSPACES)
    described = {
        (row["keyspace_name"], row["table_name"])
        for schema in ("system_schema", "system_virtual_schema")
        for row in ask(tables, f"SELECT keyspace_name, table_name FROM {schema}.tables")
    }
    for keyspace in tables.keyspaces.values():
        for table in keyspace.tables.values():
            ask(tables, f'SELECT * FROM {keyspace.name}."{table.name}"')
            assert (keyspace.name, table.name) in described
