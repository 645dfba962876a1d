"""Snapshots folded from records: step by step or all at once, the same state."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.meta import records
from belvedere.meta.state import EMPTY, ClusterState, advance, from_loaded
from belvedere.meta.store import Delete, Loaded, Put, Update
from belvedere.model.schema import ColumnKind
from belvedere.model.token import MAX_TOKEN, MIN_TOKEN
from belvedere.model.types import INT, TEXT, ListType, UserType

SIMPLE = {"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": "1"}
T1, T2 = bytes([1] * 16), bytes([2] * 16)


def put_keyspace(name: str = "ks", durable: bool = True) -> Put:
    return Put(records.keyspace_key(name), records.encode(records.KeyspaceRecord(SIMPLE, durable)))


def put_type(name: str, *fields: tuple[str, str], keyspace: str = "ks") -> Put:
    return Put(records.type_key(keyspace, name), records.encode(records.TypeRecord(list(fields))))


def put_table(name: str, value_type: str = "text", id: bytes = T1, keyspace: str = "ks") -> Put:
    columns = [
        records.ColumnRecord("k", "int", "partition_key", 0),
        records.ColumnRecord("c", "int", "clustering", 0, True),
        records.ColumnRecord("v", value_type, "regular", 3),
    ]
    record = records.TableRecord(id.hex(), columns, {"comment": "x"}, 4, 0, [("w", "int", "regular", 5)])
    return Put(records.table_key(keyspace, name), records.encode(record))


def put_tablet(number: int, first: int, last: int, table: bytes = T1, epoch: int = 1) -> Put:
    record = records.TabletRecord(str(first), str(last), epoch, "n1", ["n1", "n2"])
    return Put(records.tablet_key(table, number), records.encode(record))


def put_node(name: str, port: int = 9042) -> Put:
    return Put(records.node_key(name), records.encode(records.NodeRecord("host", port)))


def after(*updates: Update, state: ClusterState = EMPTY) -> ClusterState:
    return advance(state, state.revision + 1, updates)


def test_a_table_comes_back_as_written() -> None:
    state = after(put_keyspace(), put_table("t"), put_table("a", id=T2))
    table = state.table("ks", "t")
    assert table is not None
    assert list(state.keyspaces["ks"].tables) == ["a", "t"]
    assert state.tables_by_id[T1] is table
    assert [(c.name, c.type, c.kind, c.position, c.descending) for c in table.columns] == [
        ("k", INT, ColumnKind.PARTITION_KEY, 0, False),
        ("c", INT, ColumnKind.CLUSTERING, 0, True),
        ("v", TEXT, ColumnKind.REGULAR, 3, False),
    ]
    assert (table.regular_ordinals, table.static_ordinals, table.options["comment"]) == (4, 0, "x")
    assert table.dropped == (("w", "int", "regular", 5),)
    assert state.table("ks", "nope") is None
    assert state.table("nope", "t") is None


def test_what_a_revision_does_not_touch_is_shared() -> None:
    one = after(put_keyspace(), put_table("t"), put_table("u", id=T2), put_tablet(1, MIN_TOKEN, MAX_TOKEN))
    two = after(put_node("n1"), state=one)
    assert two.keyspaces is one.keyspaces
    assert two.tablet_maps is one.tablet_maps
    three = after(put_table("u", "int", id=T2), state=two)
    assert three.nodes is two.nodes
    assert three.table("ks", "t") is one.table("ks", "t")
    assert three.table("ks", "u") is not one.table("ks", "u")
    four = after(put_tablet(2, 0, 1, table=T2), state=three)
    assert four.tablet_maps[T1] is one.tablet_maps[T1]
    # The older snapshots are as they were.
    assert T2 not in one.tablet_maps
    assert one.table("ks", "u") == two.table("ks", "u")


def test_a_changed_type_reaches_the_tables_and_types_that_use_it() -> None:
    one = after(
        put_keyspace(),
        put_type("z", ("x", "int")),
        put_type("a", ("z", "frozen<z>")),
        put_table("t", "list<frozen<a>>"),
    )
    two = after(put_type("z", ("x", "int"), ("y", "text")), state=one)
    for state, fields in ((one, [("x", INT)]), (two, [("x", INT), ("y", TEXT)])):
        z = UserType("ks", "z", fields)
        a = UserType("ks", "a", [("z", z.frozen())])
        assert state.keyspaces["ks"].types == {"a": a, "z": z}
        table = state.table("ks", "t")
        assert table is not None
        assert table.by_name["v"].type == ListType(a.frozen())


def test_dropped_things_are_gone() -> None:
    one = after(put_keyspace(), put_table("t"), put_tablet(1, MIN_TOKEN, MAX_TOKEN), put_node("n"))
    two = after(
        Delete(records.table_key("ks", "t")),
        Delete(records.tablet_key(T1, 1)),
        Delete(records.node_key("n")),
        state=one,
    )
    assert (dict(two.keyspaces["ks"].tables), dict(two.tablet_maps), dict(two.nodes)) == ({}, {}, {})
    three = after(Delete(records.keyspace_key("ks")), state=two)
    assert dict(three.keyspaces) == {}


def test_tablets_hold_every_token_of_their_range() -> None:
    state = after(
        put_keyspace(),
        put_table("t"),
        put_tablet(10, 1, MAX_TOKEN),
        put_tablet(2, MIN_TOKEN, -5),
        put_tablet(1, -4, 0),
    )
    tablets = state.tablet_maps[T1]
    assert [tablet.id for tablet in tablets.tablets] == [2, 1, 10]
    for token, expected in ((MIN_TOKEN, 2), (-5, 2), (-4, 1), (0, 1), (1, 10), (MAX_TOKEN, 10)):
        assert tablets.holding(token).id == expected
    assert tablets.tablets[0].replicas == ("n1", "n2")


@pytest.mark.parametrize(
    "update", [put_keyspace("other"), put_type("x", ("a", "int")), put_table("t", "int")]
)
def test_the_schema_digest_follows_the_schema(update: Put) -> None:
    state = after(put_keyspace(), put_table("t"))
    assert after(put_node("n"), put_tablet(1, 0, 1), state=state).schema_digest == state.schema_digest
    assert after(update, state=state).schema_digest != state.schema_digest


TOKENS = st.sampled_from([(MIN_TOKEN, -1), (0, MAX_TOKEN)])
KEYSPACES = st.sampled_from(["k1", "k2"])
UPDATES = st.one_of(
    st.builds(lambda k, d: put_keyspace(k, d), KEYSPACES, st.booleans()),
    st.builds(lambda k: Delete(records.keyspace_key(k)), KEYSPACES),
    st.builds(
        lambda k, fields: put_type("u", *fields, keyspace=k),
        KEYSPACES,
        st.lists(st.tuples(st.sampled_from("abc"), st.just("int")), max_size=2),
    ),
    st.builds(
        lambda k, t, v, i: put_table(t, v, i, k),
        KEYSPACES,
        st.sampled_from(["t", "u"]),
        st.sampled_from(["int", "frozen<u>", "set<text>"]),
        st.sampled_from([T1, T2]),
    ),
    st.builds(lambda k, t: Delete(records.table_key(k, t)), KEYSPACES, st.sampled_from(["t", "u"])),
    st.builds(
        lambda n, r, t: put_tablet(n, *r, table=t), st.integers(1, 3), TOKENS, st.sampled_from([T1, T2])
    ),
    st.builds(lambda n, t: Delete(records.tablet_key(t, n)), st.integers(1, 3), st.sampled_from([T1, T2])),
    st.builds(put_node, st.sampled_from(["a", "b"]), st.integers(1, 3)),
)
# Tables of both keyspaces may use type u, which is never dropped.
START: list[Update] = [put_type("u", ("a", "int"), keyspace=k) for k in ("k1", "k2")]


@given(st.lists(st.lists(UPDATES, max_size=3), max_size=10))
def test_step_by_step_equals_all_at_once(steps: list[list[Any]]) -> None:
    state = after(*START)
    for updates in steps:
        unique = {update.key: update for update in updates}
        state = after(*unique.values(), state=state)
        loaded = from_loaded(Loaded(state.revision, state.entries))
        assert loaded.keyspaces == state.keyspaces
        assert list(loaded.keyspaces) == list(state.keyspaces)
        assert loaded.tablet_maps == state.tablet_maps
        assert loaded.nodes == state.nodes
        assert loaded.schema_digest == state.schema_digest
