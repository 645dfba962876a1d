"""Statements about tables where nodes keep tablets for each other."""

import pytest

from belvedere.meta.store import first_failure
from belvedere.query.errors import InvalidRequest
from tests.cluster.places import node_entries, state_of
from tests.query.schema_book import SchemaBook

VIEW = (
    "CREATE MATERIALIZED VIEW v AS SELECT * FROM t WHERE w IS NOT NULL AND k IS NOT NULL PRIMARY KEY (w, k)"
)


def cluster(factor: int, nodes: str = "abc") -> SchemaBook:
    made = SchemaBook(nodes=node_entries(nodes))
    made.run(
        f"CREATE KEYSPACE ks WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {factor}}}"
    )
    return made


def test_tables_and_views_are_spread_over_the_nodes() -> None:
    schema = cluster(2)
    schema.run("CREATE TABLE t (k int PRIMARY KEY, w int)", VIEW)
    for name in ("t", "v"):
        tablets = schema.state.tablet_maps[schema.table(name).id].tablets
        assert len(tablets) == 6
        assert {tablet.primary for tablet in tablets} == {"a", "b", "c"}
        assert all(len(tablet.replicas) == 2 and tablet.epoch == 1 for tablet in tablets)
        assert all(tablet.in_sync == tablet.replicas for tablet in tablets)
        assert all(tablet.primary in tablet.replicas for tablet in tablets)


def test_the_option_still_says_how_many() -> None:
    schema = cluster(3)
    schema.run("CREATE TABLE t (k int PRIMARY KEY) WITH tablets = {'initial': 5}")
    assert len(schema.state.tablet_maps[schema.table().id].tablets) == 5


def test_too_few_nodes_are_told_of() -> None:
    schema = SchemaBook(nodes=node_entries("ab"))
    made = schema.run(
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}"
    )
    told = "Your replication factor 3 for keyspace ks is higher than the number of nodes 2"
    assert made is not None
    assert made.warnings == (told,)
    for text in ("CREATE TABLE t (k int PRIMARY KEY, w int)", VIEW):
        made = schema.run(text)
        assert made is not None
        assert made.warnings == (told,)
        assert all(
            len(tablet.replicas) == 2 for tablet in schema.state.tablet_maps[schema.table().id].tablets
        )


def test_a_keyspace_of_no_replicas_has_no_tables() -> None:
    with pytest.raises(InvalidRequest, match=r"Nobody would keep table ks\.t"):
        cluster(0).run("CREATE TABLE t (k int PRIMARY KEY)")


def test_other_replication_is_that_of_new_tables() -> None:
    schema = cluster(1)
    schema.run("CREATE TABLE t (k int PRIMARY KEY)")
    before = schema.state.tablet_maps
    made = schema.run(
        "ALTER KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}"
    )
    assert made is not None
    assert made.warnings == ("The tables of ks keep the replicas that they have: only new ones follow this",)
    assert schema.state.tablet_maps is before
    schema.run("CREATE TABLE u (k int PRIMARY KEY)")
    assert all(len(tablet.replicas) == 2 for tablet in schema.state.tablet_maps[schema.table("u").id].tablets)


def test_a_node_is_not_removed_while_it_gets_tablets() -> None:
    schema = cluster(3)
    asserts, _ = schema.proposed("CREATE TABLE t (k int PRIMARY KEY)")
    assert first_failure(asserts, schema.state.entries) is None
    moved = state_of({"nodes/b": schema.state.entries["nodes/b"].value}, schema.state)
    failed = first_failure(asserts, moved.entries)
    assert failed is not None
    assert failed.key == "nodes/b"
