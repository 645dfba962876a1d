"""What must hold of a cluster at rest, told from outside the code that is to uphold it."""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from belvedere.model import rows
from belvedere.sim.checkers.history import Kind, Operation, Outcome
from belvedere.sim.checkers.linearizability import GaveUp, check
from belvedere.sim.cluster.asking import ONE, Asker, Row
from belvedere.sim.cluster.clients import KEYS, SHELVES
from belvedere.sim.cluster.memory import Memory, Told, WeakRead
from belvedere.sim.cluster.nodes import Cluster
from belvedere.sim.cluster.rest import Broken
from belvedere.storage.reads import PartitionRows, RangeRead

#: How old a read at ONE may be, in seconds. A replica that was taken out hears of it, or loses its lease; one
#: that is in sync may not hear that something was committed for as long as a link is cut.
STALE_SECONDS = 3.0

# --- what replicas hold -------------------------------------------------------------------------------


async def check_replicas(cluster: Cluster) -> None:
    """Of each tablet all replicas hold the same rows with the same write times."""
    for tablet in cluster.tablets:
        held = {}
        for machine in tablet.replicas:
            store = cluster.nodes[machine].database.engine.store(tablet.id)
            page = await cluster.nodes[machine].runtime.perform(store.scan(RangeRead(limit=1_000_000), 0))
            held[machine] = [_plain_partition(found) for found in page.partitions]
        first, *others = held
        for other in others:
            if held[other] != held[first]:
                table = cluster.truth.tables_by_id[tablet.table].name
                differing = _difference(held[first], held[other])
                raise Broken(
                    f"tablet {tablet.id} of {table} differs at rest between {first} and {other}: {differing}"
                )


def _difference(one: list[Any], other: list[Any]) -> str:
    left, right = Counter(map(repr, one)), Counter(map(repr, other))
    return f"{list(left - right)[:2]} against {list(right - left)[:2]}"


def _plain_partition(found: PartitionRows) -> Any:
    return (
        found.token,
        found.key,
        None if found.static is None else _plain(found.static),
        [(key, _plain(row)) for key, row in found.rows],
    )


def _plain(row: rows.Row) -> Any:
    """However it is stored: each cell with the stamp that it has."""
    stamp = (row.timestamp, row.ttl, row.expiry)
    cells: list[Any] = []
    for cell in row.cells:
        if isinstance(cell, bytes):
            cells.append((cell, *stamp))
        elif isinstance(cell, rows.Complex):
            cells.append((cell.deletion, sorted(cell.items.items())))
        else:
            cells.append(cell)
    while cells and cells[-1] is None:
        cells.pop()
    return (stamp if row.live else None, row.deletion, cells)


def check_schemas(cluster: Cluster) -> None:
    digests = {
        machine: node.database.state.schema_digest.hex() for machine, node in sorted(cluster.nodes.items())
    }
    if len(set(digests.values())) > 1:
        raise Broken(f"nodes know different schemas at rest: {digests}")


# --- what clients were told ---------------------------------------------------------------------------


def check_registers(memory: Memory) -> None:
    found = check(memory.history)
    if found is not None and not isinstance(found, GaveUp):
        raise Broken(f"not linearizable: {found}")
    by_key = memory.history.by_key()
    for read in memory.weak_reads:
        writes = [op for op in by_key.get(read.key, []) if op.kind is not Kind.READ]
        writers = [op for op in writes if op.may_have_written and op.value == read.value]
        if read.value is not None and not writers:
            raise Broken(f"{read.key}: a read at ONE was shown {read.value}, which nobody wrote")
        newer = _newer(writes, writers, read) if writers else None
        if newer is not None:
            raise Broken(
                f"{read.key}: a read at ONE was shown {read.value} more than {STALE_SECONDS:g} s after "
                f"{newer.value} was acknowledged"
            )


def _newer(writes: Sequence[Operation], writers: Sequence[Operation], read: WeakRead) -> Operation | None:
    """A write that began when those of what was read were over, and was over itself long before the read."""
    over = max((sys.maxsize if op.ended is None else op.ended for op in writers), default=0)
    latest = read.began - round(STALE_SECONDS * 1e9)
    for op in writes:
        if op.outcome is Outcome.DONE and op.began > over and op.ended is not None and op.ended < latest:
            return op
    return None


async def check_batches(asker: Asker, memory: Memory) -> None:
    """All or none; and what was acknowledged, all."""
    there: set[tuple[int, int]] = set()
    for key in range(SHELVES):
        there |= {(key, row["n"]) for row in await asker.ask(f"SELECT n FROM parts WHERE k = {key}")}
    known: set[tuple[int, int]] = set()
    for batch in memory.batches:
        found = [key for key in batch.keys if (key, batch.number) in there]
        known |= {(key, batch.number) for key in batch.keys}
        if found and len(found) < len(batch.keys):
            raise Broken(f"of batch {batch.number} of {batch.keys} only {found} are there: {batch}")
        if batch.done is True and not found:
            raise Broken(f"batch {batch.number} was acknowledged, and is lost: {batch}")
        if batch.done is False and found:
            raise Broken(f"batch {batch.number} was refused, and was carried out: {batch}")
    if there - known:
        raise Broken(f"nobody wrote {sorted(there - known)}")


async def check_counters(asker: Asker, memory: Memory) -> None:
    for key in range(KEYS):
        known = [one for one in memory.increments if one.key == key]
        least, most = sum(one.done is True for one in known), sum(one.done is not False for one in known)
        found_rows = await asker.ask(f"SELECT n FROM counters WHERE k = {key}")
        found = found_rows[0]["n"] if found_rows else 0
        if not least <= found <= most:
            raise Broken(f"counter {key} is {found}, of {least} to {most} increments")


async def check_inserts(asker: Asker, memory: Memory) -> None:
    """What was there when the table was truncated is gone; what was written afterwards is there."""
    there = {row["n"] for row in await asker.ask("SELECT n FROM emptied")}
    emptied = [one for one in memory.truncations if one.done is not False]
    for insert in memory.inserts:
        count = len(there.intersection(insert.numbers))
        if count not in (0, len(insert.numbers)):
            raise Broken(f"of {insert} there is only a part")
        found = count > 0
        if found and insert.done is False:
            raise Broken(f"{insert} was refused, and was carried out")
        if found and insert.done and any(one.done and _is_before(insert, one) for one in emptied):
            raise Broken(f"{insert} is there, though the table was truncated after it")
        if not found and insert.done and all(_is_before(one, insert) for one in emptied):
            raise Broken(f"{insert} was acknowledged, and is lost")


def _is_before(one: Told, other: Told) -> bool:
    return one.ended is not None and one.ended < other.began


# --- views --------------------------------------------------------------------------------------------


async def check_view(
    cluster: Cluster, base: str, view: str, shown: Sequence[str], passes: Callable[[Row], bool], asker: Asker
) -> None:
    """A view shows what its base shows, filtered: through every node, from any replica, now and after any
    TTL."""
    columns = ", ".join(shown)
    for machine in cluster.plan.machines:
        second = cluster.nodes[machine].runtime.clock.wall_micros() // 1_000_000
        for later in (0, 2, 100):
            now = second + later
            stored = await asker.ask(f"SELECT {columns} FROM {base}", machine=machine, now=now)
            expected = Counter(_described(row) for row in stored if passes(row))
            answer = await asker.ask(f"SELECT {columns} FROM {view}", ONE, machine=machine, now=now)
            found = Counter(map(_described, answer))
            if found != expected:
                raise Broken(
                    f"{view} through {machine}, in {later} s: missing {list(expected - found)}, "
                    f"not in the base {list(found - expected)}"
                )


def _described(row: Row) -> str:
    return repr(sorted(row.items()))
