"""The procedures of those who load tables and read snapshots of them, above all Spark jobs.

begin_load('ks.table', '{"ttl": 60}')  → a load, its directory in the exchange, what a loader must know
commit_load('load'), abort_load('load')
begin_read('ks.table')                 → a read, its directory, the files of a snapshot
end_read('read')
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from belvedere.model.types import TEXT
from belvedere.query.database import Database
from belvedere.query.errors import InvalidRequest
from belvedere.query.procedures import Parameter, Perform, Procedure
from belvedere.server.pipeline import NodePipeline
from belvedere.server.procedures import named_table


def load_procedures(database: Database, pipeline: NodePipeline) -> tuple[Procedure, ...]:
    loads, reads = pipeline.loads, pipeline.reads

    async def begin_load(arguments: Sequence[Any]) -> Sequence[Sequence[Any]]:
        table = named_table(database.state, arguments[0])
        load = await loads.begin(table, _options(arguments[1]))
        return [(load.id, load.directory, load.description)]

    async def begin_read(arguments: Sequence[Any]) -> Sequence[Sequence[Any]]:
        read = await reads.begin(named_table(database.state, arguments[0], "table or view"))
        return [(read.id, read.directory, read.description, " ".join(read.warnings) or None)]

    def named(name: str, action: Callable[[str], Awaitable[None]], argument: str, comment: str) -> Procedure:
        async def run(arguments: Sequence[Any]) -> Sequence[Sequence[Any]]:
            await action(arguments[0])
            return []

        return Procedure(name, (Parameter(argument, TEXT),), (), run, comment)

    return (
        _beginning("begin_load", begin_load, "load", (Parameter("options", TEXT, "{}"),), ()),
        named("commit_load", loads.commit, "load", "make all of a load part of its table"),
        named("abort_load", loads.abort, "load", "forget a load that was not committed"),
        _beginning("begin_read", begin_read, "read", (), (("warnings", TEXT),)),
        named("end_read", reads.end, "read", "let go of the files of a read"),
    )


def absent_load_procedures() -> tuple[Procedure, ...]:
    """Of a node of a cluster: there they are not yet."""

    async def refuse(arguments: Sequence[Any]) -> Sequence[Sequence[Any]]:
        raise InvalidRequest(
            "Loading files and reading with Spark need a server that is alone: nodes of a cluster cannot yet"
        )

    known = {
        "begin_load": ("table_name", "options"),
        "commit_load": ("load",),
        "abort_load": ("load",),
        "begin_read": ("table_name",),
        "end_read": ("read",),
    }
    return tuple(
        Procedure(
            name,
            tuple(Parameter(one, TEXT, "{}") if one == "options" else Parameter(one, TEXT) for one in names),
            (),
            refuse,
            "not in a cluster yet",
        )
        for name, names in known.items()
    )


def _beginning(
    name: str,
    run: Perform,
    what: str,
    more_parameters: tuple[Parameter, ...],
    more_columns: tuple[tuple[str, Any], ...],
) -> Procedure:
    comments = {
        "load": "begin a load into a table: files from outside that become part of it all at once",
        "read": "put a snapshot of a table or view into the exchange, for an hour at most",
    }
    columns = ((what, TEXT), ("directory", TEXT), ("description", TEXT), *more_columns)
    return Procedure(name, (Parameter("table_name", TEXT), *more_parameters), columns, run, comments[what])


def _options(text: str) -> dict[str, Any]:
    try:
        options = json.loads(text)
    except ValueError as error:
        raise InvalidRequest(f"The options of a load are a JSON object: {error}") from None
    if not isinstance(options, dict):
        raise InvalidRequest(f"The options of a load are a JSON object, not {text}")
    return options
