"""The scenario of replication over a block of seeds, and that it misses each safeguard when it is off."""

import os
import re
from pathlib import Path

import pytest

from belvedere.sim.replication.plan import FAULTS, draw
from belvedere.sim.replication.run import failure_of
from tests.cluster.replication_bugs import ALL, Bug

ROOT = Path(__file__).parents[2]
LONG = os.environ.get("BELVEDERE_LONG") == "1"
BLOCKS, BLOCK = (20, 500) if LONG else (1, 160)


@pytest.mark.timeout(3600 if LONG else 120)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_healed_cluster_is_quiet_and_right(block: int) -> None:
    marks: set[str] = set()
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        failure, world = failure_of(seed)
        if failure is not None:
            raise AssertionError(f"seed {seed}") from failure
        marks |= set(world.marks)
    assert {
        "topology.elected",
        "replication.held_message",
        "replication.repeated_request",
        "replication.took_over_a_longer_log",
        "replication.cut_back",
        "replication.read_from_disk",
        "replication.backup_taken_out",
        "replication.learner_proposed",
        "replication.proposal_unanswered",
    } <= marks


def test_one_seed_gives_one_run() -> None:
    assert failure_of(5)[1].trace.digest == failure_of(5)[1].trace.digest


def test_seeds_draw_some_faults_or_all() -> None:
    plans = [draw(seed) for seed in range(400)]
    everything = sum(plan.faults == set(FAULTS) for plan in plans)
    assert 60 < everything < 140
    for fault in FAULTS:
        assert any(fault not in plan.faults for plan in plans)
        assert any(fault in plan.faults and len(plan.faults) < 6 for plan in plans)
    assert {len(plan.machines) for plan in plans} == {3, 4, 5, 6, 7}
    assert {len(replicas) for plan in plans for replicas in plan.tablets} == {1, 2, 3, 4, 5}


def seeds_until_found(bug: Bug) -> int | None:
    with bug.plant():
        for seed in range(bug.seeds):
            if failure_of(seed)[0] is not None:
                return seed + 1
    return None


def check(bug: Bug) -> None:
    assert seeds_until_found(bug) is not None, f"{bug.name} is not missed within {bug.seeds} seeds"


@pytest.mark.parametrize("bug", [bug for bug in ALL if bug.is_common], ids=lambda bug: bug.name)
def test_a_safeguard_is_missed(bug: Bug) -> None:
    check(bug)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("bug", [bug for bug in ALL if not bug.is_common], ids=lambda bug: bug.name)
def test_a_safeguard_is_missed_now_and_then(bug: Bug) -> None:
    check(bug)


def test_the_page_names_every_safeguard() -> None:
    text = (ROOT / "docs/replication.md").read_text(encoding="utf-8")
    table = text.partition("## Safeguards, and what shows them")[2].partition("\n## ")[0]
    told = dict(re.findall(r"^\| `(\w+)` \|.*\| (\d[\d,]*) \|$", table, flags=re.MULTILINE))
    assert told == {bug.name: f"{bug.seeds:,}" for bug in ALL}
