"""Types as DDL may use them: what CQL forbids inside collections, tuples, keys and user types."""

from belvedere.cql import syntax
from belvedere.cql.text import to_text
from belvedere.model.schema import Keyspace
from belvedere.model.types import CQLType, ListType, MapType, SetType, TupleType, UserType, VectorType
from belvedere.query.errors import InvalidRequest
from belvedere.query.terms.types import UserTypeLookup, resolve_type


def resolve_in(keyspace: Keyspace, node: syntax.TypeNode) -> CQLType:
    """The type of a column or field to be made in this keyspace."""
    lookup = _lookup(keyspace)
    _check(node, lookup, frozen=False)
    return resolve_type(node, lookup)


def _lookup(keyspace: Keyspace) -> UserTypeLookup:
    def user_type(written: str | None, name: str) -> UserType:
        if written is not None and written != keyspace.name:
            raise InvalidRequest(
                f"Statement on keyspace {keyspace.name} cannot refer to a user type in keyspace {written}; "
                "user types can only be used in the keyspace they are defined in"
            )
        found = keyspace.types.get(name)
        if found is None:
            raise InvalidRequest(f"Unknown type {keyspace.name}.{name}")
        return found

    return user_type


def _check(node: syntax.TypeNode, lookup: UserTypeLookup, frozen: bool) -> None:
    """`frozen` says that something around the node freezes it."""
    match node:
        case syntax.FrozenType(inner):
            if isinstance(inner, syntax.NativeType | syntax.CustomType):
                raise InvalidRequest(
                    "frozen<> is only allowed on collections, tuples, and user-defined types "
                    f"(got {to_text(inner)})"
                )
            _check(inner, lookup, frozen=True)
        case syntax.ListType(element):
            _check_elements(node, (element,), lookup, frozen)
        case syntax.SetType(element):
            if _is_native(element, "duration"):
                raise InvalidRequest(f"Durations are not allowed inside sets: {to_text(node)}")
            _check_elements(node, (element,), lookup, frozen)
        case syntax.MapType(key, value):
            if _is_native(key, "duration"):
                raise InvalidRequest(f"Durations are not allowed as map keys: {to_text(node)}")
            _check_elements(node, (key, value), lookup, frozen)
        case syntax.TupleType(elements):
            for element in elements:
                if _is_native(element, "counter"):
                    raise InvalidRequest("Counters are not allowed inside tuples")
                _check(element, lookup, frozen=True)
        case syntax.VectorType(element):
            if _is_native(element, "counter"):
                raise InvalidRequest("Counters are not allowed inside vectors")
            _check(element, lookup, frozen=True)


def _check_elements(
    collection: syntax.TypeNode, elements: tuple[syntax.TypeNode, ...], lookup: UserTypeLookup, frozen: bool
) -> None:
    for element in elements:
        if _is_native(element, "counter"):
            raise InvalidRequest(f"Counters are not allowed inside collections: {to_text(collection)}")
        if not frozen:
            if isinstance(element, syntax.ListType | syntax.SetType | syntax.MapType):
                raise InvalidRequest(
                    f"Non-frozen collections are not allowed inside collections: {to_text(collection)}"
                )
            if isinstance(element, syntax.UserTypeName):
                lookup(element.keyspace, element.name)
                raise InvalidRequest(
                    f"Non-frozen UDTs are not allowed inside collections: {to_text(collection)}"
                )
        _check(element, lookup, frozen)


def _is_native(node: syntax.TypeNode, name: str) -> bool:
    return isinstance(node, syntax.NativeType) and node.name == name


def check_cell_type(column_type: CQLType) -> None:
    """A non-frozen user type keeps a cell per field: none of them may need more than one."""
    if isinstance(column_type, UserType) and column_type.is_multicell:
        if any(field.is_multicell for field in column_type.types):
            raise InvalidRequest("Non-frozen UDTs with nested non-frozen collections are not supported")


def check_key_type(column_type: CQLType, name: str) -> None:
    if column_type.is_multicell:
        what = "user-defined type" if isinstance(column_type, UserType) else "collection type"
        raise InvalidRequest(f"Invalid non-frozen {what} {column_type.name} for PRIMARY KEY column '{name}'")
    if column_type.name == "counter":
        raise InvalidRequest(f"counter type is not supported for PRIMARY KEY column '{name}'")
    if any(part.name == "duration" for part in column_type.walk()):
        raise InvalidRequest(f"duration type is not supported for PRIMARY KEY column '{name}'")


def uses_type(column_type: CQLType, user_type: UserType) -> bool:
    """Whether the user type is found anywhere inside the other."""
    return any(
        isinstance(part, UserType)
        and (part.keyspace, part.type_name) == (user_type.keyspace, user_type.type_name)
        for part in column_type.walk()
    )


def without_user_types(column_type: CQLType) -> CQLType:
    """The same with tuples in place of user types, so that it still means something when those are gone."""
    found: CQLType
    match column_type:
        case ListType():
            found = ListType(without_user_types(column_type.element))
        case SetType():
            found = SetType(without_user_types(column_type.element))
        case MapType():
            found = MapType(without_user_types(column_type.key), without_user_types(column_type.value))
        case VectorType():
            return VectorType(without_user_types(column_type.element), column_type.dimension)
        case TupleType() | UserType():
            return TupleType([without_user_types(part) for part in column_type.types])
        case _:
            return column_type
    return found if column_type.is_multicell else found.frozen()
