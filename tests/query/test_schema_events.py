"""What drivers are told when the schema moves from one state to another."""

from belvedere.meta.state import EMPTY, ClusterState
from belvedere.query.schema.events import schema_changes
from tests.query.schema_book import SIMPLE, SchemaBook, book


def changes(before: ClusterState, after: ClusterState) -> list[tuple[str, ...]]:
    return [(c.change, c.target, c.keyspace, c.name) for c in schema_changes(before, after)]


def test_nothing_changed() -> None:
    state = book("CREATE TYPE u (a int)", "CREATE TABLE t (k int PRIMARY KEY, v u)").state
    assert changes(state, state) == []
    # An equal state that was loaded afresh is no change either.
    again = book("CREATE TYPE u (a int)", "CREATE TABLE t (k int PRIMARY KEY, v u)").state
    assert changes(state, again) == []


def test_many_changes_in_one_step_come_in_a_usable_order() -> None:
    full = book(
        "CREATE TYPE u (a int)",
        "CREATE TABLE t (k int PRIMARY KEY, v u)",
        "CREATE TABLE s (k int PRIMARY KEY)",
        f"CREATE KEYSPACE other {SIMPLE}",
    ).state
    assert changes(EMPTY, full) == [
        ("CREATED", "KEYSPACE", "ks", ""),
        ("CREATED", "TYPE", "ks", "u"),
        ("CREATED", "TABLE", "ks", "s"),
        ("CREATED", "TABLE", "ks", "t"),
        ("CREATED", "KEYSPACE", "other", ""),
    ]
    # Drivers drop what is inside a keyspace along with it.
    assert changes(full, EMPTY) == [("DROPPED", "KEYSPACE", "ks", ""), ("DROPPED", "KEYSPACE", "other", "")]
    empty = book(f"CREATE KEYSPACE other {SIMPLE}").state
    assert changes(full, empty) == [
        ("DROPPED", "TABLE", "ks", "s"),
        ("DROPPED", "TABLE", "ks", "t"),
        ("DROPPED", "TYPE", "ks", "u"),
    ]


def test_a_table_made_anew_is_dropped_and_created() -> None:
    schema = SchemaBook()
    schema.run(f"CREATE KEYSPACE ks {SIMPLE}", "CREATE TABLE t (k int PRIMARY KEY)")
    before = schema.state
    schema.run("DROP TABLE t", "CREATE TABLE t (k int PRIMARY KEY)")
    assert changes(before, schema.state) == [("DROPPED", "TABLE", "ks", "t"), ("CREATED", "TABLE", "ks", "t")]


def test_a_keyspace_counts_as_updated_only_for_its_own_properties() -> None:
    schema = book("CREATE TABLE t (k int PRIMARY KEY)")
    before = schema.state
    schema.run("ALTER TABLE t ADD v int", "ALTER KEYSPACE ks WITH durable_writes = false")
    assert changes(before, schema.state) == [
        ("UPDATED", "KEYSPACE", "ks", ""),
        ("UPDATED", "TABLE", "ks", "t"),
    ]
