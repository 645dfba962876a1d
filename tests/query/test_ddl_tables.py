"""CREATE TABLE, ALTER TABLE, DROP TABLE."""
# One case, one line.
# ruff: noqa: E501

import itertools

import pytest

from belvedere.model.token import MAX_TOKEN, MIN_TOKEN
from belvedere.query.errors import (
    AlreadyExists,
    ConfigurationError,
    CQLError,
    InvalidRequest,
    SyntaxException,
    Unauthorized,
)
from belvedere.query.schema.table_options import DEFAULTS
from tests.query.schema_book import SchemaBook, book, columns


def test_a_table_with_everything() -> None:
    schema = book("CREATE TYPE u (x int)")
    change = schema.run(
        """CREATE TABLE t (a int, v text, b text, s1 list<int> static, "C c" timeuuid, d date, w u, s2 int static,
           f frozen<map<text, frozen<u>>>, x vector<float, 3>, PRIMARY KEY ((b, a), "C c", d))
           WITH CLUSTERING ORDER BY ("C c" DESC) AND comment = 'it''s' AND gc_grace_seconds = 60
           AND default_time_to_live = 5"""
    )
    assert change is not None
    assert (change.change, change.target, change.keyspace, change.name) == ("CREATED", "TABLE", "ks", "t")
    assert change.warnings == ()
    assert schema.events == [("CREATED", "TABLE", "ks", "t")]
    table = schema.table()
    assert columns(table) == {
        "a": ("int", "partition_key", 1, False),
        "v": ("text", "regular", 0, False),
        "b": ("text", "partition_key", 0, False),
        "s1": ("list<int>", "static", 0, False),
        "C c": ("timeuuid", "clustering", 0, True),
        "d": ("date", "clustering", 1, False),
        "w": ("u", "regular", 1, False),
        "s2": ("int", "static", 1, False),
        "f": ("frozen<map<text, frozen<u>>>", "regular", 2, False),
        "x": ("vector<float, 3>", "regular", 3, False),
    }
    assert (table.regular_ordinals, table.static_ordinals, table.dropped) == (4, 2, ())
    given = {"comment": "it's", "gc_grace_seconds": 60, "default_time_to_live": 5}
    assert table.options == {**DEFAULTS, **given}
    assert (table.gc_grace_seconds, table.default_ttl) == (60, 5)


def test_inline_primary_key_and_explicit_keyspace() -> None:
    schema = book()
    schema.keyspace = None
    schema.run("CREATE TABLE ks.t (k int PRIMARY KEY)")
    assert columns(schema.table()) == {"k": ("int", "partition_key", 0, False)}
    with pytest.raises(InvalidRequest, match="No keyspace has been specified"):
        schema.run("CREATE TABLE t (k int PRIMARY KEY)")


@pytest.mark.parametrize(
    ("option", "count"),
    [
        ("", 4),
        ("WITH tablets = {'initial': 1}", 1),
        ("WITH tablets = {'initial': '7'}", 7),
        ("WITH tablets = {'initial': 1024}", 1024),
    ],
)
def test_tablets_cover_the_ring(option: str, count: int) -> None:
    schema = book("CREATE TABLE other (k int PRIMARY KEY)", f"CREATE TABLE t (k int PRIMARY KEY) {option}")
    tablets = schema.state.tablet_maps[schema.table().id].tablets
    assert len(tablets) == count
    assert (tablets[0].first_token, tablets[-1].last_token) == (MIN_TOKEN, MAX_TOKEN)
    for left, right in itertools.pairwise(tablets):
        assert left.last_token + 1 == right.first_token
    sizes = [tablet.last_token - tablet.first_token for tablet in tablets]
    assert max(sizes) - min(sizes) <= 1
    assert {(t.epoch, t.primary, t.replicas) for t in tablets} == {(1, "node", ("node",))}
    ids = [t.id for tablet_map in schema.state.tablet_maps.values() for t in tablet_map.tablets]
    assert sorted(ids) == list(range(1, count + 5))


def test_tablet_ids_are_not_used_again() -> None:
    schema = book("CREATE TABLE t (k int PRIMARY KEY)", "DROP TABLE t", "CREATE TABLE t (k int PRIMARY KEY)")
    assert [t.id for t in schema.state.tablet_maps[schema.table().id].tablets] == [5, 6, 7, 8]


def test_drop() -> None:
    schema = book("CREATE TABLE t (k int PRIMARY KEY)")
    change = schema.run("DROP TABLE t")
    assert change is not None
    assert (change.change, change.target, change.name) == ("DROPPED", "TABLE", "t")
    assert schema.events == [("DROPPED", "TABLE", "ks", "t")]
    assert dict(schema.state.tablet_maps) == {}
    assert schema.run("DROP TABLE IF EXISTS t") is None
    with pytest.raises(InvalidRequest, match=r"^Table 'ks.t' doesn't exist$"):
        schema.run("DROP TABLE t")


def test_if_not_exists_looks_at_the_name_alone() -> None:
    schema = book("CREATE TABLE t (k int PRIMARY KEY)")
    assert schema.run("CREATE TABLE IF NOT EXISTS t (a text PRIMARY KEY, b nope)") is None
    with pytest.raises(AlreadyExists) as caught:
        schema.run("CREATE TABLE t (k int PRIMARY KEY)")
    assert caught.value.message == 'Cannot add already existing table "t" to keyspace "ks"'
    assert (caught.value.keyspace, caught.value.table) == ("ks", "t")


INV, SYN, CONF = InvalidRequest, SyntaxException, ConfigurationError
CASES = [
    ("t (a int)", INV, "No PRIMARY KEY specified for table 't' (exactly one required)"),
    ("t (a int PRIMARY KEY, b int PRIMARY KEY)", INV, "Multiple PRIMARY KEY specified for table 't' (exactly one required)"),
    ("t (a int PRIMARY KEY, b int, PRIMARY KEY (b))", INV, "Multiple PRIMARY KEY specified for table 't' (exactly one required)"),
    ("t (a int, b int, a text, PRIMARY KEY (b))", INV, "Duplicate column 'a' declaration for table 't'"),
    ("t (a int, PRIMARY KEY (b))", INV, "Unknown column 'b' referenced in PRIMARY KEY for table 't'"),
    ("t (a int, PRIMARY KEY (a, a))", INV, "Duplicate column 'a' in PRIMARY KEY clause for table 't'"),
    ("t (a list<int> PRIMARY KEY)", INV, "Invalid non-frozen collection type list<int> for PRIMARY KEY column 'a'"),
    ("t (a u PRIMARY KEY)", INV, "Invalid non-frozen user-defined type u for PRIMARY KEY column 'a'"),
    ("t (a counter PRIMARY KEY)", INV, "counter type is not supported for PRIMARY KEY column 'a'"),
    ("t (a int, b duration, PRIMARY KEY (a, b))", INV, "duration type is not supported for PRIMARY KEY column 'b'"),
    ("t (a frozen<tuple<int, duration>> PRIMARY KEY)", INV, "duration type is not supported for PRIMARY KEY column 'a'"),
    ("t (a int, b int static, PRIMARY KEY (a, b))", INV, "Static column 'b' cannot be part of the PRIMARY KEY"),
    ("t (a int PRIMARY KEY, b int static)", INV, "Static columns are only useful (and thus allowed) if the table has at least one clustering column"),
    ("t (a int PRIMARY KEY, b int, c counter)", INV, "Cannot mix counter and non counter columns in the same table"),
    ("t (a int PRIMARY KEY, c counter) WITH default_time_to_live = 1", INV, "Cannot set default_time_to_live on a table with counters"),
    ("t (a int PRIMARY KEY, b nope)", INV, "Unknown type ks.nope"),
    ("t (a int PRIMARY KEY, b other.u)", INV, "Statement on keyspace ks cannot refer to a user type in keyspace other; user types can only be used in the keyspace they are defined in"),
    ("t (a int PRIMARY KEY, b 'org.example.Type')", INV, "Custom types are not supported: 'org.example.Type'"),
    ("t (a int PRIMARY KEY, b list<set<int>>)", INV, "Non-frozen collections are not allowed inside collections: list<set<int>>"),
    ("t (a int PRIMARY KEY, b map<text, u>)", INV, "Non-frozen UDTs are not allowed inside collections: map<text, u>"),
    ("t (a int PRIMARY KEY, b list<counter>)", INV, "Counters are not allowed inside collections: list<counter>"),
    ("t (a int PRIMARY KEY, b frozen<map<int, counter>>)", INV, "Counters are not allowed inside collections: map<int, counter>"),
    ("t (a int PRIMARY KEY, b tuple<int, counter>)", INV, "Counters are not allowed inside tuples"),
    ("t (a int PRIMARY KEY, b set<duration>)", INV, "Durations are not allowed inside sets: set<duration>"),
    ("t (a int PRIMARY KEY, b map<duration, int>)", INV, "Durations are not allowed as map keys: map<duration, int>"),
    ("t (a int PRIMARY KEY, b frozen<int>)", INV, "frozen<> is only allowed on collections, tuples, and user-defined types (got int)"),
    ("t (a int PRIMARY KEY, b vector<float, 0>)", INV, "vectors may only have positive dimensions; given 0"),
    ("t (a int PRIMARY KEY, b deep)", INV, "Non-frozen UDTs with nested non-frozen collections are not supported"),
    ("t (a int PRIMARY KEY, b text MASKED WITH DEFAULT)", INV, "Dynamic data masking is not supported"),
    ("t (a int, b int, PRIMARY KEY (a, b)) WITH COMPACT STORAGE", INV, "COMPACT STORAGE tables are not supported"),
    ("t (a int, b int, v int, PRIMARY KEY (a, b)) WITH CLUSTERING ORDER BY (v ASC)", INV, "Only clustering key columns can be defined in CLUSTERING ORDER directive: [v] are not clustering columns"),
    ("t (a int, b int, c int, PRIMARY KEY (a, b, c)) WITH CLUSTERING ORDER BY (c ASC)", INV, "Missing CLUSTERING ORDER for column b"),
    ("t (a int, b int, c int, PRIMARY KEY (a, b, c)) WITH CLUSTERING ORDER BY (c ASC, b ASC)", INV, "The order of columns in the CLUSTERING ORDER directive must match that of the clustering columns (b must appear before c)"),
    ("t (a int, b int, PRIMARY KEY (a, b)) WITH CLUSTERING ORDER BY (b ASC, b DESC)", INV, "Duplicate column 'b' in CLUSTERING ORDER BY clause for table 't'"),
    ('"t-1" (a int PRIMARY KEY)', INV, 'Table name must not be empty, more than 48 characters long, or contain non-alphanumeric-underscore characters (got "t-1")'),
    ("nope.t (a int PRIMARY KEY)", INV, "Keyspace 'nope' doesn't exist"),
    ("system.t (a int PRIMARY KEY)", Unauthorized, "system keyspace is not user-modifiable."),
    ("t (a int PRIMARY KEY) WITH foo = 1", SYN, "Unknown property 'foo'"),
    ("t (a int PRIMARY KEY) WITH gc_grace_seconds = 'x'", SYN, "Invalid integer value x for 'gc_grace_seconds'"),
    ("t (a int PRIMARY KEY) WITH gc_grace_seconds = 3000000000", SYN, "Invalid integer value 3000000000 for 'gc_grace_seconds'"),
    ("t (a int PRIMARY KEY) WITH gc_grace_seconds = -1", CONF, "gc_grace_seconds must be greater than or equal to 0 (got -1)"),
    ("t (a int PRIMARY KEY) WITH gc_grace_seconds = {'a': 'b'}", SYN, "Invalid value for property 'gc_grace_seconds'. It should be a string"),
    ("t (a int PRIMARY KEY) WITH caching = 'ALL'", SYN, "Invalid value for property 'caching'. It should be a map."),
    ("t (a int PRIMARY KEY) WITH caching = {'a': 'b'}", CONF, "Invalid caching sub-options a: only 'keys' and 'rows_per_partition' are allowed"),
    ("t (a int PRIMARY KEY) WITH caching = {'keys': 'b'}", CONF, "Invalid value for caching sub-option 'keys': only 'ALL' and 'NONE' are allowed"),
    ("t (a int PRIMARY KEY) WITH default_time_to_live = 630720001", CONF, "default_time_to_live must be less than or equal to 630720000 (got 630720001)"),
    ("t (a int PRIMARY KEY) WITH bloom_filter_fp_chance = 1.5", CONF, "bloom_filter_fp_chance must be larger than 6.71e-05 and less than or equal to 1.0 (got 1.5)"),
    ("t (a int PRIMARY KEY) WITH bloom_filter_fp_chance = 'x'", SYN, "Invalid double value x for 'bloom_filter_fp_chance'"),
    ("t (a int PRIMARY KEY) WITH crc_check_chance = 'nan'", CONF, "crc_check_chance must be larger than or equal to 0 and smaller than or equal to 1.0 (got nan)"),
    ("t (a int PRIMARY KEY) WITH min_index_interval = 4096", CONF, "max_index_interval must be greater than or equal to min_index_interval (4096) (got 2048)"),
    ("t (a int PRIMARY KEY) WITH speculative_retry = 'soon'", CONF, "Specified Speculative Retry Policy [soon] is not supported"),
    ("t (a int PRIMARY KEY) WITH compaction = {'enabled': 'true'}", CONF, "Missing sub-option 'class' for the 'compaction' option."),
    ("t (a int PRIMARY KEY) WITH compaction = {'class': 'Nope'}", CONF, "Unable to find compaction strategy class 'org.apache.cassandra.db.compaction.Nope'"),
    ("t (a int PRIMARY KEY) WITH compaction = {'class': 'LeveledCompactionStrategy', 'x': 1}", CONF, "Properties specified [x] are not understood by LeveledCompactionStrategy"),
    ("t (a int PRIMARY KEY) WITH compression = {'chunk_length_in_kb': 4}", CONF, "Missing sub-option 'class' for the 'compression' option."),
    ("t (a int PRIMARY KEY) WITH compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 5}", CONF, "chunk_length_in_kb must be a power of 2"),
    ("t (a int PRIMARY KEY) WITH tablets = {'initial': 0}", CONF, "The number of initial tablets must be between 1 and 1024 (got 0)"),
    ("t (a int PRIMARY KEY) WITH tablets = {'initial': 1025}", CONF, "The number of initial tablets must be between 1 and 1024 (got 1025)"),
    ("t (a int PRIMARY KEY) WITH tablets = {'first': 1}", CONF, "Invalid sub-option 'first' for the 'tablets' option"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "message"), CASES)
def test_create_refused(text: str, kind: type[CQLError], message: str) -> None:
    schema = book("CREATE TYPE u (x int)", "CREATE TYPE deep (x list<int>)")
    with pytest.raises(CQLError) as caught:
        schema.run(f"CREATE TABLE {text}")
    assert (type(caught.value), caught.value.message) == (kind, message)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("speculative_retry = '99PERCENTILE'", "speculative_retry", "99p"),
        ("speculative_retry = 'MIN(99p, 50ms)'", "speculative_retry", "MIN(99p,50ms)"),
        ("speculative_retry = 'always'", "speculative_retry", "ALWAYS"),
        ("additional_write_policy = 'none'", "additional_write_policy", "NEVER"),
        ("read_repair = 'none'", "read_repair", "NONE"),
        ("cdc = yes", "cdc", True),
        ("caching = {'rows_per_partition': 10}", "caching", {"keys": "ALL", "rows_per_partition": "10"}),
        ("compression = {'enabled': false}", "compression", {"enabled": "false"}),
        ("extensions = {'x': 0xcafe}", "extensions", {"x": "0xcafe"}),
        ("bloom_filter_fp_chance = 1", "bloom_filter_fp_chance", 1.0),
        ("compaction = {'class': 'org.apache.cassandra.db.compaction.LeveledCompactionStrategy', 'sstable_size_in_mb': 80}", "compaction",
         {"class": "org.apache.cassandra.db.compaction.LeveledCompactionStrategy", "sstable_size_in_mb": "80"}),
    ],
)  # fmt: skip
def test_options(text: str, name: str, value: object) -> None:
    schema = book(f"CREATE TABLE t (k int PRIMARY KEY) WITH {text}")
    assert schema.table().options == {**DEFAULTS, name: value}
    schema.run("CREATE TABLE u (k int PRIMARY KEY)", f"ALTER TABLE u WITH {text}")
    assert schema.table("u").options == schema.table().options
    assert schema.run(f"ALTER TABLE u WITH {text}") is None


def test_obsolete_options_are_ignored_with_a_warning() -> None:
    schema = book()
    change = schema.run("CREATE TABLE t (k int PRIMARY KEY) WITH read_repair_chance = 0.1")
    assert change is not None
    assert change.warnings == ("The property 'read_repair_chance' is ignored",)
    assert schema.table().options == DEFAULTS


# --- ALTER TABLE -------------------------------------------------------------------------------------

BASE = "CREATE TABLE t (k int, c int, a int, s text static, u frozen<ty>, PRIMARY KEY (k, c))"


def altered() -> SchemaBook:
    return book("CREATE TYPE ty (x int)", "CREATE TYPE deep (x list<int>)", BASE)


def test_add_and_drop_columns_never_reuse_ordinals() -> None:
    schema = altered()
    schema.run("ALTER TABLE t ADD (b text, s2 int static)")
    assert schema.events == [("UPDATED", "TABLE", "ks", "t")]
    schema.run("ALTER TABLE t DROP (a, s) USING TIMESTAMP 77", "ALTER TABLE t DROP u")
    table = schema.table()
    assert table.dropped == (
        ("a", "int", "regular", 77),
        ("s", "text", "static", 77),
        ("u", "frozen<tuple<int>>", "regular", schema.now),
    )
    schema.run("ALTER TABLE t ADD a int", "ALTER TABLE t ADD s text static", "ALTER TABLE t ADD u frozen<ty>")
    assert columns(schema.table()) == {
        "k": ("int", "partition_key", 0, False),
        "c": ("int", "clustering", 0, False),
        "b": ("text", "regular", 2, False),
        "s2": ("int", "static", 1, False),
        "a": ("int", "regular", 3, False),
        "s": ("text", "static", 2, False),
        "u": ("frozen<ty>", "regular", 4, False),
    }
    assert (schema.table().regular_ordinals, schema.table().static_ordinals) == (5, 3)
    assert schema.table().id == table.id


def test_rename() -> None:
    schema = altered()
    schema.run("ALTER TABLE t RENAME k TO kk AND c TO k")
    assert [c.name for c in (*schema.table().partition_key, *schema.table().clustering)] == ["kk", "k"]


def test_alter_with_conditions() -> None:
    schema = altered()
    for text in (
        "ALTER TABLE IF EXISTS nope ADD x int",
        "ALTER TABLE t ADD IF NOT EXISTS a text",
        "ALTER TABLE t DROP IF EXISTS nope",
        "ALTER TABLE t RENAME IF EXISTS nope TO x",
    ):
        assert schema.run(text) is None
    schema.run("ALTER TABLE t ADD IF NOT EXISTS (a int, n int)", "ALTER TABLE t DROP IF EXISTS (nope, a)")
    assert set(schema.table().by_name) == {"k", "c", "s", "u", "n"}


@pytest.mark.parametrize(
    ("action", "kind", "message"),
    [
        ("t ADD a int", INV, "Column with name 'a' already exists"),
        ("t ADD (x int, x int)", INV, "Column with name 'x' already exists"),
        ("t ADD x counter", INV, 'Cannot have a counter column ("x") in a non counter table'),
        ("cnt ADD x int", INV, 'Cannot have a non counter column ("x") in a counter table'),
        ("cnt ADD x counter static", INV, "Static columns are only useful (and thus allowed) if the table has at least one clustering column"),
        ("t ADD x deep", INV, "Non-frozen UDTs with nested non-frozen collections are not supported"),
        ("t ADD x nope", INV, "Unknown type ks.nope"),
        ("t ADD gone text", INV, "Cannot re-add previously dropped column 'gone' of type text, incompatible with previous type int"),
        ("t ADD gone int static", INV, "Cannot re-add previously dropped column 'gone' of kind STATIC, incompatible with previous kind REGULAR"),
        ("cnt ADD gone counter", INV, "Cannot re-add previously dropped counter column gone"),
        ("t DROP k", INV, "Cannot drop PRIMARY KEY column k"),
        ("t DROP c", INV, "Cannot drop PRIMARY KEY column c"),
        ("t DROP nope", INV, "Column nope was not found in table 'ks.t'"),
        ("t RENAME a TO x", INV, "Cannot rename non PRIMARY KEY column a"),
        ("t RENAME nope TO x", INV, "Column nope was not found in table 'ks.t'"),
        ("t RENAME k TO a", INV, "Cannot rename column k to a in table 'ks.t'; another column with that name already exists"),
        ("t ALTER a TYPE text", INV, "Altering column types is no longer supported"),
        ("t ALTER a MASKED WITH DEFAULT", INV, "Dynamic data masking is not supported"),
        ("t DROP COMPACT STORAGE", INV, "Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE"),
        ("t WITH foo = 1", SYN, "Unknown property 'foo'"),
        ("t WITH id = 00000000-0000-0000-0000-000000000000", SYN, "Unknown property 'id'"),
        ("t WITH tablets = {'initial': 3}", INV, "'tablets' can only be given when a table is created"),
        ("cnt WITH default_time_to_live = 3", INV, "Cannot set default_time_to_live on a table with counters"),
        ("nope ADD x int", INV, "Table 'ks.nope' doesn't exist"),
        ("nope.t ADD x int", INV, "Table 'nope.t' doesn't exist"),
        ("system.local ADD x int", Unauthorized, "system keyspace is not user-modifiable."),
    ],
)  # fmt: skip
def test_alter_refused(action: str, kind: type[CQLError], message: str) -> None:
    schema = altered()
    schema.run("CREATE TABLE cnt (k int PRIMARY KEY, n counter, gone counter)", "ALTER TABLE cnt DROP gone")
    schema.run("ALTER TABLE t ADD gone int", "ALTER TABLE t DROP gone")
    with pytest.raises(CQLError) as caught:
        schema.run(f"ALTER TABLE {action}")
    assert (type(caught.value), caught.value.message) == (kind, message)
