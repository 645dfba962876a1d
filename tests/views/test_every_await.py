"""Builds, loads, repairs and truncations, interrupted at every await by a power failure and by a kill.

By default at a sample of the points that leave something different behind; with BELVEDERE_LONG=1 before every
step that the machine takes.
"""

import os

import pytest

from belvedere.sim.every_await import Strike
from tests.views.crash_bugs import BUGS
from tests.views.crash_cases import CASES, Case, carry_out

LONG = os.environ.get("BELVEDERE_LONG") == "1"
SAMPLE = 20
NAMED = {case.name: case for case in CASES}

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def crash_at(case: Case, step: int, lose_unsynced: bool) -> None:
    try:
        carry_out(case, Strike(step, lose_unsynced))
    except Exception as error:
        how = "power failure" if lose_unsynced else "kill"
        raise AssertionError(f"{case.name}, {how} before step {step}: {error}") from error


@pytest.mark.timeout(3600 if LONG else 120)
@each_case
def test_whatever_interrupts_it_is_finished_or_undone(case: Case) -> None:
    steps = carry_out(case)
    assert len(steps.distinct) >= SAMPLE
    for number, step in enumerate(range(steps.count) if LONG else steps.sample(SAMPLE, 1)):
        for lose_unsynced in (True, False) if LONG else (number % 3 != 0,):
            crash_at(case, step, lose_unsynced)


@pytest.mark.long
@pytest.mark.timeout(3600)
@each_case
@pytest.mark.parametrize("policy", ["random", "pct"])
def test_in_other_orders_of_steps(case: Case, policy: str) -> None:
    for seed in range(10):
        for step in carry_out(case, None, seed, policy).sample(20, seed):
            carry_out(case, Strike(step, seed % 2 == 0), seed, policy)


def test_the_same_points_in_every_run() -> None:
    case = NAMED["load by jobs"]
    assert carry_out(case) == carry_out(case)


def points_until_found(bug: str, case: Case, most: int) -> int | None:
    """0 if no crash is needed."""
    with BUGS[bug]():
        try:
            points = carry_out(case).distinct
        except Exception:
            return 0
        for number, step in enumerate(points[:most], 1):
            try:
                carry_out(case, Strike(step, lose_unsynced=True))
            except Exception:
                return number
    return None


@pytest.mark.parametrize(
    ("bug", "case", "most"),
    [
        ("task_deleted_before_images_are_durable", "build", 68),
        ("task_deleted_before_files_are_attached", "build by jobs", 0),
        ("built_with_tasks_left", "build", 0),
        ("images_of_jobs_too_new", "load by jobs", 0),
        ("images_of_jobs_too_old", "load", 0),
        ("unstaged_before_views_show_them", "load", 0),
        ("list_of_a_load_not_durable", "load", 60),
        ("half_of_a_load_is_enough", "load", 60),
    ],
)
def test_finds_a_planted_bug(bug: str, case: str, most: int) -> None:
    assert points_until_found(bug, NAMED[case], most) is not None
