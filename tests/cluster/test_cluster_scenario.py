"""The scenario of whole nodes over a block of seeds, and that it misses each safeguard when it is off."""

import os
from itertools import count, islice

import pytest

from belvedere.sim.cluster.plan import FAULTS, WORKS, draw
from belvedere.sim.cluster.run import failure_of
from tests.cluster.cluster_bugs import BUGS, Bug

LONG = os.environ.get("BELVEDERE_LONG") == "1"
BLOCKS, BLOCK = (20, 200) if LONG else (1, 20)


@pytest.mark.timeout(3600 if LONG else 300)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_healed_cluster_is_quiet_and_right(block: int) -> None:
    marks: set[str] = set()
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        failure, world = failure_of(seed)
        if failure is not None:
            raise AssertionError(f"seed {seed}: {draw(seed).describe()}") from failure
        marks |= set(world.marks)
    assert {
        "topology.elected",
        "replication.held_message",
        "replication.backup_taken_out",
        "replication.learner_proposed",
        "replication.proposal_unanswered",
        "cluster.view_compared",
        "cluster.verified",
        "cluster.truncated_base",
        "cluster.told.WriteTimeout",
        "cluster.told.Unavailable",
    } <= marks


def test_one_seed_gives_one_run() -> None:
    assert failure_of(5)[1].trace.digest == failure_of(5)[1].trace.digest


def test_seeds_draw_some_faults_or_all_or_none() -> None:
    plans = [draw(seed) for seed in range(400)]
    assert 40 < sum(plan.faults == set(FAULTS) for plan in plans) < 130
    assert 15 < sum(not plan.faults for plan in plans) < 80
    for fault in FAULTS:
        assert any(fault not in plan.faults and plan.faults for plan in plans)
        assert any(fault in plan.faults and len(plan.faults) < 6 for plan in plans)
    assert {len(plan.machines) for plan in plans} == {3, 4, 5, 6, 7}
    assert {plan.factor for plan in plans} == {1, 2, 3, 4, 5}
    assert {work for plan in plans for work in plan.works} == set(WORKS)


def seeds_until_found(bug: Bug) -> int | None:
    """Of the seeds with the work that the safeguard is for."""
    seeds = (seed for seed in count() if bug.work in draw(seed).works)
    with bug.plant():
        for number, seed in enumerate(islice(seeds, bug.seeds), 1):
            if failure_of(seed)[0] is not None:
                return number
    return None


@pytest.mark.timeout(3600 if LONG else 300)
@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, marks=pytest.mark.long if bug.rare else ()) for bug in BUGS],
    ids=lambda bug: f"{bug.name}-{bug.work}",
)
def test_a_safeguard_is_missed(bug: Bug) -> None:
    assert seeds_until_found(bug) is not None
