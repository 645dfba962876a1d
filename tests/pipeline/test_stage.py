"""What a load changes in views: the same removals and images that writing its rows one by one would cause."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.model.rows import Row
from belvedere.model.schema import Table
from belvedere.pipeline import inputs
from belvedere.pipeline.stage import stage
from belvedere.pipeline.tasks import StageTask
from belvedere.storage import sstable_write
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.tablet_changes import RowChange
from tests.pipeline.kernel_world import MIXES, QUIET, VERSION, Position, Shown, World, random_world
from tests.storage.sstable_samples import canonical_row, random_partitions

SEEDS = st.integers(0, 2**32)

Sources = list[list[StoredPartition]]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sstable_write, "GROUP_ROWS", 8)
    monkeypatch.setattr(inputs, "WINDOW_ROWS", 40)


def drawn(rnd: random.Random, base: Table, mix: object, keys: int) -> list[StoredPartition]:
    return random_partitions(rnd, base, rnd.randrange(12), rnd.choice([2, 9, 30]), mix, keys)  # type: ignore


def caused(world: World, view: Table, was: dict[Position, Row], now: dict[Position, Row]) -> Shown:
    """What the rows' changes do to the view, one by one."""
    maker, found = world.maker(view), {}
    for position in {**was, **now}:
        token, key, ck = position
        change = RowChange(ck, was.get(position), now.get(position))
        for update in maker.updates(token, key, change, VERSION):
            ((clustering, row),) = update.mutation.rows
            found[update.mutation.token, update.mutation.key, clustering] = canonical_row(row)
    return found


@settings(max_examples=60)
@given(SEEDS)
def test_stage_does_what_writes_would_have_done(seed: int) -> None:
    rnd = random.Random(seed)
    world = random_world(rnd)
    keys = rnd.choice([6, 20])
    before = [drawn(rnd, world.base, rnd.choice(MIXES), keys) for _ in range(rnd.randrange(3))]
    # Loads write rows that live; but nobody promises it.
    live = replace(QUIET, row_deletion=0.0)
    added = [drawn(rnd, world.base, rnd.choice([live, live, *MIXES]), keys) for _ in range(rnd.randint(1, 2))]
    files = world.files
    task = StageTask(
        world.schema,
        world.base.id.hex(),
        [view.id.hex() for view in world.views],
        VERSION,
        [files.add_source(f"before{n}", world.base, source) for n, source in enumerate(before)],
        [files.add_source(f"added{n}", world.base, source) for n, source in enumerate(added)],
    )
    result = stage(task, files)
    was, now = world.rows(before), world.rows([*before, *added])
    touched = {(p.token, p.key, ck) for source in added for p in source for ck, _ in p.rows}
    touched |= {position for position in {**was, **now} if was.get(position) != now.get(position)}
    for view in world.views:
        shown = world.shown(view, result.outputs)
        wanted = caused(
            world, view, {k: was[k] for k in was if k in touched}, {k: now[k] for k in now if k in touched}
        )
        assert {place: shown.get(place) for place in wanted} == wanted
        # More images may be made again, as they are; no place that is right is removed.
        whole = {**world.images(view, now), **wanted}
        assert {place: whole.get(place) for place in shown} == shown


def test_a_small_load_reads_little_of_a_large_table() -> None:
    rnd = random.Random(5)
    world = random_world(rnd, ["int", "text"])
    large = random_partitions(rnd, world.base, 300, 3, QUIET)
    source = [partition for partition in large[10:] if partition.rows][:3]
    files = world.files
    task = StageTask(
        world.schema,
        world.base.id.hex(),
        [view.id.hex() for view in world.views],
        VERSION,
        [files.add_source("before", world.base, large)],
        [files.add_source("added", world.base, source)],
    )
    assert stage(task, files).rows > 0
    assert files.rows < 60
