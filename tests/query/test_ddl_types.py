"""CREATE, ALTER and DROP TYPE."""
# One case, one line.
# ruff: noqa: E501

import pytest

from belvedere.query.errors import CQLError, InvalidRequest, SyntaxException, Unauthorized
from tests.query.schema_book import SchemaBook, book


def fields(schema: SchemaBook, name: str) -> list[tuple[str, str]]:
    return [(field, kind.name) for field, kind in schema.state.keyspaces["ks"].types[name].fields]


def test_create_alter_drop() -> None:
    schema = book()
    change = schema.run('CREATE TYPE addr (street text, tags set<text>, "Zip" int)')
    assert change is not None
    assert (change.change, change.target, change.keyspace, change.name) == ("CREATED", "TYPE", "ks", "addr")
    assert schema.events == [("CREATED", "TYPE", "ks", "addr")]
    assert fields(schema, "addr") == [("street", "text"), ("tags", "set<text>"), ("Zip", "int")]
    schema.run(
        "ALTER TYPE addr ADD n tuple<int, int>", 'ALTER TYPE addr RENAME street TO road AND "Zip" TO zip'
    )
    assert schema.events == [("UPDATED", "TYPE", "ks", "addr")]
    expected = [("road", "text"), ("tags", "set<text>"), ("zip", "int"), ("n", "frozen<tuple<int, int>>")]
    assert fields(schema, "addr") == expected
    assert schema.run("ALTER TYPE addr ADD IF NOT EXISTS road int") is None
    assert schema.run("ALTER TYPE addr RENAME IF EXISTS nope TO x") is None
    assert schema.run("ALTER TYPE IF EXISTS nope ADD x int") is None
    assert schema.run("CREATE TYPE IF NOT EXISTS addr (x int)") is None
    schema.run("DROP TYPE addr")
    assert schema.events == [("DROPPED", "TYPE", "ks", "addr")]
    assert schema.run("DROP TYPE IF EXISTS addr") is None


def test_a_changed_type_changes_what_uses_it() -> None:
    schema = book(
        "CREATE TYPE a (x int)",
        "CREATE TYPE b (a frozen<a>)",
        "CREATE TABLE t (k int PRIMARY KEY, v list<frozen<b>>)",
        "CREATE TABLE other (k int PRIMARY KEY)",
    )
    other = schema.table("other")
    schema.run("ALTER TYPE a ADD y text")
    assert schema.events == [
        ("UPDATED", "TYPE", "ks", "a"),
        ("UPDATED", "TYPE", "ks", "b"),
        ("UPDATED", "TABLE", "ks", "t"),
    ]
    inner = schema.state.keyspaces["ks"].types["a"]
    assert inner.frozen() in list(schema.table().by_name["v"].type.walk())
    assert schema.table("other") == other


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE TYPE addr (x int)", "A user type with name 'addr' already exists"),
        ("CREATE TYPE n (x int, x int)", "Duplicate field name 'x' in type 'n'"),
        ("CREATE TYPE n (x counter)", "A user type cannot contain counters"),
        ("CREATE TYPE n (x addr)", "A user type cannot contain non-frozen UDTs"),
        ("CREATE TYPE n (x frozen<n>)", "Unknown type ks.n"),
        ("CREATE TYPE n (x list<list<int>>)", "Non-frozen collections are not allowed inside collections: list<list<int>>"),
        ("CREATE TYPE nope.n (x int)", "Keyspace 'nope' doesn't exist"),
        ("ALTER TYPE nope ADD x int", "Type 'ks.nope' doesn't exist"),
        ("ALTER TYPE addr ADD street int", "Cannot add field street to type addr: a field with name street already exists"),
        ("ALTER TYPE addr ADD x frozen<person>", "Cannot add new field x of type frozen<person> to user type addr as it would create a circular reference"),
        ("ALTER TYPE addr ADD x frozen<addr>", "Cannot add new field x of type frozen<addr> to user type addr as it would create a circular reference"),
        ("ALTER TYPE key ADD x int", "Cannot add new field x of type int to user type key as the type is being used in partition key by the following tables: ks.keyed"),
        ("ALTER TYPE cells ADD x set<int>", "Non-frozen UDTs with nested non-frozen collections are not supported"),
        ("ALTER TYPE addr RENAME nope TO x", "Unknown field nope in user type addr"),
        ("ALTER TYPE addr RENAME street TO zip", "Duplicate field name zip in type ks.addr"),
        ("ALTER TYPE addr ALTER street TYPE int", "Altering field types is no longer supported"),
        ("DROP TYPE nope", "Type 'ks.nope' doesn't exist"),
        ("DROP TYPE addr", "Cannot drop user type 'ks.addr' as it is still used by user types [person]"),
        ("DROP TYPE person", "Cannot drop user type 'ks.person' as it is still used by tables [also, people]"),
    ],
)  # fmt: skip
def test_refusals(text: str, message: str) -> None:
    schema = book(
        "CREATE TYPE addr (street text, zip int)",
        "CREATE TYPE person (name text, home frozen<addr>)",
        "CREATE TYPE key (a int)",
        "CREATE TYPE cells (a int)",
        "CREATE TABLE people (k int PRIMARY KEY, p map<int, frozen<person>>)",
        "CREATE TABLE also (k int PRIMARY KEY, p tuple<int, person>)",
        "CREATE TABLE keyed (k frozen<list<frozen<key>>>, c int, PRIMARY KEY (k, c))",
        "CREATE TABLE held (k int PRIMARY KEY, v cells)",
    )
    with pytest.raises(CQLError) as caught:
        schema.run(text)
    assert (type(caught.value), caught.value.message) == (InvalidRequest, message)


def test_system_types() -> None:
    with pytest.raises(Unauthorized, match=r"^system keyspace is not user-modifiable.$"):
        book().run("CREATE TYPE system.x (a int)")


@pytest.mark.parametrize("name", ["int", "varchar", "list", "frozen", "macaddr"])
def test_reserved_names(name: str) -> None:
    with pytest.raises(SyntaxException, match=rf"^Invalid \(reserved\) user type name {name}$"):
        book().run(f'CREATE TYPE ks."{name}" (a int)')


def test_a_type_in_use_no_more_can_go() -> None:
    schema = book("CREATE TYPE a (x int)", "CREATE TABLE t (k int PRIMARY KEY, v frozen<a>)")
    schema.run("ALTER TABLE t DROP v", "DROP TYPE a")
    assert schema.table().dropped[0][1] == "frozen<tuple<int>>"
