"""How simulated clients ask: CQL text, through any node, and what to make of what they are told.

Clients live outside all machines, and survive every crash. They wait a little longer than a node may take;
then they do not know.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

from belvedere.query.errors import (
    CQLError,
    InvalidRequest,
    IsBootstrapping,
    Overloaded,
    ReadTimeout,
    ServerError,
    Unavailable,
    WriteTimeout,
    consistency_name,
)
from belvedere.query.failures import as_cql_error
from belvedere.query.options import QueryOptions
from belvedere.query.results import Result, Rows
from belvedere.sim.cluster.nodes import STATEMENT_SECONDS, Cluster
from belvedere.sim.incarnation import MachineCrashed

KEYSPACE = "ks"
ONE, QUORUM, ALL = 1, 4, 5
#: Most of what clients ask is asked at QUORUM.
LEVELS = (QUORUM, QUORUM, QUORUM, ONE, ALL)

#: A node tries to find out more for some seconds before it says that something is unknown.
_SCHEMA_SECONDS = 20.0
#: What a node that cannot reach the metadata store says instead of guessing.
_HONEST = ("it cannot reach the metadata store", "It is not known whether", "changed too often")
_UNDONE = ("The schema was not changed", "The table was not truncated", "as far as this node knows")

Row = Mapping[str, Any]


class Refused(Exception):
    """Certainly nothing was done, and nothing ever will be."""


class NoAnswer(Exception):
    """Nobody knows what was done, or will be."""


class Unknown(Refused):
    """A name that is not known, or something else that is wrong with the statement itself."""


class Asker:
    """One client's way to the cluster."""

    def __init__(self, cluster: Cluster, generator: random.Random) -> None:
        self.cluster = cluster
        self.random = generator

    async def ask(
        self,
        text: str,
        level: int = QUORUM,
        *,
        machine: str | None = None,
        patience: float = STATEMENT_SECONDS + 1.0,
        now: int | None = None,
    ) -> list[Row]:
        return rows_of(await self.result(text, level, machine=machine, patience=patience, now=now))

    async def change_schema(self, text: str) -> Result:
        return await self.result(text, patience=_SCHEMA_SECONDS)

    async def result(
        self,
        text: str,
        level: int = QUORUM,
        *,
        machine: str | None = None,
        patience: float = STATEMENT_SECONDS + 1.0,
        now: int | None = None,
    ) -> Result:
        cluster = self.cluster
        if machine is None:
            up = cluster.up
            if not up:
                raise Refused("no node is up")
            machine = up[int(self.random.random() * len(up))]
        elif not cluster.is_up(machine):
            raise Refused(f"{machine} is down")
        node = cluster.nodes[machine]
        options = QueryOptions(consistency=level, now_seconds=now)
        try:
            async with asyncio.timeout(patience):
                return await node.runtime.perform(node.database.query(text, KEYSPACE, options))
        except (MachineCrashed, TimeoutError):
            raise NoAnswer(f"{machine} did not answer") from None
        except Exception as error:
            raise self.judged(error, f"{machine}: {text} at {consistency_name(level)}") from error

    def judged(self, error: Exception, what: str) -> Refused | NoAnswer:
        """What a client makes of it; what should never be told is a finding."""
        told = as_cql_error(error)
        self.cluster.world.mark(f"cluster.told.{type(error).__name__}")
        match told:
            case Unavailable() | IsBootstrapping() | Overloaded():
                return Refused(told.message)
            case InvalidRequest():
                return Unknown(told.message)
            case WriteTimeout() | ReadTimeout():
                return NoAnswer(told.message)
            case ServerError() if any(words in told.message for words in _UNDONE):
                return Refused(told.message)
            case ServerError() if any(words in told.message for words in _HONEST):
                return NoAnswer(told.message)
            case CQLError():
                return Unknown(f"{type(told).__name__}: {told.message}")
        self.cluster.findings.append(f"{what}: {type(error).__name__}: {error}")
        return NoAnswer(str(error))


def rows_of(result: Result) -> list[Row]:
    if not isinstance(result, Rows):
        return []
    return [
        {
            column.name: None if value is None else column.type.decode(value)
            for column, value in zip(result.columns, row, strict=True)
        }
        for row in result.rows
    ]
