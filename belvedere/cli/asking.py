"""Asking a running server: a connection, and words for what can go wrong with it."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from belvedere.runtime.errors import NetworkError
from belvedere.runtime.real import RealRuntime, run

if TYPE_CHECKING:
    from belvedere.server.client import Client

#: Seconds to wait for the answer to what a server knows by heart.
PATIENCE = 10


class NoAnswer(Exception):
    """Nobody is there, or went away; the message says what to do."""

    def __init__(self, arguments: argparse.Namespace, error: Exception) -> None:
        reason = str(error) or f"nothing came within {PATIENCE} s"
        super().__init__(
            f"no answer from {arguments.host}:{arguments.port}: {reason}\n"
            "Is a server running there? Start one with: belvedere start --data DIR"
        )


@asynccontextmanager
async def connected(runtime: RealRuntime, arguments: argparse.Namespace) -> "AsyncIterator[Client]":
    """A client of the server that the arguments name; NoAnswer if there is none, or no longer."""
    from belvedere.query.errors import CQLError
    from belvedere.server.client import Client

    try:
        # Something may listen there that has nothing to say.
        async with asyncio.timeout(PATIENCE):
            client = await Client.connect(runtime, arguments.host, arguments.port)
    except (NetworkError, CQLError, OSError) as error:
        raise NoAnswer(arguments, error) from error
    try:
        yield client
    except (NetworkError, TimeoutError) as error:
        raise NoAnswer(arguments, error) from error
    finally:
        client.close()


def ask(
    arguments: argparse.Namespace,
    work: "Callable[[RealRuntime, Client], Awaitable[int]]",
    *,
    failed: int,
) -> int:
    """The exit status that `work` gives; `failed` if nobody answers or the server refuses."""

    async def main(runtime: RealRuntime) -> int:
        async with connected(runtime, arguments) as client:
            return await work(runtime, client)

    return told(lambda: run(main), failed=failed)


def told(work: Callable[[], int], *, failed: int) -> int:
    """Failures that a server or its absence explains become one message."""
    from belvedere.query.errors import CQLError

    try:
        return work()
    except (NoAnswer, CQLError) as error:
        return complain(str(error), failed)


def complain(message: str, status: int) -> int:
    print(f"belvedere: {message}", file=sys.stderr)
    return status
