"""Random CQL against a node in simulation and a dumb model of CQL; and proof that such a test finds bugs."""

import os
import sys
from pathlib import Path

import pytest

from belvedere.sim.model.__main__ import describe
from belvedere.sim.model.contention import contend
from belvedere.sim.model.plans import make_plan
from belvedere.sim.model.run import Mismatch, carry_out
from belvedere.sim.model.shrink import shrunk

sys.path.insert(0, str(Path(__file__).parent))
from planted_bugs import BUGS, CONTENDED, QUICK, Bug

LONG = os.environ.get("BELVEDERE_LONG") == "1"
#: A block of seeds is one test, so that several workers share them.
BLOCK = 12 if not LONG else 200
BLOCKS = 4 if not LONG else 25


@pytest.mark.timeout(1800 if LONG else 120)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_node_answers_as_the_model(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        failure = carry_out(make_plan(seed))
        if failure is not None:
            pytest.fail(describe(shrunk(failure)), pytrace=False)


def _seeds_until_found(bug: Bug) -> int | None:
    with bug.plant():
        for seed in range(bug.seeds):
            if carry_out(make_plan(seed)) is not None:
                return seed + 1
    return None


@pytest.mark.parametrize("bug", QUICK, ids=lambda bug: bug.name)
def test_finds_a_planted_bug(bug: Bug) -> None:
    assert _seeds_until_found(bug) is not None


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("bug", BUGS[len(QUICK) :], ids=lambda bug: bug.name)
def test_finds_a_rarer_planted_bug(bug: Bug) -> None:
    assert _seeds_until_found(bug) is not None


def test_a_failure_is_shrunk_to_a_short_script() -> None:
    bug = QUICK[1]
    with bug.plant():
        failure = next(f for seed in range(bug.seeds) if (f := carry_out(make_plan(seed))) is not None)
        small = shrunk(failure, budget=100)
    assert len(small.plan.steps) <= max(3, len(failure.plan.steps) // 4)
    assert "INSERT" in describe(small) or "UPDATE" in describe(small)
    assert carry_out(small.plan) is None


def test_one_seed_gives_one_run() -> None:
    from belvedere.sim.model.run import Runner
    from belvedere.sim.world import World

    def digest(seed: int) -> tuple[str, list[str]]:
        plan = make_plan(seed)
        world = World(seed)
        runner = Runner(world, plan)
        world.run(lambda _: runner.run())
        return world.trace.digest, runner.transcript

    assert digest(3) == digest(3)


@pytest.mark.timeout(1800 if LONG else 120)
def test_conditions_of_many_clients_have_one_order() -> None:
    assert sum(contend(seed) for seed in range(5000 if LONG else 60)) > 0


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, marks=[pytest.mark.long] if number else []) for number, bug in enumerate(CONTENDED)],
    ids=lambda bug: bug.name,
)
def test_contention_finds_a_planted_bug(bug: Bug) -> None:
    with bug.plant(), pytest.raises(Mismatch):
        sum(contend(seed) for seed in range(bug.seeds))
