"""The scenario of schema changes between nodes over a block of seeds, and that it would notice."""

import os

import pytest

from belvedere.sim.scenario_schema import schema
from belvedere.sim.world import World
from tests.cluster.schema_bugs import BUGS, Bug

LONG = os.environ.get("BELVEDERE_LONG") == "1"
BLOCKS, BLOCK = (20, 100) if LONG else (2, 20)


def run(seed: int) -> World:
    world = World(seed)
    world.run(schema)
    world.check_no_failures()
    return world


@pytest.mark.timeout(1800 if LONG else 120)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_node_does_not_know_what_another_one_has_made(block: int) -> None:
    marks: set[str] = set()
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        marks |= set(run(seed).marks)
    assert {f"schema.{name}" for name in ("warned", "looked up", "fenced", "elsewhere")} <= marks


def test_one_seed_gives_one_run() -> None:
    assert run(5).trace.digest == run(5).trace.digest


@pytest.mark.timeout(120)
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
