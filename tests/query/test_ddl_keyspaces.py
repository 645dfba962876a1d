"""CREATE, ALTER and DROP KEYSPACE."""
# One case, one line.
# ruff: noqa: E501

import pytest

from belvedere.meta import records
from belvedere.meta.state import advance
from belvedere.meta.store import Put
from belvedere.query.errors import (
    AlreadyExists,
    ConfigurationError,
    CQLError,
    InvalidRequest,
    SyntaxException,
    Unauthorized,
)
from tests.query.schema_book import SIMPLE, SchemaBook, book

LOCATOR = "org.apache.cassandra.locator."


def test_create_alter_drop() -> None:
    schema = SchemaBook()
    change = schema.run(f"CREATE KEYSPACE k {SIMPLE}")
    assert change is not None
    assert (change.change, change.target, change.keyspace, change.name) == ("CREATED", "KEYSPACE", "k", "")
    assert schema.events == [("CREATED", "KEYSPACE", "k", "")]
    keyspace = schema.state.keyspaces["k"]
    assert keyspace.replication == {"class": f"{LOCATOR}SimpleStrategy", "replication_factor": "1"}
    assert keyspace.durable_writes

    change = schema.run("ALTER KEYSPACE k WITH durable_writes = false")
    assert change is not None
    assert change.change == "UPDATED"
    assert schema.events == [("UPDATED", "KEYSPACE", "k", "")]
    assert schema.state.keyspaces["k"].replication == keyspace.replication
    assert not schema.state.keyspaces["k"].durable_writes

    change = schema.run("DROP KEYSPACE k")
    assert change is not None
    assert change.change == "DROPPED"
    assert schema.events == [("DROPPED", "KEYSPACE", "k", "")]
    assert dict(schema.state.keyspaces) == {}


def test_what_is_so_already_changes_nothing() -> None:
    schema = book()
    for text in (
        f"CREATE KEYSPACE IF NOT EXISTS ks {SIMPLE}",
        "ALTER KEYSPACE ks WITH durable_writes = true",
        f"ALTER KEYSPACE ks {SIMPLE}",
        "ALTER KEYSPACE IF EXISTS nope WITH durable_writes = true",
        "DROP KEYSPACE IF EXISTS nope",
    ):
        assert schema.run(text) is None


def test_dropping_a_keyspace_leaves_nothing_behind() -> None:
    schema = book(
        "CREATE TYPE inner_type (a int)",
        "CREATE TYPE outer_type (b frozen<inner_type>)",
        "CREATE TABLE t (k int PRIMARY KEY, v frozen<outer_type>)",
        "CREATE TABLE u (k int PRIMARY KEY)",
    )
    schema.run("DROP KEYSPACE ks")
    assert set(schema.state.entries) == {records.TABLET_SEQUENCE}
    assert dict(schema.state.tablet_maps) == {}


def test_network_topology() -> None:
    schema = SchemaBook()
    for name, datacenter in (("a", "east"), ("b", "east"), ("c", "west")):
        node = records.encode(records.NodeRecord("host", 1, datacenter))
        schema.state = advance(schema.state, schema.state.revision + 1, (Put(records.node_key(name), node),))
    change = schema.run(
        "CREATE KEYSPACE k WITH replication = "
        "{'class': 'NetworkTopologyStrategy', 'replication_factor': 2, 'west': 1}"
    )
    assert change is not None
    assert change.warnings == ()
    replication = {"class": f"{LOCATOR}NetworkTopologyStrategy", "east": "2", "west": "1"}
    assert schema.state.keyspaces["k"].replication == replication
    change = schema.run(
        f"ALTER KEYSPACE k WITH replication = {{'class': '{LOCATOR}NetworkTopologyStrategy', 'west': 3}}"
    )
    assert change is not None
    assert change.warnings == (
        "Your replication factor 3 for keyspace k is higher than the number of nodes 1 in datacenter west",
    )
    with pytest.raises(ConfigurationError, match=r"Unrecognized strategy option \{north\} passed to Network"):
        schema.run("ALTER KEYSPACE k WITH replication = {'class': 'NetworkTopologyStrategy', 'north': 1}")


def replication(text: str) -> str:
    return f"CREATE KEYSPACE k WITH replication = {{{text}}}"


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (f"CREATE KEYSPACE ks {SIMPLE}", AlreadyExists, 'Cannot add existing keyspace "ks"'),
        ("CREATE KEYSPACE k WITH durable_writes = true", InvalidRequest, "Missing mandatory option 'replication'"),
        ("CREATE KEYSPACE k WITH replication = 'x'", SyntaxException, "Invalid value for property 'replication'. It should be a map."),
        (f"CREATE KEYSPACE k {SIMPLE} AND foo = 1", SyntaxException, "Unknown property 'foo'"),
        (f"CREATE KEYSPACE k {SIMPLE} AND durable_writes = 7", SyntaxException, "Invalid boolean value 7 for 'durable_writes'"),
        (replication("'replication_factor': 1"), ConfigurationError, "Missing replication strategy class"),
        (replication("'class': 'SimpleStrategy', 'replication_factor': 'x'"), ConfigurationError, "Replication factor must be numeric; found x"),
        (replication("'class': 'SimpleStrategy', 'replication_factor': -1"), ConfigurationError, "Replication factor must be non-negative; found -1"),
        (replication("'class': 'SimpleStrategy', 'replication_factor': '3/1'"), ConfigurationError, "Transient replication is not supported"),
        (replication("'class': 'SimpleStrategy', 'replication_factor': 1, 'dc': 1"), ConfigurationError, "Unrecognized strategy option {dc} passed to SimpleStrategy for keyspace k"),
        (replication("'class': 'Nope', 'replication_factor': 1"), ConfigurationError, f"Unable to find replication strategy class '{LOCATOR}Nope'"),
        (f'CREATE KEYSPACE "a-b" {SIMPLE}', InvalidRequest, 'Keyspace name must not be empty, more than 48 characters long, or contain non-alphanumeric-underscore characters (got "a-b")'),
        (f"CREATE KEYSPACE {'x' * 49} {SIMPLE}", InvalidRequest, f'Keyspace name must not be empty, more than 48 characters long, or contain non-alphanumeric-underscore characters (got "{"x" * 49}")'),
        (f"CREATE KEYSPACE system {SIMPLE}", Unauthorized, "system keyspace is not user-modifiable."),
        ("ALTER KEYSPACE system_schema WITH durable_writes = false", Unauthorized, "system_schema keyspace is not user-modifiable."),
        ("DROP KEYSPACE system", Unauthorized, "system keyspace is not user-modifiable."),
        ("DROP KEYSPACE nope", InvalidRequest, "Keyspace 'nope' doesn't exist"),
        ("ALTER KEYSPACE nope WITH durable_writes = false", InvalidRequest, "Keyspace 'nope' doesn't exist"),
    ],
)  # fmt: skip
def test_refusals(text: str, kind: type[CQLError], message: str) -> None:
    with pytest.raises(CQLError) as caught:
        book().run(text)
    assert (type(caught.value), caught.value.message) == (kind, message)


def test_a_name_of_48_characters_is_fine() -> None:
    schema = book(f"CREATE KEYSPACE {'x' * 48} {SIMPLE}", f'CREATE KEYSPACE "Caps_1" {SIMPLE}')
    assert set(schema.state.keyspaces) == {"ks", "x" * 48, "Caps_1"}
