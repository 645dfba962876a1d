"""BATCH: one write time, all or nothing, and what may not be together."""
# ruff: noqa: E501 - tables of statements and messages read best with one case a line

import pytest

from belvedere.query.access import UNSET
from belvedere.query.errors import InvalidRequest
from belvedere.query.modify.batch import plan_batch
from belvedere.query.results import Rows, Void
from tests.query.fake_access import Session, contents, decoded, make_table, rows, run


@pytest.fixture
def session() -> Session:
    return Session(
        make_table("t", "k int, c int, v int, s int static, l list<int>, key (k, c)"),
        make_table("u", "k int, v int, key (k)"),
        make_table("cnt", "k int, n counter, key (k)"),
        make_table("cnt2", "k int, n counter, key (k)"),
    )


def batch(*statements: str, kind: str = "", using: str = "") -> str:
    return f"BEGIN {kind} BATCH {using} {'; '.join(statements)}; APPLY BATCH"


def test_one_write_with_one_time(session: Session) -> None:
    result = run(
        session,
        batch(
            "INSERT INTO t (k, c, v) VALUES (?, ?, 1)",
            "UPDATE t SET v = ?, s = 5 WHERE k = 1 AND c = 3",
            "INSERT INTO u (k, v) VALUES (7, 8)",
        ),
        [1, 2, 9],
    )
    assert result == Void(1)
    [write] = session.access.log
    assert [(table.name, len(mutation.rows)) for table, mutation in write] == [("t", 2), ("u", 1)]
    stamps = {row.timestamp for _, mutation in write for _, row in mutation.rows}
    assert stamps == {session.access.clock}
    assert contents(session, "t") == [{"k": 1, "c": 2, "v": 1, "s": 5}, {"k": 1, "c": 3, "v": 9, "s": 5}]


def test_rows_of_one_partition_merge(session: Session) -> None:
    run(
        session,
        batch(
            "INSERT INTO t (k, c, v, l) VALUES (1, 1, 3, [1])",
            "UPDATE t SET v = 2, l = l + [2] WHERE k = 1 AND c = 1",
            "UPDATE t SET l = l + [3] WHERE k = 1 AND c = 1",
        ),
    )
    [[(_, mutation)]] = session.access.log
    assert len(mutation.rows) == 1
    # Equal times: the larger value wins.
    assert contents(session, "t") == [{"k": 1, "c": 1, "v": 3, "l": [1, 2, 3]}]


def test_a_deletion_wins_over_writes_of_the_same_time(session: Session) -> None:
    run(session, batch("DELETE FROM t WHERE k = 1", "INSERT INTO t (k, c, v) VALUES (1, 1, 1)"))
    assert contents(session, "t") == []
    run(
        session,
        batch(
            "DELETE FROM t USING TIMESTAMP 5 WHERE k = 2",
            "INSERT INTO t (k, c, v) VALUES (2, 1, 1) USING TIMESTAMP 6",
        ),
    )
    assert contents(session, "t") == [{"k": 2, "c": 1, "v": 1}]


def test_timestamps(session: Session) -> None:
    run(session, batch("INSERT INTO u (k, v) VALUES (1, 1)", using="USING TIMESTAMP 42"))
    run(session, batch("INSERT INTO u (k, v) VALUES (1, 1)", using="USING TIMESTAMP ?"), [43])
    run(
        session, batch("INSERT INTO u (k, v) VALUES (1, 1)", using="USING TIMESTAMP ?"), [UNSET], timestamp=44
    )
    run(session, batch("INSERT INTO u (k, v) VALUES (1, 1) USING TIMESTAMP 45 AND TTL 5"), timestamp=46)
    written = [write[0][1].rows[0][1] for write in session.access.log]
    assert [(row.timestamp, row.ttl) for row in written] == [(42, 0), (43, 0), (44, 0), (45, 5)]


def test_an_empty_batch(session: Session) -> None:
    assert run(session, "BEGIN BATCH APPLY BATCH") == Void()
    assert session.run_plan(plan_batch([], "LOGGED")) == Void()


def test_planned_statements_with_their_own_values(session: Session) -> None:
    insert = session.plan("INSERT INTO u (k, v) VALUES (?, ?)")
    update = session.plan("UPDATE u SET v = 5 WHERE k = 9")
    number = lambda n: n.to_bytes(4, "big")  # noqa: E731
    plan = plan_batch(
        [(insert, [number(1), number(2)]), (insert, [number(3), number(4)]), (update, [])], "UNLOGGED"
    )
    assert session.run_plan(plan) == Void(1)
    assert contents(session, "u") == [{"k": 1, "v": 2}, {"k": 3, "v": 4}, {"k": 9, "v": 5}]
    with pytest.raises(InvalidRequest, match="there were 2 markers"):
        session.run_plan(plan_batch([(insert, [number(1)])], "LOGGED"))
    with pytest.raises(InvalidRequest, match="Invalid statement in batch: only UPDATE, INSERT and DELETE"):
        plan_batch([(plan, [])], "LOGGED")


def test_counters_see_each_other(session: Session) -> None:
    run(
        session,
        batch(
            "UPDATE cnt SET n = n + 1 WHERE k = 1",
            "UPDATE cnt SET n = n + 10 WHERE k = 1",
            "UPDATE cnt SET n = n - 3 WHERE k = 2",
            "UPDATE cnt2 SET n = n + 4 WHERE k = 1",
            kind="COUNTER",
        ),
        timestamp=1,
    )
    assert len(session.access.log) == 1
    assert contents(session, "cnt") == [{"k": 1, "n": 11}, {"k": 2, "n": -3}]
    assert contents(session, "cnt2") == [{"k": 1, "n": 4}]
    assert [name for name, _ in session.access.locked] == ["cnt", "cnt", "cnt2"]
    run(session, batch("UPDATE cnt SET n = n + 1 WHERE k = 1", kind="UNLOGGED"))
    assert contents(session, "cnt")[0] == {"k": 1, "n": 12}


def test_list_positions_hold_all_partitions(session: Session) -> None:
    run(session, "INSERT INTO t (k, c, l) VALUES (1, 1, [1, 2])")
    run(session, batch("UPDATE t SET l[0] = 9 WHERE k = 1 AND c = 1", "INSERT INTO u (k, v) VALUES (2, 2)"))
    assert contents(session, "t") == [{"k": 1, "c": 1, "l": [9, 2]}]
    assert contents(session, "u") == [{"k": 2, "v": 2}]
    assert [name for name, _ in session.access.locked] == ["t", "u"]


def test_an_error_in_one_statement_writes_nothing(session: Session) -> None:
    with pytest.raises(InvalidRequest, match="Attempted to set an element"):
        run(
            session,
            batch("INSERT INTO u (k, v) VALUES (2, 2)", "UPDATE t SET l[0] = 9 WHERE k = 1 AND c = 1"),
        )
    assert session.access.log == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (batch("INSERT INTO u (k, v) VALUES (1, 1)", using="USING TTL 5"), "Global TTL on the BATCH statement is not supported."),
        (batch("INSERT INTO u (k, v) VALUES (1, 1) USING TIMESTAMP 5", using="USING TIMESTAMP 5"), "Timestamp must be set either on BATCH or individual statements"),
        (batch("INSERT INTO u (k, v) VALUES (1, 1) IF NOT EXISTS", using="USING TIMESTAMP 5"), "Cannot provide custom timestamp for conditional BATCH"),
        (batch("UPDATE cnt SET n = n + 1 WHERE k = 1", kind="COUNTER", using="USING TIMESTAMP 5"), "Cannot provide custom timestamp for counter BATCH"),
        (batch("INSERT INTO u (k, v) VALUES (1, 1)", kind="COUNTER"), "Cannot include non-counter statement in a counter batch"),
        (batch("UPDATE cnt SET n = n + 1 WHERE k = 1"), "Cannot include a counter statement in a logged batch"),
        (batch("UPDATE cnt SET n = n + 1 WHERE k = 1", "INSERT INTO u (k, v) VALUES (1, 1)", kind="UNLOGGED"), "Counter and non-counter mutations cannot exist in the same batch"),
        (batch("INSERT INTO u (k, v) VALUES (1, 1) IF NOT EXISTS", "INSERT INTO t (k, c) VALUES (1, 1)"), "Batch with conditions cannot span multiple tables"),
        (batch("INSERT INTO u (k, v) VALUES (1, 1) IF NOT EXISTS", "INSERT INTO u (k, v) VALUES (2, 1)"), "Batch with conditions cannot span multiple partitions"),
        (batch("UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF v = 1", "UPDATE t SET v = 1 WHERE k IN (1, 2) AND c = 2"), "Batch with conditions cannot span multiple partitions (you cannot use IN on the partition key)"),
        (batch("INSERT INTO t (k, c) VALUES (1, 1) IF NOT EXISTS", "UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF EXISTS"), "Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row"),
        (batch("INSERT INTO t (k, c) VALUES (1, 1) IF NOT EXISTS", "UPDATE t SET v = 1 WHERE k = 1 AND c = 1 IF v = 1"), "Cannot mix IF conditions and IF NOT EXISTS for the same row"),
    ],
)  # fmt: skip
def test_refused(session: Session, text: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        run(session, text)
    assert str(caught.value) == message
    assert session.access.log == []


# --- with conditions -----------------------------------------------------------------------------------


def test_all_conditions_hold(session: Session) -> None:
    run(session, "INSERT INTO t (k, c, v, s) VALUES (1, 1, 1, 1)")
    text = batch(
        "UPDATE t SET v = 2 WHERE k = 1 AND c = 1 IF v = 1",
        "INSERT INTO t (k, c, v) VALUES (1, 2, 2) IF NOT EXISTS",
        "UPDATE t SET s = 2 WHERE k = 1 IF s = 1",
        "INSERT INTO t (k, c, v) VALUES (1, 3, 3)",
    )
    assert rows(session, text, timestamp=1) == [(True,)]
    assert [(row["c"], row["v"], row["s"]) for row in contents(session, "t")] == [
        (1, 2, 2),
        (2, 2, 2),
        (3, 3, 2),
    ]
    stamps = {row.timestamp for _, row in session.access.log[-1][0][1].rows}
    assert stamps == {session.access.clock}


def test_one_condition_fails(session: Session) -> None:
    run(session, "INSERT INTO t (k, c, v, s) VALUES (1, 1, 1, 1)")
    run(session, "INSERT INTO t (k, c, v) VALUES (1, 2, 2)")
    text = batch(
        "UPDATE t SET v = 9 WHERE k = 1 AND c = 1 IF v = 1",
        "UPDATE t SET v = 9 WHERE k = 1 AND c = 2 IF v = 1",
        "UPDATE t SET v = 9 WHERE k = 1 AND c = 3",
    )
    result = run(session, text)
    assert isinstance(result, Rows)
    assert result.after == 2
    assert [column.name for column in result.columns] == ["[applied]", "k", "c", "v"]
    assert decoded(result) == [(False, 1, 1, 1), (False, 1, 2, 2)]
    assert len(session.access.log) == 2


def test_a_failed_if_not_exists_shows_whole_rows(session: Session) -> None:
    run(session, "INSERT INTO t (k, c, v) VALUES (1, 2, 2)")
    text = batch(
        "INSERT INTO t (k, c, v) VALUES (1, 2, 5) IF NOT EXISTS",
        "INSERT INTO t (k, c, v) VALUES (1, 3, 5) IF NOT EXISTS",
    )
    result = run(session, text)
    assert isinstance(result, Rows)
    assert [column.name for column in result.columns] == ["[applied]", "k", "c", "s", "l", "v"]
    assert decoded(result) == [(False, 1, 2, None, None, 2)]


def test_a_static_condition_shows_the_first_row(session: Session) -> None:
    run(session, "INSERT INTO t (k, c, v, s) VALUES (1, 2, 2, 7)")
    text = batch(
        "UPDATE t SET v = 9 WHERE k = 1 AND c = 5",
        "UPDATE t SET s = 3 WHERE k = 1 IF s = 1",
    )
    assert rows(session, text) == [(False, 1, 2, 7)]
    assert rows(session, text.replace("k = 1", "k = 4")) == [(False,)]
