"""Types, as DDL and casts write them."""

from belvedere.cql.expressions import (
    CustomType,
    FrozenType,
    ListType,
    MapType,
    NativeType,
    SetType,
    TupleType,
    TypeNode,
    VectorType,
)
from belvedere.cql.keywords import NATIVE_TYPES
from belvedere.cql.lexer import KIND_BY_FIRST_CHARACTER, STRING
from belvedere.cql.stream import TokenStream


class TypeParser(TokenStream):
    __slots__ = ()

    def type(self) -> TypeNode:
        token = self.tokens[self.position]
        if KIND_BY_FIRST_CHARACTER.get(token[:1]) == STRING:
            return CustomType(self.string())
        word = token.lower()
        if self.peek(1) == "<" and token[:1] != '"':
            return self._parametric_type(word)
        if word in NATIVE_TYPES and self.peek(1) != ".":
            self.position += 1
            return NativeType(word)
        return self.user_type_name()

    def _parametric_type(self, word: str) -> TypeNode:
        start = self.position
        self.position += 2
        self.enter()
        found: TypeNode
        if word == "frozen":
            found = FrozenType(self.type())
        elif word == "list":
            found = ListType(self.type())
        elif word == "set":
            found = SetType(self.type())
        elif word == "map":
            key = self.type()
            self.expect(",")
            found = MapType(key, self.type())
        elif word == "tuple":
            found = TupleType(self._type_list())
        elif word == "vector":
            element = self.type()
            self.expect(",")
            found = VectorType(element, self.integer())
        else:
            self.fail_no_alternative(start)
        self.expect(">")
        self.leave()
        return found

    def _type_list(self) -> tuple[TypeNode, ...]:
        found = [self.type()]
        while self.accept(","):
            found.append(self.type())
        return tuple(found)

    def integer(self) -> int:
        """An integer literal that is not a term: a vector's dimension, a timestamp in DDL."""
        sign = -1 if self.tokens[self.position] == "-" else 1
        at = self.position + (sign < 0)
        if not self.tokens[at].isdigit():
            self.fail_mismatch("INTEGER")
        if len(self.tokens[at]) > 20:
            self.fail(f"integer out of range: {self.tokens[at][:20]}...")
        self.position = at + 1
        return sign * int(self.tokens[at])
