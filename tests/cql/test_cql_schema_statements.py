"""Statements about the schema, against the trees they must give."""

import pytest

from belvedere.cql.errors import CQLSyntaxError
from belvedere.cql.parser import parse_statement
from belvedere.cql.syntax import (
    AddColumns,
    AddField,
    AlterColumnMask,
    AlterColumnType,
    AlterFieldType,
    AlterKeyspace,
    AlterMaterializedView,
    AlterTable,
    AlterType,
    ClusteringOrder,
    ColumnDefinition,
    ColumnRef,
    ColumnRelation,
    Constant,
    CreateIndex,
    CreateKeyspace,
    CreateMaterializedView,
    CreateTable,
    CreateType,
    Describe,
    DropColumns,
    DropCompactStorage,
    DropIndex,
    DropKeyspace,
    DropMaterializedView,
    DropTable,
    DropType,
    FrozenType,
    FunctionCall,
    FunctionStatement,
    IndexTarget,
    ListType,
    NativeType,
    NotNullRelation,
    Null,
    PrimaryKey,
    Property,
    PropertyMap,
    RenameColumns,
    RenameFields,
    RoleStatement,
    SelectItem,
    SetOptions,
    TableName,
    Truncate,
    Use,
    UserTypeName,
)

INT, TEXT = NativeType("int"), NativeType("text")
T, V = TableName(None, "t"), TableName(None, "v")
SIMPLE = PropertyMap((("class", "SimpleStrategy"), ("replication_factor", "1")))
COMMENT = (Property("comment", "x"),)

STATEMENTS = [
    (
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
        " AND durable_writes = true",
        CreateKeyspace("ks", (Property("replication", SIMPLE), Property("durable_writes", "true"))),
    ),
    (
        'CREATE SCHEMA IF NOT EXISTS "Ks" WITH replication = {}',
        CreateKeyspace("Ks", (Property("replication", PropertyMap(())),), True),
    ),
    (
        "ALTER KEYSPACE IF EXISTS ks WITH durable_writes = FALSE",
        AlterKeyspace("ks", (Property("durable_writes", "false"),), True),
    ),
    ("DROP KEYSPACE IF EXISTS ks", DropKeyspace("ks", True)),
    ("DROP SCHEMA ks", DropKeyspace("ks")),
    (
        "CREATE TABLE t (k int PRIMARY KEY)",
        CreateTable(T, (ColumnDefinition("k", INT),), (PrimaryKey(("k",)),)),
    ),
    (
        'CREATE TABLE IF NOT EXISTS ks.t (a int, b text, c list<frozen<x.y>> static, "D" int,'
        ' PRIMARY KEY ((a, b), "D"),)'
        " WITH CLUSTERING ORDER BY (\"D\" DESC) AND COMPACT STORAGE AND comment = 'it''s'"
        " AND gc_grace_seconds = -1 AND compression = {'enabled': false, 'x': 0.5}",
        CreateTable(
            TableName("ks", "t"),
            (
                ColumnDefinition("a", INT),
                ColumnDefinition("b", TEXT),
                ColumnDefinition("c", ListType(FrozenType(UserTypeName("x", "y"))), True),
                ColumnDefinition("D", INT),
            ),
            (PrimaryKey(("a", "b"), ("D",)),),
            (ClusteringOrder("D", True),),
            (
                Property("comment", "it's"),
                Property("gc_grace_seconds", "-1"),
                Property("compression", PropertyMap((("enabled", "false"), ("x", "0.5")))),
            ),
            compact_storage=True,
            if_not_exists=True,
        ),
    ),
    (
        "CREATE COLUMNFAMILY t (key text PRIMARY KEY, clustering int, PRIMARY KEY (key, clustering))"
        " WITH CLUSTERING ORDER BY (clustering ASC, key DESC)",
        CreateTable(
            T,
            (ColumnDefinition("key", TEXT), ColumnDefinition("clustering", INT)),
            (PrimaryKey(("key",)), PrimaryKey(("key",), ("clustering",))),
            (ClusteringOrder("clustering", False), ClusteringOrder("key", True)),
        ),
    ),
    (
        "CREATE TABLE t (v text MASKED WITH f(null), w int MASKED WITH DEFAULT)",
        CreateTable(
            T,
            (
                ColumnDefinition("v", TEXT, mask=FunctionCall(None, "f", (Null(),))),
                ColumnDefinition("w", INT, mask=FunctionCall(None, "mask_default", ())),
            ),
            (),
        ),
    ),
    ("CREATE TABLE t (k int)", CreateTable(T, (ColumnDefinition("k", INT),), ())),
    ("ALTER TABLE t ADD a int", AlterTable(T, AddColumns((ColumnDefinition("a", INT),)))),
    (
        "ALTER TABLE IF EXISTS t ADD IF NOT EXISTS (a int static, b text)",
        AlterTable(
            T, AddColumns((ColumnDefinition("a", INT, True), ColumnDefinition("b", TEXT)), True), True
        ),
    ),
    ("ALTER TABLE t DROP a", AlterTable(T, DropColumns(("a",)))),
    (
        "ALTER TABLE t DROP IF EXISTS (a, b) USING TIMESTAMP 5",
        AlterTable(T, DropColumns(("a", "b"), 5, True)),
    ),
    ("ALTER TABLE t DROP compact", AlterTable(T, DropColumns(("compact",)))),
    ("ALTER TABLE t DROP COMPACT STORAGE", AlterTable(T, DropCompactStorage())),
    ("ALTER TABLE t RENAME a TO b AND c TO d", AlterTable(T, RenameColumns((("a", "b"), ("c", "d"))))),
    ("ALTER TABLE t RENAME IF EXISTS a TO b", AlterTable(T, RenameColumns((("a", "b"),), True))),
    ("ALTER TABLE t ALTER a TYPE text", AlterTable(T, AlterColumnType("a", TEXT))),
    ("ALTER TABLE t ALTER a DROP MASKED", AlterTable(T, AlterColumnMask("a", None))),
    (
        "ALTER TABLE t ALTER a MASKED WITH DEFAULT",
        AlterTable(T, AlterColumnMask("a", FunctionCall(None, "mask_default", ()))),
    ),
    ("ALTER TABLE t WITH comment = 'x'", AlterTable(T, SetOptions(COMMENT))),
    ("DROP TABLE IF EXISTS ks.t", DropTable(TableName("ks", "t"), True)),
    ("TRUNCATE t", Truncate(T)),
    ("TRUNCATE TABLE ks.t", Truncate(TableName("ks", "t"))),
    (
        'CREATE TYPE IF NOT EXISTS ks.a (x int, "Y" frozen<b>)',
        CreateType(UserTypeName("ks", "a"), (("x", INT), ("Y", FrozenType(UserTypeName(None, "b")))), True),
    ),
    ("ALTER TYPE a ADD z int", AlterType(UserTypeName(None, "a"), AddField("z", INT))),
    ("ALTER TYPE a ADD IF NOT EXISTS z int", AlterType(UserTypeName(None, "a"), AddField("z", INT, True))),
    (
        "ALTER TYPE IF EXISTS a RENAME x TO y AND z TO w",
        AlterType(UserTypeName(None, "a"), RenameFields((("x", "y"), ("z", "w"))), True),
    ),
    ("ALTER TYPE a ALTER x TYPE text", AlterType(UserTypeName(None, "a"), AlterFieldType("x", TEXT))),
    ("DROP TYPE IF EXISTS ks.a", DropType(UserTypeName("ks", "a"), True)),
    (
        "CREATE MATERIALIZED VIEW IF NOT EXISTS ks.v AS SELECT a, b FROM t"
        " WHERE a IS NOT NULL AND b > 3 PRIMARY KEY ((b), a)"
        " WITH CLUSTERING ORDER BY (a DESC) AND comment = 'x'",
        CreateMaterializedView(
            TableName("ks", "v"),
            T,
            (SelectItem(ColumnRef("a")), SelectItem(ColumnRef("b"))),
            (NotNullRelation("a"), ColumnRelation("b", ">", Constant("integer", "3"))),
            PrimaryKey(("b",), ("a",)),
            (ClusteringOrder("a", True),),
            COMMENT,
            if_not_exists=True,
        ),
    ),
    (
        "CREATE MATERIALIZED VIEW v AS SELECT * FROM t PRIMARY KEY (a)",
        CreateMaterializedView(V, T, (), (), PrimaryKey(("a",))),
    ),
    (
        "ALTER MATERIALIZED VIEW IF EXISTS v WITH comment = 'x'",
        AlterMaterializedView(V, COMMENT, True),
    ),
    ("DROP MATERIALIZED VIEW IF EXISTS ks.v", DropMaterializedView(TableName("ks", "v"), True)),
    ("CREATE INDEX ON t (a)", CreateIndex(T, (IndexTarget("simple", "a"),))),
    (
        "CREATE CUSTOM INDEX IF NOT EXISTS i ON ks.t (keys(m)) USING 'sai' WITH options = {'a': 'b'}",
        CreateIndex(
            TableName("ks", "t"),
            (IndexTarget("keys", "m"),),
            TableName(None, "i"),
            True,
            "sai",
            (Property("options", PropertyMap((("a", "b"),))),),
            True,
        ),
    ),
    (
        "CREATE INDEX i ON t (values)",
        CreateIndex(T, (IndexTarget("simple", "values"),), TableName(None, "i")),
    ),
    ("DROP INDEX IF EXISTS ks.i", DropIndex(TableName("ks", "i"), True)),
    ("USE ks", Use("ks")),
    ('USE "Ks";', Use("Ks")),
]


@pytest.mark.parametrize(("text", "tree"), STATEMENTS, ids=[s[0] for s in STATEMENTS])
def test_schema_statements(text: str, tree: object) -> None:
    assert parse_statement(text) == tree


def test_masks() -> None:
    parsed = parse_statement("CREATE TABLE t (k int PRIMARY KEY, v text MASKED WITH f(1) PRIMARY KEY)")
    assert isinstance(parsed, CreateTable)
    assert parsed.columns[1].mask == FunctionCall(None, "f", (Constant("integer", "1"),))
    assert parsed.primary_keys == (PrimaryKey(("k",)), PrimaryKey(("v",)))


DESCRIBES = [
    ("CLUSTER", Describe("cluster")),
    ("SCHEMA", Describe("schema")),
    ("FULL SCHEMA", Describe("schema", full=True)),
    ("KEYSPACES", Describe("keyspaces")),
    ("KEYSPACE", Describe("keyspace")),
    ("KEYSPACE ks", Describe("keyspace", "ks")),
    ("SCHEMA ks", Describe("keyspace", "ks")),
    ("ONLY KEYSPACE ks", Describe("keyspace", "ks", only=True)),
    ("ONLY KEYSPACE", Describe("keyspace", only=True)),
    ("TABLES", Describe("tables")),
    ("TABLE ks.t", Describe("table", "ks", "t")),
    ("COLUMNFAMILY t", Describe("table", None, "t")),
    ("TABLE t WITH INTERNALS", Describe("table", None, "t", internals=True)),
    ("TYPES", Describe("types")),
    ("TYPE ks.a", Describe("type", "ks", "a")),
    ("FUNCTIONS", Describe("functions")),
    ("FUNCTION f", Describe("function", None, "f")),
    ("AGGREGATES", Describe("aggregates")),
    ("AGGREGATE a", Describe("aggregate", None, "a")),
    ("INDEX ks.i", Describe("index", "ks", "i")),
    ("MATERIALIZED VIEW v", Describe("materialized view", None, "v")),
    ("MATERIALIZED VIEWS", Describe("materialized views")),
    ("x", Describe("generic", None, "x")),
    ('ks."T" WITH INTERNALS', Describe("generic", "ks", "T", internals=True)),
    ("types.x", Describe("generic", "types", "x")),
    ("type", Describe("generic", None, "type")),
    ("KEYSPACE ks WITH INTERNALS", Describe("keyspace", "ks", internals=True)),
]


@pytest.mark.parametrize(("text", "tree"), DESCRIBES, ids=[d[0] for d in DESCRIBES])
@pytest.mark.parametrize("verb", ["DESCRIBE", "desc"])
def test_describe(verb: str, text: str, tree: Describe) -> None:
    assert parse_statement(f"{verb} {text};") == tree


RECOGNISED = [
    ("LIST ROLES OF x", "LIST ROLES"),
    ("LIST USERS", "LIST USERS"),
    ("LIST ALL PERMISSIONS OF x", "LIST PERMISSIONS"),
    ("LIST SELECT PERMISSION ON t", "LIST PERMISSIONS"),
    ("CREATE ROLE IF NOT EXISTS x WITH PASSWORD = 'p;q'", "CREATE ROLE"),
    ("ALTER ROLE x WITH LOGIN = true", "ALTER ROLE"),
    ("DROP ROLE x", "DROP ROLE"),
    ("CREATE USER x", "CREATE USER"),
    ("GRANT SELECT ON KEYSPACE ks TO x", "GRANT"),
    ("REVOKE ALL ON t FROM x", "REVOKE"),
    ("ADD IDENTITY 'x' TO ROLE 'y'", "ADD IDENTITY"),
]


@pytest.mark.parametrize(("text", "verb"), RECOGNISED, ids=[r[0] for r in RECOGNISED])
def test_roles_are_recognised(text: str, verb: str) -> None:
    assert parse_statement(text + ";") == RoleStatement(verb, text)


@pytest.mark.parametrize(
    ("text", "verb"),
    [
        (
            "CREATE OR REPLACE FUNCTION f(a int) RETURNS int LANGUAGE java AS $$ return a; $$",
            "CREATE FUNCTION",
        ),
        ("CREATE AGGREGATE g(int) SFUNC f STYPE int", "CREATE AGGREGATE"),
        ("DROP FUNCTION IF EXISTS f", "DROP FUNCTION"),
        ("CREATE TRIGGER x ON t USING 'y'", "CREATE TRIGGER"),
    ],
)
def test_functions_are_recognised(text: str, verb: str) -> None:
    assert parse_statement(text) == FunctionStatement(verb, text)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE KEYSPACE ks",
        "CREATE KEYSPACE ks WITH replication",
        "CREATE KEYSPACE ks WITH replication = {'a': f()}",
        "CREATE TABLE t ()",
        "CREATE TABLE t (a)",
        "CREATE TABLE t (a int PRIMARY)",
        "CREATE TABLE t (a int, PRIMARY KEY ())",
        "CREATE TABLE t (a int PRIMARY KEY) WITH CLUSTERING ORDER BY (a)",
        "CREATE TABLE select (a int PRIMARY KEY)",
        "ALTER TABLE t",
        "ALTER TABLE t ADD",
        "ALTER TABLE t RENAME a",
        "DROP TABLE",
        "DROP VIEW v",
        "CREATE MATERIALIZED VIEW v AS SELECT * FROM t",
        "CREATE TYPE a ()",
        "ALTER FUNCTION f",
        "CREATE ROLE \u00e9",
        "USE",
        "USE a.b",
        "LIST",
        "DESCRIBE",
        "DESCRIBE TABLE t WITH",
        "EXPLAIN SELECT * FROM t",
    ],
)
def test_what_is_not_cql(text: str) -> None:
    with pytest.raises(CQLSyntaxError):
        parse_statement(text)
