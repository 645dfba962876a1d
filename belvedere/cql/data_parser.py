"""SELECT, INSERT, UPDATE, DELETE, BATCH and CALL."""

from belvedere.cql.data_statements import (
    AddToColumn,
    Assignment,
    Batch,
    BatchKind,
    Call,
    Delete,
    DeleteColumn,
    DeleteElement,
    DeleteField,
    DeleteTarget,
    Insert,
    InsertJson,
    Markers,
    Modification,
    Ordering,
    PrependToColumn,
    Select,
    SetColumn,
    SetElement,
    SetField,
    SubtractFromColumn,
    Update,
)
from belvedere.cql.expressions import Condition, Constant, Expression, SelectItem, TableName, Term
from belvedere.cql.where_parser import WhereParser

_AFTER_A_COLUMN = frozenset(["FROM", ",", ".", "[", "AS", "+", "/", "%"])
_STATEMENT_STARTS = ("INSERT", "UPDATE", "DELETE", "APPLY")
_EXPLICIT_ADDITION = "Only expressions of the form X = X + <value> are supported."
_EXPLICIT_PREPEND = "Only expressions of the form X = <value> + X are supported."


class DataParser(WhereParser):
    __slots__ = ("in_batch",)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.in_batch = False

    def _statement_markers(self) -> Markers:
        return () if self.in_batch else tuple(self.markers)

    # --- SELECT --------------------------------------------------------------------------------------

    def select(self) -> Select:
        self.expect("SELECT")
        json = self._modifier("JSON")
        distinct = self._modifier("DISTINCT")
        items = self.select_items()
        self.expect("FROM")
        table = self.table_name()
        where = self.relations() if self.accept("WHERE") else ()
        group_by = self._group_by() if self.accept("GROUP") else ()
        order_by = self._order_by() if self.accept("ORDER") else ()
        per_partition = self._integer_or_marker() if self.accept_all("PER", "PARTITION", "LIMIT") else None
        limit = self._integer_or_marker() if self.accept("LIMIT") else None
        filtering = self.accept("ALLOW")
        if filtering:
            self.expect("FILTERING")
        return Select(
            table,
            items,
            where,
            distinct,
            json,
            group_by,
            order_by,
            per_partition,
            limit,
            filtering,
            tuple(self.markers),
        )

    def _modifier(self, word: str) -> bool:
        """JSON and DISTINCT are columns' names too: what follows tells."""
        if self.upper[self.position] != word:
            return False
        if self.peek(1) in _AFTER_A_COLUMN:
            return False
        self.position += 1
        return True

    def select_items(self) -> tuple[SelectItem, ...]:
        """The selectors of a SELECT or of a view; empty for `*`."""
        if self.accept("*"):
            return ()
        found = [self._select_item()]
        while self.accept(","):
            found.append(self._select_item())
        return tuple(found)

    def _select_item(self) -> SelectItem:
        expression = self.selector()
        return SelectItem(expression, self.name() if self.accept("AS") else None)

    def _group_by(self) -> tuple[Expression, ...]:
        self.expect("BY")
        found = [self.selector()]
        while self.accept(","):
            found.append(self.selector())
        return tuple(found)

    def _order_by(self) -> tuple[Ordering, ...]:
        self.expect("BY")
        found = [self._ordering()]
        while self.accept(","):
            found.append(self._ordering())
        return tuple(found)

    def _ordering(self) -> Ordering:
        column = self.name()
        ann_of = self.term() if self.accept_all("ANN", "OF") else None
        descending = self.accept("DESC")
        if not descending:
            self.accept("ASC")
        return Ordering(column, descending, ann_of)

    def _integer_or_marker(self) -> Term:
        """An integer or a marker: of LIMIT, TTL and TIMESTAMP."""
        if self.tokens[self.position] in ("?", ":"):
            return self.marker()
        start = self.position
        found: Term | None = self.signed_constant() if self.is_constant() else None
        if not (isinstance(found, Constant) and found.kind == "integer"):
            self.fail_no_alternative(start)
        return found

    # --- INSERT --------------------------------------------------------------------------------------

    def insert(self) -> Modification:
        self.expect("INSERT", "INTO")
        table = self.table_name()
        if self.accept("JSON"):
            return self._insert_json(table)
        columns = self.parenthesised_names()
        self.expect("VALUES", "(")
        values = [self.term()]
        while self.accept(","):
            values.append(self.term())
        self.expect(")")
        if_not_exists = self.if_not_exists()
        timestamp, ttl = self._using()
        return Insert(table, columns, tuple(values), if_not_exists, timestamp, ttl, self._statement_markers())

    def _insert_json(self, table: TableName) -> InsertJson:
        json: Term
        if self.tokens[self.position] in ("?", ":"):
            json = self.marker()
        else:
            json = Constant("string", self.string())
        default_unset = False
        if self.accept("DEFAULT"):
            default_unset = self.accept("UNSET")
            if not default_unset:
                self.expect("NULL")
        if_not_exists = self.if_not_exists()
        timestamp, ttl = self._using()
        return InsertJson(
            table, json, default_unset, if_not_exists, timestamp, ttl, self._statement_markers()
        )

    def _using(self) -> tuple[Term | None, Term | None]:
        """`USING TIMESTAMP t AND TTL s`, in any order."""
        timestamp: Term | None = None
        ttl: Term | None = None
        if not self.accept("USING"):
            return timestamp, ttl
        while True:
            if self.accept("TIMESTAMP"):
                timestamp = self._integer_or_marker()
            elif self.accept("TTL"):
                ttl = self._integer_or_marker()
            else:
                self.fail_no_alternative()
            if not self.accept("AND"):
                return timestamp, ttl

    # --- UPDATE --------------------------------------------------------------------------------------

    def update(self) -> Update:
        self.expect("UPDATE")
        table = self.table_name()
        timestamp, ttl = self._using()
        self.expect("SET")
        assignments = [self._assignment()]
        while self.accept(","):
            assignments.append(self._assignment())
        self.expect("WHERE")
        where = self.relations()
        if_exists, conditions = self._update_conditions()
        return Update(
            table,
            tuple(assignments),
            where,
            conditions,
            if_exists,
            timestamp,
            ttl,
            self._statement_markers(),
        )

    def _update_conditions(self) -> tuple[bool, tuple[Condition, ...]]:
        if not self.accept("IF"):
            return False, ()
        # A column may be called "exists"; then an operator follows.
        if self.peek() == "EXISTS" and self.peek(1) in ("", ";", *_STATEMENT_STARTS):
            self.position += 1
            return True, ()
        return False, self.conditions()

    def _assignment(self) -> Assignment:
        column = self.name()
        token = self.tokens[self.position]
        if token == "=":
            self.position += 1
            return self._assigned(column)
        if token in ("+=", "-="):
            self.position += 1
            value = self.term()
            return AddToColumn(column, value) if token == "+=" else SubtractFromColumn(column, value)
        if self.accept("["):
            key = self.term()
            self.expect("]", "=")
            return SetElement(column, key, self.term())
        if self.accept("."):
            field = self.name()
            self.expect("=")
            return SetField(column, field, self.term())
        self.fail_no_alternative()

    def _assigned(self, column: str) -> Assignment:
        """What follows `column =`: a value, or the column itself with something added."""
        start = self.position
        operand = self.name_at(start)
        if operand is not None and self.peek(1) in ("+", "-"):
            self.position += 2
            value = self.term()
            if operand != column:
                self.fail(_EXPLICIT_ADDITION, start)
            adds = self.tokens[start + 1] == "+"
            return AddToColumn(column, value) if adds else SubtractFromColumn(column, value)
        value = self.term()
        if not self.accept("+"):
            return SetColumn(column, value)
        operand = self.name()
        if operand != column:
            self.fail(_EXPLICIT_PREPEND, self.position - 1)
        return PrependToColumn(column, value)

    # --- DELETE --------------------------------------------------------------------------------------

    def delete(self) -> Delete:
        self.expect("DELETE")
        targets: list[DeleteTarget] = []
        if self.peek() != "FROM":
            targets.append(self._delete_target())
            while self.accept(","):
                targets.append(self._delete_target())
        self.expect("FROM")
        table = self.table_name()
        timestamp: Term | None = None
        if self.accept("USING"):
            self.expect("TIMESTAMP")
            timestamp = self._integer_or_marker()
        self.expect("WHERE")
        where = self.relations()
        if_exists, conditions = self._update_conditions()
        return Delete(
            table, tuple(targets), where, conditions, if_exists, timestamp, self._statement_markers()
        )

    def _delete_target(self) -> DeleteTarget:
        column = self.name()
        if self.accept("["):
            key = self.term()
            self.expect("]")
            return DeleteElement(column, key)
        if self.accept("."):
            return DeleteField(column, self.name())
        return DeleteColumn(column)

    # --- BATCH ---------------------------------------------------------------------------------------

    def batch(self) -> Batch:
        self.expect("BEGIN")
        kind: BatchKind = "LOGGED"
        if self.accept("UNLOGGED"):
            kind = "UNLOGGED"
        elif self.accept("COUNTER"):
            kind = "COUNTER"
        self.expect("BATCH")
        timestamp, ttl = self._using()
        self.in_batch = True
        statements = []
        while not self.accept("APPLY"):
            statements.append(self._batched())
            self.accept(";")
        self.expect("BATCH")
        self.in_batch = False
        return Batch(kind, tuple(statements), timestamp, ttl, tuple(self.markers))

    def _batched(self) -> Modification:
        word = self.peek()
        if word == "INSERT":
            return self.insert()
        if word == "UPDATE":
            return self.update()
        if word == "DELETE":
            return self.delete()
        self.fail_no_alternative()

    # --- CALL ----------------------------------------------------------------------------------------

    def call(self) -> Call:
        self.expect("CALL")
        keyspace, name = self.qualified_name("procedure")
        self.expect("(")
        arguments: list[Term] = []
        if not self.accept(")"):
            arguments.append(self.term())
            while self.accept(","):
                arguments.append(self.term())
            self.expect(")")
        return Call(keyspace, name, tuple(arguments), tuple(self.markers))
