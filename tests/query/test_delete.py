"""DELETE: columns, elements, rows, ranges and partitions."""
# ruff: noqa: E501 - tables of statements and messages read best with one case a line

import pytest

from belvedere.model.mutations import RangeDeletion
from belvedere.model.rows import Row
from belvedere.query.access import UNSET
from belvedere.query.errors import InvalidRequest
from tests.query.fake_access import Session, contents, make_table, make_type, run

ADDRESS = make_type("ks", "address", ("street", "text"), ("zip", "int"))


@pytest.fixture
def session() -> Session:
    session = Session(
        make_table("t", "k int, c int, d int, v int, s int static, key (k, c, d)"),
        make_table("flat", "k int, v int, key (k)"),
        make_table("coll", "k int, l list<int>, s set<text>, m map<text, int>, f frozen<list<int>>, key (k)"),
        make_table("udt", "k int, a address, fa frozen<address>, key (k)", types={"address": ADDRESS}),
        make_table("cnt", "k int, n counter, key (k)"),
        types={"address": ADDRESS},
    )
    for k in (1, 2):
        run(session, "INSERT INTO t (k, s) VALUES (?, 7) USING TIMESTAMP 10", [k])
        for c in range(3):
            for d in range(2):
                run(session, "INSERT INTO t (k, c, d, v) VALUES (?, ?, ?, 5) USING TIMESTAMP 10", [k, c, d])
    return session


def left(session: Session, k: int = 1) -> list[tuple[object, object]]:
    return [(row["c"], row["d"]) for row in contents(session, "t") if row["k"] == k and "c" in row]


ALL = [(c, d) for c in range(3) for d in range(2)]


def test_a_row(session: Session) -> None:
    run(session, "DELETE FROM t USING TIMESTAMP 20 WHERE k = 1 AND c = 1 AND d = 0")
    [(_, mutation)] = session.access.log[-1]
    assert mutation.rows[0][1] == Row(20, 0, 0, False, (20, session.now), [])
    assert left(session) == [key for key in ALL if key != (1, 0)]
    run(session, "INSERT INTO t (k, c, d) VALUES (1, 1, 0) USING TIMESTAMP 20")
    assert (1, 0) not in left(session)


def test_an_older_deletion_deletes_nothing(session: Session) -> None:
    run(session, "DELETE FROM t USING TIMESTAMP 9 WHERE k = 1")
    assert left(session) == ALL


def test_a_partition_with_its_static_cells(session: Session) -> None:
    run(session, "DELETE FROM t WHERE k = 1")
    [(_, mutation)] = session.access.log[-1]
    assert mutation.deletion == (session.access.clock, session.now)
    assert [row["k"] for row in contents(session, "t")] == [2] * 6
    run(session, "INSERT INTO flat (k, v) VALUES (1, 1)")
    run(session, "DELETE FROM flat WHERE k IN (1, 2)")
    assert contents(session, "flat") == []


@pytest.mark.parametrize(
    ("where", "gone"),
    [
        ("c = 1", [(1, 0), (1, 1)]),
        ("c > 1", [(2, 0), (2, 1)]),
        ("c >= 1 AND c < 2", [(1, 0), (1, 1)]),
        ("c = 0 AND d > 0", [(0, 1)]),
        ("c IN (0, 2)", [(0, 0), (0, 1), (2, 0), (2, 1)]),
        ("c IN (0, 2) AND d = 1", [(0, 1), (2, 1)]),
        ("(c, d) > (1, 0)", [(1, 1), (2, 0), (2, 1)]),
        ("(c, d) = (1, 0)", [(1, 0)]),
        ("c > 5", []),
        ("c > 1 AND c < 1", []),
    ],
)
def test_ranges(session: Session, where: str, gone: list[tuple[int, int]]) -> None:
    run(session, f"DELETE FROM t WHERE k = 1 AND {where}")
    assert left(session) == [key for key in ALL if key not in gone]
    assert left(session, 2) == ALL
    assert contents(session, "t")[0]["s"] == 7


def test_a_range_is_logged_as_one(session: Session) -> None:
    run(session, "DELETE FROM t USING TIMESTAMP 99 WHERE k = 1 AND c = 1")
    [(_, mutation)] = session.access.log[-1]
    prefix = session.keyspace.tables["t"].clustering_order.encode_prefix([b"\0\0\0\1"])
    assert mutation.ranges == [RangeDeletion(prefix, prefix + b"\xff", (99, session.now))]


def test_columns(session: Session) -> None:
    run(session, "DELETE v FROM t WHERE k = 1 AND c = 0 AND d IN (0, 1)")
    run(session, "DELETE s FROM t WHERE k = 1")
    rows = [row for row in contents(session, "t") if row["k"] == 1]
    assert ["v" in row for row in rows] == [False, False, True, True, True, True]
    assert not any("s" in row for row in rows)


def test_elements(session: Session) -> None:
    run(session, "INSERT INTO coll (k, l, s, m, f) VALUES (1, [1, 2, 3], {'a', 'b'}, {'x': 1, 'y': 2}, [1])")
    run(session, "DELETE l[1], s['a'], m[?] FROM coll WHERE k = 1", ["x"])
    assert contents(session, "coll") == [{"k": 1, "l": [1, 3], "s": {"b"}, "m": {"y": 2}, "f": [1]}]
    run(session, "DELETE l[?] FROM coll WHERE k = 1", [UNSET])
    run(session, "DELETE l, f FROM coll WHERE k = 1")
    assert contents(session, "coll") == [{"k": 1, "s": {"b"}, "m": {"y": 2}}]
    with pytest.raises(InvalidRequest, match="Attempted to delete an element from a list which is null"):
        run(session, "DELETE l[0] FROM coll WHERE k = 1")


def test_fields(session: Session) -> None:
    run(session, "INSERT INTO udt (k, a) VALUES (1, {street: 'x', zip: 1})")
    run(session, "DELETE a.street FROM udt WHERE k = 1")
    assert contents(session, "udt") == [{"k": 1, "a": {"street": None, "zip": 1}}]


def test_counters(session: Session) -> None:
    run(session, "UPDATE cnt SET n = n + 5 WHERE k = 1")
    run(session, "DELETE n FROM cnt WHERE k = 1", timestamp=1)
    assert contents(session, "cnt") == []
    run(session, "UPDATE cnt SET n = n + 2 WHERE k = 1")
    assert contents(session, "cnt") == [{"k": 1, "n": 2}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DELETE zz FROM t WHERE k = 1", "Undefined column name zz in table ks.t"),
        ("DELETE k FROM t WHERE k = 1", "Invalid identifier k for deletion (should not be a PRIMARY KEY part)"),
        ("DELETE v FROM t WHERE k = 1", "Range deletions are not supported for specific columns"),
        ("DELETE v FROM t WHERE k = 1 AND c = 1", "Range deletions are not supported for specific columns"),
        ("DELETE v FROM t WHERE k = 1 AND c = 1 AND d > 1", "Range deletions are not supported for specific columns"),
        ("DELETE s FROM t WHERE k = 1 AND c = 1 AND d = 1", "Invalid restrictions on clustering columns since the DELETE statement modifies only static columns"),
        ("DELETE FROM t WHERE c = 1", "Some partition key parts are missing: k"),
        ("DELETE FROM t WHERE k = 1 AND d = 1", 'PRIMARY KEY column "d" cannot be restricted as preceding column "c" is not restricted'),
        ("DELETE FROM t WHERE k > 1", "Only EQ and IN relation are supported on the partition key (unless you use the token() function) for DELETE statements"),
        ("DELETE FROM t WHERE k = 1 AND v = 1", "Non PRIMARY KEY columns found in where clause: v "),
        ("DELETE v[0] FROM t WHERE k = 1 AND c = 1 AND d = 1", "Invalid deletion operation for non collection column v"),
        ("DELETE f[0] FROM coll WHERE k = 1", "Invalid deletion operation for frozen collection column f"),
        ("DELETE v.x FROM t WHERE k = 1 AND c = 1 AND d = 1", "Invalid field deletion operation for non-UDT column v"),
        ("DELETE fa.zip FROM udt WHERE k = 1", "Frozen UDT column fa does not support field deletions"),
        ("DELETE a.q FROM udt WHERE k = 1", "UDT column a does not have a field named q"),
        ("DELETE n FROM cnt USING TIMESTAMP 1 WHERE k = 1", "Cannot provide custom timestamp for counter updates"),
    ],
)  # fmt: skip
def test_refused(session: Session, text: str, message: str) -> None:
    before = len(session.access.log)
    with pytest.raises(InvalidRequest) as caught:
        run(session, text)
    assert str(caught.value) == message
    assert len(session.access.log) == before
