"""Which names a schema may hold, and finding what a statement names."""

import re

from belvedere.meta.state import ClusterState
from belvedere.model.schema import Keyspace, Table
from belvedere.query.errors import InvalidRequest, Unauthorized
from belvedere.query.schema_view import NO_KEYSPACE

SYSTEM_KEYSPACES = frozenset(
    {
        "system",
        "system_schema",
        "system_auth",
        "system_distributed",
        "system_traces",
        "system_views",
        "system_virtual_schema",
    }
)

MAX_NAME_LENGTH = 48
_NAME = re.compile(rf"[A-Za-z0-9_]{{1,{MAX_NAME_LENGTH}}}")


def check_name(what: str, name: str) -> None:
    """`what` is "Keyspace" or "Table"."""
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"{what} name must not be empty, more than {MAX_NAME_LENGTH} characters long, "
            f'or contain non-alphanumeric-underscore characters (got "{name}")'
        )


def keyspace_of(explicit: str | None, current: str | None) -> str:
    name = explicit if explicit is not None else current
    if name is None:
        raise InvalidRequest(NO_KEYSPACE)
    return name


def is_system(keyspace: str) -> bool:
    return keyspace.lower() in SYSTEM_KEYSPACES


def check_modifiable(keyspace: str) -> None:
    if is_system(keyspace):
        raise Unauthorized(f"{keyspace} keyspace is not user-modifiable.")


def existing_keyspace(state: ClusterState, name: str) -> Keyspace:
    keyspace = state.keyspaces.get(name)
    if keyspace is None:
        raise InvalidRequest(f"Keyspace '{name}' doesn't exist")
    return keyspace


def existing_table(state: ClusterState, keyspace: str, name: str) -> Table:
    table = state.table(keyspace, name)
    if table is None:
        raise no_table(keyspace, name)
    return table


def no_table(keyspace: str, name: str) -> InvalidRequest:
    return InvalidRequest(f"Table '{keyspace}.{name}' doesn't exist")
