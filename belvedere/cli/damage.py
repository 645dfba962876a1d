"""Damage done to a view's files on purpose, while no server has them open: for the demo and for tests.

Of one file of the view three rows are chosen that no other file has: one is taken away, one changed, one put
in that the base never had. The file is written anew with its checksum, so only a comparison with the base
can tell.
"""

from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from belvedere.meta.sqlite import SqliteStore
from belvedere.meta.state import from_loaded
from belvedere.model.schema import Table
from belvedere.pipeline.keys import key_columns
from belvedere.pipeline.runs import sorted_run, write_run
from belvedere.runtime.api import Runtime
from belvedere.runtime.plain_files import read_whole, write_durably
from belvedere.runtime.real import run
from belvedere.storage import sstable_format as fmt
from belvedere.storage.manifest import Manifest, ManifestFile, commit_manifest, load_manifest, sstable_name
from belvedere.storage.sstable_format import Layout
from belvedere.storage.sstable_rows import Bounds

#: What is added to the last key column of an invented row, so that it is like none that there is.
FAR_AWAY = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Damage:
    """Rows of the view, by column."""

    removed: dict[str, Any]
    changed: dict[str, Any]
    invented: dict[str, Any]


def damage(data: str, view_name: str, column: str, value: Any) -> Damage:
    """`view_name` is keyspace.view; the changed row and the invented one get this value in the column."""

    async def work(runtime: Runtime) -> Damage:
        view = await _view(data, view_name)
        directory, manifest = max(await _tablets(runtime, data, view), key=_largest)
        entry = max(manifest.files, key=lambda one: one.facts.rows)
        others = [f"{directory}/{sstable_name(one.number)}" for one in manifest.files if one is not entry]
        layout = Layout(view)
        table, done = _damaged(layout, _read(_path(directory, entry)), others, column, value)
        await _replace(runtime, layout, directory, manifest, entry, table)
        return done

    return run(work, log_level="error")


def change_some(data: str, view_name: str, column: str, value: Any, share: float) -> int:
    """Give this share of the rows this value in the column; returns how many these are. For a view that was
    built and not written to since: each of its rows is in one file."""

    async def work(runtime: Runtime) -> int:
        view = await _view(data, view_name)
        total = 0
        for directory, manifest in await _tablets(runtime, data, view):
            for entry in manifest.files:
                table = _read(_path(directory, entry))
                chosen = pa.array([number % round(1 / share) == 0 for number in range(table.num_rows)])
                place = table.schema.get_field_index(column)
                changed = pc.if_else(
                    chosen, pa.scalar(value, table.schema.field(place).type), table.column(place)
                )
                table = table.set_column(place, table.schema.field(place), changed)
                await _replace(runtime, Layout(view), directory, manifest, entry, table)
                total += chosen.true_count
                # The next file's manifest is the one just written.
                manifest = await load_manifest(runtime, directory) or manifest
        return total

    return run(work, log_level="error")


async def _replace(
    runtime: Runtime, layout: Layout, directory: str, manifest: Manifest, entry: ManifestFile, table: pa.Table
) -> None:
    """This for what is in the file."""
    versions = {"first_version": entry.facts.first_version, "last_version": entry.facts.last_version}
    built = write_run(layout, table, **versions, bounds=_bounds(entry))
    write_durably(_path(directory, entry), built.data)
    replaced = msgspec.structs.replace(entry, facts=built.facts)
    files = tuple(replaced if one.number == entry.number else one for one in manifest.files)
    await commit_manifest(runtime, directory, msgspec.structs.replace(manifest, files=files))


async def _view(data: str, name: str) -> Table:
    store = SqliteStore(f"{data}/metadata.sqlite")
    await store.open()
    try:
        state = from_loaded(await store.load())
    finally:
        await store.close()
    keyspace, _, view = name.partition(".")
    found = state.table(keyspace, view)
    if found is None or found.view is None:
        raise ValueError(f"there is no view {name} in {data}")
    return found


async def _tablets(runtime: Runtime, data: str, view: Table) -> list[tuple[str, Manifest]]:
    """Those that have files."""
    home = f"{data}/node/tables/{view.keyspace}.{view.name}-{view.id.hex()}"
    found = []
    for name in await runtime.disk.list(home):
        manifest = await load_manifest(runtime, f"{home}/{name}")
        if manifest is not None and manifest.files:
            found.append((f"{home}/{name}", manifest))
    if not found:
        raise ValueError(f"{view.full_name} has no files yet")
    return found


def _largest(tablet: tuple[str, Manifest]) -> int:
    return max(entry.facts.rows for entry in tablet[1].files)


def _path(directory: str, entry: ManifestFile) -> str:
    return f"{directory}/{sstable_name(entry.number)}"


def _damaged(
    layout: Layout, table: pa.Table, others: list[str], column: str, value: Any
) -> tuple[pa.Table, Damage]:
    chunks = [chunk for one in others for chunk in _read(one).column(fmt.CK).chunks]
    elsewhere = pa.concat_arrays([pa.array([], pa.binary()), *chunks])
    eligible = pc.and_(
        pc.equal(table.column(fmt.KIND), fmt.ROW),
        pc.and_(table.column(fmt.LIVE), pc.invert(pc.is_in(table.column(fmt.CK), elsewhere))),
    )
    rows = pc.indices_nonzero(eligible).to_pylist()
    # Far from each other, so that they are of different partitions.
    removed, changed, copied = rows[len(rows) // 4], rows[len(rows) // 2], rows[3 * len(rows) // 4]
    number = layout.clustering[-1].name
    old = table.take(pa.array([removed, changed, copied])).to_pylist()
    rewritten = old[1] | {column: value}
    invented = old[2] | {column: value, number: old[2][number] + FAR_AWAY}
    kept = pc.invert(pc.is_in(pa.array(range(table.num_rows)), pa.array([removed, changed])))
    added = pa.Table.from_pylist([rewritten, invented], table.schema)
    after = sorted_run(layout, key_columns(layout, pa.concat_tables([table.filter(kept), added])))
    names = [stored.name for stored in (*layout.keys, *layout.regulars) if not stored.column.hidden]
    shown = [{name: row[name] for name in names} for row in (old[0], rewritten, invented)]
    return after, Damage(*shown)


def _read(path: str) -> pa.Table:
    return pq.read_table(pa.BufferReader(read_whole(path)))


def _bounds(entry: ManifestFile) -> Bounds:
    facts = entry.facts
    return Bounds(facts.min_timestamp, facts.max_timestamp, facts.min_second, facts.max_second)
