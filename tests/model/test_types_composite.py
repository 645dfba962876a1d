"""Collections, tuples, user types and vectors; type names; the protocol's type options."""

import datetime
import io
import json
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from cassandra import cqltypes
from cassandra.protocol import ResultMessage
from hypothesis import given
from hypothesis import strategies as st

from belvedere.model.types import (
    BIGINT,
    BLOB,
    COUNTER,
    DATE,
    DECIMAL,
    DURATION,
    FLOAT,
    INT,
    NATIVE_TYPES,
    SMALLINT,
    TEXT,
    TIMEUUID,
    TINYINT,
    VARINT,
    CQLType,
    InvalidValue,
    ListType,
    MapType,
    SetType,
    TupleType,
    UserType,
    VectorType,
    parse_type,
)

ADDRESS = UserType("ks", "address", [("street", TEXT), ("zip", INT), ("tags", SetType(TEXT))])
ODD = UserType("ks", "Odd", [("First", INT), ("select", TEXT)], frozen=True)
# The driver mistakes a name of a vector's element for a number when its hexadecimal form has no letter.
HOME = UserType("ks", "home", [("zip", INT), ("moon", TEXT)])
USER_TYPES = {"address": ADDRESS, "Odd": UserType("ks", "Odd", ODD.fields)}


def sized(*parts: bytes | None) -> bytes:
    return b"".join(b"\xff\xff\xff\xff" if p is None else len(p).to_bytes(4, "big") + p for p in parts)


def collection(*parts: bytes, per_entry: int = 1) -> bytes:
    return (len(parts) // per_entry).to_bytes(4, "big") + sized(*parts)


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cql_type", "name"),
    [
        (ListType(INT), "list<int>"),
        (ListType(INT, True), "frozen<list<int>>"),
        (MapType(INT, ListType(TEXT, True)), "map<int, frozen<list<text>>>"),
        (MapType(INT, ListType(TEXT)).frozen(), "frozen<map<int, frozen<list<text>>>>"),
        (SetType(TupleType([INT, ListType(TEXT)])), "set<frozen<tuple<int, frozen<list<text>>>>>"),
        (VectorType(FLOAT, 3), "vector<float, 3>"),
        (VectorType(ListType(INT), 2), "vector<frozen<list<int>>, 2>"),
        (ADDRESS, "address"),
        (ADDRESS.frozen(), "frozen<address>"),
        (ODD, 'frozen<"Odd">'),
    ],
)
def test_names_read_back(cql_type: CQLType, name: str) -> None:
    assert cql_type.name == name
    assert parse_type(name, USER_TYPES) == cql_type
    assert hash(parse_type(name, USER_TYPES)) == hash(cql_type)
    assert pickle.loads(pickle.dumps(cql_type)) == cql_type
    assert cql_type.frozen().frozen() == cql_type.frozen()
    assert not cql_type.frozen().is_multicell


ANY_LEAF = st.sampled_from([*NATIVE_TYPES.values(), ADDRESS, ODD])


def type_trees(leaves: st.SearchStrategy[CQLType] = ANY_LEAF) -> st.SearchStrategy[CQLType]:

    def grow(inner: st.SearchStrategy[CQLType]) -> st.SearchStrategy[CQLType]:
        return st.one_of(
            st.builds(ListType, inner, st.booleans()),
            st.builds(SetType, inner, st.booleans()),
            st.builds(MapType, inner, inner, st.booleans()),
            st.builds(TupleType, st.lists(inner, min_size=1, max_size=3)),
            st.builds(VectorType, inner, st.integers(1, 5)),
            st.builds(CQLType.frozen, inner),
        )

    return st.recursive(leaves, grow, max_leaves=6)


@given(type_trees())
def test_every_type_is_its_name(cql_type: CQLType) -> None:
    parsed = parse_type(cql_type.name, USER_TYPES.__getitem__)
    assert parsed == cql_type
    assert parsed.marshal_name == cql_type.marshal_name


@pytest.mark.parametrize("text", ["MAP< INT ,Frozen<List<VARCHAR>> >", 'list<"address">', " int "])
def test_type_text_is_lenient_about_space_and_case(text: str) -> None:
    assert parse_type(text, USER_TYPES).name


@pytest.mark.parametrize(
    "text",
    ["", "list", "list<>", "list<int", "list<int>>", "map<int>", "vector<float>", "vector<float, 0>"]
    + ["vector<float, x>", "nothing", 'frozen<"Odd>', "int int", "list<int,>", "<int>", "a-b"],
)
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        parse_type(text, USER_TYPES)


def test_types_differ_when_their_parts_do() -> None:
    assert ListType(INT) != ListType(INT, True)
    assert ListType(INT) != SetType(INT)
    assert ADDRESS.frozen() != ADDRESS
    assert UserType("ks", "a", [("x", INT)]) != UserType("ks", "a", [("x", TEXT)])
    assert UserType("ks", "a", [("x", INT)]) != UserType("other", "a", [("x", INT)])
    with pytest.raises(AttributeError):
        ADDRESS.name = "x"


def test_the_tree_can_be_walked() -> None:
    nested = MapType(INT, TupleType([COUNTER, DURATION]))
    assert [t.name for t in nested.walk()][-2:] == ["counter", "duration"]
    assert not nested.is_orderable
    assert MapType(INT, TEXT, True).is_orderable


# -- values ----------------------------------------------------------------------------------------

VALUES: list[tuple[CQLType, Any, str, str]] = [
    (ListType(INT), [1, 2, 1], "[1, 2, 1]", "[1, 2, 1]"),
    (ListType(INT), [], "[]", "[]"),
    (SetType(TEXT), {"a", "b"}, "{'a', 'b'}", '["a", "b"]'),
    (MapType(INT, TEXT), {1: "x", -2: "y"}, "{-2: 'y', 1: 'x'}", '{"-2": "y", "1": "x"}'),
    (MapType(TEXT, DATE), {"k": datetime.date(2020, 1, 2)}, "{'k': '2020-01-02'}", '{"k": "2020-01-02"}'),
    (SetType(ListType(INT, True)), [[1], [1, 2]], "{[1], [1, 2]}", "[[1], [1, 2]]"),
    (MapType(TupleType([INT, INT]), INT), {(1, 2): 3}, "{(1, 2): 3}", '{"[1, 2]": 3}'),
    (MapType(ListType(INT, True), INT), [([1], 3)], "{[1]: 3}", '{"[1]": 3}'),
    (TupleType([INT, TEXT]), (1, None), "(1, null)", "[1, null]"),
    (
        ADDRESS,
        {"street": "a", "zip": None, "tags": {"t"}},
        "{street: 'a', zip: null, tags: {'t'}}",
        '{"street": "a", "zip": null, "tags": ["t"]}',
    ),
    (ODD, {"First": 1, "select": "x"}, '{"First": 1, "select": \'x\'}', '{"\\"First\\"": 1, "select": "x"}'),
    (VectorType(FLOAT, 2), [1.0, -0.5], "[1.0, -0.5]", "[1.0, -0.5]"),
    (VectorType(TEXT, 2), ["a", "bc" * 90], f"['a', '{'bc' * 90}']", f'["a", "{"bc" * 90}"]'),
    (VectorType(SMALLINT, 2), [1, 2], "[1, 2]", "[1, 2]"),
    (VectorType(VectorType(INT, 2), 1), [[1, 2]], "[[1, 2]]", "[[1, 2]]"),
    (ListType(DECIMAL), [Decimal("1.10")], "[1.10]", "[1.10]"),
]


@pytest.mark.parametrize(("cql_type", "value", "literal", "json_text"), VALUES)
def test_composite_values_in_every_form(cql_type: CQLType, value: Any, literal: str, json_text: str) -> None:
    wire = cql_type.encode(value)
    cql_type.validate(wire)
    assert cql_type.decode(wire) == value
    assert cql_type.to_text(wire) == literal
    assert cql_type.to_json_text(wire) == json_text
    assert cql_type.from_json(json.loads(json_text, parse_float=Decimal)) == wire
    assert cql_type.parse_text(json_text) == wire
    assert cql_type.normalise(wire) == wire


@pytest.mark.parametrize(("cql_type", "value"), [(t, v) for t, v, _, _ in VALUES])
def test_elements_build_the_value_again(cql_type: Any, value: Any) -> None:
    wire = cql_type.encode(value)
    assert cql_type.build(cql_type.elements(wire)) == wire


@given(st.dictionaries(st.integers(-(2**31), 2**31 - 1), st.lists(st.text()), max_size=5))
def test_maps_are_the_drivers(value: dict[int, list[str]]) -> None:
    cql_type = MapType(INT, ListType(TEXT, True))
    text_list = cqltypes.ListType.apply_parameters([cqltypes.UTF8Type])
    driver_type = cqltypes.MapType.apply_parameters([cqltypes.Int32Type, text_list])
    wire = cql_type.encode(value)
    assert wire == driver_type.serialize(dict(sorted(value.items())), 5)
    assert dict(driver_type.deserialize(wire, 5).items()) == value


@given(
    st.lists(st.text(max_size=200), min_size=3, max_size=3),
    st.lists(st.floats(width=32), min_size=2, max_size=2),
)
def test_vectors_are_the_drivers(texts: list[str], floats: list[float]) -> None:
    for cql_type, value in ((VectorType(TEXT, 3), texts), (VectorType(FLOAT, 2), floats)):
        driver_type = cqltypes.lookup_casstype(cql_type.marshal_name)
        wire = cql_type.encode(value)
        assert wire == driver_type.serialize(value, 5)
        cql_type.validate(wire)


def test_sets_and_maps_are_sorted_and_without_duplicates() -> None:
    one, two, minus = INT.encode(1), INT.encode(2), INT.encode(-1)
    assert SetType(INT).normalise(collection(two, one, minus, two)) == collection(minus, one, two)
    entries = collection(two, b"a", minus, b"b", two, b"c", per_entry=2)
    assert MapType(INT, TEXT).normalise(entries) == collection(minus, b"b", two, b"c", per_entry=2)
    nested = ListType(SetType(INT, True), True)
    assert nested.normalise(collection(collection(two, one))) == collection(collection(one, two))
    vector = VectorType(VARINT, 1)
    assert vector.normalise(b"\x02\x00\x05") == b"\x01\x05"


def test_missing_trailing_fields_are_null() -> None:
    short = sized(b"street")
    ADDRESS.validate(short)
    assert ADDRESS.elements(short) == [b"street"]
    assert ADDRESS.all_elements(short) == [b"street", None, None]
    assert ADDRESS.normalise(short) == sized(b"street", None, None)
    assert ADDRESS.decode(short) == {"street": "street", "zip": None, "tags": None}


def test_user_types_take_sequences_and_objects() -> None:
    class Address:
        street = "a"
        zip = 5

    assert ADDRESS.encode(Address()) == ADDRESS.encode(("a", 5)) == ADDRESS.encode({"street": "a", "zip": 5})
    with pytest.raises(InvalidValue, match="Unknown field 'town'"):
        ADDRESS.encode({"town": 1})
    with pytest.raises(InvalidValue):
        ADDRESS.encode(5)


def test_json_of_user_types_folds_names() -> None:
    assert ADDRESS.from_json({"STREET": "a"}) == ADDRESS.encode({"street": "a"})
    assert ODD.from_json({'"First"': 1}) == ODD.encode({"First": 1})
    with pytest.raises(InvalidValue, match=r"Unknown fields \[first\] in value of user defined type Odd"):
        ODD.from_json({"First": 1})


@pytest.mark.parametrize(
    ("cql_type", "wire", "message"),
    [
        (ListType(INT), b"", "Not enough bytes to read a list"),
        (ListType(INT), b"\xff\xff\xff\xff", "Not enough bytes to read a list"),
        (ListType(INT), b"\x7f\xff\xff\xff", "Not enough bytes to read a list"),
        (ListType(INT), collection(b"123"), r"Expected 4 or 0 byte int \(3\)"),
        (ListType(INT), collection(b"1234") + b"x", "Unexpected extraneous bytes after list value"),
        (ListType(INT), b"\x00\x00\x00\x01" + sized(None), "null is not supported inside collections"),
        (ListType(INT), collection(b"1234")[:-1], "Not enough bytes to read a list"),
        (SetType(TEXT), collection(b"\xff"), "String didn't validate"),
        (MapType(INT, TEXT), collection(b"1234", b"\xff", per_entry=2), "String didn't validate"),
        (MapType(INT, TEXT), b"\x00\x00\x00\x01" + sized(b"1234"), "Not enough bytes to read a map"),
        (TupleType([INT]), sized(b"1"), r"Expected 4 or 0 byte int"),
        (TupleType([INT]), sized(b"1234", b""), "Invalid remaining data after end of tuple value"),
        (TupleType([INT]), b"\x00", "Not enough bytes to read size of 0th component"),
        (ADDRESS, b"\x00\x00\x00\x09x", "Not enough bytes to read 0th field street"),
        (ADDRESS, sized(None, None, None, None), "Invalid remaining data after end of UDT value"),
        (VectorType(FLOAT, 2), b"1234567", "Not enough bytes to read a vector<float, 2>"),
        (VectorType(FLOAT, 2), b"123456789", "Unexpected 1 extraneous bytes after vector<float, 2> value"),
        (VectorType(TEXT, 1), b"\x05abc", "Not enough bytes to read a vector<text, 1>"),
        (VectorType(TEXT, 1), b"\x01ab", "Unexpected 1 extraneous bytes"),
        (VectorType(TEXT, 1), b"", "Empty"),
        (VectorType(TINYINT, 1), b"\x02ab", "Expected 1 byte for a tinyint"),
    ],
)
def test_wrong_bytes_are_refused(cql_type: CQLType, wire: bytes, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        cql_type.validate(wire)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: ListType(INT).encode("ab"), "Expected a value of type list<int>"),
        (lambda: ListType(INT).encode(5), "Expected a value"),
        (lambda: ListType(INT).encode([None]), "Expected a value of type int"),
        (lambda: SetType(INT).encode({1: 2}), "Expected a value"),
        (lambda: MapType(INT, INT).encode(5), "Expected a value"),
        (lambda: MapType(INT, INT).encode([1]), "Expected a value"),
        (lambda: MapType(INT, INT).encode({"x": 1}), "Expected a value of type int"),
        (lambda: TupleType([INT]).encode((1, 2)), "too many elements"),
        (lambda: VectorType(INT, 2).encode([1]), "expected 2 elements, but given 1"),
        (lambda: ListType(INT).from_json({}), "Expected a list, but got a LinkedHashMap"),
        (lambda: SetType(INT).from_json(1), r"Expected a list \(representing a set\), but got a Integer"),
        (lambda: ListType(INT).from_json([None]), "Invalid null element in list"),
        (lambda: SetType(INT).from_json([None]), "Invalid null element in set"),
        (lambda: MapType(INT, INT).from_json({"1": None}), "Invalid null value in map"),
        (lambda: MapType(INT, INT).from_json([]), "Expected a map, but got a ArrayList"),
        (lambda: TupleType([INT]).from_json([1, 2]), "Tuple contains extra items"),
        (lambda: TupleType([INT, INT]).from_json([1]), "Tuple is missing items"),
        (lambda: VectorType(INT, 2).from_json([1]), "incorrect size"),
        (lambda: ListType(INT).parse_text("[1"), "Could not decode JSON string"),
        (lambda: ListType(INT).parse_text("[" * 100_000), "Could not decode JSON string"),
    ],
)
def test_wrong_values_are_refused(act: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        act()


@given(type_trees(), st.binary(max_size=40))
def test_random_bytes_are_valid_or_refused_but_never_crash(cql_type: CQLType, wire: bytes) -> None:
    try:
        cql_type.validate(wire)
        cql_type.normalise(wire)
    except InvalidValue:
        return
    json.loads(cql_type.to_json_text(wire))
    cql_type.to_text(wire)
    cql_type.decode(wire)


# -- protocol options ------------------------------------------------------------------------------


@given(type_trees(st.sampled_from([*NATIVE_TYPES.values(), HOME])))
def test_the_driver_reads_our_type_options(cql_type: CQLType) -> None:
    option = io.BytesIO(cql_type.encode_option())
    read = ResultMessage.read_type(option, {})
    assert option.read() == b""
    assert driver_shape(read) == our_shape(cql_type)


def driver_shape(driver_type: Any) -> Any:
    if driver_type.typename == "frozen":
        return driver_shape(driver_type.subtypes[0])
    if driver_type.typename.endswith("VectorType"):
        return ("vector", driver_shape(driver_type.subtype), driver_type.vector_size)
    name = "text" if driver_type.typename == "varchar" else driver_type.typename
    return (name, *map(driver_shape, driver_type.subtypes))


def our_shape(cql_type: CQLType) -> Any:
    """Options do not say what is frozen."""
    if isinstance(cql_type, VectorType):
        return ("vector", our_shape(cql_type.element), cql_type.dimension)
    name = cql_type.name.removeprefix("frozen<").split("<")[0].rstrip(">")
    return (name, *map(our_shape, cql_type.children()))


def test_options_by_hand() -> None:
    assert INT.encode_option() == b"\x00\x09"
    assert ListType(INT).encode_option() == b"\x00\x20\x00\x09"
    assert MapType(INT, BLOB).encode_option() == b"\x00\x21\x00\x09\x00\x03"
    assert SetType(BIGINT, True).encode_option() == b"\x00\x22\x00\x02"
    assert TupleType([INT, TIMEUUID]).encode_option() == b"\x00\x31\x00\x02\x00\x09\x00\x0f"
    udt = UserType("k", "t", [("f", TEXT)])
    assert udt.encode_option() == b"\x00\x30\x00\x01k\x00\x01t\x00\x01\x00\x01f\x00\x0d"
    vector = "org.apache.cassandra.db.marshal.VectorType(org.apache.cassandra.db.marshal.FloatType, 3)"
    assert (
        VectorType(FLOAT, 3).encode_option() == b"\x00\x00" + len(vector).to_bytes(2, "big") + vector.encode()
    )


def test_types_newer_than_the_protocol_are_sent_by_class_name() -> None:
    assert DURATION.encode_option(5) == b"\x00\x15"
    assert DURATION.encode_option(4)[:2] == b"\x00\x00"
    assert DURATION.encode_option(4)[4:] == DURATION.marshal_name.encode()
    assert SMALLINT.encode_option(4) == b"\x00\x13"
    assert ListType(SMALLINT).encode_option(3)[:4] == b"\x00\x20\x00\x00"
