"""Terms and selectors.

Expressions climb three levels: sums, products, and units with an optional minus. A unit is a literal, a
marker, a call, a cast, something in brackets, and inside a SELECT clause (`columns_allowed`) a column with
its fields and elements.
"""

from collections.abc import Callable

from belvedere.cql.errors import CQLSyntaxError
from belvedere.cql.expressions import (
    Arithmetic,
    ArithmeticOperator,
    Cast,
    CellInfo,
    CellInfoKind,
    ColumnRef,
    Constant,
    CountRows,
    ElementAccess,
    Expression,
    FieldAccess,
    FunctionCall,
    ListLiteral,
    MapLiteral,
    Marker,
    Negation,
    Null,
    SetLiteral,
    SliceAccess,
    Term,
    TupleLiteral,
    TypeHint,
    TypeNode,
    UserTypeLiteral,
    UserTypeName,
)
from belvedere.cql.lexer import KIND_BY_FIRST_CHARACTER, NUMBER, STRING, WORD, is_duration_word
from belvedere.cql.stream import string_content
from belvedere.cql.type_parser import TypeParser

_SUM: dict[str, ArithmeticOperator] = {"+": "+", "-": "-"}
_PRODUCT: dict[str, ArithmeticOperator] = {"*": "*", "/": "/", "%": "%"}
_CELL_INFO: dict[str, CellInfoKind] = {
    "WRITETIME": "writetime",
    "MAXWRITETIME": "maxwritetime",
    "TTL": "ttl",
}
_FLOAT_WORDS = {"NAN": "NaN", "INFINITY": "Infinity"}
_MAX_OPERATORS = 200
"""In one chain of sums or products: each adds a level to the tree."""


class TermParser(TypeParser):
    __slots__ = ()

    # --- terms ---------------------------------------------------------------------------------------

    def term(self) -> Term:
        """An expression without columns, wherever it stands."""
        outer, self.columns_allowed = self.columns_allowed, False
        found = self.expression()
        self.columns_allowed = outer
        return found

    def selector(self) -> Expression:
        """An expression that may name columns."""
        outer, self.columns_allowed = self.columns_allowed, True
        found = self.expression()
        self.columns_allowed = outer
        return found

    def expression(self) -> Expression:
        left = self._product()
        operator = _SUM.get(self.tokens[self.position])
        count = 0
        while operator is not None and not self._is_column_to_add_to():
            self.position += 1
            count = self._count_operator(count)
            left = Arithmetic(operator, left, self._product())
            operator = _SUM.get(self.tokens[self.position])
        return left

    def _is_column_to_add_to(self) -> bool:
        """Whether `+` is followed by a column where none may be: the end of `c = value + c` in UPDATE,
        which belongs to the assignment."""
        if self.columns_allowed or self.name_at(self.position + 1) is None:
            return False
        return self.peek(2) not in ("(", ".")

    def _product(self) -> Expression:
        left = self._signed_unit()
        operator = _PRODUCT.get(self.tokens[self.position])
        count = 0
        while operator is not None:
            self.position += 1
            count = self._count_operator(count)
            left = Arithmetic(operator, left, self._signed_unit())
            operator = _PRODUCT.get(self.tokens[self.position])
        return left

    def _count_operator(self, count: int) -> int:
        if count >= _MAX_OPERATORS:
            self.fail(f"more than {_MAX_OPERATORS} operators in one expression")
        return count + 1

    def _signed_unit(self) -> Expression:
        if self.tokens[self.position] != "-":
            return self._unit()
        self.position += 1
        if self._number_follows():
            return self._negative_constant()
        self.enter()
        found = Negation(self._signed_unit())
        self.leave()
        return found

    def _number_follows(self, ahead: int = 0) -> bool:
        """Whether the token begins a literal that can have a sign: a number or a duration."""
        token = self.tokens[self.position + ahead]
        if KIND_BY_FIRST_CHARACTER.get(token[:1]) == NUMBER:
            return _number(token).kind not in ("uuid", "blob")
        return token.upper() in _FLOAT_WORDS or is_duration_word(token)

    def _negative_constant(self) -> Constant:
        constant = self.constant()
        return Constant(constant.kind, "-" + constant.text)

    def _unit(self) -> Expression:
        found = self._bare_unit()
        if not self.columns_allowed:
            return found
        while True:
            token = self.tokens[self.position]
            if token == ".":
                self.position += 1
                found = FieldAccess(found, self.name())
            elif token == "[":
                found = self._element_or_slice(found)
            else:
                return found

    def _bare_unit(self) -> Expression:
        token = self.tokens[self.position]
        if token == "?" or token == ":":
            return self.marker()
        kind = KIND_BY_FIRST_CHARACTER.get(token[:1])
        if kind in (STRING, NUMBER):
            return self.constant()
        if kind is not None:
            return self._unit_from_word() if kind == WORD else self._named_unit()
        if token == "(":
            return self._nested(self._parenthesised)
        if token == "[":
            return self._nested(self._list_literal)
        if token == "{":
            return self._nested(self._braces)
        self.fail_no_alternative()

    def _nested(self, parse: Callable[[], Expression]) -> Expression:
        self.enter()
        found = parse()
        self.leave()
        return found

    def marker(self) -> Marker:
        name = None
        if self.tokens[self.position] == "?":
            self.position += 1
        else:
            self.expect(":")
            name = self.name()
        self.markers.append(name)
        return Marker(len(self.markers) - 1, name)

    def constant(self) -> Constant:
        token = self.tokens[self.position]
        found = None
        kind = KIND_BY_FIRST_CHARACTER.get(token[:1])
        if kind == STRING and token != "$":
            found = Constant("string", string_content(token))
        elif kind == NUMBER:
            found = _number(token)
        elif kind == WORD:
            found = self._constant_word(token)
        if found is None:
            self.fail_no_alternative()
        self.position += 1
        return found

    def _constant_word(self, token: str) -> Constant | None:
        word = self.upper[self.position]
        if word == "TRUE" or word == "FALSE":
            return Constant("boolean", word.lower())
        if word in _FLOAT_WORDS:
            return Constant("float", _FLOAT_WORDS[word])
        if is_duration_word(token):
            return Constant("duration", token)
        if "-" in token:
            return Constant("uuid", token)
        return None

    def is_constant(self) -> bool:
        """Whether a literal follows (a sign may come first)."""
        token = self.tokens[self.position]
        if token == "-":
            return self._number_follows(1)
        kind = KIND_BY_FIRST_CHARACTER.get(token[:1])
        if kind == WORD:
            return self._constant_word(token) is not None
        return kind in (STRING, NUMBER)

    def signed_constant(self) -> Constant:
        if self.accept("-"):
            return self._negative_constant() if self._number_follows() else self.constant()
        return self.constant()

    # --- words: calls, casts, columns ----------------------------------------------------------------

    def _unit_from_word(self) -> Expression:
        word = self.upper[self.position]
        if word == "NULL":
            self.position += 1
            return Null()
        if self.peek(1) == "(":
            if word == "CAST":
                return self._nested(self._cast)
            if word == "TOKEN":
                self.position += 1
                return FunctionCall(None, "token", self._arguments())
            if self.columns_allowed:
                if word in _CELL_INFO:
                    return self._nested(self._cell_info)
                if self.accept_all("COUNT", "(", "*", ")"):
                    return CountRows()
        constant = self._constant_word(self.tokens[self.position])
        if constant is not None:
            self.position += 1
            return constant
        return self._named_unit()

    def _named_unit(self) -> Expression:
        """A function call with or without keyspace; where columns are allowed, a column."""
        start = self.position
        name = self.name()
        if self.tokens[self.position] == "(":
            return FunctionCall(None, name, self._arguments())
        if self.tokens[self.position] == "." and self.peek(2) == "(":
            self.position += 1
            function = "token" if self.accept("TOKEN") else self.name()
            return FunctionCall(name, function, self._arguments())
        if self.columns_allowed:
            return ColumnRef(name)
        self.fail_no_alternative(start)

    def _arguments(self) -> tuple[Expression, ...]:
        self.expect("(")
        if self.accept(")"):
            return ()
        self.enter()
        found = [self.expression()]
        while self.accept(","):
            found.append(self.expression())
        self.leave()
        self.expect(")")
        return tuple(found)

    def _cast(self) -> Expression:
        self.expect("CAST", "(")
        value = self.expression()
        self.expect("AS")
        target = self.type()
        self.expect(")")
        return Cast(value, target)

    def _cell_info(self) -> Expression:
        kind = _CELL_INFO[self.upper[self.position]]
        self.position += 1
        self.expect("(")
        target: Expression = ColumnRef(self.name())
        while self.tokens[self.position] != ")":
            if self.accept("."):
                target = FieldAccess(target, self.name())
            elif self.tokens[self.position] == "[":
                target = self._element_or_slice(target)
            else:
                self.fail_mismatch("')'")
        self.position += 1
        return CellInfo(kind, target)

    def _element_or_slice(self, target: Expression) -> Expression:
        self.expect("[")
        self.enter()
        start = None if self.peek() == ".." else self.term()
        if self.accept(".."):
            stop = None if self.peek() == "]" else self.term()
            if start is None and stop is None:
                self.fail_no_alternative()
            found: Expression = SliceAccess(target, start, stop)
        elif start is not None:
            found = ElementAccess(target, start)
        else:
            self.fail_no_alternative()
        self.leave()
        self.expect("]")
        return found

    # --- brackets ------------------------------------------------------------------------------------

    def _parenthesised(self) -> Expression:
        hint = self._type_hint()
        if hint is not None:
            negative = self.tokens[self.position] == "-"
            return TypeHint(hint, self._signed_unit() if negative else self._bare_unit())
        self.expect("(")
        found = self._expressions()
        self.expect(")")
        return TupleLiteral(found)

    def _expressions(self) -> tuple[Expression, ...]:
        found = [self.expression()]
        while self.accept(","):
            found.append(self.expression())
        return tuple(found)

    def _type_hint(self) -> TypeNode | None:
        """Take `(type)` if it is there and a value follows it; a type and a column or a string can look
        the same, what comes after the parenthesis tells."""
        start, nesting = self.position, self.nesting
        if not self._type_may_follow(start + 1):
            return None
        self.position += 1
        try:
            hint = self.type()
        except CQLSyntaxError:
            self.position, self.nesting = start, nesting
            return None
        if self.tokens[self.position] == ")" and self._value_follows(hint):
            self.position += 1
            return hint
        self.position = start
        return None

    def _type_may_follow(self, index: int) -> bool:
        """A cheap look that keeps tuples of values from being tried as types."""
        kind = KIND_BY_FIRST_CHARACTER.get(self.tokens[index][:1])
        if kind == STRING:
            return self.peek(2) == ")"
        if kind == WORD and self.peek(2) == "<":
            return True
        return self.peek(2) in (")", ".") and self.name_at(index) is not None

    def _value_follows(self, hint: TypeNode) -> bool:
        token = self.peek(1)
        if token == "-":
            # `(a) - 1` subtracts if `a` can be a column.
            may_be_column = self.columns_allowed and isinstance(hint, UserTypeName)
            return not may_be_column and self._number_follows(2)
        if token and token in "?:([{":
            return True
        kind = KIND_BY_FIRST_CHARACTER.get(token[:1])
        if kind != WORD:
            return kind is not None
        if token == "AS" or (token == "PER" and self.peek(2) == "PARTITION"):
            return False
        index = self.position + 1
        return (
            token in ("NULL", "TRUE", "FALSE", "TOKEN")
            or token in _FLOAT_WORDS
            or "-" in token
            or is_duration_word(self.tokens[index])
            or (self.name_at(index) is not None and (self.columns_allowed or self.peek(2) in ("(", ".")))
        )

    def _list_literal(self) -> Expression:
        self.expect("[")
        if self.accept("]"):
            return ListLiteral(())
        found = self._expressions()
        self.expect("]")
        return ListLiteral(found)

    def _braces(self) -> Expression:
        self.expect("{")
        if self.accept("}"):
            return SetLiteral(())
        if self.peek(1) == ":" and self.name_at(self.position) is not None:
            return self._user_type_literal()
        first = self.expression()
        if self.tokens[self.position] == ":":
            return self._map_literal(first)
        found = [first]
        while self.accept(","):
            found.append(self.expression())
        self.expect("}")
        return SetLiteral(tuple(found))

    def _map_literal(self, first_key: Expression) -> Expression:
        self.expect(":")
        entries = [(first_key, self.expression())]
        while self.accept(","):
            key = self.expression()
            self.expect(":")
            entries.append((key, self.expression()))
        self.expect("}")
        return MapLiteral(tuple(entries))

    def _user_type_literal(self) -> Expression:
        fields = []
        while True:
            name = self.name()
            self.expect(":")
            fields.append((name, self.expression()))
            if not self.accept(","):
                break
        self.expect("}")
        return UserTypeLiteral(tuple(fields))


def _number(token: str) -> Constant:
    """A literal that begins with a digit; the lexer has already told the shapes apart."""
    if token.isdigit():
        return Constant("integer", token)
    if token[1] in "xX":
        return Constant("blob", token)
    if len(token) == 36 and token[8] == "-":
        return Constant("uuid", token)
    if token[-1].isalpha():
        return Constant("duration", token)
    return Constant("float", token)
