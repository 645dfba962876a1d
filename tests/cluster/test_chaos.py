"""A cluster of three processes that are killed, paused and stopped while drivers write to it.

Runs are short here, their seeds fixed. `python -m tests.cluster.chaos` hunts for as long as one likes; its
runs are the same. A run that fails leaves its record in a folder that the failure names.
"""

import copy
import itertools
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from cassandra import ConsistencyLevel
from cassandra.cluster import Session
from cassandra.query import SimpleStatement

from tests.cluster.chaos import broken, schema
from tests.cluster.chaos.client import connected, only
from tests.cluster.chaos.judging import judged
from tests.cluster.chaos.nemesis import Fault, drawn
from tests.cluster.chaos.nodes import NodeDidNotStart, Nodes, wait_for
from tests.cluster.chaos.placement import placement
from tests.cluster.chaos.raw import RawClient, Told
from tests.cluster.chaos.recording import Record
from tests.cluster.chaos.run import Load, wait_until_at_rest, whole_run
from tests.cluster.chaos.work import LOST, REFUSALS
from tests.drivers.server_process import BELVEDERE
from tests.meta.etcd_server import EtcdServer, etcd_program

LONG = os.environ.get("BELVEDERE_LONG") == "1"
LEASE = 2.0
Q, ONE, SERIAL = ConsistencyLevel.QUORUM, ConsistencyLevel.ONE, ConsistencyLevel.SERIAL
#: Unavailable, overloaded, is bootstrapping, write timeout, read timeout.
MAY_BE_TOLD = {0x1000, 0x1001, 0x1002, 0x1100, 0x1200}

pytestmark = pytest.mark.filterwarnings("ignore")


@contextmanager
def metadata_store(kind: str, folder: Path) -> Iterator[tuple[str, EtcdServer | None]]:
    if kind == "sqlite":
        yield f"sqlite:{folder}/meta.sqlite", None
        return
    if etcd_program() is None:
        pytest.skip("there is no etcd: ./run setup fetches it where apt-get can")
    etcd = EtcdServer()
    try:
        etcd.wait_until_healthy()
        yield f"etcd:{etcd.endpoint}", etcd
    finally:
        etcd.close()


# --- whole runs ---------------------------------------------------------------------------------------


def check(record: Record, folder: Path) -> None:
    verdict = judged(record)
    if verdict.findings:
        record.save(folder)
        told = "\n\n".join(verdict.findings)
        pytest.fail(f"{told}\n\nlook at it again: python -m tests.cluster.chaos --judge {folder}")
    assert verdict.acknowledged > 200
    assert verdict.undecided <= 2


def chaos(
    kind: str,
    folder: Path,
    load: Load,
    faults: list[Fault],
    *,
    each_alone: bool = False,
    program: Sequence[str] = BELVEDERE,
) -> Record:
    with ExitStack() as stack:
        metadata, store = stack.enter_context(metadata_store(kind, folder))
        small = ("--memtable-mb", "1")
        nodes = stack.enter_context(
            Nodes(folder, metadata, lease_seconds=LEASE, options=small, program=program)
        )
        clients = folder / "clients"
        return whole_run(nodes, load, faults, clients, print, store=store, each_alone=each_alone)


def test_one_node_after_another_is_stopped_killed_and_paused(tmp_path: Path) -> None:
    faults = [
        Fault("leave", 0, 0.7, 0.5),
        Fault("kill", 1, 2.2, 0.8),
        Fault("sleep", 2, 2.5, 0.8),
        Fault("kill", 3, 0.1, 0.5),
    ]
    # A view that is built when two of three have left would say so.
    record = chaos("etcd", tmp_path, Load(1, late_views=False), faults)
    check(record, tmp_path / "record")
    # Clients went on with the others when a node stopped; none had anything to complain about.
    first_lives = [next(life for life in record.lives if life.node == node) for node in ("n1", "n2", "n3")]
    assert [(life.status, life.log) for life in first_lives] == [(0, [])] * 3
    # While a majority is there, what is asked for has an answer again soon.
    assert longest_silence(record) < 20
    lose_something(record)
    assert any("no order" in finding for finding in judged(record).findings)


def test_the_whole_cluster_is_killed(tmp_path: Path) -> None:
    faults = [Fault("kill all", 0, 0.0, 1.5), Fault("nap", 2, 1.0, 0.2), Fault("kill all", 0, 0.2, 0.5)]
    check(chaos("sqlite", tmp_path, Load(2), faults), tmp_path / "record")


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(1, 11))
@pytest.mark.parametrize("kind", ["etcd", "sqlite"])
def test_whatever_befalls_it(kind: str, seed: int, tmp_path: Path) -> None:
    faults = drawn(seed, 60, 3, LEASE, with_store=kind == "etcd")
    check(chaos(kind, tmp_path, Load(seed), faults, each_alone=True), tmp_path / "record")


@pytest.mark.long
@pytest.mark.timeout(300)
def test_updates_without_their_lock_would_be_noticed(tmp_path: Path) -> None:
    program = broken.command("updates_without_lock")
    record = chaos("sqlite", tmp_path, Load(1), [Fault("nap", 1, 0.1, 15.0)], program=program)
    assert any("should not be there" in finding for finding in judged(record).findings)


def longest_silence(record: Record) -> float:
    """Between two acknowledged writes to the same kind of table, in seconds."""
    longest = 0.0
    for table in (schema.REGISTERS, schema.CONDITIONAL, schema.ITEMS):
        ends = sorted(
            one.ended
            for one in record.history.operations
            if one.key.startswith(f"{table}/") and one.ended is not None and one.may_have_written
        )
        longest = max([longest, *((b - a) / 1e9 for a, b in itertools.pairwise(ends))])
    return longest


def lose_something(record: Record) -> None:
    """A write that was acknowledged, and whose value was there at the end."""
    record.contents = copy.deepcopy(record.contents)
    name = next(
        name
        for name, value in record.contents[0].registers.items()
        if name.startswith(schema.REGISTERS) and value is not None
    )
    for one in record.contents:
        one.registers[name] = -1


# --- one node, looked at closely ----------------------------------------------------------------------

KEYS = [f"key-{number}" for number in range(24)]
TABLE = "close.registers"


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("chaos")
    with three_nodes(folder, BELVEDERE) as nodes:
        yield nodes
        assert nodes.stop() == [0, 0, 0]


@contextmanager
def three_nodes(folder: Path, program: Sequence[str]) -> Iterator[Nodes]:
    with ExitStack() as stack:
        kind = "etcd" if etcd_program() else "sqlite"
        metadata, _ = stack.enter_context(metadata_store(kind, folder))
        nodes = stack.enter_context(Nodes(folder, metadata, lease_seconds=LEASE, program=program))
        nodes.start()
        with session_without(nodes) as session:
            replication = "{'class': 'SimpleStrategy', 'replication_factor': 3}"
            session.execute(f"CREATE KEYSPACE close WITH replication = {replication}", timeout=30)
            session.execute(f"CREATE TABLE {TABLE} (k text PRIMARY KEY, v bigint)", timeout=30)
        yield nodes


@contextmanager
def session_without(nodes: Nodes, victim: str | None = None) -> Iterator[Session]:
    hosts = [node.host for node in nodes.all if node.name != victim]
    cluster = connected(hosts, nodes.port, policy=only(*hosts), request_timeout=LEASE)
    try:
        yield cluster.connect()
    finally:
        cluster.shutdown()


def until_written(session: Session, key: str, value: int, seconds: float = 60.0) -> float:
    """Tries until a majority has it. How long it took."""
    began = time.monotonic()
    statement = SimpleStatement(f"INSERT INTO {TABLE} (k, v) VALUES (%s, %s)", consistency_level=Q)
    while True:
        try:
            session.execute(statement, (key, value))
        except (*REFUSALS, *LOST) as error:
            if time.monotonic() - began > seconds:
                raise AssertionError(f"{key} cannot be written") from error
            time.sleep(0.05)
        else:
            return time.monotonic() - began


def someones_keys(nodes: Nodes) -> tuple[str, list[str]]:
    """A node, and the keys of which it is the primary."""
    now = placement(nodes.metadata)
    owned: dict[str, list[str]] = {}
    for key in KEYS:
        owned.setdefault(now.primary_of(TABLE, key.encode()), []).append(key)
    return max(owned.items(), key=lambda pair: len(pair[1]))


def test_a_paused_primary_that_wakes_late_tells_nothing_old(three: Nodes) -> None:
    check_late_waker(three)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_one_that_believed_in_its_lease_for_ever_would_be_noticed(tmp_path: Path) -> None:
    with three_nodes(tmp_path, broken.command("lease_held_for_ever")) as nodes:

        def wake_up_late() -> None:
            for _ in range(5):
                check_late_waker(nodes)

        with pytest.raises(AssertionError, match="what was replaced"):
            wake_up_late()


def check_late_waker(nodes: Nodes) -> None:
    wait_until_at_rest(nodes)
    with session_without(nodes) as session:
        for key in KEYS:
            until_written(session, key, 1)
    name, keys = someones_keys(nodes)
    victim = next(node for node in nodes.all if node.name == name)
    levels = [ONE, Q, SERIAL]
    select = f"SELECT v FROM {TABLE} WHERE k = '{{}}'"
    with ExitStack() as stack:
        session = stack.enter_context(session_without(nodes, name))
        open_all_the_time = [stack.enter_context(RawClient(victim.host, nodes.port)) for _ in levels]
        asking = list(zip(open_all_the_time, levels, strict=True))
        for client, level in asking:
            assert client.ask(select.format(keys[0]), level).number == 1
        victim.pause()
        try:
            took = [until_written(session, key, 2) for key in keys]
            # These are the first that it sees when it wakes.
            for client, level in asking:
                for number, key in enumerate(keys):
                    client.send(select.format(key), level, number)
        finally:
            victim.resume()
        assert max(took) > 0.2 * LEASE, "its lease had to run out first"
        check_nothing_old([client.receive()[1] for client in open_all_the_time for _ in keys])
        # And so it goes on, until it is one of them again.
        deadline = time.monotonic() + 30
        for client, level in asking:
            while client.ask(select.format(keys[0]), level).number != 2:
                check_nothing_old([client.ask(select.format(key), level) for key in keys])
                assert time.monotonic() < deadline, "the node does not answer again"
    wait_until_at_rest(nodes)


def check_nothing_old(answers: list[Told]) -> None:
    for told in answers:
        if told.error is None:
            assert told.number == 2, f"{told.number} is what was replaced"
        else:
            assert told.error in MAY_BE_TOLD, told


def test_a_paused_primary_that_wakes_late_writes_nothing_on_old_terms(three: Nodes) -> None:
    """Swaps that were right when it was paused, and are not when it wakes."""
    wait_until_at_rest(three)
    with session_without(three) as session:
        for key in KEYS:
            until_written(session, key, 3)
    name, keys = someones_keys(three)
    victim = next(node for node in three.all if node.name == name)
    swap = f"UPDATE {TABLE} SET v = 5 WHERE k = '{{}}' IF v = 3"
    with session_without(three, name) as session, RawClient(victim.host, three.port) as client:
        victim.pause()
        try:
            for number, key in enumerate(keys):
                until_written(session, key, 4)
                client.send(swap.format(key), Q, number)
        finally:
            victim.resume()
        for _ in keys:
            _, told = client.receive()
            if told.error is None:
                assert told.row is not None
                assert told.row[0] == b"\0", "it found what was long replaced"
            else:
                assert told.error in MAY_BE_TOLD, told
        wait_until_at_rest(three)
        assert [read(session, key) for key in keys] == [4] * len(keys)


def read(session: Session, key: str) -> Any:
    statement = SimpleStatement(f"SELECT v FROM {TABLE} WHERE k = %s", consistency_level=Q)
    return session.execute(statement, (key,)).one().v


def test_another_takes_over_from_a_killed_primary_within_a_few_leases(three: Nodes) -> None:
    wait_until_at_rest(three)
    with session_without(three) as session:
        for key in KEYS:
            until_written(session, key, 6)
    name, keys = someones_keys(three)
    victim = next(node for node in three.all if node.name == name)
    with session_without(three, name) as session:
        victim.kill()
        took = until_written(session, keys[0], 7)
        print(
            f"{keys[0]} could be written {took:.1f} s after its primary was killed; a lease is {LEASE:.0f} s"
        )
        # On a machine with nothing else to do it takes about one; a busy one gets more time.
        assert took < 3 * LEASE + 10
        for key in keys[1:]:
            until_written(session, key, 7)
        assert placement(three.metadata).primary_of(TABLE, keys[0].encode()) != name
        for key in keys:
            assert read(session, key) == 7
    victim.start()
    wait_until_at_rest(three)


def test_a_node_whose_directory_is_gone_is_relied_on_no_more_before_it_begins_anew(three: Nodes) -> None:
    wait_until_at_rest(three)
    with session_without(three) as session:
        for key in KEYS:
            until_written(session, key, 8)
    victim = three[3]
    victim.kill()
    shutil.rmtree(three.folder / victim.name)
    with pytest.raises(NodeDidNotStart, match="this data directory has nothing of them"):
        victim.start()
    with session_without(three, victim.name) as session:
        for key in KEYS:
            until_written(session, key, 9)
    wait_for(lambda: not relied_on(three, victim.name), 60, "the others do without it")
    victim.start()
    wait_until_at_rest(three)
    # What it has now is all that there was.
    for other in three.all[:2]:
        other.kill()
    with session_without(three) as session:
        for key in KEYS:
            assert read_at_one(session, key) == 9
    three.start()
    wait_until_at_rest(three)


def relied_on(nodes: Nodes, name: str) -> bool:
    tablets = placement(nodes.metadata).tablets.values()
    return any(name in tablet.in_sync for found in tablets for tablet in found)


def read_at_one(session: Session, key: str) -> int | None:
    deadline = time.monotonic() + 60
    statement = SimpleStatement(f"SELECT v FROM {TABLE} WHERE k = %s", consistency_level=ONE)
    while True:
        try:
            row = session.execute(statement, (key,)).one()
        except (*REFUSALS, *LOST):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return None if row is None else row.v
