"""Elections on every store, and between real processes that are stopped, resumed and killed."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from belvedere.meta.election import Leader, campaign, leader_of
from belvedere.meta.leases import Lease
from belvedere.meta.metadata import Metadata
from belvedere.meta.store import LeaseGone
from belvedere.runtime.machine_clock import machine_seconds
from tests.meta.etcd_server import EtcdServer
from tests.meta.stores import Harness, Stores

OFFICE = "building"


async def started(on: Stores) -> list[Metadata]:
    nodes = [Metadata(on.runtime, store) for store in (on.one, on.other)]
    for node in nodes:
        await node.start()
    return nodes


def test_the_next_one_follows_when_the_leader_resigns(on_stores: Harness) -> None:
    async def test(on: Stores) -> None:
        one, other = await started(on)
        leases = [await Lease.take(on.runtime, node._store, 60) for node in (one, other)]
        first = await campaign(on.runtime, one, OFFICE, "one", leases[0])
        assert first.holds
        assert leader_of(one.state, OFFICE) == Leader("one", first.term)
        waiting = asyncio.ensure_future(campaign(on.runtime, other, OFFICE, "other", leases[1]))
        await on.runtime.clock.sleep(0.3)
        assert not waiting.done()
        await first.resign()
        assert not first.holds
        second = await waiting
        assert second.holds
        assert second.term > first.term
        await first.resign()
        await one.catch_up(second.term)
        assert leader_of(one.state, OFFICE) == Leader("other", second.term)
        assert second.holds
        for lease in leases:
            await lease.end()
        for node in (one, other):
            await node.stop()

    on_stores(test)


def test_the_next_one_follows_when_the_leader_falls_silent(on_stores: Harness) -> None:
    async def test(on: Stores) -> None:
        one, other = await started(on)
        first_lease = await Lease.take(on.runtime, on.one, 1)
        first = await campaign(on.runtime, one, OFFICE, "one", first_lease)
        assert first_lease._keeper is not None
        first_lease._keeper.cancel()
        second_lease = await Lease.take(on.runtime, on.other, 60)
        second = await campaign(on.runtime, other, OFFICE, "other", second_lease)
        assert not first.holds
        assert second.term > first.term
        with pytest.raises(LeaseGone):
            await first_lease.renew()
        await second.resign()
        with pytest.raises(LeaseGone):
            await campaign(on.runtime, one, OFFICE, "one", first_lease)
        await second_lease.end()
        for node in (one, other):
            await node.stop()

    on_stores(test)


def test_a_node_that_comes_back_does_not_take_its_old_key_for_its_own(on_stores: Harness) -> None:
    async def test(on: Stores) -> None:
        one, again = await started(on)
        old = await Lease.take(on.runtime, on.one, 60)
        first = await campaign(on.runtime, one, OFFICE, "same", old)
        new = await Lease.take(on.runtime, on.other, 60)
        waiting = asyncio.ensure_future(campaign(on.runtime, again, OFFICE, "same", new))
        await on.runtime.clock.sleep(0.3)
        assert not waiting.done()
        await old.end()
        assert (await waiting).term > first.term
        await new.end()
        for node in (one, again):
            await node.stop()

    on_stores(test)


# --- processes -----------------------------------------------------------------------------------------


#: When, in which term, and who.
Act = tuple[float, int, str]


class Candidates:
    def __init__(self, folder: Path, *where: str) -> None:
        self._diary = folder / "diary"
        self._diary.touch()
        self._where = where
        self.processes = {name: self._start(name) for name in ("one", "two")}

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        program = Path(__file__).with_name("candidate.py")
        return subprocess.Popen([sys.executable, str(program), *self._where, name, str(self._diary)])

    def acts(self) -> list[Act]:
        # The last line may be half written.
        lines = self._diary.read_text().split("\n")[:-1]
        return [(float(t), int(term), name) for t, term, name in map(str.split, lines)]

    def wait_for(self, condition: Callable[[Act], bool]) -> Act:
        deadline = time.monotonic() + 60
        while True:
            for act in reversed(self.acts()):
                if condition(act):
                    return act
            assert time.monotonic() < deadline, "nobody was elected"
            time.sleep(0.02)

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()

    def close(self) -> None:
        for name in self.processes:
            self.kill(name)


def stop_outside_of_transactions(process: int, store: Path | None) -> None:
    """One that is stopped while it holds SQLite's lock holds up everybody: that is not what is tested."""
    if store is None:
        os.kill(process, signal.SIGSTOP)
        return
    with open(f"{store}.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.kill(process, signal.SIGSTOP)
        while Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "T":
            time.sleep(0.001)


def anything(act: Act) -> bool:
    return True


def of_a_later_term(term: int) -> Callable[[Act], bool]:
    return lambda act: act[1] > term


def after(moment: float) -> Callable[[Act], bool]:
    return lambda act: act[0] > moment


@pytest.mark.parametrize("kind", ["sqlite", "etcd"])
def test_of_two_processes_one_leads_whoever_is_stopped_or_killed(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "meta" if kind == "sqlite" else None
    server: EtcdServer | None = request.getfixturevalue("etcd") if path is None else None
    candidates = Candidates(tmp_path, kind, str(path) if server is None else server.endpoint)
    try:
        for _ in range(2):
            _, term, leader = candidates.wait_for(anything)
            stop_outside_of_transactions(candidates.processes[leader].pid, path)
            _, _, successor = candidates.wait_for(of_a_later_term(term))
            assert successor != leader
            os.kill(candidates.processes[leader].pid, signal.SIGCONT)
            # Time enough for the one that was stopped to do what it should not.
            candidates.wait_for(after(machine_seconds() + 1.0))
        _, term, leader = candidates.wait_for(anything)
        candidates.kill(leader)
        _, _, successor = candidates.wait_for(of_a_later_term(term))
        assert successor != leader
    finally:
        candidates.close()
    acts = sorted(candidates.acts())
    assert len(acts) > 100
    assert len({term for _, term, _ in acts}) >= 4
    for (_, earlier_term, earlier), (_, later_term, later) in pairwise(acts):
        assert earlier_term <= later_term
        assert earlier_term < later_term or earlier == later
