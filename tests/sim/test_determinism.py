"""Same seed, same run: in one process, in others, whatever the hash seed; and other seeds run otherwise."""

import pytest

from belvedere.runtime.api import Runtime
from belvedere.sim import determinism, scenarios
from belvedere.sim.disk import SimAppendFile
from belvedere.sim.randomness import fate, stream
from belvedere.sim.trace import Trace
from belvedere.sim.world import World


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", sorted(scenarios.SCENARIOS))
def test_one_seed_twice(name: str) -> None:
    for seed in range(4):
        assert determinism.digest(name, seed) == determinism.digest(name, seed)


def test_seeds_differ() -> None:
    assert len({determinism.digest("appends", seed) for seed in range(20)}) == 20


@pytest.mark.timeout(600)  # every scenario, in several processes
def test_processes_with_other_hash_seeds_agree() -> None:
    assert determinism.compare(sorted(scenarios.SCENARIOS), 0, 2) == []


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert determinism.main(["--seeds", "2", "--scenario", "appends", "--print"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["appends", "0"], ["appends", "1"]]


async def depends_on_addresses(world: World) -> None:
    """Leaks of the kind that the check is there to find."""
    runtime: Runtime = world.boot("a")
    kept.append(object())
    await runtime.clock.sleep(id(kept[-1]) % 1009 / 1000)


kept: list[object] = []


def test_a_leak_within_a_process_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(scenarios.SCENARIOS, "leak", depends_on_addresses)
    assert determinism.print_digests(["leak"], 0, 5) == 1
    assert "two runs in one process differ: event" in capsys.readouterr().err


async def fails(world: World) -> None:
    raise AssertionError("it is wrong")


def test_a_run_that_fails_fails_the_check_unless_it_is_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(scenarios.SCENARIOS, "wrong", fails)
    assert determinism.print_digests(["wrong"], 0, 1) == 1
    assert "wrong 0: the run itself fails: it is wrong" in capsys.readouterr().err
    monkeypatch.setattr(determinism, "KNOWN_TO_FAIL", {("wrong", 0)})
    assert determinism.print_digests(["wrong"], 0, 1) == 0


def test_a_difference_between_processes_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(names: list[str], first: int, count: int, hash_seed: str) -> dict[str, str]:
        return {"appends 0": "same", "appends 1": "other" if hash_seed == "random" else "same"}

    monkeypatch.setattr(determinism, "digests_of_subprocess", other)
    assert determinism.compare(["appends"], 0, 2) == ["appends 1: same under 0, other under random"]


def test_the_scenario_finds_a_server_that_does_not_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimAppendFile, "write_and_sync", SimAppendFile.write)
    failures = 0
    for seed in range(40):
        try:
            determinism.run_scenario("appends", seed)
        except AssertionError:
            failures += 1
    assert failures > 0


def test_scenarios_have_one_name_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "SCENARIOS", dict(scenarios.SCENARIOS))
    scenarios.register("appends", scenarios.appends)
    scenarios.register("other", scenarios.appends)
    with pytest.raises(ValueError, match="appends"):
        scenarios.register("appends", depends_on_addresses)


def test_streams_and_fates_depend_on_their_names_alone() -> None:
    assert stream(1, "disk", "a").random() == stream(1, "disk", "a").random()
    assert stream(1, "disk", "a").random() != stream(1, "disk", "b").random()
    assert stream(1, "disk", "a").random() != stream(2, "disk", "a").random()
    assert fate(7, "delay", "a", 3) == fate(7, "delay", "a", 3)
    draws = [fate(7, "delay", "a", number) for number in range(1000)]
    assert 0.4 < sum(draws) / 1000 < 0.6
    assert 0.0 <= min(draws) < max(draws) < 1.0


def test_a_trace_hashes_what_it_is_told_and_nothing_after_its_end() -> None:
    one, two = Trace(keep_all=True), Trace()
    for number in range(1200):
        one.record(number, "step", f"task {number}")
        two.record(number, "step", f"task {number}")
    assert one.digest == two.digest
    assert one.lines()[-1] == "1199 step task 1199"
    assert len(one.lines()) == 1200
    one.freeze()
    before = one.digest
    one.record(1, "step", "late")
    assert one.digest == before
    two.record(1200, "step", "more")
    assert two.digest != before
