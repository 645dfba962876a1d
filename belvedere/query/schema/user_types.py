"""CREATE, ALTER and DROP TYPE."""

from collections.abc import Iterable

from belvedere.cql import syntax
from belvedere.cql.keywords import NATIVE_TYPES, PARAMETRIC_TYPES
from belvedere.meta.state import ClusterState
from belvedere.model.schema import Keyspace
from belvedere.model.types import CQLType, UserType, quote_name
from belvedere.query.errors import InvalidRequest, SyntaxException
from belvedere.query.schema.column_types import resolve_in, uses_type
from belvedere.query.schema.edits import DdlContext, Decision, KeyspaceEdit
from belvedere.query.schema.names import check_modifiable, existing_keyspace, keyspace_of
from belvedere.query.schema.views_follow import check_field_names

_MAX_FIELDS = 32767
#: Cassandra's, and the names of types that would be taken for something else wherever they are written.
_RESERVED = frozenset({"bitstring", "byte", "complex", "enum", "interval", "macaddr"})
_TAKEN = _RESERVED | NATIVE_TYPES | PARAMETRIC_TYPES


def create_type(statement: syntax.CreateType, state: ClusterState, context: DdlContext) -> Decision | None:
    keyspace = _keyspace(statement.keyspace, state, context)
    name = statement.type_name.name
    if name in keyspace.types:
        if statement.if_not_exists:
            return None
        raise InvalidRequest(f"A user type with name '{name}' already exists")
    if not name:
        raise InvalidRequest("Type name must not be empty")
    if name in _TAKEN:
        raise SyntaxException(f"Invalid (reserved) user type name {name}")
    fields: dict[str, CQLType] = {}
    for field, node in statement.fields:
        if field in fields:
            raise InvalidRequest(f"Duplicate field name '{field}' in type '{name}'")
        fields[field] = _field_type(keyspace, node)
    edit = KeyspaceEdit(state, keyspace.name)
    edit.put_type(UserType(keyspace.name, name, fields.items()))
    return edit.decide("CREATED", "TYPE", name)


def alter_type(statement: syntax.AlterType, state: ClusterState, context: DdlContext) -> Decision | None:
    keyspace = _keyspace(statement.keyspace, state, context)
    name = statement.type_name.name
    if name not in keyspace.types and statement.if_exists:
        return None
    before = _existing(keyspace, name)
    match statement.action:
        case syntax.AddField(field, node, if_not_exists):
            after = _with_field(keyspace, before, field, node, if_not_exists)
        case syntax.RenameFields(renames, if_exists):
            after = _with_renamed(before, renames, if_exists)
            check_field_names(keyspace, before, frozenset(old for old, _ in renames))
        case syntax.AlterFieldType():
            raise InvalidRequest("Altering field types is no longer supported")
    if after == before:
        return None
    edit = KeyspaceEdit(state, keyspace.name)
    edit.put_type(after)
    return edit.decide("UPDATED", "TYPE", name)


def drop_type(statement: syntax.DropType, state: ClusterState, context: DdlContext) -> Decision | None:
    keyspace = _keyspace(statement.keyspace, state, context)
    name = statement.type_name.name
    if name not in keyspace.types and statement.if_exists:
        return None
    doomed = _existing(keyspace, name)
    _check_unused(keyspace, doomed)
    edit = KeyspaceEdit(state, keyspace.name)
    edit.drop_type(name)
    return edit.decide("DROPPED", "TYPE", name)


# --- parts -------------------------------------------------------------------------------------------


def _keyspace(explicit: str | None, state: ClusterState, context: DdlContext) -> Keyspace:
    name = keyspace_of(explicit, context.keyspace)
    check_modifiable(name)
    return existing_keyspace(state, name)


def _existing(keyspace: Keyspace, name: str) -> UserType:
    found = keyspace.types.get(name)
    if found is None:
        raise InvalidRequest(f"Type '{keyspace.name}.{name}' doesn't exist")
    return found


def _field_type(keyspace: Keyspace, node: syntax.TypeNode) -> CQLType:
    field_type = resolve_in(keyspace, node)
    if field_type.name == "counter":
        raise InvalidRequest("A user type cannot contain counters")
    if isinstance(field_type, UserType) and field_type.is_multicell:
        raise InvalidRequest("A user type cannot contain non-frozen UDTs")
    return field_type


def _with_field(
    keyspace: Keyspace, user_type: UserType, field: str, node: syntax.TypeNode, if_not_exists: bool
) -> UserType:
    name = quote_name(user_type.type_name)
    if field in user_type.field_names:
        if if_not_exists:
            return user_type
        raise InvalidRequest(
            f"Cannot add field {field} to type {name}: a field with name {field} already exists"
        )
    field_type = _field_type(keyspace, node)
    if uses_type(field_type, user_type):
        raise InvalidRequest(
            f"Cannot add new field {field} of type {field_type.name} to user type {name} "
            "as it would create a circular reference"
        )
    _check_cells(keyspace, user_type, field_type)
    keyed = [
        table.full_name
        for table in keyspace.tables.values()
        if any(uses_type(column.type, user_type) for column in table.partition_key)
    ]
    if keyed:
        raise InvalidRequest(
            f"Cannot add new field {field} of type {field_type.name} to user type {name} as the type is "
            f"being used in partition key by the following tables: {', '.join(keyed)}"
        )
    if len(user_type.types) >= _MAX_FIELDS:
        raise InvalidRequest(f"Cannot add new field {field} to type {name}: maximum number of fields reached")
    return UserType(keyspace.name, user_type.type_name, (*user_type.fields, (field, field_type)))


def _check_cells(keyspace: Keyspace, user_type: UserType, field_type: CQLType) -> None:
    """A field that needs many cells cannot go into a user type that is itself stored as cells."""
    columns = (column for table in keyspace.tables.values() for column in table.columns)
    if field_type.is_multicell and any(column.type == user_type for column in columns):
        raise InvalidRequest("Non-frozen UDTs with nested non-frozen collections are not supported")


def _with_renamed(user_type: UserType, renames: tuple[tuple[str, str], ...], if_exists: bool) -> UserType:
    name = quote_name(user_type.type_name)
    names = list(user_type.field_names)
    for old, new in renames:
        if old in names:
            names[names.index(old)] = new
        elif not if_exists:
            raise InvalidRequest(f"Unknown field {old} in user type {name}")
    for field in names:
        if names.count(field) > 1:
            raise InvalidRequest(
                f"Duplicate field name {field} in type {user_type.keyspace}.{user_type.type_name}"
            )
    return UserType(user_type.keyspace, user_type.type_name, zip(names, user_type.types, strict=True))


def _check_unused(keyspace: Keyspace, doomed: UserType) -> None:
    what = f"Cannot drop user type '{keyspace.name}.{doomed.type_name}' as it is still used by"
    types = [
        other.type_name
        for other in keyspace.types.values()
        if any(uses_type(field, doomed) for field in other.types)
    ]
    if types:
        raise InvalidRequest(f"{what} user types {_listed(types)}")
    tables = [
        table.name
        for table in keyspace.tables.values()
        if table.view is None and any(uses_type(column.type, doomed) for column in table.columns)
    ]
    if tables:
        raise InvalidRequest(f"{what} tables {_listed(tables)}")


def _listed(names: Iterable[str]) -> str:
    return f"[{', '.join(sorted(names))}]"
