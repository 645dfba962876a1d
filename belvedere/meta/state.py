"""ClusterState: everything the metadata store says, as one immutable snapshot.

An operation takes one snapshot and uses it to the end. A new revision makes a new snapshot; parts that a
revision did not touch are shared with the one before, so `is` tells whether a table changed.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
import xxhash

from belvedere.meta import records
from belvedere.meta.store import Entry, Loaded, Update, fold
from belvedere.model.schema import Column, ColumnKind, Keyspace, Table, ViewDefinition
from belvedere.model.types import UserType, parse_type

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Tablet:
    """A contiguous token range of one table, both ends included."""

    id: int
    table: bytes
    first_token: int
    last_token: int
    epoch: int
    primary: str
    replicas: tuple[str, ...]
    #: Those of the replicas that have every acknowledged write on disk.
    in_sync: tuple[str, ...] = ()
    #: Which revision wrote this.
    revision: int = 0


@dataclass(frozen=True)
class TabletMap:
    """A table's tablets in token order; together they cover every token once."""

    tablets: tuple[Tablet, ...]

    @cached_property
    def _first_tokens(self) -> list[int]:
        return [tablet.first_token for tablet in self.tablets]

    def holding(self, token: int) -> Tablet:
        return self.tablets[bisect_right(self._first_tokens, token) - 1]


@dataclass(frozen=True, slots=True)
class Node:
    id: str
    host: str
    port: int
    datacenter: str
    rack: str
    version: str
    internal_host: str = ""
    internal_port: int = 0
    incarnation: int = 0
    features: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Alive:
    """A node's life as far as the metadata store knows: its lease has not run out."""

    incarnation: int
    lease: int
    #: Whether clients may be sent to it.
    answers: bool


@dataclass(frozen=True)
class ClusterState:
    revision: int
    entries: Mapping[str, Entry]
    keyspaces: Mapping[str, Keyspace]
    tablet_maps: Mapping[bytes, TabletMap]
    nodes: Mapping[str, Node]
    #: Which nodes hold their lease, by id.
    alive: Mapping[str, Alive]

    @cached_property
    def tables_by_id(self) -> Mapping[bytes, Table]:
        return MappingProxyType(
            {table.id: table for keyspace in self.keyspaces.values() for table in keyspace.tables.values()}
        )

    @cached_property
    def schema_digest(self) -> bytes:
        """Equal on nodes that agree on the schema: which revision wrote each entry, hashed."""
        parts = [
            f"{key}@{entry.revision}"
            for key, entry in sorted(self.entries.items())
            if key.startswith(SCHEMA_PREFIXES)
        ]
        return _digest("\n".join(parts))

    def table(self, keyspace: str, name: str) -> Table | None:
        found = self.keyspaces.get(keyspace)
        return None if found is None else found.tables.get(name)

    @cached_property
    def _keys(self) -> list[str]:
        return sorted(self.entries)

    def starting_with(self, prefix: str) -> Iterator[tuple[str, Entry]]:
        """In the order of keys; costs what is found."""
        for index in range(bisect_left(self._keys, prefix), len(self._keys)):
            key = self._keys[index]
            if not key.startswith(prefix):
                break
            yield key, self.entries[key]


SCHEMA_PREFIXES = ("keyspaces/", "types/", "tables/")
_TABLETS = "tablets/"


def _digest(text: str) -> bytes:
    return xxhash.xxh3_128_digest(text.encode())


_NOTHING: Mapping[Any, Any] = MappingProxyType({})
EMPTY = ClusterState(0, _NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING)


def from_loaded(loaded: Loaded) -> ClusterState:
    return _build(EMPTY, loaded.revision, dict(loaded.entries), set(loaded.entries))


def advance(state: ClusterState, revision: int, updates: tuple[Update, ...]) -> ClusterState:
    """The snapshot after one revision's updates."""
    entries = fold(state.entries, revision, updates)
    return _build(state, revision, entries, {update.key for update in updates})


def _build(before: ClusterState, revision: int, entries: dict[str, Entry], touched: set[str]) -> ClusterState:
    return ClusterState(
        revision,
        MappingProxyType(entries),
        _keyspaces(before.keyspaces, entries, touched),
        _tablet_maps(before.tablet_maps, entries, touched),
        _nodes(entries) if any(key.startswith("nodes/") for key in touched) else before.nodes,
        _alive(entries) if any(key.startswith("alive/") for key in touched) else before.alive,
    )


def _keyspaces(
    before: Mapping[str, Keyspace], entries: Mapping[str, Entry], touched: set[str]
) -> Mapping[str, Keyspace]:
    names = {key.split("/")[1] for key in touched if key.startswith(SCHEMA_PREFIXES)}
    if not names:
        return before
    keyspaces = dict(before)
    by_keyspace = _schema_entries(entries, names)
    for name in sorted(names):
        keyspace = _keyspace(name, by_keyspace[name], before.get(name), touched)
        if keyspace is None:
            keyspaces.pop(name, None)
        else:
            keyspaces[name] = keyspace
    return _sorted_proxy(keyspaces)


def _tablet_maps(
    before: Mapping[bytes, TabletMap], entries: Mapping[str, Entry], touched: set[str]
) -> Mapping[bytes, TabletMap]:
    tables = {key.split("/")[1] for key in touched if key.startswith(_TABLETS)}
    if not tables:
        return before
    # In one order for every process: stores are opened in the order of this mapping.
    tablets: dict[str, list[Tablet]] = {table: [] for table in sorted(tables)}
    for key, entry in entries.items():
        if key.startswith(_TABLETS):
            _, table, tablet_id = key.split("/")
            if table in tablets:
                tablets[table].append(_tablet(bytes.fromhex(table), int(tablet_id), entry))
    maps = dict(before)
    for table, found in tablets.items():
        if found:
            in_order = sorted(found, key=lambda tablet: tablet.first_token)
            maps[bytes.fromhex(table)] = TabletMap(tuple(in_order))
        else:
            maps.pop(bytes.fromhex(table), None)
    return MappingProxyType(maps)


def _sorted_proxy(items: Mapping[str, V]) -> Mapping[str, V]:
    return MappingProxyType(dict(sorted(items.items())))


def _schema_entries(entries: Mapping[str, Entry], names: set[str]) -> dict[str, dict[str, Entry]]:
    """The schema entries of the named keyspaces, grouped."""
    grouped: dict[str, dict[str, Entry]] = {name: {} for name in names}
    for key, entry in entries.items():
        if key.startswith(SCHEMA_PREFIXES):
            group = grouped.get(key.split("/")[1])
            if group is not None:
                group[key] = entry
    return grouped


def _keyspace(
    name: str, entries: Mapping[str, Entry], before: Keyspace | None, touched: set[str]
) -> Keyspace | None:
    own = entries.get(records.keyspace_key(name))
    if own is None:
        return None
    record = msgspec.json.decode(own.value, type=records.KeyspaceRecord)
    types = _user_types(name, entries)
    same_types = before is not None and before.types == types
    tables: dict[str, Table] = {}
    prefix = records.table_key(name, "")
    for key, entry in entries.items():
        if not key.startswith(prefix):
            continue
        table_name = key[len(prefix) :]
        known = before.tables.get(table_name) if before is not None and same_types else None
        tables[table_name] = (
            known
            if known is not None and key not in touched
            else _table(name, table_name, entry.value, types)
        )
    return Keyspace(
        name, MappingProxyType(record.replication), record.durable_writes, types, _sorted_proxy(tables)
    )


def _user_types(keyspace: str, entries: Mapping[str, Entry]) -> Mapping[str, UserType]:
    """Types may hold other types, in any order of names: resolved on demand."""
    prefix = records.type_key(keyspace, "")
    waiting = {
        key[len(prefix) :]: msgspec.json.decode(entry.value, type=records.TypeRecord)
        for key, entry in entries.items()
        if key.startswith(prefix)
    }
    resolved: dict[str, UserType] = {}

    def resolve(name: str) -> UserType:
        if name not in resolved:
            fields = tuple((field, parse_type(text, resolve)) for field, text in waiting[name].fields)
            resolved[name] = UserType(keyspace, name, fields)
        return resolved[name]

    for name in waiting:
        resolve(name)
    return _sorted_proxy(resolved)


def _table(keyspace: str, name: str, value: bytes, types: Mapping[str, UserType]) -> Table:
    record = msgspec.json.decode(value, type=records.TableRecord)
    columns = tuple(
        Column(
            column.name,
            parse_type(column.type, types.__getitem__),
            ColumnKind(column.kind),
            column.position,
            column.descending,
            column.hidden,
        )
        for column in record.columns
    )
    return Table(
        bytes.fromhex(record.id),
        keyspace,
        name,
        columns,
        MappingProxyType(record.options),
        record.regular_ordinals,
        record.static_ordinals,
        tuple(record.dropped),
        None if record.view is None else _view(record.view),
    )


def _view(record: records.ViewRecord) -> ViewDefinition:
    return ViewDefinition(record.base, bytes.fromhex(record.base_id), record.where, record.selects_all)


def _tablet(table: bytes, tablet_id: int, entry: Entry) -> Tablet:
    record = msgspec.json.decode(entry.value, type=records.TabletRecord)
    return Tablet(
        tablet_id,
        table,
        int(record.first_token),
        int(record.last_token),
        record.epoch,
        record.primary,
        tuple(record.replicas),
        tuple(record.in_sync or record.replicas),
        entry.revision,
    )


def _nodes(entries: Mapping[str, Entry]) -> Mapping[str, Node]:
    nodes: dict[str, Node] = {}
    for key, entry in entries.items():
        if key.startswith("nodes/"):
            record = msgspec.json.decode(entry.value, type=records.NodeRecord)
            node_id = key[len("nodes/") :]
            nodes[node_id] = Node(
                node_id,
                record.host,
                record.port,
                record.datacenter,
                record.rack,
                record.version,
                record.internal_host,
                record.internal_port,
                record.incarnation,
                frozenset(record.features),
            )
    return _sorted_proxy(nodes)


def _alive(entries: Mapping[str, Entry]) -> Mapping[str, Alive]:
    prefix = records.alive_key("")
    alive: dict[str, Alive] = {}
    for key, entry in entries.items():
        if key.startswith(prefix):
            record = msgspec.json.decode(entry.value, type=records.AliveRecord)
            alive[key[len(prefix) :]] = Alive(record.incarnation, record.lease, record.answers)
    return _sorted_proxy(alive)
