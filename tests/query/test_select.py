"""SELECT, case by case."""
# ruff: noqa: E501 - tables of statements and messages read best with one case a line

from collections.abc import Coroutine
from decimal import Decimal
from typing import Any

import pytest

from belvedere.model.types import UserType, parse_type
from belvedere.query.access import UNSET
from belvedere.query.errors import InvalidRequest, ProtocolError
from belvedere.query.results import Result, Rows
from belvedere.query.select.plan import SelectPlan
from tests.query.fake_access import Session, decoded, make_table, make_type, rows, run

ADDRESS: UserType = make_type("ks", "address", ("street", "text"), ("zip", "int"))


@pytest.fixture
def session() -> Session:
    session = Session(
        make_table("t", "k int, c int, s text static, v int, w text, key (k, c)"),
        make_table("flat", "name text, v int, d decimal, key (name)"),
        make_table("multi", "a int, b text, c int, v int, key ((a, b), c desc)"),
        make_table(
            "coll",
            "k int, l list<int>, m map<text, int>, st set<int>, u address, fm frozen<map<text, int>>, fu frozen<address>, key (k)",
            types={"address": ADDRESS},
        ),
        make_table("cnt", "k int, n counter, key (k)"),
        types={"address": ADDRESS},
    )
    for k in (1, 2):
        for c in (1, 2, 3):
            run(session, f"INSERT INTO t (k, c, v, w) VALUES ({k}, {c}, {10 * k + c}, 'w{c}')")
    run(session, "UPDATE t SET s = 'one' WHERE k = 1")
    run(session, "UPDATE t SET s = 'alone' WHERE k = 9")
    return session


def columns(result: Result) -> list[tuple[str, str]]:
    assert isinstance(result, Rows)
    return [(column.name, column.type.name) for column in result.columns]


def names(session: Session, text: str) -> list[str]:
    return [column.name for column in session.plan(text).result_columns]


# -- which rows --------------------------------------------------------------------------------------


def test_a_row_by_its_key(session: Session) -> None:
    assert rows(session, "SELECT * FROM t WHERE k = 1 AND c = 2") == [(1, 2, "one", 12, "w2")]
    assert rows(session, "SELECT * FROM t WHERE k = 1 AND c = 7") == []
    assert rows(session, "SELECT v FROM t WHERE k = ? AND c = ?", (2, 3)) == [(23,)]


def test_a_point_read_answers_without_waiting(session: Session) -> None:
    plan = session.plan("SELECT v FROM t WHERE k = ? AND c = ?")
    result = plan.execute(session.execution([b"\0\0\0\2", b"\0\0\0\3"]))
    assert isinstance(result, Rows)
    assert result.after == len(session.access.log)
    session.access.busy = True
    waiting = plan.execute(session.execution([b"\0\0\0\2", b"\0\0\0\3"]))
    assert isinstance(waiting, Coroutine)
    waiting.close()
    assert decoded(session.run_plan(plan, [b"\0\0\0\2", b"\0\0\0\3"])) == [(23,)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((None, b"\0\0\0\1"), "Invalid null value in condition for column k"),
        ((UNSET, b"\0\0\0\1"), "Invalid unset value for column k"),
        ((b"\0\0\0\1", None), "Invalid null value in condition for column c"),
        ((b"\0\0\0\1", b"\0"), "Expected 4 or 0 byte int (1)"),
    ],
)
def test_a_point_read_checks_its_values(session: Session, values: Any, message: str) -> None:
    plan = session.plan("SELECT v FROM t WHERE k = ? AND c = ?")
    with pytest.raises(InvalidRequest) as error:
        plan.execute(session.execution(values))
    assert error.value.message == message


def test_text_keys_have_a_length(session: Session) -> None:
    with pytest.raises(InvalidRequest, match="Key may not be empty"):
        run(session, "SELECT v FROM flat WHERE name = ''")
    with pytest.raises(InvalidRequest, match="Key length of 70000 is longer than maximum of 65535"):
        run(session, "SELECT v FROM flat WHERE name = ?", ("x" * 70000,))


def test_a_composite_key_is_cut_to_its_parts(session: Session) -> None:
    run(session, "INSERT INTO multi (a, b, c, v) VALUES (1, 'x', 5, 6)")
    run(session, "INSERT INTO multi (a, b, c, v) VALUES (1, 'x', 9, 7)")
    assert rows(session, "SELECT * FROM multi WHERE a = 1 AND b = 'x' AND c = 5") == [(1, "x", 5, 6)]
    assert rows(session, "SELECT b, c FROM multi WHERE a = 1 AND b = 'x'") == [("x", 9), ("x", 5)]
    assert rows(session, "SELECT c FROM multi WHERE a = 1 AND b = 'x' ORDER BY c ASC") == [(5,), (9,)]


def test_named_partitions_come_in_the_order_of_their_keys(session: Session) -> None:
    assert rows(session, "SELECT k, c FROM t WHERE k IN (2, 1) AND c = 1") == [(1, 1), (2, 1)]


def test_scans_come_in_token_order(session: Session) -> None:
    assert rows(session, "SELECT k FROM t WHERE token(k) > -9223372036854775808 PER PARTITION LIMIT 1") == [
        (1,),
        (2,),
        (9,),
    ]


def test_in_with_order_merges_the_partitions(session: Session) -> None:
    assert rows(session, "SELECT k, c FROM t WHERE k IN (1, 2) ORDER BY c DESC LIMIT 3") == [
        (1, 3),
        (2, 3),
        (1, 2),
    ]
    with pytest.raises(InvalidRequest, match="Cannot page queries with both ORDER BY and a IN restriction"):
        run(session, "SELECT k, c FROM t WHERE k IN (1, 2) ORDER BY c DESC", page_size=100)


def test_limits_may_be_bound(session: Session) -> None:
    assert len(rows(session, "SELECT * FROM t LIMIT ?", (2,))) == 2
    assert len(rows(session, "SELECT * FROM t LIMIT ?", (UNSET,))) == 7
    assert len(rows(session, "SELECT * FROM t PER PARTITION LIMIT ?", (1,))) == 3
    plan = session.plan("SELECT * FROM t PER PARTITION LIMIT ? LIMIT ?")
    assert [binding.name for binding in plan.bindings] == ["[per_partition_limit]", "[limit]"]
    for value, message in ((None, "Invalid null value of limit"), (0, "LIMIT must be strictly positive")):
        with pytest.raises(InvalidRequest, match=message):
            run(session, "SELECT * FROM t LIMIT ?", (value,))


# -- static columns ----------------------------------------------------------------------------------


def test_a_partition_of_static_cells_alone_is_a_row(session: Session) -> None:
    assert rows(session, "SELECT * FROM t WHERE k = 9") == [(9, None, "alone", None, None)]
    assert rows(session, "SELECT s FROM t WHERE k = 9 AND c = 1") == []
    assert rows(session, "SELECT s FROM t WHERE k = 9 AND c > 0") == []
    assert rows(session, "SELECT k FROM t WHERE v = null ALLOW FILTERING".replace("null", "5")) == []


def test_static_cells_come_with_every_row(session: Session) -> None:
    assert rows(session, "SELECT s, c FROM t WHERE k = 1 AND c < 3") == [("one", 1), ("one", 2)]
    assert rows(session, "SELECT DISTINCT k, s FROM t") == [(1, "one"), (2, None), (9, "alone")]
    assert rows(session, "SELECT DISTINCT s FROM t WHERE k = 1") == [("one",)]
    assert rows(session, "SELECT k, c FROM t WHERE s = 'one' ALLOW FILTERING") == [(1, 1), (1, 2), (1, 3)]
    assert rows(session, "SELECT k, c FROM t WHERE s = 'alone' ALLOW FILTERING") == [(9, None)]


# -- filtering ---------------------------------------------------------------------------------------


def test_filters_on_collections(session: Session) -> None:
    run(session, "INSERT INTO coll (k, l, m, st, fm) VALUES (1, [1, 2], {'a': 1}, {5}, {'x': 1})")
    run(session, "INSERT INTO coll (k, l, m, st, fm) VALUES (2, [3], {'b': 2}, {5, 6}, {'y': 2})")
    for where, wanted in (
        ("l CONTAINS 2", [1]), ("m CONTAINS 2", [2]), ("m CONTAINS KEY 'a'", [1]), ("m['b'] = 2", [2]),
        ("st CONTAINS 5", [1, 2]), ("st CONTAINS 5 AND st CONTAINS 6", [2]), ("fm = {'x': 1}", [1]),
        ("fm CONTAINS KEY 'y'", [2]), ("l CONTAINS 9", []),
    ):  # fmt: skip
        assert rows(session, f"SELECT k FROM coll WHERE {where} ALLOW FILTERING") == [(k,) for k in wanted], (
            where
        )


def test_equality_is_that_of_the_type(session: Session) -> None:
    run(session, "INSERT INTO flat (name, d) VALUES ('x', 1.50)")
    assert rows(session, "SELECT d FROM flat WHERE d = 1.5 ALLOW FILTERING") == [(Decimal("1.50"),)]
    assert rows(session, "SELECT d FROM flat WHERE d > 1.5 ALLOW FILTERING") == []


# -- what is selected --------------------------------------------------------------------------------


def test_names_and_types_of_result_columns(session: Session) -> None:
    result = run(
        session,
        "SELECT k, v AS x, count(*), count(v), min(w), avg(v), writetime(v), ttl(v), cast(v AS bigint), toJson(s), token(k), v + 1, -v, (v + 1) * 2, 'a', (bigint) 1 FROM t",
    )
    assert columns(result) == [
        ("k", "int"), ("x", "int"), ("count", "bigint"), ("system.count(v)", "bigint"), ("system.min(w)", "text"),
        ("system.avg(v)", "int"), ("writetime(v)", "bigint"), ("ttl(v)", "int"), ("cast(v as bigint)", "bigint"),
        ("system.tojson(s)", "text"), ("system.token(k)", "bigint"), ("v + 1", "int"), ("-v", "int"),
        ("(v + 1) * 2", "int"), ("'a'", "ascii"), ("(bigint)1", "bigint"),
    ]  # fmt: skip


def test_parts_of_collections_and_user_types(session: Session) -> None:
    run(
        session,
        "INSERT INTO coll (k, l, m, st, u, fm, fu) VALUES (1, [3, 1], {'a': 1, 'b': 2, 'c': 3}, {5, 7}, {street: 's', zip: 9}, {'f': 4}, {zip: 8})",
    )
    selected = "m['b'], m['zz'], m['b'..], m[..'a'], m['x'..'z'], st[5], st[6], st[6..9], u.zip, fu.street, fm['f'], fm['x'..], l"
    assert rows(session, f"SELECT {selected} FROM coll WHERE k = 1") == [
        (2, None, {"b": 2, "c": 3}, {"a": 1}, None, 5, None, {7}, 9, None, 4, {}, [3, 1])
    ]
    assert rows(session, "SELECT m[?], st[?..?] FROM coll WHERE k = ?", ("c", 6, 8, 1)) == [(3, {7})]
    assert names(session, "SELECT m['b'], m['b'..], st[..6], u.zip FROM coll") == [
        "m['b']",
        "m['b'..]",
        "st[..6]",
        "u.zip",
    ]


def test_write_times_and_ttls(session: Session) -> None:
    run(session, "INSERT INTO t (k, c, v) VALUES (5, 5, 1) USING TIMESTAMP 77 AND TTL 100")
    run(session, "UPDATE t USING TIMESTAMP 99 SET w = 'w' WHERE k = 5 AND c = 5")
    text = "SELECT writetime(v), writetime(w), ttl(v), ttl(w), writetime(s), maxwritetime(v) FROM t WHERE k = 5 AND c = 5"
    assert rows(session, text) == [(77, 99, 100, None, None, 77)]
    session.now += 40
    assert rows(session, text) == [(77, 99, 60, None, None, 77)]
    session.now += 60
    assert rows(session, text) == [(None, 99, None, None, None, None)]


def test_write_times_of_collections(session: Session) -> None:
    run(
        session,
        "UPDATE coll USING TIMESTAMP 10 SET m['b'] = 1, u.zip = 3, st = st + {4, 3}, fm = {'a': 1} WHERE k = 1",
    )
    run(session, "UPDATE coll USING TIMESTAMP 20 AND TTL 50 SET m['a'] = 1 WHERE k = 1")
    assert rows(session, "SELECT writetime(m), maxwritetime(m), writetime(fm), writetime(m['b']), writetime(u.zip), writetime(u.street), writetime(l) FROM coll") == [
        ([20, 10], 20, 10, 10, 10, None, None)
    ]  # fmt: skip
    assert rows(session, "SELECT ttl(m), writetime(u), writetime(m['b'..]), ttl(m['a']) FROM coll") == [
        ([50, None], [None, 10], [10], 50)
    ]
    result = run(session, "SELECT ttl(m) FROM coll")
    assert isinstance(result, Rows)
    assert result.rows == [[b"\0\0\0\2" + b"\0\0\0\4\0\0\0\x32" + b"\xff\xff\xff\xff"]]
    assert rows(session, "SELECT JSON ttl(m), writetime(m['a'..'b']) FROM coll") == [
        ("{\"ttl(m)\": [50, null], \"writetime(m['a'..'b'])\": [20, 10]}",)
    ]


def test_literals_made_of_columns(session: Session) -> None:
    assert rows(session, "SELECT [k, c], {k, c}, (k, w), {w: v}, (map<text, int>) {w: v}, (address) {street: w, zip: v} FROM t WHERE k = 1 AND c = 3") == [
        ([1, 3], {1, 3}, (1, "w3"), {"w3": 13}, {"w3": 13}, {"street": "w3", "zip": 13})
    ]  # fmt: skip


def test_json(session: Session) -> None:
    assert rows(session, "SELECT JSON * FROM t WHERE k = 1 AND c = 1") == [
        ('{"k": 1, "c": 1, "s": "one", "v": 11, "w": "w1"}',)
    ]
    assert rows(session, 'SELECT JSON k AS "Kay", count(*), s FROM t WHERE k = 9') == [
        ('{"\\"Kay\\"": 9, "count": 1, "s": "alone"}',)
    ]
    assert columns(run(session, "SELECT JSON v FROM t LIMIT 1")) == [("[json]", "text")]


def test_the_partition_key_of_prepared_statements(session: Session) -> None:
    assert session.plan("SELECT * FROM multi WHERE b = ? AND a = ?").partition_key_bindings == (1, 0)
    assert session.plan("SELECT * FROM multi WHERE b = ? AND a = 1").partition_key_bindings == ()
    assert session.plan("SELECT * FROM t WHERE k IN (?, ?)").partition_key_bindings == ()


# -- groups ------------------------------------------------------------------------------------------


def test_groups(session: Session) -> None:
    assert rows(session, "SELECT k, count(*), max(v), w FROM t GROUP BY k") == [
        (1, 3, 13, "w1"),
        (2, 3, 23, "w1"),
        (9, 1, None, None),
    ]
    assert rows(session, "SELECT c, v FROM t WHERE k = 1 GROUP BY c LIMIT 2") == [(1, 11), (2, 12)]
    assert rows(session, "SELECT k, c FROM t GROUP BY k, c PER PARTITION LIMIT 1") == [
        (1, 1),
        (2, 1),
        (9, None),
    ]
    assert rows(session, "SELECT k, sum(v) FROM t WHERE k IN (2, 1) GROUP BY k ORDER BY c DESC") == [
        (1, 36),
        (2, 66),
    ]


def test_groups_by_a_function_of_time() -> None:
    session = Session(make_table("e", "k int, at timestamp, v int, key (k, at)"))
    for minute in (0, 7, 59, 60, 61, 300):
        at = f"2024-01-01 {minute // 60:02d}:{minute % 60:02d}"
        run(session, f"INSERT INTO e (k, at, v) VALUES (1, '{at}', {minute})")
    text = "SELECT floor(at, 1h), count(*), max(v) FROM e WHERE k = 1 GROUP BY k, floor(at, 1h)"
    assert [row[1:] for row in rows(session, text)] == [(3, 59), (2, 61), (1, 300)]
    state = None
    found: list[Any] = []
    for _ in range(3):
        page = run(session, text, page_size=1, paging_state=state)
        assert isinstance(page, Rows)
        found += decoded(page)
        state = page.paging_state
    assert [row[1:] for row in found] == [(3, 59), (2, 61), (1, 300)]
    assert state is None


def test_distinct_partitions_are_counted_once(session: Session) -> None:
    assert rows(session, "SELECT DISTINCT k, count(*) FROM t") == [(1, 3)]
    assert rows(session, "SELECT DISTINCT count(k) FROM t WHERE k IN (1, 2)") == [(2,)]
    assert rows(session, "SELECT DISTINCT k, count(*) FROM t GROUP BY k") == [(1, 1), (2, 1), (9, 1)]


def test_aggregates_without_rows(session: Session) -> None:
    text = "count(*), sum(v), avg(v), min(v), k"
    assert rows(session, f"SELECT {text} FROM t WHERE k = 77") == [(0, 0, 0, None, None)]
    assert rows(session, f"SELECT {text} FROM t WHERE k = 77 GROUP BY k") == []


def test_aggregates_of_expressions(session: Session) -> None:
    assert rows(
        session, "SELECT sum(v * 2) + 1, max(cast(v AS text)), cast(avg(v) AS double) FROM t WHERE k = 1"
    ) == [(73, "13", 12.0)]


def test_sums_wrap_and_averages_do_not(session: Session) -> None:
    for key, value in (("a", 2**31 - 1), ("b", 2**31 - 1)):
        run(
            session,
            f"INSERT INTO flat (name, v, d) VALUES ('{key}', {value}, {'1.5' if key == 'a' else '2.25'})",
        )
    assert rows(session, "SELECT sum(v), avg(v), sum(d), avg(d) FROM flat") == [
        (-2, 2**31 - 1, Decimal("3.75"), Decimal("1.88"))
    ]


def test_counters_sum_to_bigint(session: Session) -> None:
    run(session, "UPDATE cnt SET n = n + 3 WHERE k = 1")
    run(session, "UPDATE cnt SET n = n + 4 WHERE k = 2")
    result = run(session, "SELECT sum(n), max(n) FROM cnt")
    assert columns(result) == [("system.sum(n)", "bigint"), ("system.max(n)", "counter")]
    assert decoded(result) == [(7, 4)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        ("SELECT count(*) FROM t", ("Aggregation query used without partition key",)),
        ("SELECT count(*) FROM t WHERE k IN (1, 2)", ("Aggregation query used on multiple partition keys (IN restriction)",)),
        ("SELECT count(*) FROM t WHERE k = 1", ()),
        ("SELECT * FROM t", ()),
    ],
)  # fmt: skip
def test_warnings(session: Session, text: str, warnings: tuple[str, ...]) -> None:
    assert run(session, text).warnings == warnings


# -- paging ------------------------------------------------------------------------------------------


def test_garbage_is_no_paging_state(session: Session) -> None:
    first = run(session, "SELECT * FROM t", page_size=2)
    assert isinstance(first, Rows)
    good = first.paging_state
    assert good is not None
    for bad in (b"", b"x", good[:-1], b"\x02" + good[1:], good[:5] + b"\0" + good[6:], good + b"\0"):
        with pytest.raises(ProtocolError, match="Invalid value for the paging state"):
            run(session, "SELECT * FROM t", page_size=2, paging_state=bad)
        with pytest.raises(ProtocolError, match="Invalid value for the paging state"):
            run(session, "SELECT * FROM t WHERE k = 1", page_size=2, paging_state=bad)


def test_a_paging_state_belongs_to_its_partitions(session: Session) -> None:
    first = run(session, "SELECT * FROM t WHERE k = 1", page_size=2)
    assert isinstance(first, Rows)
    with pytest.raises(ProtocolError, match="Invalid value for the paging state"):
        run(session, "SELECT * FROM t WHERE k = 2", page_size=2, paging_state=first.paging_state)


def test_a_paging_state_without_a_limit_leaves_the_limit(session: Session) -> None:
    first = run(session, "SELECT c FROM t WHERE k = 1", page_size=1)
    assert isinstance(first, Rows)
    assert rows(session, "SELECT c FROM t WHERE k = 1 LIMIT 1", paging_state=first.paging_state) == [(2,)]


def test_the_last_page_of_a_partition_says_so(session: Session) -> None:
    result = run(session, "SELECT * FROM t WHERE k = 1", page_size=3)
    assert isinstance(result, Rows)
    assert result.paging_state is None
    limited = run(session, "SELECT * FROM t WHERE k = 1 LIMIT 2", page_size=2)
    assert isinstance(limited, Rows)
    assert limited.paging_state is None


# -- errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT x FROM t", "Undefined column name x in table ks.t"),
        ("SELECT * FROM nope", "table nope does not exist"),
        ("SELECT nope(v) FROM t", "Unknown function 'nope'"),
        ("SELECT ks.todate(v) FROM t", "Unknown function 'ks.todate'"),
        ("SELECT ? FROM t", "Cannot infer type for term ? in selection clause (try using a cast to force a type)"),
        ("SELECT writetime(k) FROM t", "Cannot use selection function writetime on PRIMARY KEY part k"),
        ("SELECT ttl(c) FROM t", "Cannot use selection function ttl on PRIMARY KEY part c"),
        ("SELECT l[0] FROM coll", "Element selection is only allowed on sets and maps, but l is a list"),
        ("SELECT u.nope FROM coll", "u of type address has no field nope"),
        ("SELECT k.x FROM coll", "Invalid field selection: k of type int is not a user type"),
        ("SELECT sum(max(v)) FROM t", "aggregate functions cannot be used as arguments of aggregate functions"),
        ("SELECT cast(w AS int) FROM t", "text cannot be cast to int"),
        ("SELECT w + v FROM t", "the '+' operation is not supported between w and v"),
        ("SELECT v + ? FROM t", "Ambiguous '+' operation with args v and ?: use type hint to disambiguate, example '(int) ?'"),
        ("SELECT fromJson('1') FROM t", "fromjson() cannot be used in the selection clause"),
        ("SELECT * FROM t LIMIT 0", "LIMIT must be strictly positive"),
        ("SELECT count(*) FROM t PER PARTITION LIMIT 1", "PER PARTITION LIMIT is not allowed with aggregate queries."),
        ("SELECT DISTINCT k FROM t PER PARTITION LIMIT 1", "PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries"),
        ("SELECT DISTINCT v FROM t", "SELECT DISTINCT queries must only request partition key columns and/or static columns (not v)"),
        ("SELECT DISTINCT s FROM t", "SELECT DISTINCT queries must request all the partition key columns (missing k)"),
        ("SELECT DISTINCT a FROM multi", "SELECT DISTINCT queries must request all the partition key columns (missing b)"),
        ("SELECT DISTINCT k FROM t WHERE k = 1 AND c = 1", "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns."),
        ("SELECT * FROM t ORDER BY c", "ORDER BY is only supported when the partition key is restricted by an EQ or an IN."),
        ("SELECT * FROM t WHERE k = 1 ORDER BY v", "Order by is currently only supported on the clustered columns of the PRIMARY KEY, got v"),
        ("SELECT k FROM t GROUP BY v", "Group by is currently only supported on the columns of the PRIMARY KEY, got v"),
        ("SELECT k FROM t GROUP BY c", "Group by currently only support groups of columns following their declared order in the PRIMARY KEY"),
        ("SELECT a FROM multi GROUP BY a", "Group by is not supported on only a part of the partition key"),
        ("SELECT DISTINCT k FROM t GROUP BY k, c", "Grouping on clustering columns is not allowed for SELECT DISTINCT queries"),
        ("SELECT k FROM t GROUP BY k, abs(c)", "Only monotonic functions are supported in the GROUP BY clause. Got: abs(c) "),
    ],
)  # fmt: skip
def test_errors(session: Session, text: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        session.plan(text)
    assert error.value.message == message


def test_orders_that_clustering_does_not_give() -> None:
    session = Session(make_table("t", "k int, a int, b int, c int, key (k, a, b desc, c)"))
    for order, message in (
        ("a, b", "Unsupported order by relation"),
        ("b", "Order by currently only supports the ordering of columns following their declared order in the PRIMARY KEY"),
        ("a, c", "Order by currently only supports the ordering of columns following their declared order in the PRIMARY KEY"),
    ):  # fmt: skip
        with pytest.raises(InvalidRequest) as error:
            session.plan(f"SELECT * FROM t WHERE k = 1 ORDER BY {order}")
        assert error.value.message == message
    for order, reverse in (("a, b DESC", False), ("a DESC, b ASC, c DESC", True), ("a", False)):
        plan = session.plan(f"SELECT * FROM t WHERE k = 1 ORDER BY {order}")
        assert isinstance(plan, SelectPlan)
        assert plan.order.reverse is reverse
    plan = session.plan("SELECT * FROM t WHERE k = 1 AND a = 2 ORDER BY b ASC")
    assert isinstance(plan, SelectPlan)
    assert plan.order.reverse


def test_bound_parts_of_the_selection(session: Session) -> None:
    plan = session.plan("SELECT (int) ?, v + (int) ? FROM t WHERE k = ? AND c = ?")
    assert [binding.type for binding in plan.bindings] == [parse_type("int")] * 4
    assert rows(session, "SELECT (int) ?, v + (int) ? FROM t WHERE k = ? AND c = ?", (5, 7, 1, 1)) == [
        (5, 18)
    ]
