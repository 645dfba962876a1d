"""The scenario of views over a block of seeds, and that it would notice what it is there to notice."""

import os
import sys
from pathlib import Path

import pytest

from belvedere.query import keeping
from belvedere.sim.scenario_views import views
from belvedere.sim.world import World
from belvedere.views import build

sys.path.insert(0, str(Path(__file__).parent))
from view_bugs import QUICK, RARER, Bug

LONG = os.environ.get("BELVEDERE_LONG") == "1"
BLOCKS, BLOCK = (20, 50) if LONG else (4, 4)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that few rows make several pages of a build and several pieces of a deletion."""
    monkeypatch.setattr(build, "PAGE_ROWS", 7)
    monkeypatch.setattr(keeping, "DELETED_AT_ONCE", 3)


def run(seed: int) -> World:
    world = World(seed)
    world.run(views)
    world.check_no_failures()
    return world


@pytest.mark.timeout(1800 if LONG else 120)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_views_equal_their_bases_whatever_happens(block: int) -> None:
    marks: set[str] = set()
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        marks |= set(run(seed).marks)
    assert {"views.rows_at_rest", "views.compared_underway", "views.truncated"} <= marks


def test_one_seed_gives_one_run() -> None:
    assert run(5).trace.digest == run(5).trace.digest


def seeds_until_found(bug: Bug) -> int | None:
    with bug.plant():
        for seed in range(bug.seeds):
            try:
                run(seed)
            except Exception:
                return seed + 1
    return None


@pytest.mark.parametrize("bug", QUICK, ids=lambda bug: bug.name)
def test_finds_a_planted_bug(bug: Bug) -> None:
    assert seeds_until_found(bug) is not None


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("bug", RARER, ids=lambda bug: bug.name)
def test_finds_a_rarer_planted_bug(bug: Bug) -> None:
    assert seeds_until_found(bug) is not None
