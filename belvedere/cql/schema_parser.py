"""CREATE, ALTER and DROP of keyspaces, tables, types, views and indexes."""

from collections.abc import Sequence

from belvedere.cql.data_parser import DataParser
from belvedere.cql.expressions import FunctionCall, TableName, TypeNode
from belvedere.cql.schema_statements import (
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
    CreateIndex,
    CreateKeyspace,
    CreateMaterializedView,
    CreateTable,
    CreateType,
    DropColumns,
    DropCompactStorage,
    DropIndex,
    DropKeyspace,
    DropMaterializedView,
    DropTable,
    DropType,
    IndexTarget,
    IndexTargetKind,
    PrimaryKey,
    Properties,
    Property,
    PropertyMap,
    RenameColumns,
    RenameFields,
    SchemaStatement,
    SetOptions,
    TableAction,
    TypeAction,
)

_INDEX_KINDS: dict[str, IndexTargetKind] = {
    "VALUES": "values",
    "KEYS": "keys",
    "ENTRIES": "entries",
    "FULL": "full",
}


class SchemaParser(DataParser):
    """Each method is called with the words that name its statement already taken."""

    __slots__ = ()

    # --- properties ----------------------------------------------------------------------------------

    def _with_properties(self) -> Properties:
        """`WITH a = b AND ...`, mandatory."""
        self.expect("WITH")
        found = [self._property(())]
        while self.accept("AND"):
            found.append(self._property(found))
        return tuple(found)

    def _property(self, earlier: Sequence[Property]) -> Property:
        start = self.position
        name = self.name()
        if any(other.name == name for other in earlier):
            self.fail(f"Multiple definition for property '{name}'", start)
        self.expect("=")
        if self.tokens[self.position] == "{":
            return Property(name, self._property_map())
        if self.is_constant():
            return Property(name, self.signed_constant().text)
        return Property(name, self.name())

    def _property_map(self) -> PropertyMap:
        self.expect("{")
        entries: list[tuple[str, str]] = []
        while not self.accept("}"):
            if entries:
                self.expect(",")
            key = self.signed_constant()
            self.expect(":")
            entries.append((key.text, self.signed_constant().text))
        return PropertyMap(tuple(entries))

    def _table_properties(self) -> tuple[tuple[ClusteringOrder, ...], Properties, bool]:
        """What follows WITH on a table or view: order, properties, COMPACT STORAGE."""
        order: list[ClusteringOrder] = []
        properties: list[Property] = []
        compact = False
        if self.accept("WITH"):
            while True:
                if self.accept_all("CLUSTERING", "ORDER", "BY"):
                    order.extend(self._clustering_order())
                elif self.accept_all("COMPACT", "STORAGE"):
                    compact = True
                else:
                    properties.append(self._property(properties))
                if not self.accept("AND"):
                    break
        return tuple(order), tuple(properties), compact

    def _clustering_order(self) -> list[ClusteringOrder]:
        self.expect("(")
        found: list[ClusteringOrder] = []
        while not found or self.accept(","):
            column = self.name()
            descending = self.accept("DESC")
            if not descending:
                self.expect("ASC")
            found.append(ClusteringOrder(column, descending))
        self.expect(")")
        return found

    # --- keyspaces -----------------------------------------------------------------------------------

    def create_keyspace(self) -> SchemaStatement:
        if_not_exists = self.if_not_exists()
        return CreateKeyspace(self.keyspace_name(), self._with_properties(), if_not_exists)

    def alter_keyspace(self) -> SchemaStatement:
        if_exists = self.if_exists()
        return AlterKeyspace(self.keyspace_name(), self._with_properties(), if_exists)

    def drop_keyspace(self) -> SchemaStatement:
        if_exists = self.if_exists()
        return DropKeyspace(self.keyspace_name(), if_exists)

    # --- CREATE TABLE --------------------------------------------------------------------------------

    def create_table(self) -> SchemaStatement:
        if_not_exists = self.if_not_exists()
        table = self.table_name()
        columns: list[ColumnDefinition] = []
        keys: list[PrimaryKey] = []
        self.expect("(")
        self._table_item(columns, keys)
        while self.accept(","):
            # Cassandra's grammar lets commas stand alone.
            if self.peek() not in (",", ")"):
                self._table_item(columns, keys)
        self.expect(")")
        order, properties, compact = self._table_properties()
        return CreateTable(table, tuple(columns), tuple(keys), order, properties, compact, if_not_exists)

    def _table_item(self, columns: list[ColumnDefinition], keys: list[PrimaryKey]) -> None:
        if self.peek() == "PRIMARY":
            keys.append(self._primary_key())
            return
        columns.append(self._column_definition())
        if self.accept("PRIMARY"):
            self.expect("KEY")
            keys.append(PrimaryKey((columns[-1].name,)))

    def _column_definition(self) -> ColumnDefinition:
        name, type_node = self.name(), self.type()
        static = self.accept("STATIC")
        return ColumnDefinition(name, type_node, static, self._mask() if self.accept("MASKED") else None)

    def _mask(self) -> FunctionCall:
        self.expect("WITH")
        if self.accept("DEFAULT"):
            return FunctionCall(None, "mask_default", ())
        start = self.position
        call = self.term()
        if not isinstance(call, FunctionCall):
            self.fail_no_alternative(start)
        return call

    def _primary_key(self) -> PrimaryKey:
        self.expect("PRIMARY", "KEY", "(")
        partition = self.parenthesised_names() if self.peek() == "(" else (self.name(),)
        clustering = self.names() if self.accept(",") else ()
        self.expect(")")
        return PrimaryKey(partition, clustering)

    # --- ALTER TABLE ---------------------------------------------------------------------------------

    def alter_table(self) -> SchemaStatement:
        if_exists = self.if_exists()
        return AlterTable(self.table_name(), self._table_action(), if_exists)

    def _table_action(self) -> TableAction:
        if self.accept("ADD"):
            return self._add_columns()
        if self.accept("DROP"):
            return self._drop_columns()
        if self.accept("RENAME"):
            if_exists = self.if_exists()
            return RenameColumns(self._renames(), if_exists)
        if self.accept("ALTER"):
            return self._alter_column()
        return SetOptions(self._with_properties())

    def _add_columns(self) -> AddColumns:
        if_not_exists = self.if_not_exists()
        if not self.accept("("):
            return AddColumns((self._column_definition(),), if_not_exists)
        columns = [self._column_definition()]
        while self.accept(","):
            columns.append(self._column_definition())
        self.expect(")")
        return AddColumns(tuple(columns), if_not_exists)

    def _drop_columns(self) -> TableAction:
        if self.accept_all("COMPACT", "STORAGE"):
            return DropCompactStorage()
        if_exists = self.if_exists()
        columns = self.parenthesised_names() if self.peek() == "(" else (self.name(),)
        timestamp = None
        if self.accept("USING"):
            self.expect("TIMESTAMP")
            timestamp = self.integer()
        return DropColumns(columns, timestamp, if_exists)

    def _renames(self) -> tuple[tuple[str, str], ...]:
        found: list[tuple[str, str]] = []
        while not found or self.accept("AND"):
            old = self.name()
            self.expect("TO")
            found.append((old, self.name()))
        return tuple(found)

    def _alter_column(self) -> TableAction:
        if_exists = self.if_exists()
        column = self.name()
        if self.accept("TYPE"):
            return AlterColumnType(column, self.type())
        if self.accept("DROP"):
            self.expect("MASKED")
            return AlterColumnMask(column, None, if_exists)
        self.expect("MASKED")
        return AlterColumnMask(column, self._mask(), if_exists)

    def drop_table(self) -> SchemaStatement:
        if_exists = self.if_exists()
        return DropTable(self.table_name(), if_exists)

    # --- types ---------------------------------------------------------------------------------------

    def create_type(self) -> SchemaStatement:
        if_not_exists = self.if_not_exists()
        name = self.user_type_name()
        self.expect("(")
        fields = [self._field()]
        while self.accept(","):
            if self.peek() not in (",", ")"):
                fields.append(self._field())
        self.expect(")")
        return CreateType(name, tuple(fields), if_not_exists)

    def _field(self) -> tuple[str, TypeNode]:
        return self.name(), self.type()

    def alter_type(self) -> SchemaStatement:
        if_exists = self.if_exists()
        return AlterType(self.user_type_name(), self._type_action(), if_exists)

    def _type_action(self) -> TypeAction:
        if self.accept("ADD"):
            if_not_exists = self.if_not_exists()
            return AddField(*self._field(), if_not_exists)
        if self.accept("RENAME"):
            if_exists = self.if_exists()
            return RenameFields(self._renames(), if_exists)
        self.expect("ALTER")
        name = self.name()
        self.expect("TYPE")
        return AlterFieldType(name, self.type())

    def drop_type(self) -> SchemaStatement:
        if_exists = self.if_exists()
        return DropType(self.user_type_name(), if_exists)

    # --- materialized views --------------------------------------------------------------------------

    def create_view(self) -> SchemaStatement:
        if_not_exists = self.if_not_exists()
        view = self.table_name()
        self.expect("AS", "SELECT")
        items = self.select_items()
        self.expect("FROM")
        base = self.table_name()
        where = self.relations() if self.accept("WHERE") else ()
        key = self._primary_key()
        order, properties, compact = self._table_properties()
        return CreateMaterializedView(
            view, base, items, where, key, order, properties, compact, if_not_exists, tuple(self.markers)
        )

    def alter_view(self) -> SchemaStatement:
        if_exists = self.if_exists()
        return AlterMaterializedView(self.table_name(), self._with_properties(), if_exists)

    def drop_view(self) -> SchemaStatement:
        if_exists = self.if_exists()
        return DropMaterializedView(self.table_name(), if_exists)

    # --- indexes -------------------------------------------------------------------------------------

    def create_index(self, custom: bool) -> SchemaStatement:
        if_not_exists = self.if_not_exists()
        name = None if self.peek() == "ON" else TableName(*self.qualified_name("index"))
        self.expect("ON")
        table = self.table_name()
        self.expect("(")
        targets: list[IndexTarget] = []
        while not self.accept(")"):
            if targets:
                self.expect(",")
            targets.append(self._index_target())
        using = self.string() if self.accept("USING") else None
        properties = self._with_properties() if self.peek() == "WITH" else ()
        return CreateIndex(table, tuple(targets), name, custom, using, properties, if_not_exists)

    def _index_target(self) -> IndexTarget:
        kind = _INDEX_KINDS.get(self.peek())
        if kind is None or self.peek(1) != "(":
            return IndexTarget("simple", self.name())
        self.position += 2
        column = self.name()
        self.expect(")")
        return IndexTarget(kind, column)

    def drop_index(self) -> SchemaStatement:
        if_exists = self.if_exists()
        return DropIndex(TableName(*self.qualified_name("index")), if_exists)
