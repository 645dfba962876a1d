"""INSERT … JSON."""

import pytest

from belvedere.query.access import UNSET
from belvedere.query.errors import InvalidRequest
from tests.query.fake_access import Session, contents, make_table, make_type, rows, run

ADDRESS = make_type("ks", "address", ("street", "text"), ("zip", "int"))


@pytest.fixture
def session() -> Session:
    return Session(
        make_table("t", "k int, c text, v int, Mixed text, s int static, key (k, c)"),
        make_table(
            "coll",
            "k int, l list<int>, s set<text>, m map<int, text>, a address, d decimal, key (k)",
            types={"address": ADDRESS},
        ),
        make_table("cnt", "k int, n counter, key (k)"),
        types={"address": ADDRESS},
    )


def test_missing_members_are_null_or_unset(session: Session) -> None:
    run(session, """INSERT INTO t JSON '{"k": 1, "C": "a", "v": 5, "\\"Mixed\\"": "x", "s": 3}'""")
    assert contents(session, "t") == [{"k": 1, "c": "a", "v": 5, "Mixed": "x", "s": 3}]
    run(session, """INSERT INTO t JSON '{"k": 1, "c": "a", "v": null}' DEFAULT UNSET""")
    assert contents(session, "t") == [{"k": 1, "c": "a", "Mixed": "x", "s": 3}]
    run(session, """INSERT INTO t JSON '{"k": 1, "c": "a", "v": 6}'""")
    assert contents(session, "t") == [{"k": 1, "c": "a", "v": 6}]


def test_nested_values(session: Session) -> None:
    text = (
        '{"k": 1, "l": [1, 2], "s": ["b", "a"], "m": {"7": "x"}, "a": {"street": "q", "zip": 5}, "d": 1.50}'
    )
    run(session, "INSERT INTO coll JSON ?", [text])
    [row] = contents(session, "coll")
    assert str(row.pop("d")) == "1.50"
    assert row == {"k": 1, "l": [1, 2], "s": {"a", "b"}, "m": {7: "x"}, "a": {"street": "q", "zip": 5}}


def test_options_and_variables(session: Session) -> None:
    text = "INSERT INTO t JSON ? USING TIMESTAMP ? AND TTL 10"
    assert [(b.name, b.type.name) for b in session.plan(text).bindings] == [
        ("[json]", "text"),
        ("[timestamp]", "bigint"),
    ]
    assert session.plan(text).partition_key_bindings == ()
    run(session, text, ['{"k": 1, "c": "a"}', 77])
    row = session.access.log[-1][0][1].rows[0][1]
    assert (row.timestamp, row.ttl) == (77, 10)
    text = """BEGIN BATCH INSERT INTO t JSON ?; INSERT INTO t (k, c, v) VALUES (?, ?, 3); APPLY BATCH"""
    run(session, text, ['{"k": 2, "c": "a"}', 2, "b"])
    assert contents(session, "t")[1:] == [{"k": 2, "c": "a"}, {"k": 2, "c": "b", "v": 3}]


def test_if_not_exists(session: Session) -> None:
    text = """INSERT INTO t JSON '{"k": 1, "c": "a", "v": 5}' IF NOT EXISTS"""
    assert rows(session, text) == [(True,)]
    assert rows(session, text) == [(False, 1, "a", None, None, 5)]


@pytest.mark.parametrize(
    ("json", "message"),
    [
        ("null", "Got null for INSERT JSON values"),
        (None, "Got null for INSERT JSON values"),
        (UNSET, "Cannot INSERT JSON with an unset value"),
        ("{nope", "Could not decode JSON string as a map: "),
        ("[1]", "Could not decode JSON string as a map: not an object. (String was: [1])"),
        ('{"k": 1, "c": "a", "zz": 1}', "JSON values map contains unrecognized column: zz"),
        ('{"k": 1, "c": "a", "v": "q"}', "Error decoding JSON value for v: "),
        ('{"k": 1}', "Invalid null value in condition for column c"),
        ('{"c": "a"}', "Invalid null value in condition for column k"),
    ],
)
def test_refused(session: Session, json: object, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        run(session, "INSERT INTO t JSON ?", [json])
    assert str(caught.value).startswith(message)
    if isinstance(json, str) and "Invalid null" not in message:
        with pytest.raises(InvalidRequest) as caught:
            session.plan(f"INSERT INTO t JSON '{json}'")
        assert str(caught.value).startswith(message)


def test_missing_keys_unset(session: Session) -> None:
    with pytest.raises(InvalidRequest, match="Invalid unset value for column c"):
        run(session, """INSERT INTO t JSON '{"k": 1}' DEFAULT UNSET""")
    with pytest.raises(InvalidRequest, match="INSERT statements are not allowed on counter tables"):
        run(session, """INSERT INTO cnt JSON '{"k": 1}'""")
