"""The kernel of builds makes the very images that row by row are made."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.pipeline import inputs
from belvedere.pipeline.build import build
from belvedere.pipeline.tasks import BuildTask, TaskResult
from belvedere.storage import sstable_write
from tests.pipeline.kernel_world import MIXES, VERSION, World, random_world
from tests.storage.sstable_samples import random_partitions

SEEDS = st.integers(0, 2**32)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sstable_write, "GROUP_ROWS", 8)
    monkeypatch.setattr(inputs, "WINDOW_ROWS", 40)


def built(world: World, given_files: list[inputs.InputFile], max_rate: int = 0) -> TaskResult:
    views = [view.id.hex() for view in world.views]
    task = BuildTask(world.schema, world.base.id.hex(), views, VERSION, given_files, max_rate)
    return build(task, world.files)


@settings(max_examples=60)
@given(SEEDS)
def test_images_equal_those_made_row_by_row(seed: int) -> None:
    rnd = random.Random(seed)
    world = random_world(rnd)
    mix, keys = rnd.choice(MIXES), rnd.choice([6, 20, 10**6])
    sources = [
        random_partitions(rnd, world.base, rnd.randrange(14), rnd.choice([2, 9, 40]), mix, keys)
        for _ in range(rnd.randint(1, 3))
    ]
    files = [world.files.add_source(f"{n}", world.base, source) for n, source in enumerate(sources)]
    result = built(world, files)
    rows = world.rows(sources)
    for view in world.views:
        assert world.shown(view, result.outputs) == world.images(view, rows)
    assert result.bytes == sum(file.size for file in files)
