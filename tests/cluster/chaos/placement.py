"""Who lives and where tablets are, by the word of the metadata store.

It is read from outside: nodes may be down, paused or wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from belvedere.meta import records
from belvedere.model.token import token_of
from belvedere.runtime.real import RealRuntime, run
from belvedere.server.cluster import open_store
from belvedere.server.settings import EtcdMetadata, SqliteMetadata

CLUSTER = "chaos"


@dataclass(frozen=True, slots=True)
class Placed:
    first_token: int
    last_token: int
    primary: str
    replicas: frozenset[str]
    in_sync: frozenset[str]


@dataclass(frozen=True, slots=True)
class Placement:
    alive: frozenset[str]
    #: Of each table, `keyspace.name`.
    tablets: Mapping[str, tuple[Placed, ...]]

    def primary_of(self, table: str, key: bytes) -> str:
        """`key` is the partition key as it is on the wire."""
        token = token_of(key)
        (found,) = (one for one in self.tablets[table] if one.first_token <= token <= one.last_token)
        return found.primary

    @property
    def lagging(self) -> list[str]:
        """Tablets of which not all replicas have all."""
        return [
            f"{table}: {', '.join(sorted(one.replicas - one.in_sync))} not in sync"
            for table, tablets in self.tablets.items()
            for one in tablets
            if one.in_sync != one.replicas
        ]


def placement(metadata: str) -> Placement:
    kind, _, where = metadata.partition(":")
    settings = SqliteMetadata(where) if kind == "sqlite" else EtcdMetadata(tuple(where.split(",")))

    async def read(runtime: RealRuntime) -> Placement:
        store = await open_store(runtime, settings, CLUSTER)
        try:
            return _placement({key: one.value for key, one in (await store.load()).entries.items()})
        finally:
            await store.close()

    return run(read)


def _placement(entries: Mapping[str, bytes]) -> Placement:
    names = {}
    for key, value in entries.items():
        if key.startswith("tables/"):
            table = msgspec.json.decode(value, type=records.TableRecord)
            names[table.id.replace("-", "")] = key.removeprefix("tables/").replace("/", ".")
    tablets: dict[str, list[Placed]] = {name: [] for name in names.values()}
    for key, value in entries.items():
        if key.startswith("tablets/"):
            name = names.get(key.split("/")[1])
            if name is not None:
                tablets[name].append(_placed(msgspec.json.decode(value, type=records.TabletRecord)))
    alive = frozenset(key.removeprefix("alive/") for key in entries if key.startswith("alive/"))
    return Placement(alive, {name: tuple(found) for name, found in tablets.items()})


def _placed(record: records.TabletRecord) -> Placed:
    return Placed(
        int(record.first_token),
        int(record.last_token),
        record.primary,
        frozenset(record.replicas),
        frozenset(record.in_sync or record.replicas),
    )
