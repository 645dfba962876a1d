"""Statements that would take memory or the event loop for themselves."""

from typing import Any

import pytest

from belvedere.query.errors import InvalidRequest
from belvedere.query.options import QueryOptions
from tests.query.database_help import Client, with_database
from tests.query.fake_access import Session, make_table, run


@pytest.fixture
def session() -> Session:
    return Session(
        make_table("t", "a int, b int, c int, d int, e int, v int, key ((a, b), c, d, e)"),
    )


MANY = list(range(300))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("SELECT v FROM t WHERE a IN ? AND b IN ?", (MANY, MANY)),
        ("SELECT v FROM t WHERE a = 1 AND b = 1 AND c IN ? AND d IN ? AND e IN ?", (MANY, MANY, MANY)),
        ("SELECT v FROM t WHERE a = 1 AND b = 1 AND c IN ? AND d IN ? AND e > 1", (MANY, MANY)),
        ("DELETE FROM t WHERE a IN ? AND b IN ?", (MANY, MANY)),
        ("DELETE FROM t WHERE a = 1 AND b = 1 AND c IN ? AND d IN ?", (MANY, MANY)),
        ("UPDATE t SET v = 1 WHERE a IN ? AND b = 1 AND c IN ? AND d = 1 AND e = 1", (MANY, MANY)),
    ],
)
def test_combinations_of_in(session: Session, text: str, values: tuple[list[int], ...]) -> None:
    with pytest.raises(InvalidRequest, match="cartesian product"):
        run(session, text, values)


def test_as_many_as_may_be(session: Session) -> None:
    run(session, "SELECT v FROM t WHERE a IN ? AND b IN ?", (MANY, MANY[:200]))


def watch_turns(client: Client) -> dict[str, int]:
    """How many rows are read, all of them from memory, before others may run."""
    access = client.database.access
    read_now, scan, pause = access.read_now, access.scan, access.pause
    rows = {"now": 0, "most": 0, "all": 0}

    def count(number: int) -> None:
        rows["now"] += number
        rows["all"] += number
        rows["most"] = max(rows["most"], rows["now"])

    def reading(*arguments: Any) -> Any:
        found = read_now(*arguments)
        count(0 if found is None else len(found.rows))
        return found

    async def scanning(*arguments: Any) -> Any:
        page = await scan(*arguments)
        count(sum(len(partition.rows) for partition in page.partitions))
        return page

    async def pausing() -> None:
        rows["now"] = 0
        await pause()

    access.read_now, access.scan, access.pause = reading, scanning, pausing  # type: ignore[method-assign]
    return rows


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM t WHERE k = 1",
        "SELECT count(*) FROM t",
        "SELECT max(c) FROM t",
        "SELECT * FROM t WHERE k = 1",
        "SELECT * FROM t",
        "SELECT * FROM t WHERE k IN (1, 2)",
        "SELECT * FROM t WHERE c > 3 ALLOW FILTERING",
        "SELECT c FROM t WHERE k IN (1, 2) ORDER BY c",
        "SELECT count(*) FROM t WHERE k IN (1, 2)",
    ],
)
@pytest.mark.parametrize("page_size", [0, 1_000_000])
def test_others_get_their_turns(text: str, page_size: int) -> None:
    if page_size and "ORDER BY" in text:
        pytest.skip("cannot be paged")

    async def use(client: Client) -> None:
        await client.run("CREATE TABLE t (k int, c int, PRIMARY KEY (k, c))")
        database = client.database
        insert = database.prepare("INSERT INTO t (k, c) VALUES (?, ?)", "ks")
        for key in (1, 2):
            for number in range(8_000):
                values = [key.to_bytes(4, "big"), number.to_bytes(4, "big")]
                database.execute(insert, QueryOptions(values=values))
        turns = watch_turns(client)
        await client.run(text, page_size=page_size)
        assert turns["all"] >= 8_000
        assert turns["most"] <= 5001 + 2000

    with_database(use)
