"""Talking to a node from Spark's drivers and workers: a connection for each question, and a wait."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from belvedere.model.types import quote_text
from belvedere.query.errors import CQLError
from belvedere.runtime.errors import NetworkError
from belvedere.runtime.real import RealRuntime, run
from belvedere.server.client import Client

#: Seconds to wait for a connection. What a call takes is up to the call.
_PATIENCE: Final = 20


class SparkFaceError(Exception):
    """What was asked of the data source cannot be done; the message is for people."""


class ConnectionBroke(SparkFaceError):
    """While a node was asked: whether it did what it was asked for is not known."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a node answers CQL."""

    host: str = "127.0.0.1"
    port: int = 9042

    def query(self, text: str) -> list[dict[str, Any]]:
        """The rows of one statement; raises SparkFaceError with what the node says."""
        return self.queries(text)[0]

    def queries(self, *texts: str) -> list[list[dict[str, Any]]]:
        """The rows of each of several statements, one after the other."""

        async def ask(runtime: RealRuntime) -> list[list[dict[str, Any]]]:
            client = await self._connect(runtime)
            try:
                return [await client.query(text) for text in texts]
            finally:
                client.close()

        try:
            return run(ask)
        except CQLError as error:
            raise SparkFaceError(str(error)) from error
        except NetworkError as error:
            raise ConnectionBroke(f"the connection to {self.host}:{self.port} broke: {error}") from error

    def call(self, procedure: str, *arguments: str) -> dict[str, Any]:
        """The one row that a procedure gives back; {} if none."""
        values = ", ".join(map(quote_text, arguments))
        rows = self.query(f"CALL {procedure}({values})")
        return rows[0] if rows else {}

    async def _connect(self, runtime: RealRuntime) -> Client:
        try:
            async with asyncio.timeout(_PATIENCE):
                return await Client.connect(runtime, self.host, self.port)
        except (NetworkError, OSError, TimeoutError) as error:
            reason = str(error) or f"nothing came within {_PATIENCE} s"
            raise SparkFaceError(
                f"no answer from {self.host}:{self.port}: {reason}. Is a server running there? "
                "The options host and port of the data source say where to look."
            ) from error
