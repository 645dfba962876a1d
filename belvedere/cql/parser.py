"""The entrance: one CQL statement, or one piece of one, from text to tree."""

from collections.abc import Callable

from belvedere.cql.expressions import Expression, Relation, TableName, Term, TypeNode
from belvedere.cql.lexer import is_known
from belvedere.cql.schema_parser import SchemaParser
from belvedere.cql.schema_statements import (
    Describe,
    DescribeKind,
    FunctionStatement,
    RoleStatement,
    Truncate,
    Use,
)
from belvedere.cql.syntax import Statement


def parse_statement(text: str) -> Statement:
    """One statement, which a semicolon may end. Raises CQLSyntaxError."""
    parser = Parser(text)
    statement = parser.statement()
    parser.expect_end()
    return statement


def parse_type(text: str) -> TypeNode:
    parser = Parser(text)
    found = parser.type()
    parser.expect_end()
    return found


def parse_term(text: str) -> Term:
    parser = Parser(text)
    found = parser.term()
    parser.expect_end()
    return found


def parse_selector(text: str) -> Expression:
    parser = Parser(text)
    found = parser.selector()
    parser.expect_end()
    return found


def parse_where(text: str) -> tuple[Relation, ...]:
    """`relation AND relation ...`, without the word WHERE: as a view's filter is stored."""
    parser = Parser(text)
    found = parser.relations()
    parser.expect_end()
    return found


def parse_table_name(text: str) -> TableName:
    """`[keyspace.]name`, quoted where that is needed."""
    parser = Parser(text)
    found = parser.table_name()
    parser.expect_end()
    return found


_DESCRIBE_LISTS: dict[str, DescribeKind] = {
    "CLUSTER": "cluster",
    "KEYSPACES": "keyspaces",
    "TABLES": "tables",
    "TYPES": "types",
    "FUNCTIONS": "functions",
    "AGGREGATES": "aggregates",
}
_DESCRIBE_NAMED: dict[str, DescribeKind] = {
    "TABLE": "table",
    "COLUMNFAMILY": "table",
    "INDEX": "index",
    "TYPE": "type",
    "FUNCTION": "function",
    "AGGREGATE": "aggregate",
}
_AFTER_DESCRIBED = ("", ";", "WITH")
_ROLE_OBJECTS = ("ROLE", "USER", "IDENTITY")
_FUNCTION_OBJECTS = ("FUNCTION", "AGGREGATE", "TRIGGER")


class Parser(SchemaParser):
    __slots__ = ()

    def statement(self) -> Statement:
        start = _STARTS.get(self.upper[self.position])
        if start is None:
            self.fail_no_alternative()
        return start(self)

    # --- CREATE, ALTER, DROP -------------------------------------------------------------------------

    def create(self) -> Statement:
        self.expect("CREATE")
        if self.accept_all("MATERIALIZED", "VIEW"):
            return self.create_view()
        if self.accept("CUSTOM"):
            self.expect("INDEX")
            return self.create_index(custom=True)
        if self.accept("INDEX"):
            return self.create_index(custom=False)
        if self.peek() == "OR" and self.peek(2) in _FUNCTION_OBJECTS:
            self.expect("OR", "REPLACE")
        return self._on_object("CREATE", _CREATED)

    def alter(self) -> Statement:
        self.expect("ALTER")
        if self.accept_all("MATERIALIZED", "VIEW"):
            return self.alter_view()
        return self._on_object("ALTER", _ALTERED)

    def drop(self) -> Statement:
        self.expect("DROP")
        if self.accept_all("MATERIALIZED", "VIEW"):
            return self.drop_view()
        return self._on_object("DROP", _DROPPED)

    def _on_object(self, verb: str, known: "dict[str, Callable[[Parser], Statement]]") -> Statement:
        word = self.peek()
        parse = known.get(word)
        if parse is not None:
            self.position += 1
            return parse(self)
        if word in _ROLE_OBJECTS:
            return RoleStatement(f"{verb} {word}", self._rest())
        if word in _FUNCTION_OBJECTS and verb != "ALTER":
            return FunctionStatement(f"{verb} {word}", self._rest())
        self.fail_no_alternative()

    # --- what is only recognised ---------------------------------------------------------------------

    def grant_or_revoke(self) -> Statement:
        return RoleStatement(self.peek(), self._rest())

    def list_roles(self) -> Statement:
        if self.peek(1) in ("ROLES", "USERS", "SUPERUSERS"):
            return RoleStatement(f"LIST {self.peek(1)}", self._rest())
        if self.name_at(self.position + 1) is None and not self.peek(1).isalpha():
            self.position += 1
            self.fail_no_alternative()
        return RoleStatement("LIST PERMISSIONS", self._rest())

    def add_identity(self) -> Statement:
        if self.peek(1) != "IDENTITY":
            self.position += 1
            self.fail_no_alternative()
        return RoleStatement("ADD IDENTITY", self._rest())

    def _rest(self) -> str:
        """The whole statement's text, its tokens taken; their grammar is not looked at."""
        while self.tokens[self.position] not in ("", ";"):
            if not is_known(self.tokens[self.position]):
                self.fail_no_alternative()
            self.position += 1
        return self.text.strip().rstrip(";").rstrip()

    # --- USE, TRUNCATE, DESCRIBE ---------------------------------------------------------------------

    def use(self) -> Statement:
        self.expect("USE")
        return Use(self.keyspace_name())

    def truncate(self) -> Statement:
        self.expect("TRUNCATE")
        if not self.accept("TABLE"):
            self.accept("COLUMNFAMILY")
        return Truncate(self.table_name())

    def describe(self) -> Statement:
        self.position += 1
        kind, keyspace, name, full, only = self._described()
        internals = self.accept("WITH")
        if internals:
            self.expect("INTERNALS")
        return Describe(kind, keyspace, name, full, only, internals)

    def _described(self) -> tuple[DescribeKind, str | None, str | None, bool, bool]:
        word, ends = self.peek(), self.peek(1) in _AFTER_DESCRIBED
        if word in _DESCRIBE_LISTS and ends:
            self.position += 1
            return _DESCRIBE_LISTS[word], None, None, False, False
        if self.accept("FULL"):
            self.expect("SCHEMA")
            return "schema", None, None, True, False
        if word in ("ONLY", "KEYSPACE", "SCHEMA") and not (word == "ONLY" and ends):
            return self._described_keyspace()
        if self.accept("MATERIALIZED"):
            if self.accept("VIEWS"):
                return "materialized views", None, None, False, False
            self.expect("VIEW")
            return ("materialized view", *self.qualified_name("table"), False, False)
        if word in _DESCRIBE_NAMED and not ends and self.peek(1) != ".":
            self.position += 1
            kind = _DESCRIBE_NAMED[word]
            what = kind if kind in ("type", "function", "aggregate") else "table"
            return (kind, *self.qualified_name(what), False, False)
        return ("generic", *self.qualified_name("table"), False, False)

    def _described_keyspace(self) -> tuple[DescribeKind, str | None, str | None, bool, bool]:
        only = self.accept("ONLY")
        whole_schema = self.peek() == "SCHEMA" and not only and self.peek(1) in _AFTER_DESCRIBED
        if not self.accept("SCHEMA"):
            self.expect("KEYSPACE")
        if whole_schema:
            return "schema", None, None, False, False
        keyspace = None if self.peek() in _AFTER_DESCRIBED else self.keyspace_name()
        return "keyspace", keyspace, None, False, only


_STARTS: dict[str, Callable[[Parser], Statement]] = {
    "SELECT": Parser.select,
    "INSERT": Parser.insert,
    "UPDATE": Parser.update,
    "DELETE": Parser.delete,
    "BEGIN": Parser.batch,
    "CALL": Parser.call,
    "CREATE": Parser.create,
    "ALTER": Parser.alter,
    "DROP": Parser.drop,
    "USE": Parser.use,
    "TRUNCATE": Parser.truncate,
    "DESCRIBE": Parser.describe,
    "DESC": Parser.describe,
    "LIST": Parser.list_roles,
    "GRANT": Parser.grant_or_revoke,
    "REVOKE": Parser.grant_or_revoke,
    "ADD": Parser.add_identity,
}
_CREATED: dict[str, Callable[[Parser], Statement]] = {
    "KEYSPACE": Parser.create_keyspace,
    "SCHEMA": Parser.create_keyspace,
    "TABLE": Parser.create_table,
    "COLUMNFAMILY": Parser.create_table,
    "TYPE": Parser.create_type,
}
_ALTERED: dict[str, Callable[[Parser], Statement]] = {
    "KEYSPACE": Parser.alter_keyspace,
    "SCHEMA": Parser.alter_keyspace,
    "TABLE": Parser.alter_table,
    "COLUMNFAMILY": Parser.alter_table,
    "TYPE": Parser.alter_type,
}
_DROPPED: dict[str, Callable[[Parser], Statement]] = {
    "KEYSPACE": Parser.drop_keyspace,
    "SCHEMA": Parser.drop_keyspace,
    "TABLE": Parser.drop_table,
    "COLUMNFAMILY": Parser.drop_table,
    "TYPE": Parser.drop_type,
    "INDEX": Parser.drop_index,
}
