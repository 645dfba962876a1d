"""The storage scenario over a few seeds, and that it would notice what it is there to notice."""

import os

import pytest

from belvedere.sim.scenario_storage import storage
from belvedere.sim.world import World
from belvedere.storage import tablet, tablet_files
from belvedere.storage.commitlog import CommitLog

SEEDS = 1000 if os.environ.get("BELVEDERE_LONG") == "1" else 12


def run(seed: int) -> World:
    world = World(seed)
    world.run(storage)
    world.check_no_failures()
    return world


def test_nothing_told_is_ever_taken_back() -> None:
    marks: dict[str, int] = {}
    for seed in range(SEEDS):
        for name, count in run(seed).marks.items():
            marks[name] = marks.get(name, 0) + count
    assert {"storage.unacknowledged_survived", "storage.refused", "storage.upkeep_failed"} <= set(marks)


def fails_within(seeds: int) -> bool:
    for seed in range(seeds):
        try:
            run(seed)
        except Exception:
            return True
    return False


def test_answering_before_the_sync_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(self: CommitLog, position: int) -> None:
        return None

    monkeypatch.setattr(CommitLog, "wait", at_once)
    assert fails_within(20)


def test_flushing_what_is_not_yet_in_the_log_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(self: CommitLog, position: int) -> None:
        return None

    monkeypatch.setattr(CommitLog, "wait_written", at_once)
    assert fails_within(60)


def test_a_manifest_that_is_not_committed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object) -> None:
        return None

    monkeypatch.setattr(tablet, "commit_manifest", nothing)
    monkeypatch.setattr(tablet_files, "commit_manifest", nothing)
    assert fails_within(20)
