"""The scenario of nodes over a block of seeds, and that it would notice what it is there to notice."""

import os

import pytest

from belvedere.sim.scenario_nodes import nodes
from belvedere.sim.world import World
from tests.cluster.node_bugs import BUGS, Bug

LONG = os.environ.get("BELVEDERE_LONG") == "1"
BLOCKS, BLOCK = (20, 100) if LONG else (4, 15)


def run(seed: int) -> World:
    world = World(seed)
    world.run(nodes)
    world.check_no_failures()
    return world


@pytest.mark.timeout(1800 if LONG else 120)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_nodes_agree_on_who_lives_whatever_happens(block: int) -> None:
    marks: set[str] = set()
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        marks |= set(run(seed).marks)
    wanted = {"elected", "barrier_passed", "barrier_without_somebody", "NodeIdTaken", "stranger_refused"}
    assert {f"nodes.{name}" for name in wanted} <= marks


def test_one_seed_gives_one_run() -> None:
    assert run(5).trace.digest == run(5).trace.digest


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_finds_a_safeguard_that_is_off(bug: Bug) -> None:
    found = []
    with bug.plant():
        for seed in range(bug.seeds):
            try:
                run(seed)
            except Exception as error:
                found.append(str(error))
                if bug.told in str(error):
                    return
    raise AssertionError(f"not found in {bug.seeds} seeds; what else was said: {found}")
