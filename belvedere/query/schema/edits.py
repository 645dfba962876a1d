"""Schema changes as transactions on the metadata store.

Every change within a keyspace asserts and rewrites that keyspace's own entry. That makes the changes of one
keyspace a single sequence: each is decided on the outcome of the one before, whichever nodes they come from,
so that "no table uses this type" still holds when the type goes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from belvedere.cluster.placement import NoPlace, Placement, default_tablets, place
from belvedere.cluster.ring import first_token
from belvedere.meta import load_records, records, view_records
from belvedere.meta.metadata import Proposal
from belvedere.meta.state import ClusterState
from belvedere.meta.store import Absent, Assertion, Delete, Put, Unchanged, Update
from belvedere.model.schema import Keyspace, Table, ViewDefinition
from belvedere.model.token import MAX_TOKEN
from belvedere.model.types import UserType
from belvedere.query.errors import InvalidRequest
from belvedere.query.results import SchemaChange
from belvedere.query.schema.table_options import DEFAULT_TABLETS, initial_tablets


@dataclass(frozen=True, slots=True)
class DdlContext:
    """What deciding on a change needs besides the schema, fixed beforehand so that deciding is pure."""

    #: The session's keyspace.
    keyspace: str | None
    #: Sixteen fresh random bytes for a table to be made.
    table_id: bytes
    #: The node that decides, and serves what it creates where nothing is replicated.
    node_id: str
    #: Wall clock, µs.
    now: int
    #: Whether the cluster's nodes keep tablets for each other; else the node that makes a table serves it.
    replicated: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """A change to commit and what to answer once it is."""

    proposal: Proposal
    result: SchemaChange


class KeyspaceEdit:
    """Gathers one transaction on one keyspace."""

    def __init__(self, state: ClusterState, name: str) -> None:
        self._state = state
        self._name = name
        self._asserts: dict[str, Assertion] = {}
        self._updates: dict[str, Update] = {}
        keyspace = state.keyspaces.get(name)
        if keyspace is None:
            self._expect_as_seen(records.keyspace_key(name))
        else:
            self.put_keyspace(keyspace.replication, keyspace.durable_writes)

    def decide(self, change: str, target: str, name: str = "", warnings: tuple[str, ...] = ()) -> Decision:
        result = SchemaChange(0, warnings, change, target, self._name, name)
        return Decision((tuple(self._asserts.values()), tuple(self._updates.values())), result)

    # --- keyspaces -----------------------------------------------------------------------------------

    def put_keyspace(self, replication: Mapping[str, str], durable_writes: bool) -> None:
        record = records.KeyspaceRecord(dict(replication), durable_writes)
        self._put(records.keyspace_key(self._name), records.encode(record))

    def drop_keyspace(self, keyspace: Keyspace) -> None:
        for table in keyspace.tables.values():
            self.drop_table(table)
        for type_name in keyspace.types:
            self.drop_type(type_name)
        self._delete(records.keyspace_key(self._name))

    # --- types ---------------------------------------------------------------------------------------

    def put_type(self, user_type: UserType) -> None:
        record = records.TypeRecord([(name, field.name) for name, field in user_type.fields])
        self._put(records.type_key(self._name, user_type.type_name), records.encode(record))

    def drop_type(self, name: str) -> None:
        self._delete(records.type_key(self._name, name))

    # --- tables --------------------------------------------------------------------------------------

    def put_table(self, table: Table) -> None:
        self._put(records.table_key(self._name, table.name), records.encode(table_record(table)))

    def drop_table(self, table: Table) -> None:
        tablet_map = self._state.tablet_maps.get(table.id)
        for tablet in () if tablet_map is None else tablet_map.tablets:
            self._delete(records.tablet_key(table.id, tablet.id))
        self._delete(records.table_key(self._name, table.name))
        self._add(*view_records.forgetting(self._state, table.id))
        self._add(*(load_records.forgetting(self._state, table.id) or ((), ())))
        if load_records.last_load_key(table.id) in self._state.entries:
            self._delete(load_records.last_load_key(table.id))

    def begin_build(self, view: Table, base: Table) -> None:
        """A new view's status, and what is to be done for it."""
        tablets = self._state.tablet_maps[base.id].tablets
        for tablet in tablets:
            # Whoever truncates the base replaces them, and leaves its definition as it is.
            self._expect_as_seen(records.tablet_key(base.id, tablet.id))
        self._add(*view_records.beginning(self._state, view, tablets, empty_first=False))

    def create_tablets(self, table: Table, context: DdlContext) -> None:
        """Cut a new table into equal token ranges."""
        if not context.replicated:
            here = Placement(context.node_id, (context.node_id,), ())
            self._put_tablets(table, [here] * initial_tablets(table.options, DEFAULT_TABLETS))
            return
        replication = self._state.keyspaces[self._name].replication
        count = initial_tablets(table.options, default_tablets(self._state, replication))
        try:
            placements = place(self._state, replication, count)
        except NoPlace as error:
            raise InvalidRequest(f"Nobody would keep table {table.full_name}: {error}") from error
        for node in sorted({node for placement in placements for node in placement.replicas}):
            # It must not be removed for good meanwhile.
            self._expect_as_seen(records.node_key(node))
        self._put_tablets(table, placements)

    def _put_tablets(self, table: Table, placements: Sequence[Placement]) -> None:
        count, first_id = len(placements), next_tablet_id(self._state)
        self._put(records.TABLET_SEQUENCE, str(first_id + count).encode())
        bounds = [first_token(number, count) for number in range(count)]
        for index, (first, placement) in enumerate(zip(bounds, placements, strict=True)):
            last = bounds[index + 1] - 1 if index + 1 < count else MAX_TOKEN
            record = tablet_record(first, last, placement)
            self._put(records.tablet_key(table.id, first_id + index), records.encode(record))

    # --- entries -------------------------------------------------------------------------------------

    def _put(self, key: str, value: bytes) -> None:
        self._expect_as_seen(key)
        self._updates[key] = Put(key, value)

    def _delete(self, key: str) -> None:
        self._expect_as_seen(key)
        self._updates[key] = Delete(key)

    def _add(self, asserts: Sequence[Assertion], updates: Sequence[Update]) -> None:
        self._asserts.update((one.key, one) for one in asserts)
        self._updates.update((one.key, one) for one in updates)

    def _expect_as_seen(self, key: str) -> None:
        entry = self._state.entries.get(key)
        self._asserts[key] = Absent(key) if entry is None else Unchanged(key, entry.revision)


def next_tablet_id(state: ClusterState) -> int:
    """Ids are never used twice. Who takes some puts the next free one into the sequence."""
    sequence = state.entries.get(records.TABLET_SEQUENCE)
    return 1 if sequence is None else int(sequence.value)


def tablet_record(first_token: int, last_token: int, placement: Placement) -> records.TabletRecord:
    """Of a new one."""
    return records.TabletRecord(
        str(first_token),
        str(last_token),
        1,
        placement.primary,
        list(placement.replicas),
        list(placement.in_sync),
    )


def table_record(table: Table) -> records.TableRecord:
    return records.TableRecord(
        table.id.hex(),
        [
            records.ColumnRecord(
                column.name,
                column.type.name,
                column.kind.value,
                column.position,
                column.descending,
                column.hidden,
            )
            for column in table.columns
        ],
        dict(table.options),
        table.regular_ordinals,
        table.static_ordinals,
        list(table.dropped),
        None if table.view is None else view_record(table.view),
    )


def view_record(view: ViewDefinition) -> records.ViewRecord:
    return records.ViewRecord(view.base, view.base_id.hex(), view.where, view.selects_all)
