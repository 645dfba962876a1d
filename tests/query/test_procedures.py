"""CALL: arguments in, rows out, and what becomes of calls whose caller goes away or whose node stops."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from belvedere.model.types import BIGINT, INT, TEXT, ListType
from belvedere.query.access import UNSET
from belvedere.query.errors import InvalidRequest, ServerError, SyntaxException
from belvedere.query.procedures import Parameter, Procedure
from belvedere.query.results import Rows
from tests.query.database_help import Client, with_database
from tests.query.fake_access import decoded

PARAMETERS = (Parameter("word", TEXT), Parameter("times", INT, 2), Parameter("join", TEXT, "-"))


async def repeat(arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
    word, times, join = arguments
    return [(join.join([word] * times), len(word) * times), (None, 0)]


REPEAT = Procedure("repeat", PARAMETERS, (("text", TEXT), ("size", BIGINT)), repeat, "say it again")


def offered(use: Callable[[Client], Awaitable[None]], *procedures: Procedure) -> None:
    async def offering(client: Client) -> None:
        for procedure in procedures or (REPEAT,):
            client.database.offer(procedure)
        await use(client)

    with_database(offering)


def test_arguments_defaults_and_rows() -> None:
    async def use(client: Client) -> None:
        assert await client.rows("CALL repeat('ab', 3, '')") == [("ababab", 6), (None, 0)]
        assert await client.rows("CALL belvedere.repeat('ab')") == [("ab-ab", 4), (None, 0)]
        wire = [TEXT.encode("x"), INT.encode(1)]
        assert (await client.rows("CALL repeat(?, :n)", values=wire))[0] == ("x", 1)
        assert (await client.rows("CALL repeat(?, ?)", values=[b"x", None]))[0] == ("x-x", 2)
        assert (await client.rows("CALL repeat('x', ?)", values=[UNSET]))[0] == ("x-x", 2)
        assert (await client.rows("CALL repeat('x', 1 + 1, (text) '+')"))[0] == ("x+x", 2)

    offered(use)


def test_a_prepared_call_knows_its_columns() -> None:
    async def use(client: Client) -> None:
        prepared = client.database.prepare("CALL repeat(?, ?, :between)", None)
        assert [(b.name, b.type) for b in prepared.plan.bindings] == [
            ("word", TEXT),
            ("times", INT),
            ("between", TEXT),
        ]
        assert [(c.name, c.type) for c in prepared.plan.result_columns] == [("text", TEXT), ("size", BIGINT)]
        result = await client.run("CALL repeat('x')")
        assert isinstance(result, Rows)
        assert result.columns == prepared.plan.result_columns

    offered(use)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "CALL nothing()",
            r"^Unknown procedure nothing; there are: repeat\(word text, times int = 2, join text = '-'\)$",
        ),
        ("CALL ks.repeat('x')", r"^Unknown procedure ks.repeat; there are: repeat\("),
        (
            "CALL repeat()",
            r"^Invalid number of arguments in call to procedure repeat\(word text, .*\): "
            r"1 to 3 required but 0 provided$",
        ),
        ("CALL repeat('a', 1, 'b', 2)", r"1 to 3 required but 4 provided$"),
        ("CALL repeat(3)", r'^Invalid INTEGER constant \(3\) for "word" of type text$'),
        ("CALL repeat('a', 'b')", r'^Invalid STRING constant \(b\) for "times" of type int$'),
        ("CALL repeat(null)", r"^Invalid null value for argument word of procedure repeat\("),
        ("CALL repeat(['a'])", r"Invalid list literal for word"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    async def use(client: Client) -> None:
        with pytest.raises(InvalidRequest, match=message):
            await client.run(text)

    offered(use)


def test_not_in_a_batch() -> None:
    async def use(client: Client) -> None:
        with pytest.raises(SyntaxException):
            await client.run("BEGIN BATCH CALL repeat('a'); APPLY BATCH")
        prepared = client.database.prepare("CALL repeat('a')", "ks")
        for child in (prepared.id, "CALL repeat('a')"):
            with pytest.raises(InvalidRequest, match="Invalid statement in batch"):
                await client.database.batch("LOGGED", [(child, ())], "ks", _options())

    offered(use)


def _options() -> Any:
    from belvedere.query.options import QueryOptions

    return QueryOptions()


def test_they_are_listed() -> None:
    async def use(client: Client) -> None:
        assert await client.rows(
            "SELECT name, parameters, returns, comment FROM system_views.procedures"
        ) == [
            (
                "repeat",
                ["word text", "times int = 2", "join text = '-'"],
                ["text text", "size bigint"],
                "say it again",
            )
        ]
        with pytest.raises(ValueError, match="cannot be offered"):
            client.database.offer(REPEAT)
        with pytest.raises(ValueError, match="cannot be offered"):
            client.database.offer(Procedure("odd", PARAMETERS[::-1], (), repeat))

    offered(use)


def test_values_of_other_types() -> None:
    async def total(arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
        return [(sum(arguments[0]), arguments[0])]

    numbers = ListType(INT).frozen()
    procedure = Procedure(
        "total", (Parameter("numbers", numbers),), (("total", INT), ("numbers", numbers)), total
    )

    async def use(client: Client) -> None:
        result = await client.run("CALL total([1, 2, 3])")
        assert isinstance(result, Rows)
        assert decoded(result) == [(6, [1, 2, 3])]

    offered(use, procedure)


def test_a_call_goes_on_when_its_caller_goes_away() -> None:
    done: list[str] = []

    async def slow(arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
        await sleep(10)
        done.append("slow")
        return []

    async def use(client: Client) -> None:
        nonlocal sleep
        sleep = client.runtime.clock.sleep
        call = client.start("CALL slow()")
        await sleep(1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await sleep(20)
        assert done == ["slow"]

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    offered(use, Procedure("slow", (), (), slow))


def test_a_stopping_node_ends_calls_and_says_so() -> None:
    ended: list[str] = []

    async def forever(arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("forever")
        return []

    async def failing(arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise InvalidRequest("too late") from None
        return []

    async def use(client: Client) -> None:
        first, second = client.start("CALL forever()"), client.start("CALL failing()")
        await client.runtime.clock.sleep(1)
        await client.database.procedures.stop()
        assert ended == ["forever"]
        with pytest.raises(ServerError, match=r"^The node stops; call forever again when it is back$"):
            await first
        with pytest.raises(InvalidRequest, match="too late"):
            await second
        with pytest.raises(ServerError, match="The node stops"):
            await client.run("CALL forever()")

    offered(use, Procedure("forever", (), (), forever), Procedure("failing", (), (), failing))
