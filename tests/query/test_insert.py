"""INSERT: what is written, and what is refused."""
# ruff: noqa: E501 - tables of statements and messages read best with one case a line

import pytest

from belvedere.model.rows import Complex, Row
from belvedere.query.access import UNSET
from belvedere.query.errors import CQLError, InvalidRequest, Unauthorized
from belvedere.query.results import Void
from tests.query.fake_access import Session, contents, make_table, make_type, run

ADDRESS = make_type("ks", "address", ("street", "text"), ("zip", "int"))


@pytest.fixture
def session() -> Session:
    return Session(
        make_table("t", "k int, c text, v text, n int, b boolean, s int static, key (k, c)"),
        make_table("flat", "k text, v int, w blob, key (k)"),
        make_table("pair", "a int, b text, x bigint, y double, v int, key ((a, b), x, y desc)"),
        make_table("coll", "k int, l list<int>, s set<text>, m map<text, int>, f frozen<set<int>>, key (k)"),
        make_table(
            "udt",
            "k int, a address, fa frozen<address>, key (k)",
            types={"address": ADDRESS},
        ),
        make_table("ttl", "k int, v int, key (k)", default_time_to_live=100),
        make_table("cnt", "k int, n counter, key (k)"),
        types={"address": ADDRESS},
    )


def written(session: Session) -> Row:
    """The row of the last write, which must have had only one."""
    [(_, mutation)] = session.access.log[-1]
    [(_, row)] = mutation.rows
    return row


def test_a_full_row_is_bare_cells_under_one_stamp(session: Session) -> None:
    result = run(session, "INSERT INTO t (k, c, v, n) VALUES (1, 'a', 'x', 2) USING TIMESTAMP 77")
    assert result == Void(1)
    assert written(session) == Row(77, 0, 0, True, None, [b"x", b"\0\0\0\2"])
    assert contents(session, "t") == [{"k": 1, "c": "a", "v": "x", "n": 2}]


def test_the_compiled_path_writes_what_the_general_path_writes(session: Session) -> None:
    text = "INSERT INTO t (k, c, v, n, b) VALUES (?, ?, ?, 7, ?)"
    plan = session.plan(text)
    assert plan.fast is not None
    values = [b"\0\0\0\1", "ä".encode(), "ö".encode(), b"\2"]
    plan.execute(session.execution(values, timestamp=5))
    plan.execute_general(session.execution(values, timestamp=5))
    fast, general = (log[0][1] for log in session.access.log)
    assert fast == general
    assert general.rows[0][1].cells[2] == b"\1"


def test_the_compiled_path_answers_at_once_and_waits_when_it_must(session: Session) -> None:
    plan = session.plan("INSERT INTO flat (k, v, w) VALUES (?, ?, ?)")
    values = [b"k", b"\0\0\0\1", b"\xff"]
    assert plan.execute(session.execution(values)) == Void(1)
    session.access.busy = True
    assert session.run_plan(plan, values) == Void(2)
    assert len(contents(session, "flat")) == 1


def test_timestamps_come_from_statement_then_client_then_server(session: Session) -> None:
    run(session, "INSERT INTO flat (k, v) VALUES ('a', 1) USING TIMESTAMP ?", [5], timestamp=6)
    assert written(session).timestamp == 5
    run(session, "INSERT INTO flat (k, v) VALUES ('a', 1) USING TIMESTAMP ?", [UNSET], timestamp=6)
    assert written(session).timestamp == 6
    run(session, "INSERT INTO flat (k, v) VALUES ('a', 1)", timestamp=6)
    assert written(session).timestamp == 6
    run(session, "INSERT INTO flat (k, v) VALUES ('a', 1)")
    assert written(session).timestamp == session.access.clock


def test_ttl(session: Session) -> None:
    now = session.now
    run(session, "INSERT INTO flat (k, v) VALUES ('a', 1) USING TTL 10 AND TIMESTAMP 3")
    assert written(session) == Row(3, 10, now + 10, True, None, [b"\0\0\0\1"])
    run(session, "INSERT INTO ttl (k, v) VALUES (1, 1)")
    assert (written(session).ttl, written(session).expiry) == (100, now + 100)
    run(session, "INSERT INTO ttl (k, v) VALUES (?, ?)", [1, 1])
    assert (written(session).ttl, written(session).expiry) == (100, now + 100)
    for value, expected in ((0, 0), (None, 0), (UNSET, 100), (7, 7)):
        run(session, "INSERT INTO ttl (k, v) VALUES (1, 1) USING TTL ?", [value])
        assert written(session).ttl == expected
    session.now += 7
    assert contents(session, "ttl") == []


def test_null_is_a_tombstone_and_unset_is_nothing(session: Session) -> None:
    run(session, "INSERT INTO t (k, c, v, n) VALUES (1, 'a', 'x', 1) USING TIMESTAMP 1")
    run(session, "INSERT INTO t (k, c, v, n) VALUES (1, 'a', ?, ?)", [None, UNSET], timestamp=2)
    assert written(session) == Row(2, 0, 0, True, None, [(None, 2, 0, session.now), None])
    assert contents(session, "t") == [{"k": 1, "c": "a", "n": 1}]


def test_a_row_of_nothing_but_its_key_exists(session: Session) -> None:
    run(session, "INSERT INTO t (k, c) VALUES (1, 'a')")
    assert contents(session, "t") == [{"k": 1, "c": "a"}]


def test_static_columns(session: Session) -> None:
    run(session, "INSERT INTO t (k, s) VALUES (1, 5)")
    [(_, mutation)] = session.access.log[-1]
    assert mutation.rows == []
    assert mutation.static is not None
    assert not mutation.static.live
    assert contents(session, "t") == [{"k": 1, "s": 5}]
    run(session, "INSERT INTO t (k, c, s) VALUES (1, 'a', 6)")
    assert contents(session, "t") == [{"k": 1, "c": "a", "s": 6}]


def test_composite_keys_sort_as_declared(session: Session) -> None:
    for y in (1.5, 2.5):
        run(session, "INSERT INTO pair (a, b, x, y, v) VALUES (?, ?, ?, ?, ?)", [1, "q", 3, y, 9])
    run(session, "INSERT INTO pair (a, b, x, y, v) VALUES (1, 'q', 3, 3.5, 9)")
    [partition] = session.access.tables[session.keyspace.tables["pair"].id].values()
    assert partition.key == b"\0\4\0\0\0\1\0\0\1q\0"
    decode = session.keyspace.tables["pair"].clustering_order.decode
    assert [decode(key)[1][1] for key in sorted(partition.rows)] == [0x0C, 0x04, 0xF8]
    assert session.plan("INSERT INTO pair (b, a, x, y) VALUES (?, ?, ?, ?)").partition_key_bindings == (1, 0)
    assert session.plan("INSERT INTO pair (b, a, x, y) VALUES (?, 1, ?, ?)").partition_key_bindings == ()


def test_bindings_describe_the_columns(session: Session) -> None:
    plan = session.plan("INSERT INTO t (k, c, v) VALUES (?, :cc, ?) USING TIMESTAMP ? AND TTL ?")
    assert [(b.keyspace, b.table, b.name, b.type.name) for b in plan.bindings] == [
        ("ks", "t", "k", "int"),
        ("ks", "t", "cc", "text"),
        ("ks", "t", "v", "text"),
        ("ks", "t", "[timestamp]", "bigint"),
        ("ks", "t", "[ttl]", "int"),
    ]
    assert plan.partition_key_bindings == (0,)


def test_a_collection_replaces_what_was_there(session: Session) -> None:
    run(session, "INSERT INTO coll (k, l, s, m, f) VALUES (1, [3, 1, 3], {'b', 'a'}, {'x': 1}, {2, 1, 2})")
    [row] = contents(session, "coll")
    assert row == {"k": 1, "l": [3, 1, 3], "s": {"a", "b"}, "m": {"x": 1}, "f": {1, 2}}
    cell = written(session).cells[1]
    assert isinstance(cell, Complex)
    assert cell.deletion == (session.access.log[-1][0][1].rows[0][1].timestamp - 1, session.now)
    run(session, "INSERT INTO coll (k, l, s) VALUES (1, ?, ?)", [[7], set()])
    assert contents(session, "coll") == [{"k": 1, "l": [7], "m": {"x": 1}, "f": {1, 2}}]
    run(session, "INSERT INTO coll (k, m, f) VALUES (1, null, {})")
    assert contents(session, "coll") == [{"k": 1, "l": [7], "f": set()}]


def test_user_types(session: Session) -> None:
    run(session, "INSERT INTO udt (k, a, fa) VALUES (1, {street: 'x', zip: 1}, {zip: 2})")
    run(session, "INSERT INTO udt (k, a) VALUES (1, {zip: ?})", [3])
    assert contents(session, "udt") == [
        {"k": 1, "a": {"street": None, "zip": 3}, "fa": {"street": None, "zip": 2}}
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("INSERT INTO nope (k) VALUES (1)", "table nope does not exist"),
        ("INSERT INTO no.t (k) VALUES (1)", "keyspace no does not exist"),
        ("INSERT INTO t (k, c, zz) VALUES (1, 'a', 2)", "Undefined column name zz in table ks.t"),
        ("INSERT INTO t (k, c) VALUES (1)", "Unmatched column names/values"),
        ("INSERT INTO t (k, c, k) VALUES (1, 'a', 1)", "The column names contains duplicates"),
        ("INSERT INTO t (c) VALUES ('a')", "Some partition key parts are missing: k"),
        ("INSERT INTO t (k, v) VALUES (1, 'a')", "Some clustering keys are missing: c"),
        ("INSERT INTO t (k) VALUES (1)", "Some clustering keys are missing: c"),
        ("INSERT INTO pair (a, x) VALUES (1, 1)", "Some partition key parts are missing: b"),
        ("INSERT INTO pair (a, b) VALUES (1, 'b')", "Some clustering keys are missing: x, y"),
        ("INSERT INTO t (k, c, v) VALUES (1, 'a', 1)", 'Invalid INTEGER constant (1) for "v" of type text'),
        ("INSERT INTO t (k, c, n) VALUES (1, 'a', 'q')", 'Invalid STRING constant (q) for "n" of type int'),
        ("INSERT INTO cnt (k, n) VALUES (1, 1)", "INSERT statements are not allowed on counter tables, use UPDATE instead"),
        ("INSERT INTO flat (k, v) VALUES ('a', 1) USING TTL -1", "A TTL must be greater or equal to 0, but was -1"),
        (
            "INSERT INTO flat (k, v) VALUES ('a', 1) USING TTL 630720001",
            "ttl is too large. requested (630720001) maximum (630720000)",
        ),
        ("INSERT INTO flat (k, v) VALUES ('', 1)", "Key may not be empty"),
        ("INSERT INTO t (k, c) VALUES (null, 'a')", "Invalid null value in condition for column k"),
        ("INSERT INTO t (k, c) VALUES (1, null)", "Invalid null value in condition for column c"),
        ("INSERT INTO flat (k, v) VALUES ('a', 1) IF NOT EXISTS USING TIMESTAMP 1", "Cannot provide custom timestamp for conditional updates"),
    ],
)  # fmt: skip
def test_refused(session: Session, text: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        run(session, text)
    assert str(caught.value) == message
    assert session.access.log == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([b"\0\0\0\1", None, b"v"], "Invalid null value in condition for column c"),
        ([UNSET, b"c", b"v"], "Invalid unset value for column k"),
        ([b"\0", b"c", b"v"], "Expected 4 or 0 byte int (1)"),
        ([b"\0\0\0\1", b"c", b"\xff"], "String didn't validate."),
        ([b"\0\0\0\1", b"c" * 65536, b"v"], "The sum of all clustering columns is too long (65536 > 65535)"),
        ([b"\0\0\0\1", b"c"], "there were 3 markers(?) in CQL but 2 bound variables"),
    ],
)
def test_wrong_values(session: Session, values: list[bytes], message: str) -> None:
    plan = session.plan("INSERT INTO t (k, c, v) VALUES (?, ?, ?)")
    with pytest.raises(InvalidRequest) as caught:
        session.run_plan(plan, values)
    assert str(caught.value) == message
    assert session.access.log == []


@pytest.mark.parametrize("fast", [True, False])
def test_long_keys(session: Session, fast: bool) -> None:
    values = ["q" * 65536] if fast else []
    term = "?" if fast else "'" + "q" * 65536 + "'"
    with pytest.raises(InvalidRequest, match="Key length of 65536 is longer than maximum of 65535"):
        run(session, f"INSERT INTO flat (k, v) VALUES ({term}, 1)", values)
    values = [1, "q" * 65536] if fast else []
    terms = "?, ?" if fast else f"1, {term}"
    with pytest.raises(InvalidRequest, match="Key length of 65546 is longer than maximum of 65535"):
        run(session, f"INSERT INTO pair (a, b, x, y) VALUES ({terms}, 1, 1)", values)


def test_wrong_options(session: Session) -> None:
    for value, message in ((None, "Invalid null value of timestamp"), (-(2**63), "Invalid timestamp value")):
        with pytest.raises(InvalidRequest, match=message):
            run(session, "INSERT INTO flat (k, v) VALUES ('a', 1) USING TIMESTAMP ?", [value])
    with pytest.raises(InvalidRequest, match="Invalid timestamp value"):
        run(session, "INSERT INTO flat (k, v, w) VALUES (?, ?, ?)", ["a", 1, b""], timestamp=-(2**63))


def test_needs_a_keyspace_and_leaves_system_tables_alone(session: Session) -> None:
    from belvedere.cql.parser import parse_statement
    from belvedere.query.statements import plan_statement

    with pytest.raises(InvalidRequest, match="No keyspace has been specified"):
        plan_statement(parse_statement("INSERT INTO t (k, c) VALUES (1, 'a')"), session.schema, None)
    system = make_table("local", "key text, v int, key (key)")
    object.__setattr__(system, "keyspace", "system")

    class View:
        def table(self, keyspace: str, name: str) -> object:
            return system

    with pytest.raises(Unauthorized, match="system keyspace is not user-modifiable"):
        plan_statement(parse_statement("INSERT INTO system.local (key) VALUES ('a')"), View(), None)  # type: ignore[arg-type]


def test_errors_are_errors_of_cql() -> None:
    assert issubclass(InvalidRequest, CQLError)
    assert InvalidRequest.code == 0x2200
