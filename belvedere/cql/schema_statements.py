"""Statements about the schema: keyspaces, tables, types, views, indexes, USE, TRUNCATE, DESCRIBE, and
the families that are only recognised so that they can be refused by name (roles, functions, triggers).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from belvedere.cql.expressions import (
    FunctionCall,
    Relation,
    SelectItem,
    TableName,
    TypeNode,
    UserTypeName,
)

# --- WITH name = value AND ... -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PropertyMap:
    """`{'key': 'value', ...}` of a property; all constants are kept as their text."""

    entries: tuple[tuple[str, str], ...]

    def as_dict(self) -> dict[str, str]:
        return dict(self.entries)


@dataclass(frozen=True, slots=True)
class Property:
    """One property; the name is folded like an identifier, a simple value is the constant's text."""

    name: str
    value: str | PropertyMap


Properties = tuple[Property, ...]

# --- keyspaces ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateKeyspace:
    keyspace: str
    properties: Properties = ()
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterKeyspace:
    keyspace: str
    properties: Properties = ()
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropKeyspace:
    keyspace: str
    if_exists: bool = False


# --- tables ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """`mask` is the function of MASKED WITH (`mask_default()` for MASKED WITH DEFAULT)."""

    name: str
    type: TypeNode
    static: bool = False
    mask: FunctionCall | None = None


@dataclass(frozen=True, slots=True)
class PrimaryKey:
    partition: tuple[str, ...]
    clustering: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusteringOrder:
    column: str
    descending: bool


@dataclass(frozen=True, slots=True)
class CreateTable:
    table: TableName
    columns: tuple[ColumnDefinition, ...]
    primary_keys: tuple[PrimaryKey, ...]
    """Every primary key that was written (inline or as a clause): exactly one makes sense."""
    clustering_order: tuple[ClusteringOrder, ...] = ()
    properties: Properties = ()
    compact_storage: bool = False
    if_not_exists: bool = False

    @property
    def keyspace(self) -> str | None:
        return self.table.keyspace


@dataclass(frozen=True, slots=True)
class AddColumns:
    columns: tuple[ColumnDefinition, ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropColumns:
    columns: tuple[str, ...]
    timestamp: int | None = None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumns:
    renames: tuple[tuple[str, str], ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterColumnType:
    column: str
    type: TypeNode


@dataclass(frozen=True, slots=True)
class AlterColumnMask:
    """`mask` None: DROP MASKED."""

    column: str
    mask: FunctionCall | None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetOptions:
    properties: Properties


@dataclass(frozen=True, slots=True)
class DropCompactStorage:
    pass


TableAction = (
    AddColumns
    | DropColumns
    | RenameColumns
    | AlterColumnType
    | AlterColumnMask
    | SetOptions
    | DropCompactStorage
)


@dataclass(frozen=True, slots=True)
class AlterTable:
    table: TableName
    action: TableAction
    if_exists: bool = False

    @property
    def keyspace(self) -> str | None:
        return self.table.keyspace


@dataclass(frozen=True, slots=True)
class DropTable:
    table: TableName
    if_exists: bool = False

    @property
    def keyspace(self) -> str | None:
        return self.table.keyspace


@dataclass(frozen=True, slots=True)
class Truncate:
    table: TableName

    @property
    def keyspace(self) -> str | None:
        return self.table.keyspace


# --- user-defined types ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateType:
    type_name: UserTypeName
    fields: tuple[tuple[str, TypeNode], ...]
    if_not_exists: bool = False

    @property
    def keyspace(self) -> str | None:
        return self.type_name.keyspace


@dataclass(frozen=True, slots=True)
class AddField:
    name: str
    type: TypeNode
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameFields:
    renames: tuple[tuple[str, str], ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterFieldType:
    name: str
    type: TypeNode


TypeAction = AddField | RenameFields | AlterFieldType


@dataclass(frozen=True, slots=True)
class AlterType:
    type_name: UserTypeName
    action: TypeAction
    if_exists: bool = False

    @property
    def keyspace(self) -> str | None:
        return self.type_name.keyspace


@dataclass(frozen=True, slots=True)
class DropType:
    type_name: UserTypeName
    if_exists: bool = False

    @property
    def keyspace(self) -> str | None:
        return self.type_name.keyspace


# --- materialized views ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateMaterializedView:
    view: TableName
    base: TableName
    items: tuple[SelectItem, ...]
    """Empty for `*`."""
    where: tuple[Relation, ...]
    primary_key: PrimaryKey
    clustering_order: tuple[ClusteringOrder, ...] = ()
    properties: Properties = ()
    compact_storage: bool = False
    if_not_exists: bool = False
    markers: tuple[str | None, ...] = ()
    """Bind markers parse anywhere; a view with any is refused by whoever executes it."""

    @property
    def keyspace(self) -> str | None:
        return self.view.keyspace


@dataclass(frozen=True, slots=True)
class AlterMaterializedView:
    view: TableName
    properties: Properties
    if_exists: bool = False

    @property
    def keyspace(self) -> str | None:
        return self.view.keyspace


@dataclass(frozen=True, slots=True)
class DropMaterializedView:
    view: TableName
    if_exists: bool = False

    @property
    def keyspace(self) -> str | None:
        return self.view.keyspace


# --- indexes -----------------------------------------------------------------------------------------

IndexTargetKind = Literal["simple", "values", "keys", "entries", "full"]


@dataclass(frozen=True, slots=True)
class IndexTarget:
    kind: IndexTargetKind
    column: str


@dataclass(frozen=True, slots=True)
class CreateIndex:
    table: TableName
    targets: tuple[IndexTarget, ...]
    name: TableName | None = None
    custom: bool = False
    using: str | None = None
    properties: Properties = ()
    if_not_exists: bool = False

    @property
    def keyspace(self) -> str | None:
        return self.table.keyspace


@dataclass(frozen=True, slots=True)
class DropIndex:
    index: TableName
    if_exists: bool = False

    @property
    def keyspace(self) -> str | None:
        return self.index.keyspace


# --- the rest ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Use:
    keyspace: str


DescribeKind = Literal[
    "cluster",
    "schema",
    "keyspaces",
    "keyspace",
    "tables",
    "table",
    "index",
    "materialized views",
    "materialized view",
    "types",
    "type",
    "functions",
    "function",
    "aggregates",
    "aggregate",
    "generic",
]


@dataclass(frozen=True, slots=True)
class Describe:
    """`keyspace` and `name` are what was written: DESCRIBE KEYSPACE k has keyspace k and no name,
    DESCRIBE TABLE k.t has both, DESCRIBE x (kind "generic": a keyspace, table, view or index) has name x.
    `full` is FULL SCHEMA, `only` is ONLY KEYSPACE."""

    kind: DescribeKind
    keyspace: str | None = None
    name: str | None = None
    full: bool = False
    only: bool = False
    internals: bool = False


@dataclass(frozen=True, slots=True)
class RoleStatement:
    """Roles, users, identities and permissions: `verb` is e.g. "CREATE ROLE", "GRANT", "LIST ROLES"."""

    verb: str
    text: str

    @property
    def keyspace(self) -> str | None:
        return None


@dataclass(frozen=True, slots=True)
class FunctionStatement:
    """User-defined functions, aggregates and triggers: `verb` is e.g. "CREATE FUNCTION"."""

    verb: str
    text: str

    @property
    def keyspace(self) -> str | None:
        return None


SchemaStatement = (
    CreateKeyspace
    | AlterKeyspace
    | DropKeyspace
    | CreateTable
    | AlterTable
    | DropTable
    | Truncate
    | CreateType
    | AlterType
    | DropType
    | CreateMaterializedView
    | AlterMaterializedView
    | DropMaterializedView
    | CreateIndex
    | DropIndex
)
