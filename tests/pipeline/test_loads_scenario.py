"""The scenario of loads over a block of seeds, and that it would notice what it is there to notice."""

import os

import pytest

from belvedere.query import keeping
from belvedere.sim.scenario_loads import loads
from belvedere.sim.world import World
from belvedere.views import build
from tests.views.crash_bugs import BUGS

LONG = os.environ.get("BELVEDERE_LONG") == "1"
BLOCKS, BLOCK = (20, 50) if LONG else (2, 3)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that few rows make several pages of a build and several pieces of a deletion."""
    monkeypatch.setattr(build, "PAGE_ROWS", 7)
    monkeypatch.setattr(keeping, "DELETED_AT_ONCE", 3)


def run(seed: int) -> World:
    world = World(seed)
    world.run(loads)
    world.check_no_failures()
    return world


@pytest.mark.timeout(1800 if LONG else 120)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_loads_are_whole_or_absent_and_views_show_them(block: int) -> None:
    marks: set[str] = set()
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        marks |= set(run(seed).marks)
    assert {"loads.loaded", "loads.numbers_checked", "views.rows_at_rest"} <= marks


def test_one_seed_gives_one_run() -> None:
    assert run(3).trace.digest == run(3).trace.digest


def seeds_until_found(bug: str, most: int) -> int | None:
    with BUGS[bug]():
        for seed in range(most):
            try:
                run(seed)
            except Exception:
                return seed + 1
    return None


@pytest.mark.parametrize(
    ("bug", "seeds"),
    [("staged_files_compacted", 12), ("unstaged_before_views_show_them", 8), ("loads_not_staged", 8)],
)
def test_finds_a_planted_bug(bug: str, seeds: int) -> None:
    assert seeds_until_found(bug, seeds) is not None


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("bug", "seeds"),
    [
        ("half_of_a_load_is_enough", 20),
        ("loads_shown_one_tablet_at_a_time", 20),
        ("images_of_jobs_too_new", 20),
    ],
)
def test_finds_a_rarer_planted_bug(bug: str, seeds: int) -> None:
    assert seeds_until_found(bug, seeds) is not None
