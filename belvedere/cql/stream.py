"""The parser's hold on its tokens: looking, taking, naming things, and saying what is wrong where."""

from typing import NoReturn

from belvedere.cql.errors import CQLSyntaxError
from belvedere.cql.expressions import TableName, UserTypeName
from belvedere.cql.keywords import NOT_IDENTIFIERS
from belvedere.cql.lexer import (
    KIND_BY_FIRST_CHARACTER,
    QUOTED_NAME,
    STRING,
    WORD,
    is_duration_word,
    is_known,
    line_and_column,
    token_spans,
    tokenize,
)

_SNIPPET_TOKENS = 10
_SNIPPET_CHARACTERS = 100
MAX_NESTING = 40
"""How deep terms and types may nest: far beyond use, and well inside Python's own recursion limit."""


class TokenStream:
    """Tokens with a position. `upper` holds them in upper case, for comparison with keywords; a quoted
    token cannot be mistaken for one since it keeps its quotes."""

    __slots__ = ("text", "tokens", "upper", "position", "markers", "nesting", "columns_allowed")

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.upper = [token.upper() for token in self.tokens]
        self.position = 0
        self.markers: list[str | None] = []
        self.nesting = 0
        # Whether an expression may name columns: true inside a SELECT clause.
        self.columns_allowed = False

    # --- taking tokens -------------------------------------------------------------------------------

    def accept(self, word: str) -> bool:
        """Take the next token if it is `word` (upper case)."""
        if self.upper[self.position] == word:
            self.position += 1
            return True
        return False

    def accept_all(self, *words: str) -> bool:
        """Take the next tokens if they are exactly `words`, else none of them."""
        end = self.position + len(words)
        if tuple(self.upper[self.position : end]) == words:
            self.position = end
            return True
        return False

    def expect(self, *words: str) -> None:
        for word in words:
            if self.upper[self.position] != word:
                expected = f"K_{word}" if word.isalpha() else f"'{word}'"
                self.fail_mismatch(expected)
            self.position += 1

    def peek(self, ahead: int = 0) -> str:
        """A token in upper case, empty beyond the end."""
        index = self.position + ahead
        return self.upper[index] if index < len(self.upper) else ""

    def expect_end(self) -> None:
        while self.accept(";"):
            pass
        if self.tokens[self.position]:
            self.fail(f"missing EOF at '{self.tokens[self.position]}'")

    # --- names ---------------------------------------------------------------------------------------

    def name_at(self, index: int) -> str | None:
        """The name that the token at `index` is, folded or unquoted; None if it is not a name."""
        token = self.tokens[index] if index < len(self.tokens) else ""
        kind = KIND_BY_FIRST_CHARACTER.get(token[:1])
        if kind == WORD:
            if self.upper[index] in NOT_IDENTIFIERS or "-" in token or is_duration_word(token):
                return None
            return token.lower()
        if kind == QUOTED_NAME and len(token) > 2:
            return token[1:-1].replace('""', '"')
        return None

    def name(self) -> str:
        name = self.name_at(self.position)
        if name is None:
            self.fail_no_alternative()
        self.position += 1
        return name

    def names(self) -> tuple[str, ...]:
        """`a, b, c`."""
        found = [self.name()]
        while self.accept(","):
            found.append(self.name())
        return tuple(found)

    def parenthesised_names(self) -> tuple[str, ...]:
        self.expect("(")
        found = self.names()
        self.expect(")")
        return found

    def qualified_name(self, what: str) -> tuple[str | None, str]:
        """`[keyspace.]name`; `what` names the kind of thing for the message that refuses a marker."""
        if self.tokens[self.position] == "?":
            self.fail(f"Bind variables cannot be used for {what} names")
        name = self.name()
        if self.tokens[self.position] != ".":
            return None, name
        self.position += 1
        if self.tokens[self.position] == "?":
            self.fail(f"Bind variables cannot be used for {what} names")
        return name, self.name()

    def table_name(self) -> TableName:
        return TableName(*self.qualified_name("table"))

    def user_type_name(self) -> UserTypeName:
        return UserTypeName(*self.qualified_name("type"))

    def keyspace_name(self) -> str:
        if self.tokens[self.position] == "?":
            self.fail("Bind variables cannot be used for keyspace names")
        return self.name()

    def string(self) -> str:
        token = self.tokens[self.position]
        if KIND_BY_FIRST_CHARACTER.get(token[:1]) != STRING or token == "$":
            self.fail_mismatch("STRING_LITERAL")
        self.position += 1
        return string_content(token)

    def if_exists(self) -> bool:
        if self.accept("IF"):
            self.expect("EXISTS")
            return True
        return False

    def if_not_exists(self) -> bool:
        if self.accept("IF"):
            self.expect("NOT", "EXISTS")
            return True
        return False

    # --- nesting -------------------------------------------------------------------------------------

    def enter(self) -> None:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            self.fail(f"terms and types nest deeper than {MAX_NESTING} levels")

    def leave(self) -> None:
        self.nesting -= 1

    # --- errors --------------------------------------------------------------------------------------

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        """Refuse the statement at a token (the next one unless said otherwise)."""
        index = self.position if position is None else position
        spans = token_spans(self.text)
        line, column = line_and_column(self.text, spans[index][0])
        raise CQLSyntaxError(f"line {line}:{column} {message}{self._snippet(index, spans)}")

    def fail_no_alternative(self, position: int | None = None) -> NoReturn:
        index = self.position if position is None else position
        token = self.tokens[index]
        if token and not is_known(token):
            self.fail(f"no viable alternative at character '{token}'", index)
        self.fail(f"no viable alternative at input '{_shorten(token) or '<EOF>'}'", index)

    def fail_mismatch(self, expected: str) -> NoReturn:
        token = self.tokens[self.position]
        if token and not is_known(token):
            self.fail_no_alternative()
        self.fail(f"mismatched input '{_shorten(token) or '<EOF>'}' expecting {expected}")

    def _snippet(self, index: int, spans: list[tuple[int, int]]) -> str:
        """The text around a token, which stands in brackets: ` (...FROM t [WERE] k = 1...)`."""
        first = max(0, index - _SNIPPET_TOKENS)
        last = min(len(spans) - 1, index + _SNIPPET_TOKENS)
        start, end = spans[index]
        before = self.text[spans[first][0] : start][-_SNIPPET_CHARACTERS:]
        after = self.text[end : spans[last][1]][:_SNIPPET_CHARACTERS]
        at = _shorten(self.text[start:end]) or "<EOF>"
        lead = "..." if first > 0 else ""
        trail = "..." if last < len(spans) - 1 else ""
        return f" ({lead}{before}[{at}]{after}{trail})"


def string_content(token: str) -> str:
    """What a string token stands for: quotes resolved, `$$` taken away."""
    if token[0] == "$":
        return token[2:-2]
    content = token[1:-1]
    return content.replace("''", "'") if "'" in content else content


def _shorten(text: str) -> str:
    return text if len(text) <= _SNIPPET_CHARACTERS else text[:_SNIPPET_CHARACTERS] + "..."
