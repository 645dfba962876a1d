"""What changed between two states of the schema, as the events that drivers know."""

from collections.abc import Mapping

from belvedere.meta.state import ClusterState
from belvedere.model.schema import Keyspace, Table
from belvedere.query.results import SchemaChange


def schema_changes(before: ClusterState, after: ClusterState) -> list[SchemaChange]:
    """In an order that a driver can follow: what holds others is made first and dropped last."""
    if before.keyspaces is after.keyspaces:
        return []
    changes: list[SchemaChange] = []
    for name in _all_names(before.keyspaces, after.keyspaces):
        old, new = before.keyspaces.get(name), after.keyspaces.get(name)
        if old is new:
            continue
        if new is None:
            changes.append(SchemaChange(change="DROPPED", target="KEYSPACE", keyspace=name))
            continue
        if old is None:
            changes.append(SchemaChange(change="CREATED", target="KEYSPACE", keyspace=name))
            old = Keyspace(name, new.replication, new.durable_writes)
        elif (old.replication, old.durable_writes) != (new.replication, new.durable_writes):
            changes.append(SchemaChange(change="UPDATED", target="KEYSPACE", keyspace=name))
        changes.extend(_inside(old, new))
    return changes


def _inside(old: Keyspace, new: Keyspace) -> list[SchemaChange]:
    types = _differences(new.name, "TYPE", old.types, new.types)
    tables = _differences(new.name, "TABLE", *(_of_kind(side.tables, views=False) for side in (old, new)))
    # Views are tables to drivers, which know them as parts of their bases.
    views = _differences(new.name, "TABLE", *(_of_kind(side.tables, views=True) for side in (old, new)))
    return [
        *_dropped(views),
        *_others(types),
        *tables,
        *_others(views),
        *_dropped(types),
    ]


def _of_kind(tables: Mapping[str, Table], *, views: bool) -> Mapping[str, Table]:
    return {name: table for name, table in tables.items() if (table.view is not None) == views}


def _dropped(changes: list[SchemaChange]) -> list[SchemaChange]:
    return [change for change in changes if change.change == "DROPPED"]


def _others(changes: list[SchemaChange]) -> list[SchemaChange]:
    return [change for change in changes if change.change != "DROPPED"]


def _differences(
    keyspace: str, target: str, old: Mapping[str, object], new: Mapping[str, object]
) -> list[SchemaChange]:
    """A thing dropped and made again within one step counts as updated only if it kept its identity."""
    changes: list[SchemaChange] = []
    for name in _all_names(old, new):
        was, now = old.get(name), new.get(name)
        if was is now or was == now:
            continue
        recreated = target == "TABLE" and was is not None and now is not None and _id(was) != _id(now)
        kinds = ("DROPPED", "CREATED") if recreated else (_kind(was, now),)
        changes.extend(
            SchemaChange(change=kind, target=target, keyspace=keyspace, name=name) for kind in kinds
        )
    return changes


def _kind(was: object, now: object) -> str:
    if was is None:
        return "CREATED"
    return "DROPPED" if now is None else "UPDATED"


def _id(table: object) -> bytes:
    found: bytes = getattr(table, "id", b"")
    return found


def _all_names(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    return sorted(old.keys() | new.keys())
