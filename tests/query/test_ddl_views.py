"""CREATE, ALTER and DROP MATERIALIZED VIEW, and what views mean to statements about their base."""
# One case, one line.
# ruff: noqa: E501

import msgspec
import pytest

from belvedere.cql.parser import parse_statement
from belvedere.meta import records
from belvedere.meta.state import EMPTY, advance, from_loaded
from belvedere.meta.store import Loaded, Put
from belvedere.model.schema import Table, ViewDefinition
from belvedere.query.errors import (
    AlreadyExists,
    ConfigurationError,
    CQLError,
    InvalidRequest,
    SyntaxException,
    Unauthorized,
)
from belvedere.query.schema.events import schema_changes
from belvedere.query.schema.table_options import DEFAULTS
from belvedere.query.schema_view import KeyspacesView
from belvedere.query.statements import plan_statement
from tests.query.schema_book import SIMPLE, SchemaBook, book, columns

BASE = """CREATE TABLE t (k int, c int, "V v" text, l list<int>, m frozen<map<text, int>>, u frozen<ty>, d duration, n int,
    PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)"""
ALL = 'k IS NOT NULL AND c IS NOT NULL AND "V v" IS NOT NULL'
VIEW = f'CREATE MATERIALIZED VIEW v AS SELECT * FROM t WHERE {ALL} PRIMARY KEY ("V v", k, c)'
KEYS = "k IS NOT NULL AND c IS NOT NULL"
SMALL = f"CREATE MATERIALIZED VIEW s AS SELECT k, c FROM t WHERE {KEYS} PRIMARY KEY (c, k)"


def made(*texts: str) -> SchemaBook:
    return book("CREATE TYPE ty (a int, b text)", BASE, *texts)


def definition(table: Table) -> ViewDefinition:
    assert table.view is not None
    return table.view


def message(schema: SchemaBook, text: str, kind: type[CQLError] = InvalidRequest) -> str:
    """Why the statement is refused; the schema stays as it was."""
    before = schema.state
    with pytest.raises(CQLError) as caught:
        schema.run(text)
    assert type(caught.value) is kind
    assert schema.state is before
    return caught.value.message


# --- CREATE ------------------------------------------------------------------------------------------


def test_a_view_of_everything() -> None:
    schema = made()
    change = schema.run(VIEW)
    assert change is not None
    assert (change.change, change.target, change.keyspace, change.name) == ("CREATED", "TABLE", "ks", "v")
    assert schema.events == [("CREATED", "TABLE", "ks", "v")]
    view = schema.table("v")
    assert columns(view) == {
        "V v": ("text", "partition_key", 0, False),
        "k": ("int", "clustering", 0, False),
        "c": ("int", "clustering", 1, True),
        "l": ("list<int>", "regular", 0, False),
        "m": ("frozen<map<text, int>>", "regular", 1, False),
        "u": ("frozen<ty>", "regular", 2, False),
        "d": ("duration", "regular", 3, False),
        "n": ("int", "regular", 4, False),
        "_write_times": ("blob", "regular", 5, False),
    }
    assert [column.name for column in view.columns if column.hidden] == ["_write_times"]
    assert (view.regular_ordinals, view.static_ordinals) == (6, 0)
    assert view.view == ViewDefinition("t", schema.table().id, ALL, True)
    assert view.options == DEFAULTS
    assert view.id != schema.table().id
    assert len(schema.state.tablet_maps[view.id].tablets) == 4
    assert schema.state.keyspaces["ks"].views_of(schema.table()) == (view,)
    assert [column.name for column in view.select_order] == ["V v", "k", "c", "d", "l", "m", "n", "u"]


def test_a_view_of_some_columns() -> None:
    schema = made(
        """CREATE MATERIALIZED VIEW "Mine" AS SELECT n, k, c FROM ks.t WHERE c IN (1, 2) AND k > 3 AND k <= 9 AND n = 4
           AND m IS NOT NULL AND "V v" >= 'it''s' AND u = {a: 1, b: 'x'} AND l IS NOT NULL AND m CONTAINS KEY 'z'
           PRIMARY KEY ((n, k), c) WITH CLUSTERING ORDER BY (c ASC) AND tablets = {'initial': 2} AND comment = 'x'
           AND synchronous_updates = true AND read_while_building = 'no'
           AND build = {'wait': 'TRUE', 'max_rate': 5000, 'priority': '-7'}"""
    )
    view = schema.table("Mine")
    assert columns(view) == {
        "n": ("int", "partition_key", 0, False),
        "k": ("int", "partition_key", 1, False),
        "c": ("int", "clustering", 0, False),
        "_write_times": ("blob", "regular", 0, False),
    }
    assert definition(view).where == (
        "c IN (1, 2) AND k > 3 AND k <= 9 AND n = 4 AND m IS NOT NULL AND \"V v\" >= 'it''s' "
        "AND u = {a: 1, b: 'x'} AND l IS NOT NULL AND m CONTAINS KEY 'z'"
    )
    assert not definition(view).selects_all
    assert view.options == {
        **DEFAULTS,
        "tablets": {"initial": "2"},
        "comment": "x",
        "synchronous_updates": True,
        "read_while_building": False,
        "build": {"max_rate": "5000", "priority": "-7", "wait": "true"},
    }
    assert len(schema.state.tablet_maps[view.id].tablets) == 2


def test_clustering_order() -> None:
    """Given for all columns or for none; what is not given stays as in the base."""
    schema = made(SMALL, SMALL.replace("VIEW s", "VIEW r").replace("(c, k)", "(k, c)"))
    assert not schema.table("s").by_name["c"].descending
    assert schema.table("r").by_name["c"].descending
    schema.run(VIEW + " WITH CLUSTERING ORDER BY (k DESC, c ASC)")
    assert [column.descending for column in schema.table("v").clustering] == [True, False]


def test_several_views_and_names() -> None:
    schema = made(VIEW, SMALL)
    assert {view.name for view in schema.state.keyspaces["ks"].views_of(schema.table())} == {"v", "s"}
    assert schema.run(VIEW.replace("VIEW v", "VIEW IF NOT EXISTS v")) is None
    assert message(schema, VIEW, AlreadyExists) == 'Cannot add already existing table "v" to keyspace "ks"'
    taken = "Cannot create materialized view 't' - a table with the same name already exists"
    assert message(schema, VIEW.replace("VIEW v", "VIEW t")) == taken
    assert message(schema, VIEW.replace("VIEW v", "VIEW IF NOT EXISTS t")) == taken
    table = "Cannot create table 'v' - a materialized view with the same name already exists"
    assert message(schema, "CREATE TABLE IF NOT EXISTS v (k int PRIMARY KEY)") == table
    long_name = message(schema, VIEW.replace("VIEW v", 'VIEW "v v"'))
    assert long_name.startswith("Table name must not be empty, more than 48 characters long")


def test_records_keep_everything_and_older_ones_can_be_read() -> None:
    schema = made(VIEW)
    state = schema.state
    assert from_loaded(Loaded(state.revision, state.entries)).keyspaces == state.keyspaces
    key = records.table_key("ks", "t")
    record = msgspec.json.decode(state.entries[key].value)
    del record["view"]
    record["columns"] = [column[:5] for column in record["columns"]]
    older = advance(state, state.revision + 1, (Put(key, msgspec.json.encode(record)),))
    assert older.table("ks", "t") == schema.table()


INV, SYN, CONF = InvalidRequest, SyntaxException, ConfigurationError
V = '"V v"'
CASES = [
    (f"v AS SELECT * FROM nope WHERE {ALL} PRIMARY KEY ({V}, k, c)", INV, "Base table 'nope' doesn't exist"),
    (f"nope.v AS SELECT * FROM nope.t WHERE {ALL} PRIMARY KEY ({V}, k, c)", INV, "Keyspace 'nope' doesn't exist"),
    (f"v AS SELECT * FROM other.t WHERE {ALL} PRIMARY KEY ({V}, k, c)", INV, "Cannot create a materialized view on a table in a different keyspace"),
    (f"system.v AS SELECT * FROM system.local WHERE {ALL} PRIMARY KEY ({V}, k, c)", Unauthorized, "system keyspace is not user-modifiable."),
    ("v AS SELECT * FROM cnt WHERE k IS NOT NULL PRIMARY KEY (k)", INV, "Materialized views are not supported on counter tables"),
    (f"v AS SELECT * FROM s WHERE {KEYS} PRIMARY KEY (k, c)", INV, "Materialized views cannot be created against other materialized views"),
    (f"v AS SELECT k, c AS x FROM t WHERE {KEYS} PRIMARY KEY (k, c)", INV, "Cannot use aliases when defining a materialized view (got c AS x)"),
    (f"v AS SELECT k, c, ttl(n) FROM t WHERE {KEYS} PRIMARY KEY (k, c)", INV, "Can only select columns by name when defining a materialized view (got ttl(n))"),
    (f"v AS SELECT k, c, CAST(n AS text) FROM t WHERE {KEYS} PRIMARY KEY (k, c)", INV, "Can only select columns by name when defining a materialized view (got CAST(n AS text))"),
    (f"v AS SELECT count(*) FROM t WHERE {KEYS} PRIMARY KEY (k, c)", INV, "Can only select columns by name when defining a materialized view (got count(*))"),
    (f"v AS SELECT k, c, u.a FROM t WHERE {KEYS} PRIMARY KEY (k, c)", INV, "Can only select columns by name when defining a materialized view (got u.a)"),
    (f"v AS SELECT k, c, c FROM t WHERE {KEYS} PRIMARY KEY (k, c)", INV, "Duplicate column 'c' in SELECT clause for materialized view 'v'"),
    (f"v AS SELECT k, c, x FROM t WHERE {KEYS} PRIMARY KEY (k, c)", INV, "Undefined column name x in table ks.t"),
    (f"v AS SELECT * FROM st WHERE {KEYS} PRIMARY KEY (k, c)", INV, "Cannot include static column 's' in materialized view 'v'"),
    (f"v AS SELECT k, c, s FROM st WHERE {KEYS} PRIMARY KEY (k, c)", INV, "Cannot include static column 's' in materialized view 'v'"),
    (f"v AS SELECT k, c FROM st WHERE {KEYS} AND s = 1 PRIMARY KEY (k, c)", INV, "WHERE clause for materialized view 'v' cannot restrict static column 's'"),
    (f"v AS SELECT k, c FROM t WHERE {KEYS} PRIMARY KEY (n, k, c)", INV, "Unknown column 'n' referenced in PRIMARY KEY for materialized view 'v'"),
    (f"v AS SELECT k, c FROM t WHERE {KEYS} PRIMARY KEY (k, c, c)", INV, "Duplicate column 'c' in PRIMARY KEY clause for materialized view 'v'"),
    (f"v AS SELECT * FROM t WHERE {KEYS} PRIMARY KEY (l, k, c)", INV, "Invalid non-frozen collection type list<int> for PRIMARY KEY column 'l'"),
    (f"v AS SELECT * FROM t WHERE {KEYS} PRIMARY KEY (d, k, c)", INV, "duration type is not supported for PRIMARY KEY column 'd'"),
    (f"v AS SELECT * FROM t WHERE {ALL} PRIMARY KEY ({V}, k)", INV, "Cannot create materialized view 'v' without primary key columns c from base table 't'"),
    (f"v AS SELECT * FROM t WHERE {ALL} PRIMARY KEY ({V})", INV, "Cannot create materialized view 'v' without primary key columns k, c from base table 't'"),
    (f"v AS SELECT * FROM t WHERE {ALL} AND n IS NOT NULL PRIMARY KEY ({V}, n, k, c)", INV, "Cannot include more than one non-primary key column in materialized view primary key (got V v, n)"),
    (f"v AS SELECT * FROM t WHERE {KEYS} PRIMARY KEY (n, k, c)", INV, "Primary key column 'n' is required to be filtered by 'IS NOT NULL'"),
    ("v AS SELECT * FROM t PRIMARY KEY (c, k)", INV, "Primary key column 'c' is required to be filtered by 'IS NOT NULL'"),
    (f"v AS SELECT * FROM t WHERE {KEYS} PRIMARY KEY (k, c) WITH CLUSTERING ORDER BY (k ASC)", INV, "Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive"),
    (f"v AS SELECT * FROM t WHERE {ALL} PRIMARY KEY ({V}, k, c) WITH CLUSTERING ORDER BY (k ASC)", INV, "Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive"),
    (f"v AS SELECT * FROM t WHERE {KEYS} PRIMARY KEY (k, c) WITH CLUSTERING ORDER BY (c ASC, c ASC)", INV, "Duplicate column 'c' in CLUSTERING ORDER BY clause for view 'v'"),
    (f"v AS SELECT * FROM t WHERE {KEYS} PRIMARY KEY (k, c) WITH COMPACT STORAGE", INV, "Cannot use 'COMPACT STORAGE' when defining a materialized view"),
    (f"v AS SELECT * FROM t WHERE {KEYS} AND n = ? PRIMARY KEY (k, c)", INV, "Cannot use query parameters in CREATE MATERIALIZED VIEW statements"),
    (f"v AS SELECT * FROM t WHERE {KEYS} AND n IN :ns PRIMARY KEY (k, c)", INV, "Cannot use query parameters in CREATE MATERIALIZED VIEW statements"),
    (f"v AS SELECT * FROM t WHERE {KEYS} AND x = 1 PRIMARY KEY (k, c)", INV, "Undefined column name x in table ks.t"),
    (f"v AS SELECT * FROM t WHERE {KEYS} AND n = 'a' PRIMARY KEY (k, c)", INV, 'Invalid STRING constant (a) for "n" of type int'),
    (f"v AS SELECT * FROM t WHERE {KEYS} AND n = null PRIMARY KEY (k, c)", INV, "Unsupported null value for column n"),
    (f"v AS SELECT * FROM t WHERE {KEYS} AND n != 1 PRIMARY KEY (k, c)", INV, 'Unsupported "!=" relation: n != 1'),
    (f"v AS SELECT * FROM t WHERE {KEYS} AND n = 1 AND n = 2 PRIMARY KEY (k, c)", INV, "n cannot be restricted by more than one relation if it includes an Equal"),
    (f"v AS SELECT * FROM t WHERE {KEYS} AND n = blobasint(0x00000001) PRIMARY KEY (k, c)", INV, "WHERE clause for materialized view 'v' can only contain literals (got blobasint(0x00000001))"),
    (f"v AS SELECT * FROM t WHERE {KEYS} AND n IN (1, CAST(2 AS int)) PRIMARY KEY (k, c)", INV, "WHERE clause for materialized view 'v' can only contain literals (got CAST(2 AS int))"),
    (f"v AS SELECT * FROM t WHERE {KEYS} AND token(k) > 5 PRIMARY KEY (k, c)", INV, "WHERE clause for materialized view 'v' cannot contain the token function"),
    (f"v AS SELECT * FROM t WHERE {KEYS} AND expr(i, 'x') PRIMARY KEY (k, c)", INV, "WHERE clause for materialized view 'v' cannot contain custom index expressions"),
    (f"v AS SELECT * FROM t WHERE {KEYS} AND l CONTAINS 1 PRIMARY KEY (k, c)", INV, "WHERE clause for materialized view 'v' can restrict non-frozen column 'l' only with 'IS NOT NULL'"),
    ("v AS SELECT * FROM wt WHERE k IS NOT NULL PRIMARY KEY (k)", INV, "Column name '_write_times' is reserved in materialized views"),
    (f"v AS SELECT * FROM t WHERE {KEYS} PRIMARY KEY (k, c) WITH default_time_to_live = 5", INV, "Cannot set default_time_to_live for a materialized view. Data in a materialized view always expire at the same time than the corresponding data in the parent table."),
    (f"v AS SELECT * FROM t WHERE {KEYS} PRIMARY KEY (k, c) WITH foo = 5", SYN, "Unknown property 'foo'"),
    (f"v AS SELECT * FROM t WHERE {KEYS} PRIMARY KEY (k, c) WITH build = 'now'", SYN, "Invalid value for property 'build'. It should be a map."),
    (f"v AS SELECT * FROM t WHERE {KEYS} PRIMARY KEY (k, c) WITH build = {{'when': 'now'}}", CONF, "Invalid sub-option 'when' for the 'build' option"),
    (f"v AS SELECT * FROM t WHERE {KEYS} PRIMARY KEY (k, c) WITH build = {{'wait': 'maybe'}}", SYN, "Invalid boolean value maybe for 'wait'"),
    (f"v AS SELECT * FROM t WHERE {KEYS} PRIMARY KEY (k, c) WITH build = {{'max_rate': 0}}", CONF, "max_rate must be greater than or equal to 1 (got 0)"),
    (f"v AS SELECT * FROM t WHERE {KEYS} PRIMARY KEY (k, c) WITH build = {{'priority': 101}}", CONF, "priority must be between -100 and 100 (got 101)"),
    (f"v AS SELECT * FROM t WHERE {KEYS} PRIMARY KEY (k, c) WITH build = {{'wait': true, 'hold': true}}", CONF, "A build cannot be waited for while it is held: give 'wait' or 'hold'"),
    (f"v AS SELECT * FROM t WHERE {KEYS} PRIMARY KEY (k, c) WITH read_while_building = 'perhaps'", SYN, "Invalid boolean value perhaps for 'read_while_building'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "why"), CASES)
def test_create_refused(text: str, kind: type[CQLError], why: str) -> None:
    schema = made(
        "CREATE TABLE cnt (k int PRIMARY KEY, n counter)",
        "CREATE TABLE st (k int, c int, s int static, PRIMARY KEY (k, c))",
        'CREATE TABLE wt (k int PRIMARY KEY, "_write_times" blob)',
        SMALL,
        f"CREATE KEYSPACE other {SIMPLE}",
        "CREATE TABLE other.t (k int PRIMARY KEY)",
    )
    assert message(schema, f"CREATE MATERIALIZED VIEW {text}", kind) == why


def test_gc_grace_is_needed() -> None:
    schema = made()
    assert message(schema, VIEW + " WITH gc_grace_seconds = 0").startswith(
        "Cannot create materialized view 'v' with gc_grace_seconds of 0, since "
    )
    schema.run(VIEW)
    assert message(schema, "ALTER MATERIALIZED VIEW v WITH gc_grace_seconds = 0").startswith(
        "Cannot alter gc_grace_seconds of a materialized view to 0, since "
    )


# --- ALTER and DROP ----------------------------------------------------------------------------------


def test_alter_view() -> None:
    schema = made(VIEW + " WITH build = {'hold': true}")
    before = schema.table("v")
    change = schema.run("ALTER MATERIALIZED VIEW v WITH comment = 'x' AND build = {'max_rate': 7}")
    assert change is not None
    assert (change.change, change.target, change.name) == ("UPDATED", "TABLE", "v")
    assert schema.events == [("UPDATED", "TABLE", "ks", "v")]
    view = schema.table("v")
    assert view.options == {**DEFAULTS, "comment": "x", "build": {"max_rate": "7"}}
    assert (view.id, view.columns, view.view) == (before.id, before.columns, before.view)
    assert schema.run("ALTER MATERIALIZED VIEW v WITH comment = 'x'") is None
    assert schema.run("ALTER MATERIALIZED VIEW IF EXISTS nope WITH comment = 'x'") is None
    assert schema.run("ALTER MATERIALIZED VIEW IF EXISTS t WITH comment = 'x'") is None
    for name in ("nope", "t"):
        missing = f"Materialized view 'ks.{name}' doesn't exist"
        assert message(schema, f"ALTER MATERIALIZED VIEW {name} WITH comment = 'x'") == missing
        assert message(schema, f"DROP MATERIALIZED VIEW {name}") == missing
    tablets = "ALTER MATERIALIZED VIEW v WITH tablets = {'initial': 3}"
    assert message(schema, tablets) == "'tablets' can only be given when a table is created"
    assert message(schema, "ALTER MATERIALIZED VIEW v WITH default_time_to_live = 1").startswith(
        "Forbidden default_time_to_live detected for a materialized view."
    )
    system = "ALTER MATERIALIZED VIEW system.v WITH comment = 'x'"
    assert message(schema, system, Unauthorized) == "system keyspace is not user-modifiable."


def test_options_of_views_are_not_options_of_tables() -> None:
    schema = made()
    for option in ("build = {}", "read_while_building = true", "synchronous_updates = true"):
        name = option.split(" ")[0]
        assert (
            message(schema, f"ALTER TABLE t WITH {option}", SyntaxException) == f"Unknown property '{name}'"
        )


def test_drop_view_and_keyspace() -> None:
    schema = made(VIEW, SMALL)
    view = schema.table("v")
    schema.run("DROP MATERIALIZED VIEW v")
    assert schema.events == [("DROPPED", "TABLE", "ks", "v")]
    assert view.id not in schema.state.tablet_maps
    assert schema.run("DROP MATERIALIZED VIEW IF EXISTS v") is None
    schema.run("DROP KEYSPACE ks")
    assert dict(schema.state.tablet_maps) == {}
    assert dict(schema.state.tables_by_id) == {}


# --- what views mean to their base -------------------------------------------------------------------


def test_tables_and_views_are_not_confused() -> None:
    schema = made(VIEW, SMALL)
    assert message(schema, "DROP TABLE v") == message(schema, "DROP TABLE IF EXISTS v")
    assert message(schema, "DROP TABLE v") == (
        "Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW instead."
    )
    depends = "Cannot drop a table when materialized views still depend on it (s,v)"
    assert message(schema, "DROP TABLE t") == depends
    alter = "Cannot use ALTER TABLE on a materialized view; use ALTER MATERIALIZED VIEW instead"
    for action in ("ADD x int", "DROP n", "RENAME k TO x", "WITH comment = 'x'"):
        assert message(schema, f"ALTER TABLE v {action}") == alter
    schema.run("DROP MATERIALIZED VIEW v", "DROP MATERIALIZED VIEW s", "DROP TABLE t")


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO v (k, c, \"V v\") VALUES (1, 2, 'x')",
        "INSERT INTO v JSON '{}'",
        "UPDATE v SET n = 1 WHERE k = 1",
        "DELETE FROM v WHERE k = 1",
        "BEGIN BATCH DELETE FROM v WHERE k = 1 APPLY BATCH",
    ],
)
def test_views_are_not_written_to(text: str) -> None:
    schema = made(VIEW)
    with pytest.raises(InvalidRequest, match=r"^Cannot directly modify a materialized view$"):
        plan_statement(parse_statement(text), KeyspacesView(schema.state.keyspaces), "ks")


@pytest.mark.parametrize(
    "text",
    [
        'SELECT "_write_times" FROM v',
        'SELECT writetime("_write_times") FROM v',
        'SELECT * FROM v WHERE "_write_times" = 0x00 ALLOW FILTERING',
    ],
)
def test_the_hidden_column_is_not_there(text: str) -> None:
    schema = made(VIEW)
    view = KeyspacesView(schema.state.keyspaces)
    with pytest.raises(InvalidRequest, match=r"^Undefined column name _write_times in table ks\.v$"):
        plan_statement(parse_statement(text), view, "ks")
    shown = plan_statement(parse_statement("SELECT * FROM v"), view, "ks").result_columns
    assert [column.name for column in shown] == ["V v", "k", "c", "d", "l", "m", "n", "u"]


def test_added_columns_join_the_views_of_everything() -> None:
    schema = made(VIEW, SMALL)
    small = schema.table("s")
    schema.run(
        "ALTER TABLE t ADD (x int, y list<text>, z int static)", "ALTER TABLE t ADD IF NOT EXISTS w int"
    )
    view = schema.table("v")
    found = columns(view)
    assert found["_write_times"] == ("blob", "regular", 5, False)
    assert [found[name] for name in "xyw"] == [
        ("int", "regular", 6, False),
        ("list<text>", "regular", 7, False),
        ("int", "regular", 8, False),
    ]
    assert "z" not in found
    assert view.regular_ordinals == 9
    assert schema.table("s") == small
    assert schema.events == [("UPDATED", "TABLE", "ks", "t"), ("UPDATED", "TABLE", "ks", "v")]
    why = "Column name '_write_times' is reserved in materialized views"
    assert message(schema, 'ALTER TABLE t ADD "_write_times" int') == why


def test_columns_of_a_base_stay() -> None:
    schema = made("ALTER TABLE t ADD s int static", SMALL)
    assert (
        message(schema, "ALTER TABLE t DROP n")
        == "Cannot drop column n on base table with materialized views"
    )
    assert message(schema, "ALTER TABLE t DROP k") == "Cannot drop PRIMARY KEY column k"
    schema.run("ALTER TABLE t DROP s", "DROP MATERIALIZED VIEW s", "ALTER TABLE t DROP n")


def test_a_base_does_not_become_a_counter_table() -> None:
    schema = book(
        "CREATE TABLE t (k int, c int, PRIMARY KEY (k, c))",
        f"CREATE MATERIALIZED VIEW v AS SELECT * FROM t WHERE {KEYS} PRIMARY KEY (c, k)",
    )
    why = "Materialized views are not supported on counter tables"
    assert message(schema, "ALTER TABLE t ADD n counter") == why


def test_renamed_keys_are_renamed_in_views() -> None:
    schema = made(
        VIEW,
        SMALL.replace(KEYS, "(c) > (5) AND k IN (1, 2) AND m CONTAINS 4"),
    )
    change = schema.run('ALTER TABLE t RENAME k TO tmp AND c TO k AND tmp TO "C c"')
    assert change is not None
    assert schema.events == [("UPDATED", "TABLE", "ks", name) for name in ("t", "s", "v")]
    view, small = schema.table("v"), schema.table("s")
    assert [c.name for c in (*view.partition_key, *view.clustering)] == ["V v", "C c", "k"]
    assert definition(view).where == '"C c" IS NOT NULL AND k IS NOT NULL AND "V v" IS NOT NULL'
    assert [c.name for c in (*small.partition_key, *small.clustering)] == ["k", "C c"]
    assert definition(small).where == '(k) > (5) AND "C c" IN (1, 2) AND m CONTAINS 4'
    why = "Column name '_write_times' is reserved in materialized views"
    assert message(schema, 'ALTER TABLE t RENAME k TO "_write_times"') == why


def test_user_types() -> None:
    schema = made(VIEW, SMALL.replace(KEYS, f"{KEYS} AND u = {{a: 1, b: 'x'}}"), "ALTER TYPE ty ADD z int")
    assert schema.table("v").by_name["u"].type == schema.table().by_name["u"].type
    why = "Cannot rename field b of type ty: it is used in the WHERE clause of materialized view s"
    assert message(schema, "ALTER TYPE ty RENAME b TO y") == why
    schema.run("ALTER TYPE ty RENAME z TO y")
    in_use = "Cannot drop user type 'ks.ty' as it is still used by tables [t]"
    assert message(schema, "DROP TYPE ty") == in_use


def test_events_in_an_order_that_drivers_can_follow() -> None:
    """A driver hangs a view on its base, whatever their names are."""
    with_view = made(f"CREATE MATERIALIZED VIEW a AS SELECT * FROM t WHERE {KEYS} PRIMARY KEY (c, k)").state
    without = book().state
    made_events = [(c.change, c.target, c.name) for c in schema_changes(EMPTY, with_view)]
    assert made_events[-2:] == [("CREATED", "TABLE", "t"), ("CREATED", "TABLE", "a")]
    gone = [(c.change, c.target, c.name) for c in schema_changes(with_view, without)]
    assert gone == [("DROPPED", "TABLE", "a"), ("DROPPED", "TABLE", "t"), ("DROPPED", "TYPE", "ty")]
