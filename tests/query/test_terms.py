"""Terms: which literals go where, and what their bytes are."""
# ruff: noqa: E501 - tables of statements and messages read best with one case a line

import pytest

from belvedere.cql.parser import parse_statement
from belvedere.cql.syntax import Insert
from belvedere.model.types import UserType, parse_type
from belvedere.query.access import UNSET, BoundValue, Execution
from belvedere.query.errors import InvalidRequest
from belvedere.query.results import ResultColumn
from belvedere.query.terms.values import BindCollector, ConstantTerm, prepare_term
from tests.query.fake_access import Session, make_type

POINT = make_type("ks", "point", ("x", "int"), ("y", "text"))
TYPES: dict[str, UserType] = {"point": POINT}


def prepare(text: str, type_text: str) -> tuple[object, BindCollector]:
    statement = parse_statement(f"INSERT INTO t (v) VALUES ({text})")
    assert isinstance(statement, Insert)
    collector = BindCollector(Session(types=TYPES).schema, "ks")
    receiver = ResultColumn("ks", "t", "v", parse_type(type_text, TYPES))
    return prepare_term(statement.values[0], receiver, collector), collector


def value(text: str, type_text: str, *values: BoundValue) -> object:
    term, _ = prepare(text, type_text)
    wire = term.evaluate(Session().execution(values))  # type: ignore[attr-defined]
    return wire if not isinstance(wire, bytes) else parse_type(type_text, TYPES).decode(wire)


ONE = b"\0\0\0\1"


@pytest.mark.parametrize(
    ("text", "type_text", "expected"),
    [
        ("1", "int", 1),
        ("1", "bigint", 1),
        ("1", "double", 1.0),
        ("-1.5e1", "double", -15.0),
        ("-Infinity", "float", float("-inf")),
        ("'x'", "text", "x"),
        ("$$it's$$", "ascii", "it's"),
        ("true", "boolean", True),
        ("0xCAFE", "blob", b"\xca\xfe"),
        ("'127.0.0.1'", "inet", "127.0.0.1"),
        ("null", "int", None),
        ("(3)", "int", 3),
        ("[1, 2, 1]", "list<int>", [1, 2, 1]),
        ("[]", "list<int>", []),
        ("{2, 1, 2}", "set<int>", {1, 2}),
        ("{}", "map<int, int>", {}),
        ("{1: 'a', 1: 'b'}", "map<int, text>", {1: "b"}),
        ("[[1], []]", "list<frozen<list<int>>>", [[1], []]),
        ("(1, null, 'x')", "tuple<int, int, text>", (1, None, "x")),
        ("(1)", "tuple<int, int>", (1, None)),
        ("((1))", "tuple<int>", (1,)),
        ("{x: 1}", "point", {"x": 1, "y": None}),
        ("{}", "point", {"x": None, "y": None}),
        ("[1, 2.5]", "vector<float, 2>", [1.0, 2.5]),
        ("(int) 5", "int", 5),
        ("(timeuuid) null", "uuid", None),
    ],
)
def test_constants(text: str, type_text: str, expected: object) -> None:
    term, _ = prepare(text, type_text)
    assert isinstance(term, ConstantTerm)
    assert value(text, type_text) == expected


@pytest.mark.parametrize(
    ("text", "type_text", "message"),
    [
        ("'a'", "int", 'Invalid STRING constant (a) for "v" of type int'),
        ("1", "text", 'Invalid INTEGER constant (1) for "v" of type text'),
        ("1.5", "int", 'Invalid FLOAT constant (1.5) for "v" of type int'),
        ("true", "int", 'Invalid BOOLEAN constant (true) for "v" of type int'),
        ("0x01", "int", 'Invalid HEX constant (0x01) for "v" of type int'),
        ("1h", "int", 'Invalid DURATION constant (1h) for "v" of type int'),
        (
            "f47ac10b-58cc-4372-a567-0e02b2c3d479",
            "text",
            'Invalid UUID constant (f47ac10b-58cc-4372-a567-0e02b2c3d479) for "v" of type text',
        ),
        ("1", "list<int>", 'Invalid INTEGER constant (1) for "v" of type list<int>'),
        ("[1]", "int", "Invalid list literal for v of type int"),
        ("{1}", "list<int>", "Invalid set literal for v of type list<int>"),
        ("{1: 2}", "set<int>", "Invalid map literal for v of type set<int>"),
        ("(1, 2)", "int", "Invalid tuple type literal for v of type int"),
        ("{x: 1}", "set<int>", "Invalid user type literal for v of type set<int>"),
        ("[1, 'a']", "list<int>", "Invalid list literal for v: value 'a' is not of type int"),
        ("{1, 'a'}", "set<int>", "Invalid set literal for v: value 'a' is not of type int"),
        ("{1: 'a'}", "map<int, int>", "Invalid map literal for v: value 'a' is not of type int"),
        ("{'a': 1}", "map<int, int>", "Invalid map literal for v: key 'a' is not of type int"),
        ("(1, 'a')", "tuple<int, int>", "Invalid tuple literal for v: component 1 is not of type int"),
        (
            "(1, 2, 3)",
            "tuple<int, int>",
            "Invalid tuple literal for v: too many elements. Type frozen<tuple<int, int>> expects 2 but got 3",
        ),
        ("{z: 1}", "point", "Unknown field 'z' in value of user defined type point"),
        ("{x: 'a'}", "point", "Invalid user type literal for v: field x is not of type int"),
        (
            "[1]",
            "vector<float, 2>",
            "Invalid vector literal for v of type vector<float, 2>; expected 2 elements, but given 1",
        ),
        ("[1, 'a']", "vector<float, 2>", "Invalid vector literal for v: value 'a' is not of type float"),
        (
            "[?]",
            "list<int>",
            "Invalid list literal for v: bind variables are not supported inside collection literals",
        ),
        (
            "{?}",
            "set<int>",
            "Invalid set literal for v: bind variables are not supported inside collection literals",
        ),
        (
            "{1: ?}",
            "map<int, int>",
            "Invalid map literal for v: bind variables are not supported inside collection literals",
        ),
        ("[null]", "list<int>", "null is not supported inside collections"),
        ("{1: null}", "map<int, int>", "null is not supported inside collections"),
        ("(int) 'a'", "int", "Cannot cast value 'a' to type int"),
        ("(text) 'a'", "int", "Cannot assign value (text) 'a' to v of type int"),
        ("(nope) 1", "int", "Unknown type ks.nope"),
        ("nofunction(1)", "int", "Unknown function 'nofunction'"),
    ],
)
def test_refused(text: str, type_text: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        prepare(text, type_text)
    assert str(caught.value) == message


def test_markers_describe_what_they_are_for() -> None:
    _, collector = prepare("(?, :name)", "tuple<int, text>")
    assert [(b.name, b.type.name) for b in collector.bindings] == [("v[0]", "int"), ("name", "text")]
    _, collector = prepare("{y: ?}", "point")
    assert [(b.name, b.type.name) for b in collector.bindings] == [("v.y", "text")]


def test_markers_are_validated_and_normalised() -> None:
    assert value("?", "int", ONE) == 1
    assert value("?", "int", None) is None
    assert value("?", "int", UNSET) is UNSET
    assert value("(?, ?)", "tuple<int, int>", ONE, None) == (1, None)
    unsorted = b"\0\0\0\2" + b"\0\0\0\4" + b"\0\0\0\2" + b"\0\0\0\4" + ONE
    term, _ = prepare("?", "set<int>")
    assert term.evaluate(Execution(Session().access, [unsorted])) != unsorted  # type: ignore[attr-defined]
    for wire, message in ((b"", "Empty"), (b"\1", "Expected 4 or 0 byte int")):
        with pytest.raises(InvalidRequest, match=message):
            value("?", "int", wire)
    with pytest.raises(InvalidRequest, match="Invalid unset value for tuple field number 0"):
        value("(?, 1)", "tuple<int, int>", UNSET)
    with pytest.raises(InvalidRequest, match="Invalid unset value for field 'x' of user defined type point"):
        value("{x: ?}", "point", UNSET)


# --- calls ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "type_text", "expected"),
    [
        ("intasblob(5)", "blob", b"\0\0\0\5"),
        ("1 + 2 * 3", "int", 7),
        ("1 + 2", "bigint", 3),
        ("-(3)", "int", -3),
        ("CAST(1.9 AS int)", "int", 1),
        ("CAST(5 AS text)", "text", "5"),
        ("[1 + 1, 3]", "list<int>", [2, 3]),
        ("fromjson('[1, 2]')", "list<int>", [1, 2]),
        ("{x: 1 + 1}", "point", {"x": 2, "y": None}),
    ],
)
def test_pure_calls_of_constants_are_constants(text: str, type_text: str, expected: object) -> None:
    term, _ = prepare(text, type_text)
    assert isinstance(term, ConstantTerm)
    assert value(text, type_text) == expected


def test_calls_take_time_and_chance_from_the_execution() -> None:
    session = Session()
    term, _ = prepare("now()", "timeuuid")
    assert term.evaluate(session.execution()) != term.evaluate(session.execution())  # type: ignore[attr-defined]
    assert value("[now()]", "list<timeuuid>") is not None


def test_calls_of_bind_variables() -> None:
    _, collector = prepare("intasblob(?)", "blob")
    assert [(b.name, b.type.name) for b in collector.bindings] == [("arg0(intasblob)", "int")]
    assert value("intasblob(?)", "blob", ONE) == ONE
    assert value("(int) ? + 1", "int", ONE) == 2
    with pytest.raises(InvalidRequest, match="Invalid unset value for argument in call to function"):
        value("intasblob(?)", "blob", UNSET)


@pytest.mark.parametrize(
    ("text", "type_text", "message"),
    [
        ("now()", "int", "Type error: cannot assign result of function system.now"),
        ("count(1)", "bigint", "aggregation function are not supported in the where clause"),
        ("? + 1", "int", r"Ambiguous '\+' operation with args \? and 1: use type hint to disambiguate"),
    ],
)
def test_wrong_calls(text: str, type_text: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        prepare(text, type_text)
