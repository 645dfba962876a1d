"""UPDATE: every kind of assignment, counters, keys."""
# ruff: noqa: E501 - tables of statements and messages read best with one case a line

import pytest

from belvedere.model.rows import Row
from belvedere.query.access import UNSET
from belvedere.query.errors import InvalidRequest
from belvedere.query.results import Void
from tests.query.fake_access import Session, contents, make_table, make_type, run

ADDRESS = make_type("ks", "address", ("street", "text"), ("zip", "int"))


@pytest.fixture
def session() -> Session:
    return Session(
        make_table("t", "k int, c int, v text, n int, s int static, l list<int> static, key (k, c)"),
        make_table("coll", "k int, l list<int>, s set<text>, m map<text, int>, f frozen<list<int>>, key (k)"),
        make_table("udt", "k int, a address, fa frozen<address>, key (k)", types={"address": ADDRESS}),
        make_table("cnt", "k int, c int, n counter, o counter, sn counter static, key (k, c)"),
        types={"address": ADDRESS},
    )


def one(session: Session, table: str) -> dict[str, object]:
    [row] = contents(session, table)
    return row


def test_an_update_does_not_make_a_row_live(session: Session) -> None:
    run(session, "UPDATE t USING TIMESTAMP 5 AND TTL 10 SET v = 'x', n = null WHERE k = 1 AND c = 2")
    [(_, mutation)] = session.access.log[-1]
    now = session.now
    assert mutation.rows[0][1] == Row(5, 10, now + 10, False, None, [b"x", (None, 5, 0, now)])
    run(session, "UPDATE t USING TIMESTAMP 6 SET v = null WHERE k = 1 AND c = 2")
    assert contents(session, "t") == []


def test_the_compiled_path_writes_what_the_general_path_writes(session: Session) -> None:
    plan = session.plan("UPDATE t SET v = ?, n = ? WHERE c = ? AND k = ?")
    values = [b"v", b"\0\0\0\7", b"\0\0\0\1", b"\0\0\0\2"]
    assert plan.fast is not None
    assert plan.partition_key_bindings == (3,)
    plan.execute(session.execution(values, timestamp=5))
    plan.execute_general(session.execution(values, timestamp=5))
    fast, general = (log[0][1] for log in session.access.log)
    assert fast == general
    assert one(session, "t") == {"k": 2, "c": 1, "v": "v", "n": 7}


def test_nothing_but_unset_values_writes_nothing(session: Session) -> None:
    assert run(session, "UPDATE t SET v = ? WHERE k = 1 AND c = 1", [UNSET]) == Void()
    assert session.access.log == []


def test_many_keys(session: Session) -> None:
    run(session, "UPDATE t SET n = 1 WHERE k IN (1, 2) AND c IN (3, 4)")
    assert [(row["k"], row["c"]) for row in contents(session, "t")] == [(1, 3), (1, 4), (2, 3), (2, 4)]
    assert [len(mutation.rows) for _, mutation in session.access.log[-1]] == [2, 2]


def test_static_columns(session: Session) -> None:
    run(session, "UPDATE t SET s = 1, l = l + [1] WHERE k = 1")
    assert one(session, "t") == {"k": 1, "s": 1, "l": [1]}
    run(session, "UPDATE t SET s = 2, n = 3 WHERE k = 1 AND c = 1")
    run(session, "UPDATE t SET l[0] = 9 WHERE k = 1")
    assert one(session, "t") == {"k": 1, "c": 1, "s": 2, "l": [9], "n": 3}


def test_lists(session: Session) -> None:
    for statement, expected in (
        ("l = [1, 2]", [1, 2]),
        ("l = l + [3, 4]", [1, 2, 3, 4]),
        ("l = [-2, -1] + l", [-2, -1, 1, 2, 3, 4]),
        ("l = [-4, -3] + l, l = l + [5]", [-4, -3, -2, -1, 1, 2, 3, 4, 5]),
        ("l[0] = 40", [40, -3, -2, -1, 1, 2, 3, 4, 5]),
        ("l[1] = null", [40, -2, -1, 1, 2, 3, 4, 5]),
        ("l += [1]", [40, -2, -1, 1, 2, 3, 4, 5, 1]),
        ("l = l - [1, 40, 99]", [-2, -1, 2, 3, 4, 5]),
        ("l = l + [], l = [] + l", [-2, -1, 2, 3, 4, 5]),
        ("l = []", None),
        ("l = l - [1]", None),
        ("l = l + null", None),
    ):
        run(session, f"UPDATE coll SET {statement}, m['k'] = 1 WHERE k = 1")
        assert one(session, "coll").get("l") == expected, statement


def test_later_appends_stand_later_whatever_the_client_calls_the_time(session: Session) -> None:
    for timestamp, value in ((100, 1), (50, 2), (70, 3)):
        run(
            session,
            "UPDATE coll SET l = l + [?] WHERE k = 1".replace("[?]", "?"),
            [[value]],
            timestamp=timestamp,
        )
    assert one(session, "coll")["l"] == [1, 2, 3]


def test_a_long_list_keeps_its_order(session: Session) -> None:
    numbers = list(range(300))
    run(session, "UPDATE coll SET l = ? WHERE k = 1", [numbers])
    run(session, "UPDATE coll SET l = ? + l WHERE k = 1", [numbers])
    assert one(session, "coll")["l"] == numbers + numbers


def test_list_positions_are_read_under_the_lock(session: Session) -> None:
    run(session, "UPDATE coll SET l = [1] WHERE k = 1")
    assert session.access.locked == []
    run(session, "UPDATE coll SET l[0] = 2 WHERE k = 1")
    assert session.access.locked == [("coll", b"\0\0\0\1")]


@pytest.mark.parametrize(
    ("statement", "values", "message"),
    [
        ("l[0] = 1", [], "Attempted to set an element on a list which is null"),
        ("l[?] = 1", [None], "Invalid null value for list index"),
        ("l[?] = 1", [UNSET], "Invalid unset value for list index"),
        ("m[?] = 1", [None], "Invalid null map key"),
        ("m[?] = 1", [UNSET], "Invalid unset map key"),
        ("m[?] = 1", ["q" * 65536], "Map key is too long. Map keys are limited to 65535 bytes but 65536 bytes keys provided"),
    ],
)  # fmt: skip
def test_wrong_elements(session: Session, statement: str, values: list[object], message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        run(session, f"UPDATE coll SET {statement} WHERE k = 1", values)
    assert str(caught.value) == message
    assert session.access.log == []


def test_list_index_out_of_bound(session: Session) -> None:
    run(session, "UPDATE coll SET l = [1, 2] WHERE k = 1")
    for index in (2, -1):
        with pytest.raises(InvalidRequest, match=f"List index {index} out of bound, list has size 2"):
            run(session, "UPDATE coll SET l[?] = 1 WHERE k = 1", [index])


def test_sets_and_maps(session: Session) -> None:
    run(session, "UPDATE coll SET s = {'b'}, m = {'x': 1} WHERE k = 1")
    run(session, "UPDATE coll SET s = s + {'a', 'c'}, m = m + {'y': 2}, m['z'] = 3 WHERE k = 1")
    assert one(session, "coll") == {"k": 1, "s": {"a", "b", "c"}, "m": {"x": 1, "y": 2, "z": 3}}
    run(session, "UPDATE coll SET s = s - {'a', 'q'}, m = m - {'x'}, m['y'] = null WHERE k = 1")
    assert one(session, "coll") == {"k": 1, "s": {"b", "c"}, "m": {"z": 3}}
    run(session, "UPDATE coll SET s -= ?, m -= ?, m[?] = ? WHERE k = 1", [{"b"}, {"z"}, "w", 5])
    assert one(session, "coll") == {"k": 1, "s": {"c"}, "m": {"w": 5}}
    run(session, "UPDATE coll SET s -= ?, m[?] = ? WHERE k = 1", [UNSET, "w", UNSET])
    assert one(session, "coll") == {"k": 1, "s": {"c"}, "m": {"w": 5}}
    run(session, "UPDATE coll SET s = {}, m = null WHERE k = 1")
    assert contents(session, "coll") == []


def test_elements_have_their_own_ttl(session: Session) -> None:
    run(session, "UPDATE coll USING TTL 10 SET m['a'] = 1, l = l + [1] WHERE k = 1")
    run(session, "UPDATE coll SET m['b'] = 2 WHERE k = 1")
    session.now += 10
    assert one(session, "coll") == {"k": 1, "m": {"b": 2}}


def test_user_types(session: Session) -> None:
    run(session, "UPDATE udt SET a = {street: 'x', zip: 1}, fa = {zip: 5} WHERE k = 1")
    run(session, "UPDATE udt SET a.zip = 2 WHERE k = 1")
    assert one(session, "udt")["a"] == {"street": "x", "zip": 2}
    run(session, "UPDATE udt SET a.zip = null, a.street = ? WHERE k = 1", ["y"])
    assert one(session, "udt")["a"] == {"street": "y", "zip": None}
    run(session, "UPDATE udt SET a.street = null WHERE k = 1")
    assert one(session, "udt") == {"k": 1, "fa": {"street": None, "zip": 5}}


def test_counters(session: Session) -> None:
    run(session, "UPDATE cnt SET n = n + 5, o = o - 2 WHERE k = 1 AND c = 1")
    run(session, "UPDATE cnt SET n += ?, n = n - 1, sn = sn + 1 WHERE k = 1 AND c = 1", [10])
    run(session, "UPDATE cnt SET sn = sn + 1 WHERE k = 1")
    assert one(session, "cnt") == {"k": 1, "c": 1, "n": 14, "o": -2, "sn": 2}
    assert session.access.locked[0] == ("cnt", b"\0\0\0\1")
    run(session, "UPDATE cnt SET n = n + ? WHERE k = 1 AND c = 1", [UNSET])
    assert one(session, "cnt")["n"] == 14
    run(session, "UPDATE cnt SET n = n + ? WHERE k = 1 AND c = 1", [2**63 - 1])
    assert one(session, "cnt")["n"] == 14 + 2**63 - 1 - 2**64


def test_counters_ignore_the_clients_clock_and_never_go_back_in_time(session: Session) -> None:
    run(session, "UPDATE cnt SET n = n + 1 WHERE k = 1 AND c = 1", timestamp=3)
    session.access.clock = 0
    run(session, "UPDATE cnt SET n = n + 1 WHERE k = 1 AND c = 1")
    assert one(session, "cnt")["n"] == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("UPDATE t SET k = 1 WHERE k = 1 AND c = 1", "PRIMARY KEY part k found in SET part"),
        ("UPDATE t SET zz = 1 WHERE k = 1 AND c = 1", "Undefined column name zz in table ks.t"),
        ("UPDATE t SET n = 1 WHERE c = 1", "Some partition key parts are missing: k"),
        ("UPDATE t SET n = 1 WHERE k = 1", "Some clustering keys are missing: c"),
        ("UPDATE t SET n = 1 WHERE k = 1 AND c > 1", "Slice restrictions are not supported on the clustering columns in UPDATE statements"),
        ("UPDATE t SET n = 1 WHERE token(k) = 1 AND c = 1", "The token function cannot be used in WHERE clauses for UPDATE statements"),
        ("UPDATE t SET s = 1 WHERE k = 1 AND c = 1", "Invalid restrictions on clustering columns since the UPDATE statement modifies only static columns"),
        ("UPDATE t SET n = 1 WHERE k = 1 AND c = 1 AND v = 'x'", "Non PRIMARY KEY columns found in where clause: v "),
        ("UPDATE t SET n = 1, n = 2 WHERE k = 1 AND c = 1", "Multiple incompatible setting of column n"),
        ("UPDATE coll SET m = {}, m['a'] = 2 WHERE k = 1", "Multiple incompatible setting of column m"),
        ("UPDATE udt SET a.zip = 1, a.zip = 2 WHERE k = 1", "Multiple incompatible setting of column a"),
        ("UPDATE t SET n = n + 1 WHERE k = 1 AND c = 1", "Invalid operation (n = n + 1) for non counter column n"),
        ("UPDATE t SET n = n - 1 WHERE k = 1 AND c = 1", "Invalid operation (n = n - 1) for non counter column n"),
        ("UPDATE coll SET f = f + [1] WHERE k = 1", "Invalid operation (f = f + [1]) for frozen collection column f"),
        ("UPDATE coll SET s = {'a'} + s WHERE k = 1", "Invalid operation (s = {'a'} - s) for non list column s"),
        ("UPDATE coll SET f[0] = 1 WHERE k = 1", "Invalid operation (f[0] = 1) for frozen collection column f"),
        ("UPDATE coll SET s['a'] = 1 WHERE k = 1", "Invalid operation (s['a'] = 1) for set column s"),
        ("UPDATE t SET n[0] = 1 WHERE k = 1 AND c = 1", "Invalid operation (n[0] = 1) for non collection column n"),
        ("UPDATE t SET n.x = 1 WHERE k = 1 AND c = 1", "Invalid operation (n.x = 1) for non-UDT column n"),
        ("UPDATE udt SET fa.zip = 1 WHERE k = 1", "Invalid operation (fa.zip = 1) for frozen UDT column fa"),
        ("UPDATE udt SET a.q = 1 WHERE k = 1", "UDT column a does not have a field named q"),
        ("UPDATE cnt SET n = 1 WHERE k = 1 AND c = 1", "Cannot set the value of counter column n (counters can only be incremented/decremented, not set)"),
        ("UPDATE cnt USING TTL 1 SET n = n + 1 WHERE k = 1 AND c = 1", "Cannot provide custom TTL for counter updates"),
        ("UPDATE cnt USING TIMESTAMP 1 SET n = n + 1 WHERE k = 1 AND c = 1", "Cannot provide custom timestamp for counter updates"),
        ("UPDATE cnt SET n = n + 1 WHERE k = 1 AND c = 1 IF EXISTS", "Conditional updates are not supported on counter tables"),
        ("UPDATE cnt SET n = n + null WHERE k = 1 AND c = 1", "Invalid null value for counter increment"),
        ("UPDATE cnt SET n = n - -9223372036854775808 WHERE k = 1 AND c = 1", "The negation of -9223372036854775808 overflows supported counter precision (signed 8 bytes integer)"),
        ("UPDATE t SET n = 1 WHERE k = null AND c = 1", "Invalid null value in condition for column k"),
    ],
)  # fmt: skip
def test_refused(session: Session, text: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        run(session, text)
    assert str(caught.value) == message
    assert session.access.log == []
