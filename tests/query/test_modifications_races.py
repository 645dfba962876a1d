"""Statements that read before they write, many at once: nothing gets lost, nothing deadlocks."""

import asyncio
from collections.abc import Awaitable, Sequence

import pytest

from belvedere.query.access import BoundValue
from belvedere.query.results import Result, Rows
from tests.query.fake_access import Session, contents, make_table, run


@pytest.fixture
def session() -> Session:
    return Session(
        make_table("t", "k int, v int, l list<int>, key (k)"),
        make_table("a", "k int, n counter, key (k)"),
        make_table("b", "k int, n counter, key (k)"),
    )


def together(session: Session, statements: Sequence[str], values: Sequence[BoundValue] = ()) -> list[Result]:
    plans = [session.plan(text) for text in statements]

    async def finish(answer: Result | Awaitable[Result]) -> Result:
        return answer if isinstance(answer, Result) else await answer

    async def go() -> list[Result]:
        return await asyncio.gather(*(finish(plan.execute(session.execution(values))) for plan in plans))

    return asyncio.run(go())


def test_counters(session: Session) -> None:
    together(session, ["UPDATE a SET n = n + 1 WHERE k = 1"] * 50)
    assert contents(session, "a") == [{"k": 1, "n": 50}]


def test_batches_that_take_the_same_locks_in_another_order(session: Session) -> None:
    updates = ["UPDATE a SET n = n + 1 WHERE k = 1", "UPDATE a SET n = n + 1 WHERE k = 2"]
    updates += ["UPDATE b SET n = n + 1 WHERE k = 2", "UPDATE b SET n = n + 1 WHERE k = 1"]
    forth = f"BEGIN COUNTER BATCH {'; '.join(updates)}; APPLY BATCH"
    back = f"BEGIN COUNTER BATCH {'; '.join(reversed(updates))}; APPLY BATCH"
    together(session, [forth, back] * 10)
    for table in ("a", "b"):
        assert contents(session, table) == [{"k": 1, "n": 20}, {"k": 2, "n": 20}]


def test_only_one_inserts(session: Session) -> None:
    statements = [f"INSERT INTO t (k, v) VALUES (1, {v}) IF NOT EXISTS" for v in range(20)]
    answers = together(session, statements)
    applied = [
        v for v, answer in enumerate(answers) if isinstance(answer, Rows) and answer.rows[0][0] == b"\1"
    ]
    assert len(applied) == 1
    assert contents(session, "t") == [{"k": 1, "v": applied[0]}]


def test_plain_writes_wait_for_who_holds_the_partition(session: Session) -> None:
    run(session, "INSERT INTO t (k, v) VALUES (1, 1)")
    conditional = session.plan("UPDATE t SET v = 2 WHERE k = 1 IF v = 1")
    plain = session.plan("INSERT INTO t (k, v) VALUES (?, ?)")

    async def go() -> Result:
        deciding = asyncio.ensure_future(conditional.execute(session.execution()))  # type: ignore[arg-type]
        while not session.access.locked:
            await asyncio.sleep(0)
        waiting = plain.execute(session.execution([b"\0\0\0\1", b"\0\0\0\x09"]))
        assert not isinstance(waiting, Result)
        await waiting
        result: Result = await deciding
        return result

    decided = asyncio.run(go())
    assert isinstance(decided, Rows)
    assert decided.rows == [[b"\1"]]
    assert contents(session, "t") == [{"k": 1, "v": 9}]
