"""Text to tokens, with one compiled expression.

A token is the piece of text itself. What kind it is shows in its first character, so no token objects are
made; line and column are worked out only when an error has to be reported. Comments and white space vanish
inside the expression, the end of the text is the empty token.
"""

import re

from belvedere.cql.errors import CQLSyntaxError

_HEX = "[0-9a-fA-F]"
_UUID = rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
_DURATION_PART = "[0-9]+(?:[yY]|[mM][oO]|[wW]|[dD]|[hH]|[mM][sS]|[mM]|[sS]|[uU][sS]|\u00b5[sS]|[nN][sS])"
_STRING = r"'[^']*+(?:''[^']*+)*+'"
_QUOTED_NAME = r'"[^"]*+(?:""[^"]*+)*+"'
_DOLLAR_STRING = r"\$\$.*?\$\$"

# What is unterminated swallows the rest of the text: it is reported, and scanning stays linear.
_TOKEN = re.compile(
    rf"""(?: [ \t\r\n]++ | --[^\n]*+ | //[^\n]*+ | /\*.*?\*/ )*+
    ( {_UUID}
    | P[0-9]{{4}}-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9]
    | [a-zA-Z][a-zA-Z0-9_]*+
    | [(),?=]
    | {_STRING}
    | 0[xX]{_HEX}*+
    | {_DURATION_PART}(?:{_DURATION_PART})*+
    | [0-9]+(?:\.(?!\.(?!\.))[0-9]*+)?(?:[eE][+-]?[0-9]++)?
    | {_QUOTED_NAME}
    | {_DOLLAR_STRING}
    | /\*.* | '.* | ".* | \$\$.*
    | \.\. | [<>!]= | \+= | -=
    | .
    | \Z )""",
    re.VERBOSE | re.DOTALL,
)
_COMPLETE = re.compile(rf"{_STRING}|{_QUOTED_NAME}|{_DOLLAR_STRING}", re.DOTALL)
_OPERATORS = frozenset("( ) [ ] { } < > <= >= = != + - * / % += -= , ; : . .. ?".split())

_ISO_DURATION = re.compile(
    r"P(?=[0-9T])(?:[0-9]+Y)?(?:[0-9]+M)?(?:[0-9]+D)?(?:T(?=[0-9])(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+S)?)?"
    r"|P[0-9]+W"
    r"|P[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
)

WORD, NUMBER, STRING, QUOTED_NAME = range(1, 5)
KIND_BY_FIRST_CHARACTER: dict[str, int] = (
    dict.fromkeys("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", WORD)
    | dict.fromkeys("0123456789", NUMBER)
    | {"'": STRING, "$": STRING, '"': QUOTED_NAME}
)


def tokenize(text: str) -> list[str]:
    """The tokens of `text`, ended by an empty one. Characters that CQL does not know are tokens too, which
    no rule of the grammar accepts; only what never ends is refused here."""
    tokens: list[str] = _TOKEN.findall(text)
    end = len(tokens) - 1
    # After trailing blanks the expression finds the end of the text twice.
    if end > 0 and not tokens[end - 1]:
        tokens.pop()
        end -= 1
    if end > 0:
        _refuse_unterminated(text, tokens[end - 1])
    return tokens


def _refuse_unterminated(text: str, last: str) -> None:
    if last[0] in "'\"$" and _COMPLETE.fullmatch(last) is None and last != "$":
        closing = "$$" if last[0] == "$" else last[0]
    elif last.startswith("/*"):
        closing = "*/"
    else:
        return
    line, column = line_and_column(text, len(text))
    raise CQLSyntaxError(f"line {line}:{column} mismatched character '<EOF>' expecting '{closing}'")


def token_spans(text: str) -> list[tuple[int, int]]:
    """Start and end offset of each token that `tokenize` finds, the empty last one included."""
    spans = [match.span(1) for match in _TOKEN.finditer(text)]
    if len(spans) > 1 and spans[-2][0] == spans[-2][1]:
        spans.pop()
    return spans


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Lines from 1, columns from 0, as Cassandra counts them."""
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1)


def is_known(token: str) -> bool:
    """Whether a token is made of characters that CQL knows."""
    return token in _OPERATORS or (token != "$" and token[:1] in KIND_BY_FIRST_CHARACTER)


def is_duration_word(token: str) -> bool:
    """Whether a token that begins with a letter is an ISO 8601 duration: `P1Y2M`, `PT5M`, `P0001-...`."""
    return token[:1] == "P" and _ISO_DURATION.fullmatch(token) is not None


def split_statements(text: str) -> list[str]:
    """Cut a script at the semicolons that end statements, not at those inside strings, comments or a batch.

    Each piece runs from its first to its last token, without the semicolon; empty pieces are left out.
    """
    tokens, spans = tokenize(text), token_spans(text)
    statements: list[str] = []
    first = 0
    for index, token in enumerate(tokens):
        if token and not (token == ";" and not _inside_batch(tokens, first, index)):
            continue
        if index > first:
            statements.append(text[spans[first][0] : spans[index - 1][1]])
        first = index + 1
    return statements


def _inside_batch(tokens: list[str], first: int, index: int) -> bool:
    if tokens[first].upper() != "BEGIN" or index - first < 2:
        return False
    return [token.upper() for token in tokens[index - 2 : index]] != ["APPLY", "BATCH"]
