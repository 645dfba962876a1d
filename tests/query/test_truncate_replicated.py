"""TRUNCATE as a transaction on the metadata: what it leaves, and that nothing slips in between."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.cluster.placement import renewed
from belvedere.meta import load_records, records, view_records
from belvedere.meta.load_records import LoadRecord
from belvedere.meta.metadata import Proposal
from belvedere.meta.state import ClusterState, advance
from belvedere.meta.store import Delete, Put, first_failure
from belvedere.query.errors import InvalidRequest
from belvedere.query.schema.truncate import truncating
from belvedere.views.proposals import restarting
from tests.cluster.places import node_entries, state_of
from tests.query.schema_book import SchemaBook
from tests.query.schema_whole import check_whole

VIEW = (
    "CREATE MATERIALIZED VIEW {0} AS SELECT * FROM t WHERE w IS NOT NULL AND k IS NOT NULL PRIMARY KEY (w, k)"
)
LOAD = "l1"


def apply(state: ClusterState, proposal: Proposal) -> ClusterState | None:
    """None if something came in between."""
    asserts, updates = proposal
    assert {one.key for one in asserts} >= {one.key for one in updates}
    assert len({one.key for one in updates}) == len(updates)
    if first_failure(asserts, state.entries) is not None:
        return None
    return advance(state, state.revision + 1, updates)


def truncated(state: ClusterState) -> ClusterState:
    after = apply(state, truncating(state, "ks", "t"))
    assert after is not None
    return after


def whole(nodes: str = "abc", down: str = "") -> SchemaBook:
    """A table with two views that are being built and a load that has been committed, and another table."""
    made = SchemaBook(nodes=node_entries(nodes, down))
    made.run(
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}",
        "CREATE TABLE t (k int PRIMARY KEY, w int)",
        VIEW.format("v"),
        VIEW.format("x"),
        "CREATE TABLE u (k int PRIMARY KEY, w int)",
    )
    state = apply(made.state, loading(made.state))
    assert state is not None
    made.state = state
    return made


def loading(state: ClusterState, load: str = LOAD) -> Proposal:
    table = state.table("ks", "t")
    assert table is not None
    numbers = [tablet.id for tablet in state.tablet_maps[table.id].tablets]
    proposal = load_records.committing(state, table, load, LoadRecord("x", 0, numbers))
    assert proposal is not None
    return proposal


def test_all_tablets_of_the_table_and_its_views_are_new() -> None:
    schema = whole()
    before, after = schema.state, truncated(schema.state)
    check_whole(after)
    known = {tablet.id for found in before.tablet_maps.values() for tablet in found.tablets}
    for name in ("t", "v", "x"):
        old = before.tablet_maps[schema.table(name).id].tablets
        new = after.tablet_maps[schema.table(name).id].tablets
        assert not known & {tablet.id for tablet in new}
        for one, other in zip(old, new, strict=True):
            assert (one.first_token, one.last_token) == (other.first_token, other.last_token)
            assert (one.replicas, one.primary, other.epoch) == (other.replicas, other.primary, 1)
    other_table = schema.table("u").id
    assert after.tablet_maps[other_table] == before.tablet_maps[other_table]
    # Nothing that drivers would have to agree on.
    assert after.schema_digest == before.schema_digest
    assert after.keyspaces is before.keyspaces
    again = truncated(after)
    assert not known & {tablet.id for tablet in again.tablet_maps[schema.table().id].tablets}


def test_views_are_built_and_nothing_is_left_to_do() -> None:
    schema = whole()
    before, after = schema.state, truncated(schema.state)
    base = schema.table().id
    for name in ("v", "x"):
        view = schema.table(name).id
        assert list(view_records.keys_of_work(before, base, view))
        assert not list(view_records.keys_of_work(after, base, view))
        status = view_records.status_of(after, view)
        assert status is not None
        assert (status.state, status.rows, status.empty_first) == (view_records.BUILT, 0, False)
    assert list(load_records.open_loads(before))
    assert not list(load_records.open_loads(after))


def test_a_dead_primary_leads_no_new_tablet() -> None:
    schema = whole()
    gone = tuple(Delete(key) for key in (records.alive_key("a"),))
    state = advance(schema.state, schema.state.revision + 1, gone)
    after = truncated(state)
    table = schema.table().id
    assert any(tablet.primary == "a" for tablet in state.tablet_maps[table].tablets)
    for one, other in zip(state.tablet_maps[table].tablets, after.tablet_maps[table].tablets, strict=True):
        assert (other.primary, other.in_sync) == (renewed(state, one).primary, renewed(state, one).in_sync)
        assert other.primary != "a"


BETWEEN = {
    "a view is created": lambda schema: schema.proposed(VIEW.format("y")),
    "a view is dropped": lambda schema: schema.proposed("DROP MATERIALIZED VIEW v"),
    "the keyspace is dropped": lambda schema: schema.proposed("DROP KEYSPACE ks"),
    "a table is created": lambda schema: schema.proposed("CREATE TABLE w (k int PRIMARY KEY)"),
    "a load is committed": lambda schema: loading(schema.state, "l2"),
    "views are restarted": lambda schema: restarting(schema.state, schema.table()),
    "another truncates": lambda schema: truncating(schema.state, "ks", "t"),
    "a primary is replaced": lambda schema: _replacing(schema),
}


def _replacing(schema: SchemaBook) -> Proposal:
    tablet = schema.state.tablet_maps[schema.table().id].tablets[0]
    key = records.tablet_key(tablet.table, tablet.id)
    primary = next(node for node in tablet.replicas if node != tablet.primary)
    record = records.TabletRecord(
        str(tablet.first_token), str(tablet.last_token), tablet.epoch + 1, primary, list(tablet.replicas)
    )
    return (view_records.as_seen(schema.state, key),), (Put(key, records.encode(record)),)


@pytest.mark.parametrize("what", BETWEEN)
@given(order=st.booleans())
def test_of_two_at_once_one_is_decided_anew(what: str, order: bool) -> None:
    """Whichever comes first: else one would rest on what is no longer so."""
    schema = whole()
    other, own = BETWEEN[what](schema), truncating(schema.state, "ks", "t")
    first, second = (own, other) if order else (other, own)
    between = apply(schema.state, first)
    assert between is not None
    assert apply(between, second) is None


def test_an_altered_table_needs_no_second_look_after_a_truncation() -> None:
    schema = whole()
    altering = schema.proposed("ALTER TABLE t ADD z int")
    after = apply(truncated(schema.state), altering)
    assert after is not None
    check_whole(after)


def test_what_cannot_be_truncated() -> None:
    schema = whole()
    with pytest.raises(InvalidRequest, match=r"^table nope does not exist$"):
        truncating(schema.state, "ks", "nope")
    with pytest.raises(InvalidRequest, match=r"^keyspace nope does not exist$"):
        truncating(schema.state, "nope", "t")
    with pytest.raises(InvalidRequest, match=r"^Cannot TRUNCATE materialized view directly"):
        truncating(schema.state, "ks", "v")


def test_where_nobody_lives_the_tablets_are_led_as_before() -> None:
    state = state_of(node_entries("ab", "ab"))
    schema = SchemaBook(nodes={key: entry.value for key, entry in state.entries.items()})
    schema.run(
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}",
        "CREATE TABLE t (k int PRIMARY KEY)",
    )
    table = schema.table().id
    before = schema.state.tablet_maps[table].tablets
    after = truncated(schema.state).tablet_maps[table].tablets
    assert [(one.primary, one.in_sync) for one in before] == [(one.primary, one.in_sync) for one in after]
