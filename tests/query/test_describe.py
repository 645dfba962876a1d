"""DESCRIBE: exact texts, and texts that make the same schema again."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.cql.parser import parse_statement
from belvedere.cql.text import quote_identifier
from belvedere.meta import records
from belvedere.meta.state import advance
from belvedere.meta.store import Put
from belvedere.model.schema import Keyspace, Table
from belvedere.query.errors import InvalidRequest
from belvedere.query.schema.describe import DescribeContext, describe, describe_columns
from tests.query.schema_book import SIMPLE, SchemaBook, book

OPTIONS = """additional_write_policy = '99p'
    AND allow_auto_snapshot = true
    AND bloom_filter_fp_chance = 0.01
    AND caching = {'keys': 'ALL', 'rows_per_partition': 'NONE'}
    AND cdc = false
    AND comment = ''
    AND compaction = {'class': 'org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy', \
'max_threshold': '32', 'min_threshold': '4'}
    AND compression = {'chunk_length_in_kb': '16', 'class': 'org.apache.cassandra.io.compress.LZ4Compressor'}
    AND memtable = 'default'
    AND crc_check_chance = 1.0
    AND default_time_to_live = 0
    AND extensions = {}
    AND gc_grace_seconds = 864000
    AND incremental_backups = true
    AND max_index_interval = 2048
    AND memtable_flush_period_in_ms = 0
    AND min_index_interval = 128
    AND read_repair = 'BLOCKING'
    AND speculative_retry = '99p'"""

KEYSPACE_TEXT = (
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': '1'}  "
    "AND durable_writes = true;"
)
SIMPLE_TABLE = f"""CREATE TABLE ks.t (
    k int PRIMARY KEY,
    v text
) WITH {OPTIONS};"""


def test_a_simple_table() -> None:
    schema = book("CREATE TABLE t (k int PRIMARY KEY, v text)")
    assert schema.describe("DESCRIBE TABLE t") == [("ks", "table", "t", SIMPLE_TABLE)]
    assert schema.describe("DESC t") == schema.describe("DESC TABLE ks.t") == schema.describe("DESC ks.t")


def test_a_table_with_a_long_key() -> None:
    schema = book(
        'CREATE TABLE "T" (v text, k int, "K" int, c int, d int, b list<int>, s int static, '
        "PRIMARY KEY ((k, \"K\"), c, d)) WITH CLUSTERING ORDER BY (c DESC) AND comment = 'it''s'"
        " AND tablets = {'initial': 3}"
    )
    options = OPTIONS.replace("comment = ''", "comment = 'it''s'")
    text = f"""CREATE TABLE ks."T" (
    k int,
    "K" int,
    c int,
    d int,
    s int static,
    b list<int>,
    v text,
    PRIMARY KEY ((k, "K"), c, d)
) WITH CLUSTERING ORDER BY (c DESC, d ASC)
    AND {options}
    AND tablets = {{'initial': '3'}};"""
    assert schema.describe('DESCRIBE TABLE "T"') == [("ks", "table", '"T"', text)]


VIEW_OPTIONS = OPTIONS.replace("    AND default_time_to_live = 0\n", "")


def test_a_view_after_its_table() -> None:
    schema = book(
        'CREATE TABLE t (k int PRIMARY KEY, v text, "W" int)',
        "CREATE MATERIALIZED VIEW b AS SELECT * FROM t "
        "WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (v, k)",
        'CREATE MATERIALIZED VIEW a AS SELECT "W", k FROM t '
        "WHERE \"W\" > 3 AND k IS NOT NULL AND v = 'it''s' PRIMARY KEY ((k, \"W\")) "
        "WITH synchronous_updates = true AND tablets = {'initial': 1} "
        "AND build = {'priority': 3, 'hold': false}",
        "CREATE TABLE z (k int PRIMARY KEY)",
    )
    b = f"""CREATE MATERIALIZED VIEW ks.b AS
    SELECT *
    FROM ks.t
    WHERE v IS NOT NULL AND k IS NOT NULL
    PRIMARY KEY (v, k)
 WITH CLUSTERING ORDER BY (k ASC)
    AND {VIEW_OPTIONS};"""
    a = f"""CREATE MATERIALIZED VIEW ks.a AS
    SELECT k, "W"
    FROM ks.t
    WHERE "W" > 3 AND k IS NOT NULL AND v = 'it''s'
    PRIMARY KEY ((k, "W"))
 WITH {VIEW_OPTIONS}
    AND tablets = {{'initial': '1'}}
    AND build = {{'hold': 'false', 'priority': '3'}}
    AND synchronous_updates = true;"""
    in_a, in_b = ("ks", "materialized_view", "a", a), ("ks", "materialized_view", "b", b)
    table = schema.describe("DESCRIBE TABLE t")
    assert [row[:3] for row in table] == [("ks", "table", "t"), in_a[:3], in_b[:3]]
    assert table[1:] == [in_a, in_b]
    assert schema.describe("DESC t") == table
    assert schema.describe("DESCRIBE MATERIALIZED VIEW ks.b") == schema.describe("DESC b") == [in_b]
    names = [row[2] for row in schema.describe("DESCRIBE KEYSPACE ks")]
    assert names == ["ks", "t", "z", "a", "b"]
    assert [row[2] for row in schema.describe("DESCRIBE TABLES")] == ["t", "z"]
    assert schema.describe("DESCRIBE MATERIALIZED VIEWS") == [in_a[:3], in_b[:3]]
    internals = schema.describe("DESCRIBE MATERIALIZED VIEW a WITH INTERNALS")[0][3]
    assert f"\n WITH ID = {UUID(bytes=schema.table('a').id)}\n    AND additional" in internals
    schema.run("DROP MATERIALIZED VIEW a", internals)
    assert schema.describe("DESC a") == [in_a]


def test_a_view_of_everything_can_be_made_again_after_its_table_got_a_static_column() -> None:
    schema = book(
        "CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))",
        "CREATE MATERIALIZED VIEW v AS SELECT * FROM t "
        "WHERE c IS NOT NULL AND k IS NOT NULL PRIMARY KEY (c, k)",
        "ALTER TABLE t ADD s int static",
    )
    [(*_, text)] = schema.describe("DESC v")
    assert "SELECT c, k, v\n" in text
    before = schema.table("v")
    schema.run("DROP MATERIALIZED VIEW v", text)
    assert schema.table("v").by_name == before.by_name


def test_internals_tell_the_whole_story() -> None:
    schema = book("CREATE TABLE t (k int PRIMARY KEY, a int, b text, c int)")
    schema.run(
        "ALTER TABLE t DROP a USING TIMESTAMP 5",
        "ALTER TABLE t DROP b USING TIMESTAMP 6",
        "ALTER TABLE t ADD b text",
    )
    text = f"""CREATE TABLE ks.t (
    k int PRIMARY KEY,
    c int,
    a int,
    b text
) WITH ID = {UUID(bytes=schema.table().id)}
    AND {OPTIONS};
ALTER TABLE ks.t DROP a USING TIMESTAMP 5;
ALTER TABLE ks.t DROP b USING TIMESTAMP 6;
ALTER TABLE ks.t ADD b text;"""
    assert schema.describe("DESCRIBE TABLE t WITH INTERNALS") == [("ks", "table", "t", text)]
    again = book(*text.removesuffix(";").split(";\n"))
    assert again.table().dropped == schema.table().dropped
    assert again.table().by_name.keys() == schema.table().by_name.keys()


def test_keyspaces_types_and_their_order() -> None:
    schema = book(
        "CREATE TYPE z (a int)",
        'CREATE TYPE "Big" (z frozen<z>, "l l" list<frozen<set<text>>>)',
        'CREATE TYPE a (b frozen<map<int, frozen<"Big">>>)',
        "CREATE TABLE t (k int PRIMARY KEY, v text)",
    )
    expected = [
        ("ks", "keyspace", "ks", KEYSPACE_TEXT),
        ("ks", "type", "z", "CREATE TYPE ks.z (\n    a int\n);"),
        (
            "ks",
            "type",
            '"Big"',
            'CREATE TYPE ks."Big" (\n    z frozen<z>,\n    "l l" list<frozen<set<text>>>\n);',
        ),
        ("ks", "type", "a", 'CREATE TYPE ks.a (\n    b frozen<map<int, frozen<"Big">>>\n);'),
        ("ks", "table", "t", SIMPLE_TABLE),
    ]
    assert schema.describe("DESCRIBE KEYSPACE") == expected
    assert schema.describe("DESCRIBE KEYSPACE ks") == expected
    assert schema.describe("DESCRIBE SCHEMA") == expected
    assert schema.describe("DESC ks") == expected
    assert schema.describe("DESCRIBE ONLY KEYSPACE ks") == expected[:1]
    assert schema.describe('DESCRIBE TYPE "Big"') == [expected[2]]
    assert schema.describe("DESCRIBE TYPE ks.z") == [expected[1]]


def test_lists() -> None:
    schema = book(
        f"CREATE KEYSPACE aa {SIMPLE}",
        "CREATE TABLE aa.y (k int PRIMARY KEY)",
        "CREATE TABLE y (k int PRIMARY KEY)",
        'CREATE TABLE "X" (k int PRIMARY KEY)',
        "CREATE TYPE aa.u (a int)",
    )
    assert schema.describe("DESCRIBE KEYSPACES") == [("aa", "keyspace", "aa"), ("ks", "keyspace", "ks")]
    assert schema.describe("DESCRIBE TABLES") == [("ks", "table", '"X"'), ("ks", "table", "y")]
    assert schema.describe("DESCRIBE TYPES") == []
    schema.keyspace = None
    assert schema.describe("DESCRIBE TABLES") == [
        ("aa", "table", "y"),
        ("ks", "table", '"X"'),
        ("ks", "table", "y"),
    ]
    assert schema.describe("DESCRIBE TYPES") == [("aa", "type", "u")]
    assert schema.describe("DESCRIBE FUNCTIONS") == schema.describe("DESCRIBE AGGREGATES") == []


def test_columns() -> None:
    def names(text: str, current: str | None = "ks") -> list[str]:
        found = describe_columns(parse_statement(text), current)  # type: ignore[arg-type]
        assert {(column.keyspace, column.table) for column in found} == {("system", "describe")}
        return [column.name for column in found]

    listed = ["keyspace_name", "type", "name"]
    assert names("DESCRIBE TABLES") == names("DESCRIBE KEYSPACES") == listed
    assert names("DESCRIBE SCHEMA") == names("DESCRIBE x") == [*listed, "create_statement"]
    assert names("DESCRIBE CLUSTER", None) == ["cluster", "partitioner", "snitch"]
    assert names("DESCRIBE CLUSTER") == ["cluster", "partitioner", "snitch", "range_ownership"]


def test_cluster() -> None:
    schema = book()
    node = records.encode(records.NodeRecord("10.0.0.1", 9042))
    schema.state = advance(schema.state, 99, (Put(records.node_key("not a uuid"), node),))
    statement = parse_statement("DESCRIBE CLUSTER")
    answer = describe(statement, DescribeContext(schema.state.keyspaces, schema.state, "mine", "ks"))  # type: ignore[arg-type]
    decoded = [
        None if value is None else column.type.decode(value)
        for column, value in zip(answer.columns, answer.rows[0], strict=True)
    ]
    assert decoded[:3] == ["mine", "Murmur3Partitioner", "SimpleSnitch"]
    assert list(decoded[3].values()) == [["10.0.0.1:9042"]]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DESCRIBE KEYSPACE nope", "'nope' not found in keyspaces"),
        ("DESCRIBE TABLE nope", "Table 'nope' not found in keyspace 'ks'"),
        ("DESCRIBE TABLE nope.t", "'nope' not found in keyspaces"),
        ("DESCRIBE TYPE nope", "User defined type 'nope' not found in 'ks'"),
        ("DESCRIBE FUNCTION nope", "User defined function 'nope' not found in 'ks'"),
        ("DESCRIBE AGGREGATE nope", "User defined aggregate 'nope' not found in 'ks'"),
        ("DESCRIBE INDEX nope", "Table for existing index 'nope' not found in 'ks'"),
        ("DESCRIBE MATERIALIZED VIEW nope", "Materialized view 'nope' not found in keyspace 'ks'"),
        ("DESCRIBE nope", "'nope' not found in keyspace 'ks'"),
        ("DESCRIBE ks.nope", "'nope' not found in keyspace 'ks'"),
    ],
)
def test_not_found(text: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        book().describe(text)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DESCRIBE KEYSPACE", "No keyspace specified and no current keyspace"),
        ("DESCRIBE TABLE t", "No keyspace specified and no current keyspace"),
        ("DESCRIBE nope", "'nope' not found in keyspaces"),
    ],
)
def test_not_found_without_a_keyspace(text: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        SchemaBook(None).describe(text)
    assert caught.value.message == message


# --- any schema --------------------------------------------------------------------------------------

NAMES = st.one_of(
    st.sampled_from(
        ["a", "b", "key", "select", "Table", "x y", 'q"uote', "ß", "token", "list", "int", "1st", "true"]
    ),
    st.text(min_size=1, max_size=4),
)
TABLE_NAMES = st.from_regex(r"[A-Za-z0-9_]{1,6}", fullmatch=True)
SCALARS = st.sampled_from(
    ["int", "text", "blob", "timeuuid", "decimal", "inet", "date", "varint", "duration"]
)
KEY_SCALARS = st.sampled_from(["int", "text", "ascii", "timeuuid", "boolean", "time", "double"])


@cache
def nested(user_types: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Types that may stand anywhere: no durations, everything frozen."""
    leaves = KEY_SCALARS
    if user_types:
        frozen = [f"frozen<{quote_identifier(name)}>" for name in user_types]
        leaves = st.one_of(KEY_SCALARS, st.sampled_from(frozen))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds("frozen<list<{}>>".format, inner),
            st.builds("frozen<set<{}>>".format, inner),
            st.builds("frozen<map<{}, {}>>".format, inner, inner),
            st.builds("tuple<{}, {}>".format, inner, inner),
            st.builds("vector<{}, 3>".format, inner),
        ),
        max_leaves=3,
    )


@cache
def cells(user_types: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Types of value columns: collections and user types that are not frozen, too."""
    inside = nested(user_types)
    choices = [
        SCALARS,
        inside,
        st.builds("list<{}>".format, inside),
        st.builds("set<{}>".format, inside),
        st.builds("map<{}, {}>".format, inside, inside),
    ]
    if user_types:
        choices.append(st.sampled_from([quote_identifier(name) for name in user_types]))
    return st.one_of(choices)


OPTION_TEXTS = st.lists(
    st.one_of(
        st.builds(
            lambda text: f"comment = '{text}'", st.sampled_from(["", "it''s", "über; --x", "/* */", "\n"])
        ),
        st.builds("gc_grace_seconds = {}".format, st.integers(0, 10**6)),
        st.builds("default_time_to_live = {}".format, st.integers(0, 10**6)),
        st.builds("bloom_filter_fp_chance = {!r}".format, st.floats(1e-4, 1)),
        st.builds("crc_check_chance = {!r}".format, st.floats(0, 1)),
        st.builds("tablets = {{'initial': {}}}".format, st.integers(1, 9)),
        st.sampled_from(
            [
                "compression = {'enabled': false}",
                "compaction = {'class': 'LeveledCompactionStrategy', 'fanout_size': 4}",
                "speculative_retry = '50ms'",
                "caching = {'keys': 'NONE', 'rows_per_partition': '7'}",
                "extensions = {'e': 0xCAFE}",
                "cdc = true",
            ]
        ),
    ),
    max_size=4,
    unique_by=lambda text: text.split(" ")[0],
)


@st.composite
def table_texts(draw: st.DrawFn, user_types: tuple[str, ...]) -> str:
    names = draw(st.lists(NAMES, min_size=1, max_size=8, unique=True))
    key_count = draw(st.integers(1, min(3, len(names))))
    partition_count = draw(st.integers(1, key_count))
    keys, others = names[:key_count], names[key_count:]
    columns = [f"{quote_identifier(name)} {draw(nested(()))}" for name in keys]
    counter = draw(st.booleans()) and draw(st.booleans())
    for name in others:
        kind = "counter" if counter else draw(cells(user_types))
        static = " static" if key_count > partition_count and draw(st.booleans()) else ""
        columns.append(f"{quote_identifier(name)} {kind}{static}")
    columns = draw(st.permutations(columns))
    partition, clustering = keys[:partition_count], keys[partition_count:]
    key = ", ".join([f"({_names(partition)})", *map(quote_identifier, clustering)])
    options = [o for o in draw(OPTION_TEXTS) if not (counter and o.startswith("default_time"))]
    if clustering:
        order = [f"{quote_identifier(name)} {draw(st.sampled_from(['ASC', 'DESC']))}" for name in clustering]
        options.append(f"CLUSTERING ORDER BY ({', '.join(order)})")
    with_options = f" WITH {' AND '.join(options)}" if options else ""
    name = quote_identifier(draw(TABLE_NAMES))
    return f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(columns)}, PRIMARY KEY ({key})){with_options}"


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(quote_identifier, names))


@st.composite
def schemas(draw: st.DrawFn) -> list[str]:
    texts: list[str] = []
    user_types: tuple[str, ...] = ()
    for name in draw(st.lists(NAMES, max_size=3, unique=True)):
        fields = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
        written = [f"{quote_identifier(field)} {draw(nested(user_types))}" for field in fields]
        if name not in ("int", "list"):
            texts.append(f"CREATE TYPE ks.{quote_identifier(name)} ({', '.join(written)})")
            user_types += (name,)
    texts += draw(st.lists(table_texts(user_types), max_size=3))
    texts += draw(view_texts(book(*texts)))
    return texts


@st.composite
def view_texts(draw: st.DrawFn, schema: SchemaBook) -> list[str]:
    """Views of whichever tables may have any."""
    texts = []
    for table in schema.state.keyspaces["ks"].tables.values():
        if table.is_counter or table.statics or draw(st.booleans()):
            continue
        keys = [column.name for column in (*table.partition_key, *table.clustering)]
        usable = [
            column.name
            for column in table.regulars
            if not column.type.is_multicell and not any(t.name == "duration" for t in column.type.walk())
        ]
        if usable and draw(st.booleans()):
            keys.append(draw(st.sampled_from(usable)))
        keys = draw(st.permutations(keys))
        cut = draw(st.integers(1, len(keys)))
        others = [column.name for column in table.regulars if column.name not in keys]
        selected = [*keys, *(draw(st.lists(st.sampled_from(others), unique=True)) if others else ())]
        items = "*" if draw(st.booleans()) else _names(draw(st.permutations(selected)))
        where = " AND ".join(f"{quote_identifier(name)} IS NOT NULL" for name in keys)
        key = ", ".join([f"({_names(keys[:cut])})", *map(quote_identifier, keys[cut:])])
        options = draw(
            st.sampled_from(["", " WITH build = {'hold': true}", " WITH read_while_building = true"])
        )
        texts.append(
            f"CREATE MATERIALIZED VIEW view_{len(texts)} AS SELECT {items} "
            f"FROM {quote_identifier(table.name)} WHERE {where} PRIMARY KEY ({key}){options}"
        )
    return texts


def comparable(keyspace: Keyspace) -> tuple[object, ...]:
    return (
        keyspace.replication,
        keyspace.durable_writes,
        keyspace.types,
        sorted(map(_shape, keyspace.tables.values())),
    )


def _shape(table: Table) -> tuple[str, str]:
    """All that makes tables equal: ids differ, and the order of creation is not told."""
    columns = sorted(
        (c.name, c.type.name, c.kind.value, c.position if c.is_key else 0, c.descending)
        for c in table.columns
    )
    view = table.view and (table.view.base, table.view.where, table.view.selects_all)
    return table.name, repr(
        (columns, sorted(table.options.items()), table.regular_ordinals, table.static_ordinals, view)
    )


@given(schemas())
def test_describing_and_executing_makes_an_equal_schema(texts: list[str]) -> None:
    original, copy = book(*texts), SchemaBook(None)
    rows = original.describe("DESCRIBE KEYSPACE ks")
    for *_, text in rows:
        copy.run(text)
    assert comparable(copy.state.keyspaces["ks"]) == comparable(original.state.keyspaces["ks"])
    assert copy.describe("DESCRIBE KEYSPACE ks") == rows
    counts = [
        len(original.state.tablet_maps[t.id].tablets) for t in original.state.keyspaces["ks"].tables.values()
    ]
    assert counts == [
        len(copy.state.tablet_maps[t.id].tablets) for t in copy.state.keyspaces["ks"].tables.values()
    ]


@given(schemas())
def test_every_listed_element_can_be_described_by_its_name(texts: list[str]) -> None:
    schema = book(*texts)
    whole = schema.describe("DESCRIBE KEYSPACE")
    for kind in ("table", "type", "materialized view"):
        for keyspace, found_kind, name in schema.describe(f"DESCRIBE {kind}s"):
            assert found_kind == kind.replace(" ", "_")
            found = schema.describe(f"DESCRIBE {kind} {keyspace}.{name}")
            assert found[0][1:3] == (found_kind, name)
            assert all(row in whole for row in found)


def test_replace_keeps_equality_meaningful() -> None:
    """The comparison above must be able to fail."""
    table = book("CREATE TABLE t (k int PRIMARY KEY, v text)").table()
    other = replace(table, options={**table.options, "comment": "x"})
    assert _shape(table) != _shape(other)
