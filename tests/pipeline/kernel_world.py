"""Random bases with views, their files in memory, and the images that they must have, made one by one."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from belvedere.meta.state import ClusterState, TabletMap
from belvedere.model.rows import Row, visible
from belvedere.model.schema import Column, Table
from belvedere.pipeline.schema_of import schema_entries
from belvedere.pipeline.tasks import InputFile, OutputFile
from belvedere.query.errors import InvalidRequest
from belvedere.query.schema_view import KeyspacesView
from belvedere.storage.cache import GroupCache
from belvedere.storage.merge import LiveColumns
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.sstable_format import BuiltSSTable
from belvedere.storage.sstable_write import build_sstable
from belvedere.views.images import ImageMaker
from tests.query.schema_book import SchemaBook, book
from tests.storage.merge_reference import merge_stored
from tests.storage.sstable_samples import (
    MemoryRuntime,
    Mix,
    canonical_row,
    open_built,
    random_table,
    random_wire,
    read_all,
)

#: Many rows with one stamp, as bulk loads write them; some of everything else.
QUIET = Mix(
    complete=0.9,
    stamped=0.05,
    tombstone=0.02,
    ttl=0.02,
    row_deletion=0.02,
    partition_deletion=0.0,
    ranges=0.0,
)
#: Few distinct times and keys: many rows meet, and many of them at the same microsecond.
CROWDED = Mix(times=30, stamped=0.3, tombstone=0.2, ttl=0.2)
MIXES = (Mix(), QUIET, CROWDED)

VERSION = 1_700_000_001_234_567

Position = tuple[int, bytes, bytes]
#: What a file says of each position.
Shown = dict[Position, object]


class MemoryFiles:
    """A task's files in a dictionary."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.rows = self.bytes = 0
        self.paused = 0.0
        self.opened: list[str] = []

    def open(self, path: str) -> pa.NativeFile:
        self.opened.append(path)
        return pa.BufferReader(self.files[path])

    def save(self, name: str, data: bytes) -> str:
        path = f"out/{name}"
        assert path not in self.files
        self.files[path] = data
        return path

    def progress(self, rows: int, size: int) -> None:
        self.rows += rows
        self.bytes += size

    def pause(self, seconds: float) -> None:
        self.paused += seconds

    def add(self, path: str, built: BuiltSSTable) -> InputFile:
        self.files[path] = built.data
        return InputFile(path, built.facts.size, built.facts.crc32c)

    def add_source(self, path: str, table: Table, source: Sequence[StoredPartition]) -> InputFile:
        return self.add(path, build_sstable(table, source))


@dataclass
class World:
    book: SchemaBook
    base: Table
    views: list[Table]
    files: MemoryFiles = field(default_factory=MemoryFiles)

    @property
    def state(self) -> ClusterState:
        return self.book.state

    @property
    def schema(self) -> dict[str, str]:
        return schema_entries(self.state, [self.base, *self.views])

    def maker(self, view: Table) -> ImageMaker:
        return ImageMaker(self.base, view, KeyspacesView(self.state.keyspaces))

    def tablets(self, view: Table) -> TabletMap:
        return self.state.tablet_maps[view.id]

    def rows(self, sources: Sequence[Sequence[StoredPartition]]) -> dict[Position, Row]:
        """The base's rows, merged one by one, without what is deleted; nothing counts as expired."""
        partitions: dict[tuple[int, bytes], list[StoredPartition]] = {}
        for source in sources:
            for partition in source:
                partitions.setdefault((partition.token, partition.key), []).append(partition)
        columns = LiveColumns(self.base)
        found = {}
        for (token, key), several in partitions.items():
            for ck, row in merge_stored(several).rows:
                seen = visible(columns.regular(row), 0)
                if seen is not None:
                    found[token, key, ck] = seen
        return found

    def images(self, view: Table, rows: dict[Position, Row], version: int = VERSION) -> Shown:
        maker, shown = self.maker(view), {}
        for position, row in rows.items():
            image = maker.image(*position, row, version)
            if image is not None:
                shown[image.token, image.key, image.clustering] = canonical_row(image.row)
        return shown

    def shown(self, view: Table, outputs: Sequence[OutputFile]) -> Shown:
        """What output files for a view say, each row once; checks that they are where they belong."""
        found: Shown = {}
        for output in outputs:
            if output.table != view.id.hex():
                continue
            built = BuiltSSTable(self.files.files[output.path], output.facts)
            for partition in stored_in(built, view):
                assert self.tablets(view).holding(partition.token).id == output.tablet
                assert partition.deletion is None
                assert not partition.ranges
                assert partition.static is None
                for ck, row in partition.rows:
                    position = (partition.token, partition.key, ck)
                    assert position not in found
                    found[position] = canonical_row(row)
        return found


def stored_in(built: BuiltSSTable, table: Table) -> list[StoredPartition]:
    async def read() -> list[StoredPartition]:
        sstable = await open_built(built, table, GroupCache(1 << 20), MemoryRuntime())
        return await read_all(sstable)

    return asyncio.run(read())


def random_world(rnd: random.Random, values: Sequence[str] | None = None, views: int = 3) -> World:
    made = book("CREATE TYPE point (x int, label text)")
    sample = random_table(rnd, values)
    made.run(_create_table(sample))
    base = made.table()
    names = []
    for number in range(views):
        try:
            made.run(_create_view(rnd, base, f"view{number}"))
            names.append(f"view{number}")
        except InvalidRequest:
            continue
    return World(made, base, [made.table(name) for name in names])


def _create_table(table: Table) -> str:
    columns = [f"{c.name} {c.type.name}{' static' if c in table.statics else ''}" for c in table.columns]
    return f"CREATE TABLE t ({', '.join(columns)}, {_primary_key(table.partition_key, table.clustering)}" + (
        f") WITH CLUSTERING ORDER BY ({_directions([(c.name, c.descending) for c in table.clustering])})"
        if table.clustering
        else ")"
    )


def _primary_key(partition: Sequence[Column], clustering: Sequence[Column]) -> str:
    outer = f"({', '.join(c.name for c in partition)})"
    return f"PRIMARY KEY ({', '.join([outer, *(c.name for c in clustering)])})"


def _directions(columns: Sequence[tuple[str, bool]]) -> str:
    return ", ".join(f"{name} {'DESC' if down else 'ASC'}" for name, down in columns)


def _create_view(rnd: random.Random, base: Table, name: str) -> str:
    keys = [*base.partition_key, *base.clustering]
    others = [c for c in base.regulars if not c.type.is_multicell and c.type.is_orderable]
    if others and rnd.random() < 0.6:
        keys.append(rnd.choice(others))
    rnd.shuffle(keys)
    count = rnd.randint(1, len(keys)) if rnd.random() < 0.5 else 1
    rest = [c for c in base.regulars if c not in keys]
    chosen = rest if rnd.random() < 0.5 else rnd.sample(rest, rnd.randint(0, len(rest)))
    where = [f"{column.name} IS NOT NULL" for column in keys]
    where += _restrictions(rnd, base)
    names = ", ".join(c.name for c in (*keys, *chosen))
    text = f"CREATE MATERIALIZED VIEW {name} AS SELECT {names} FROM t WHERE {' AND '.join(where)} "
    text += _primary_key(keys[:count], keys[count:])
    if keys[count:] and rnd.random() < 0.5:
        ordered = _directions([(c.name, rnd.random() < 0.5) for c in keys[count:]])
        text += f" WITH CLUSTERING ORDER BY ({ordered})"
    return text


def _restrictions(rnd: random.Random, base: Table) -> list[str]:
    found = []
    for column in base.regulars:
        if rnd.random() < 0.85:
            continue
        if column.type.is_multicell or not column.type.is_orderable or rnd.random() < 0.4:
            found.append(f"{column.name} IS NOT NULL")
            continue
        operator = rnd.choice(["<", "<=", ">", ">=", "=", "IN"])
        literal = column.type.to_text(random_wire(rnd, column.type))
        found.append(f"{column.name} {operator} {f'({literal})' if operator == 'IN' else literal}")
    return found
