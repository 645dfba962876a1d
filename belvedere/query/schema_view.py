"""What planning asks of the schema: one immutable snapshot, looked up by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from belvedere.model.schema import Column, Keyspace, Table
from belvedere.model.types import UserType
from belvedere.query.errors import InvalidRequest

NO_KEYSPACE = "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename"


class SchemaView(Protocol):
    def table(self, keyspace: str, name: str) -> Table:
        """Raises InvalidRequest if there is no such keyspace or table."""

    def user_type(self, keyspace: str, name: str) -> UserType:
        """Raises InvalidRequest if there is no such keyspace or type."""


@dataclass(frozen=True, slots=True)
class KeyspacesView:
    """A SchemaView over plain keyspace definitions."""

    keyspaces: Mapping[str, Keyspace]

    def table(self, keyspace: str, name: str) -> Table:
        table = self._keyspace(keyspace).tables.get(name)
        if table is None:
            raise InvalidRequest(f"table {name} does not exist")
        return table

    def user_type(self, keyspace: str, name: str) -> UserType:
        found = self._keyspace(keyspace).types.get(name)
        if found is None:
            raise InvalidRequest(f"Unknown type {keyspace}.{name}")
        return found

    def _keyspace(self, name: str) -> Keyspace:
        keyspace = self.keyspaces.get(name)
        if keyspace is None:
            raise InvalidRequest(f"keyspace {name} does not exist")
        return keyspace


def find_table(schema: SchemaView, explicit: str | None, current: str | None, name: str) -> Table:
    """The table a statement names, in its explicit keyspace or else in the session's."""
    keyspace = explicit if explicit is not None else current
    if keyspace is None:
        raise InvalidRequest(NO_KEYSPACE)
    return schema.table(keyspace, name)


def existing_column(table: Table, name: str) -> Column:
    column = table.by_name.get(name)
    if column is None or column.hidden:
        raise InvalidRequest(f"Undefined column name {name} in table {table.full_name}")
    return column
