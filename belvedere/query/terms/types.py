"""Types as written in statements, resolved against the schema."""

from collections.abc import Callable

from belvedere.cql import syntax
from belvedere.model.types import (
    CQLType,
    InvalidValue,
    ListType,
    MapType,
    SetType,
    TupleType,
    UserType,
    VectorType,
    native,
)
from belvedere.query.errors import InvalidRequest

#: Finds a user type by the keyspace as written (None: the session's) and its name.
UserTypeLookup = Callable[[str | None, str], UserType]


def resolve_type(node: syntax.TypeNode, user_type: UserTypeLookup) -> CQLType:
    try:
        return _resolve(node, user_type)
    except InvalidValue as error:
        raise InvalidRequest(str(error)) from None


def _resolve(node: syntax.TypeNode, user_type: UserTypeLookup) -> CQLType:
    match node:
        case syntax.NativeType(name):
            return native(name)
        case syntax.ListType(element):
            return ListType(_resolve(element, user_type))
        case syntax.SetType(element):
            return SetType(_resolve(element, user_type))
        case syntax.MapType(key, value):
            return MapType(_resolve(key, user_type), _resolve(value, user_type))
        case syntax.TupleType(elements):
            return TupleType([_resolve(element, user_type) for element in elements])
        case syntax.VectorType(element, dimension):
            return VectorType(_resolve(element, user_type), dimension)
        case syntax.FrozenType(inner):
            return _resolve(inner, user_type).frozen()
        case syntax.UserTypeName(keyspace, name):
            return user_type(keyspace, name)
        case syntax.CustomType(class_name):
            raise InvalidRequest(f"Custom types are not supported: '{class_name}'")
