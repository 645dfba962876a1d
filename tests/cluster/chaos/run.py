"""One run: a cluster, clients, what befalls it, rest, and what is there then."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from cassandra import ConsistencyLevel, InvalidRequest
from cassandra.cluster import Cluster, Session
from cassandra.query import SimpleStatement

from belvedere.sim.checkers.history import History
from tests.cluster.chaos import schema
from tests.cluster.chaos.builder import Builder
from tests.cluster.chaos.client import Settings, connected, only
from tests.cluster.chaos.judging import halves
from tests.cluster.chaos.nemesis import Fault, befall
from tests.cluster.chaos.nodes import ROOT, NodeDidNotStart, Nodes, wait_for
from tests.cluster.chaos.placement import placement
from tests.cluster.chaos.recording import Contents, LifeTold, Record, Trouble
from tests.cluster.chaos.work import LOST, REFUSALS
from tests.meta.etcd_server import EtcdServer

Say = Callable[[str], None]

#: Until everybody has everything again; generous, for machines that others use, too.
_REST_SECONDS = 60.0
_PATIENCE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Load:
    """Two processes of clients: those of one ask any node, those of the other keep to one each, and wait
    while it sleeps: they are the first to be answered when it wakes."""

    seed: int
    threads: int = 4
    #: For each node.
    faithful: int = 2
    warm_up: float = 1.0
    #: Whether views come and go.
    late_views: bool = True


def whole_run(
    nodes: Nodes,
    load: Load,
    faults: list[Fault],
    folder: Path,
    say: Say,
    *,
    store: EtcdServer | None = None,
    each_alone: bool = False,
) -> Record:
    """The nodes are stopped at the end. `each_alone`: at rest each one of them alone must have everything."""
    record = Record(History(time.monotonic_ns))
    nodes.start()
    with ExitStack() as stack:
        cluster = connected(nodes.hosts, nodes.port, request_timeout=30)
        stack.callback(cluster.shutdown)
        create_schema(nodes, cluster.connect())
        clients = start_clients(nodes, load, folder, stack)
        builder = Builder(cluster.connect(), load.seed) if load.late_views else None
        time.sleep(load.warm_up)
        try:
            befall(nodes, faults, say, store)
            nodes.start()
        except NodeDidNotStart as failure:
            record.failures.append(str(failure))
        finally:
            record.failures += stop_clients(clients)
            if builder is not None:
                builder.finish()
    collect(record, folder)
    if builder is not None:
        record.troubles += builder.troubles
    if not record.failures:
        say("waiting for rest")
        look_at_rest(nodes, record, say)
        if builder is not None and record.contents:
            late = set(record.contents[-1].views) - set(schema.VIEWS)
            say(f"of {builder.count} views that were created meanwhile {len(late)} are there")
            record.failures += builder.wrong(late)
        if each_alone and not record.failures:
            _look_at_each_alone(nodes, record, say)
    say("stopping")
    nodes.stop()
    record.lives = lives_of(nodes)
    return record


def lives_of(nodes: Nodes) -> list[LifeTold]:
    return [
        LifeTold(one.node, one.process.poll(), one.killed, one.asked_to_stop, one.log_lines())
        for one in nodes.lives
    ]


def create_schema(nodes: Nodes, session: Session) -> None:
    for text in schema.statements(min(3, len(nodes.all))):
        session.execute(text)
    for view in schema.VIEWS:
        wait_for(lambda view=view: _is_built(session, view), 60, f"the view {view} is built")
    # Where there is one replica of each, all that follows would be true of it, and say nothing.
    placed = placement(nodes.metadata).tablets
    copies = {
        len(one.replicas) for name in placed if name.startswith(schema.KEYSPACE) for one in placed[name]
    }
    assert copies == {min(3, len(nodes.all))}


def _is_built(session: Session, view: str) -> bool:
    try:
        session.execute(f"SELECT * FROM {schema.KEYSPACE}.{view} LIMIT 1")
    except Exception as error:
        if "built" in str(error):
            return False
        raise
    return True


# --- clients ------------------------------------------------------------------------------------------


def start_clients(nodes: Nodes, load: Load, folder: Path, stack: ExitStack) -> "list[subprocess.Popen[str]]":
    """They end with the stack, if nobody stopped them before."""
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic_ns()
    clients = []
    for number, threads in enumerate((load.threads, load.faithful * len(nodes.all))):
        faithful = number == 1
        settings = Settings(
            name=f"c{number}.",
            number=(number + 1) * 100,
            seed=load.seed,
            hosts=nodes.hosts,
            port=nodes.port,
            threads=threads,
            began=began,
            folder=str(folder),
            faithful=faithful,
            token_aware=load.seed % 2 == 1,
            client_timestamps=faithful,
            request_timeout=(4 if faithful else 2) * nodes.lease_seconds,
        )
        command = [sys.executable, "-W", "ignore", "-m", "tests.cluster.chaos.client"]
        with (folder / f"{settings.name}log").open("w") as errors:
            process = subprocess.Popen(
                [*command, msgspec.json.encode(settings).decode()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        stack.callback(_end, process)
        clients.append(process)
    for process in clients:
        assert process.stdout is not None
        assert process.stdout.readline() == "working\n", "a client could not begin"
    return clients


def _end(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def stop_clients(clients: "list[subprocess.Popen[str]]") -> list[str]:
    """What went wrong with the clients themselves."""
    for process in clients:
        assert process.stdin is not None
        process.stdin.close()
    found = []
    for number, process in enumerate(clients):
        try:
            status: Any = process.wait(60)
        except subprocess.TimeoutExpired:
            status = "a hang"
        if status != 0:
            found.append(f"client process {number} ended with {status}")
    return found


def collect(record: Record, folder: Path) -> None:
    record.history = History.merged(path.read_bytes() for path in sorted(folder.glob("c*.history.jsonl")))
    for path in sorted(folder.glob("c*.troubles.jsonl")):
        record.troubles += [
            msgspec.json.decode(line, type=Trouble) for line in path.read_bytes().splitlines()
        ]


# --- rest ---------------------------------------------------------------------------------------------


def wait_until_at_rest(nodes: Nodes, seconds: float = _REST_SECONDS) -> float:
    """Every node lives, and every replica has everything. How long it took."""
    names = {node.name for node in nodes.all}

    def at_rest() -> bool:
        now = placement(nodes.metadata)
        return now.alive == names and not now.lagging

    try:
        return wait_for(at_rest, seconds, "rest")
    except AssertionError:
        now = placement(nodes.metadata)
        missing = ", ".join(sorted(names - now.alive)) or "nobody"
        raise AssertionError(f"no rest within {seconds:.0f} s; dead: {missing}; {now.lagging}") from None


def look_at_rest(nodes: Nodes, record: Record, say: Say) -> None:
    """What each node tells then, asked for a majority, and for any."""
    patience_ends = time.monotonic() + _PATIENCE_SECONDS
    try:
        say(f"at rest after {wait_until_at_rest(nodes):.1f} s")
        for node in nodes.all:
            cluster = connected([node.host], nodes.port, policy=only(node.host), request_timeout=30)
            try:
                for level in ("QUORUM", "ONE"):
                    record.contents.append(_contents(cluster, node.name, level, patience_ends))
            finally:
                cluster.shutdown()
    except (AssertionError, InvalidRequest, *REFUSALS, *LOST) as failure:
        record.failures.append(f"after the faults: {type(failure).__name__}: {failure}")


def _look_at_each_alone(nodes: Nodes, record: Record, say: Say) -> None:
    """All were in sync, so whoever is left has every acknowledged write, and is told to be the primary."""
    for node in nodes.all:
        others = [other for other in nodes.all if other is not node]
        for other in others:
            other.kill()
        cluster = connected([node.host], nodes.port, policy=only(node.host), request_timeout=30)
        try:
            contents = _contents(cluster, node.name, "ONE", time.monotonic() + _PATIENCE_SECONDS)
            contents.node += " alone"
            record.contents.append(contents)
            nodes.start()
            say(f"{node.name} was alone; at rest after {wait_until_at_rest(nodes):.1f} s")
        except (AssertionError, NodeDidNotStart, InvalidRequest, *REFUSALS, *LOST) as failure:
            record.failures.append(f"{node.name} alone: {type(failure).__name__}: {failure}")
            return
        finally:
            cluster.shutdown()


def _contents(cluster: Cluster, node: str, level: str, patience_ends: float) -> Contents:
    """Whole, if it is by then: views follow their bases, and what nobody was told the end of may land while
    one looks."""
    session = cluster.connect()
    while True:
        found = _look(session, node, level)
        if not halves(found) or time.monotonic() > patience_ends:
            return found
        time.sleep(0.2)


def _look(session: Session, node: str, level: str) -> Contents:
    def rows(table: str, columns: str) -> list[Any]:
        text = f"SELECT {columns} FROM {schema.KEYSPACE}.{table}"
        consistency = getattr(ConsistencyLevel, level)
        return [
            tuple(row) for row in _patiently(session, SimpleStatement(text, consistency_level=consistency))
        ]

    found = Contents(node, level, time.monotonic_ns(), 0)
    for table in (schema.REGISTERS, schema.CONDITIONAL, schema.LEFT, schema.RIGHT):
        found.registers |= {schema.register(table, key): value for key, value in rows(table, "k, v")}
    found.items = rows(schema.ITEMS, "shelf, id, place, size")
    found.registers |= {schema.item(shelf, number): size for shelf, number, _, size in found.items}
    views = session.execute(
        f"SELECT view_name FROM system_schema.views WHERE keyspace_name = '{schema.KEYSPACE}'"
    )
    found.views = {view: rows(view, "shelf, id, place, size") for (view,) in views}
    found.counters = {schema.register(schema.COUNTERS, key): n for key, n in rows(schema.COUNTERS, "k, n")}
    found.ended = time.monotonic_ns()
    return found


def _patiently(session: Session, statement: SimpleStatement) -> Any:
    """There is an answer, if perhaps not at once: a connection may be on its way, a primary be replaced."""
    deadline = time.monotonic() + _REST_SECONDS
    while True:
        try:
            return session.execute(statement)
        except (*REFUSALS, *LOST, InvalidRequest) as error:
            # Views that are not built are not read.
            unexpected = isinstance(error, InvalidRequest) and "built" not in str(error)
            if unexpected or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def described(load: Load, faults: list[Fault], nodes: Nodes) -> str:
    """For whoever looks at a run later."""
    return json.dumps(
        {
            "seed": load.seed,
            "lease_seconds": nodes.lease_seconds,
            "metadata": nodes.metadata.partition(":")[0],
            "faults": [str(fault) for fault in faults],
        },
        indent=1,
    )
