"""IF conditions: what holds, and what the refusal shows."""
# ruff: noqa: E501 - tables of statements and messages read best with one case a line

from decimal import Decimal

import pytest

from belvedere.query.access import UNSET
from belvedere.query.errors import InvalidRequest
from belvedere.query.results import Rows
from tests.query.fake_access import Session, contents, decoded, make_table, make_type, rows, run

POINT = make_type("ks", "point", ("x", "int"), ("y", "int"))


@pytest.fixture
def session() -> Session:
    session = Session(
        make_table("t", "k int, c int, v int, w text, d decimal, s int static, key (k, c)"),
        make_table(
            "coll",
            "k int, l list<int>, fl frozen<list<int>>, s set<int>, m map<text, int>, fm frozen<map<text, int>>,"
            " p point, fp frozen<point>, n int, key (k)",
            types={"point": POINT},
        ),
        types={"point": POINT},
    )
    run(session, "INSERT INTO t (k, c, v, w, d) VALUES (1, 1, 5, 'x', 1.0)")
    run(
        session,
        "INSERT INTO coll (k, l, fl, s, m, fm, p, fp) VALUES "
        "(1, [1, 2], [1, 2], {1, 2}, {'a': 1}, {'a': 1}, {x: 1}, {x: 1, y: 2})",
    )
    return session


def names(session: Session, text: str) -> list[str]:
    result = run(session, text)
    assert isinstance(result, Rows)
    return [column.name for column in result.columns]


def test_if_not_exists(session: Session) -> None:
    text = "INSERT INTO t (k, c, v) VALUES (1, 2, 7) IF NOT EXISTS"
    assert rows(session, text, timestamp=1) == [(True,)]
    assert session.access.locked == [("t", b"\0\0\0\1")]
    result = run(session, text)
    assert isinstance(result, Rows)
    assert result.after == len(session.access.log)
    assert [column.name for column in result.columns] == ["[applied]", "k", "c", "s", "d", "v", "w"]
    assert [column.type.name for column in result.columns][:2] == ["boolean", "int"]
    assert decoded(result) == [(False, 1, 2, None, None, 7, None)]


def test_conditional_writes_are_ordered_by_this_node(session: Session) -> None:
    run(session, "UPDATE t SET v = 6 WHERE k = 1 AND c = 1 IF v = 5", timestamp=1)
    assert contents(session, "t")[0]["v"] == 6


def test_what_is_applied_is_seen_even_over_cells_from_the_future(session: Session) -> None:
    future = session.access.clock + 10**12
    run(session, "UPDATE t USING TIMESTAMP ? SET v = 7 WHERE k = 1 AND c = 1", [future])
    assert rows(session, "UPDATE t SET v = 8 WHERE k = 1 AND c = 1 IF v = 7") == [(True,)]
    assert contents(session, "t")[0]["v"] == 8
    assert rows(session, "DELETE FROM t WHERE k = 1 AND c = 1 IF v = 8") == [(True,)]
    assert contents(session, "t") == []


def test_if_not_exists_sees_static_cells_as_no_row(session: Session) -> None:
    run(session, "INSERT INTO t (k, s) VALUES (2, 1)")
    assert rows(session, "INSERT INTO t (k, s) VALUES (2, 1) IF NOT EXISTS") == [
        (False, 2, None, 1, None, None, None)
    ]
    assert rows(session, "INSERT INTO t (k, c) VALUES (2, 1) IF NOT EXISTS") == [(True,)]
    assert rows(session, "INSERT INTO t (k, s) VALUES (1, 4) IF NOT EXISTS") == [(True,)]


def test_if_exists(session: Session) -> None:
    assert rows(session, "UPDATE t SET v = 1 WHERE k = 9 AND c = 1 IF EXISTS") == [(False,)]
    assert rows(session, "UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF EXISTS") == [(True,)]
    assert rows(session, "UPDATE t SET s = 1 WHERE k = 1 IF EXISTS") == [
        (False, 1, 1, None, Decimal("1.0"), 1, "x")
    ]
    assert rows(session, "DELETE FROM t WHERE k = 1 AND c = 1 IF EXISTS") == [(True,)]
    assert contents(session, "t") == []
    assert rows(session, "DELETE FROM t WHERE k = 1 AND c = 1 IF EXISTS") == [(False,)]


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("v = 5", True),
        ("v = 6", False),
        ("v != 5", False),
        ("v != 6", True),
        ("v < 6 AND v > 4", True),
        ("v <= 5 AND v >= 5", True),
        ("v < 5", False),
        ("v > 5", False),
        ("v IN (4, 5)", True),
        ("v IN (4, null)", False),
        ("v IN ()", False),
        ("v = null", False),
        ("v != null", True),
        ("s = null", True),
        ("s != null", False),
        ("s = 1", False),
        ("s != 1", True),
        ("s < 1", False),
        ("s IN (1, null)", True),
        ("w = 'x' AND v = 5", True),
        ("w = 'x' AND v = 6", False),
        ("d = 1.00", True),
        ("d > 0.9", True),
    ],
)
def test_comparisons(session: Session, condition: str, holds: bool) -> None:
    [first] = rows(session, f"UPDATE t SET w = 'new' WHERE k = 1 AND c = 1 IF {condition}")
    assert first[0] is holds
    assert contents(session, "t")[0]["w"] == ("new" if holds else "x")


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("l = [1, 2]", True),
        ("l != [1, 2]", False),
        ("l > [1]", True),
        ("l < [1, 3]", True),
        ("l IN ([1], [1, 2])", True),
        ("l[0] = 1", True),
        ("l[1] = 1", False),
        ("l[7] = null", True),
        ("l[7] = 1", False),
        ("fl = [1, 2]", True),
        ("fl[1] = 2", True),
        ("fl[2] = null", True),
        ("s = {2, 1}", True),
        ("s > {1}", True),
        ("m = {'a': 1}", True),
        ("m['a'] = 1", True),
        ("m['a'] > 1", False),
        ("m['b'] = null", True),
        ("m['b'] != 1", True),
        ("m['a'] IN (1, 2)", True),
        ("fm['a'] = 1", True),
        ("fm['b'] = null", True),
        ("p = {x: 1, y: null}", True),
        ("p.x = 1", True),
        ("p.y = null", True),
        ("p.x > 1", False),
        ("fp.y IN (2, 3)", True),
        ("fp = {x: 1, y: 2}", True),
        ("fp != {x: 1, y: 2}", False),
        ("l = []", False),
        ("n = null", True),
        ("s CONTAINS 1", True),
        ("m CONTAINS 2", False),
        ("m CONTAINS KEY 'a'", True),
    ],
)
def test_collections(session: Session, condition: str, holds: bool) -> None:
    [first] = rows(session, f"UPDATE coll SET n = 1 WHERE k = 1 IF {condition}")
    assert first[0] is holds


def test_an_empty_collection_is_null(session: Session) -> None:
    run(session, "INSERT INTO coll (k) VALUES (2)")
    for condition in ("l = []", "l = null", "s = {}", "m = {}", "m = null"):
        [first] = rows(session, f"UPDATE coll SET n = 1 WHERE k = 2 IF {condition}")
        assert first == (True,), condition


def test_bind_variables(session: Session) -> None:
    text = "UPDATE t SET v = ? WHERE k = ? AND c = ? IF v = ? AND w IN ?"
    plan = session.plan(text)
    assert [binding.name for binding in plan.bindings] == ["v", "k", "c", "v", "in(w)"]
    assert plan.partition_key_bindings == (1,)
    assert rows(session, text, [6, 1, 1, 4, ["x"]]) == [(False, 5, "x")]
    assert rows(session, text, [6, 1, 1, 5, ["x", "y"]]) == [(True,)]
    element = "UPDATE coll SET n = 1 WHERE k = 1 IF m[?] = ? AND l[?] IN (?, ?)"
    assert [b.name for b in session.plan(element).bindings] == [
        "key(m)",
        "value(m)",
        "idx(l)",
        "value(l)",
        "value(l)",
    ]
    assert rows(session, element, ["a", 1, 1, 5, 2]) == [(True,)]


def test_what_a_refusal_shows(session: Session) -> None:
    run(session, "UPDATE t SET s = 3 WHERE k = 1")
    text = "UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF w = 'q' AND v = 5 AND w != 'y' AND s = 3"
    assert names(session, text) == ["[applied]", "w", "v", "s"]
    assert rows(session, text) == [(False, "x", 5, 3)]
    assert rows(session, text.replace("c = 1", "c = 8")) == [(False, None, None, 3)]
    assert rows(session, text.replace("k = 1", "k = 8")) == [(False,)]
    assert rows(session, "UPDATE t SET v = 1 WHERE k = 1 AND c = 8 IF w = 'q'") == [(False,)]
    assert rows(session, "UPDATE t SET s = 1 WHERE k = 1 IF s = 9") == [(False, 3)]
    assert rows(session, "DELETE v FROM t WHERE k = 1 AND c = 1 IF v = 9") == [(False, 5)]
    assert rows(session, "UPDATE coll SET n = 1 WHERE k = 1 IF m['a'] = 2") == [(False, {"a": 1})]


def test_a_missing_row_holds_null_conditions(session: Session) -> None:
    assert rows(session, "UPDATE t SET v = 1 WHERE k = 5 AND c = 1 IF w = null") == [(True,)]
    assert {"k": 5, "c": 1, "v": 1} in contents(session, "t")


def test_a_static_condition_guards_rows_and_partitions(session: Session) -> None:
    assert rows(session, "UPDATE t SET v = 8 WHERE k = 1 AND c = 4 IF s = 1") == [(False, None)]
    run(session, "UPDATE t SET s = 1 WHERE k = 1")
    assert rows(session, "UPDATE t SET v = 8 WHERE k = 1 AND c = 4 IF s = 1") == [(True,)]
    assert rows(session, "DELETE FROM t WHERE k = 1 AND c = 4 IF s = 2") == [(False, 1)]
    assert rows(session, "DELETE FROM t WHERE k = 1 AND c = 4 IF s = 1") == [(True,)]
    assert rows(session, "DELETE s FROM t WHERE k = 1 IF s = 2") == [(False, 1)]
    assert rows(session, "DELETE s FROM t WHERE k = 1 IF s = 1") == [(True,)]
    assert [(row["c"], row.get("s")) for row in contents(session, "t")] == [(1, None)]


@pytest.mark.parametrize(
    ("text", "values", "message"),
    [
        ("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF zz = 1", [], "Undefined column name zz in table ks.t"),
        ("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF c = 1", [], "PRIMARY KEY column 'c' cannot have IF conditions"),
        ("UPDATE t USING TIMESTAMP 1 SET v = 1 WHERE k = 1 AND c = 1 IF v = 1", [], "Cannot provide custom timestamp for conditional updates"),
        ("UPDATE t SET v = 1 WHERE k IN (1, 2) AND c = 1 IF v = 1", [], "IN on the partition key is not supported with conditional updates"),
        ("UPDATE t SET v = 1 WHERE k = 1 AND c IN (1, 2) IF v = 1", [], "IN on the clustering key columns is not supported with conditional updates"),
        ("DELETE FROM t WHERE k = 1 AND c IN (1, 2) IF EXISTS", [], "IN on the clustering key columns is not supported with conditional deletions"),
        ("DELETE FROM t WHERE k = 1 IF EXISTS", [], "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to delete non static columns"),
        ("DELETE s FROM t WHERE k = 1 IF v = 1", [], "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to use IF condition on non static columns"),
        ("DELETE v FROM t WHERE k = 1 IF s = 1", [], "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to delete non static columns"),
        ("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF v < null", [], 'Invalid comparison with null for operator "<"'),
        ("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF v = ?", [UNSET], "Invalid 'unset' value in condition"),
        ("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF v IN ?", [None], "Invalid null list in IN condition"),
        ("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF v[0] = 1", [], "Invalid element access syntax for non-collection column v"),
        ("UPDATE coll SET n = 1 WHERE k = 1 IF s[0] = 1", [], "Invalid element access syntax for set column s"),
        ("UPDATE coll SET n = 1 WHERE k = 1 IF l[?] = 1", [None], "Invalid null value for list element access"),
        ("UPDATE coll SET n = 1 WHERE k = 1 IF l[-1] = 1", [], "Invalid negative list index -1"),
        ("UPDATE coll SET n = 1 WHERE k = 1 IF m[?] = 1", [None], "Invalid null value for map element access"),
        ("UPDATE coll SET n = 1 WHERE k = 1 IF n.x = 1", [], "Invalid field access syntax for non-UDT column n"),
        ("UPDATE coll SET n = 1 WHERE k = 1 IF p.q = 1", [], "Unknown field q for column p"),
        ("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF v = 'a'", [], 'Invalid STRING constant (a) for "v" of type int'),
    ],
)  # fmt: skip
def test_refused(session: Session, text: str, values: list[object], message: str) -> None:
    before = len(session.access.log)
    with pytest.raises(InvalidRequest) as caught:
        run(session, text, values)
    assert str(caught.value) == message
    assert len(session.access.log) == before
