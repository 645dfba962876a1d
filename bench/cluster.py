"""What three nodes cost and give: the same requests to a table with three replicas and to one with one.

    ./run bench cluster [--rows N] [--rounds N] [--metadata sqlite|etcd] [--quick]

Three server processes on this machine, and a raw-frame client. Both tables are in the same cluster, reached
over the same connections, two to each node. They take turns within every round, and with them a server that
is alone. Requests go to the primary of their key, as drivers that know tokens send them, or, where it says
so, to any node. One machine does the work of three here: three times the processor time, and one disk for
three copies. So the ratio to one replica is the worst that it can be.

Then: how long nobody can write a key whose primary was killed with kill -9 (`--failovers` times, with the
lease of `--lease-seconds`), and how fast the simulations of replication run on one core.
"""

import argparse
import asyncio
import importlib.util
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvloop
from _machine import cpu_seconds_fine, describe
from _raw_client import RawConnection, connect, execute_body
from points import Server

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.cluster.chaos.nodes import Node, Nodes
from tests.cluster.chaos.placement import Placement, placement
from tests.cluster.chaos.raw import RawClient
from tests.cluster.chaos.run import wait_until_at_rest
from tests.meta.etcd_server import EtcdServer

ONE, QUORUM = 0x0001, 0x0004
CONNECTIONS_PER_NODE = 2
TABLE = "CREATE TABLE {}.t (k bigint PRIMARY KEY, a text, b text, n int, x double)"
#: Take --seeds and say how many seeds a minute they do. Those that are not there are left out.
SIMULATIONS = ("belvedere.sim.replication", "belvedere.sim.cluster")


@dataclass(frozen=True)
class Kind:
    statement: str
    in_flight: int
    consistency: int = QUORUM
    any_node: bool = False

    def __str__(self) -> str:
        level = " at ONE" if self.consistency == ONE else ""
        where = ", any node" if self.any_node else ""
        return f"{self.statement}{level}, {self.in_flight} in flight{where}"

    def count(self, rows: int) -> int:
        """One after the other takes long, and conditional writes do."""
        return max(1, rows // (20 if self.in_flight == 1 else 2 if self.statement == CLAIM else 1))


INSERT, SELECT, CLAIM = "INSERT", "SELECT", "INSERT IF NOT EXISTS"
KINDS = [
    Kind(INSERT, 1),
    Kind(INSERT, 256),
    Kind(INSERT, 256, any_node=True),
    Kind(SELECT, 1),
    Kind(SELECT, 256),
    Kind(SELECT, 256, any_node=True),
    Kind(SELECT, 256, ONE, any_node=True),
    Kind(CLAIM, 1),
    Kind(CLAIM, 256),
]


def row(number: int) -> list[bytes]:
    return [
        struct.pack(">q", number),
        b"name-%09d" % number,
        b"some text of a usual length, forty-odd by",
        struct.pack(">i", number & 0xFFFF),
        struct.pack(">d", number * 0.5),
    ]


@dataclass
class Figures:
    rates: list[float] = field(default_factory=list)
    micros: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)


@dataclass
class Side:
    """A table, and how it is reached: by node, the connections to it."""

    name: str
    keyspace: str
    replicas: int
    connections: dict[str, list[RawConnection]]
    processes: list[int]
    figures: dict[Kind, Figures] = field(default_factory=lambda: {kind: Figures() for kind in KINDS})
    statements: dict[str, bytes] = field(default_factory=dict)
    #: Whose primary is who; None: there is one node only.
    placed: Placement | None = None
    _claimed: int = 10**9

    @property
    def everybody(self) -> list[RawConnection]:
        return [one for some in zip(*self.connections.values(), strict=True) for one in some]

    async def create(self) -> None:
        first = self.everybody[0]
        replication = f"{{'class': 'SimpleStrategy', 'replication_factor': {self.replicas}}}"
        await first.query(f"CREATE KEYSPACE {self.keyspace} WITH replication = {replication}")
        await first.query(TABLE.format(self.keyspace))
        insert = f"INSERT INTO {self.keyspace}.t (k, a, b, n, x) VALUES (?, ?, ?, ?, ?)"
        select = f"SELECT k, a, b, n, x FROM {self.keyspace}.t WHERE k = ?"
        for connection in self.everybody:
            for name, text in {INSERT: insert, SELECT: select, CLAIM: f"{insert} IF NOT EXISTS"}.items():
                self.statements[name] = await connection.prepare(text)

    def keys(self, kind: Kind, rows: int) -> list[int]:
        count = kind.count(rows)
        if kind.statement != CLAIM:
            return [index * 7919 % rows for index in range(count)]
        # Nobody has these yet.
        self._claimed += count
        return list(range(self._claimed - count, self._claimed))

    def parts(self, kind: Kind, rows: int) -> list[tuple[RawConnection, list[bytes]]]:
        """What goes over which connection."""
        keys = self.keys(kind, rows)
        bodies = [self._body(kind, key) for key in keys]
        if kind.any_node or self.placed is None:
            users = self.everybody if kind.in_flight > 1 else self.everybody[:1]
            return [(user, bodies[index :: len(users)]) for index, user in enumerate(users)]
        owned: dict[str, list[bytes]] = {}
        for key, body in zip(keys, bodies, strict=True):
            primary = self.placed.primary_of(f"{self.keyspace}.t", struct.pack(">q", key))
            owned.setdefault(primary, []).append(body)
        if kind.in_flight == 1:
            return [(self.connections[node][0], some) for node, some in owned.items()][:1]
        return [
            (user, some[index::CONNECTIONS_PER_NODE])
            for node, some in owned.items()
            for index, user in enumerate(self.connections[node])
        ]

    def _body(self, kind: Kind, key: int) -> bytes:
        values = row(key)[: 1 if kind.statement == SELECT else 5]
        return execute_body(self.statements[kind.statement], values, kind.consistency)

    async def take(self, kind: Kind, rows: int, *, warming: bool) -> None:
        parts = [part for part in self.parts(kind, rows) if part[1]]
        count = sum(len(bodies) for _, bodies in parts)
        before, began = self._spent(), time.perf_counter()
        each = max(1, kind.in_flight // len(parts))
        await asyncio.gather(*(user.pipeline(bodies, each) for user, bodies in parts))
        if not warming:
            figures = self.figures[kind]
            figures.rates.append(count / (time.perf_counter() - began))
            figures.micros.append((self._spent() - before) / count * 1e6)
            figures.latencies += [latency for user, _ in parts for latency in user.latencies]

    def _spent(self) -> float:
        return sum(map(cpu_seconds_fine, self.processes))


async def run_rounds(arguments: argparse.Namespace, nodes: Nodes, alone: Server) -> None:
    processes = [node.process.pid for node in nodes.all]
    many = {
        node.name: [await connect(node.host, nodes.port) for _ in range(CONNECTIONS_PER_NODE)]
        for node in nodes.all
    }
    single = {"alone": [await connect("127.0.0.1", alone.port) for _ in range(len(nodes.all) * 2)]}
    sides = [
        Side("alone", "alone", 1, single, [alone.pid]),
        Side("1 replica", "rf1", 1, many, processes),
        Side("3 replicas", "rf3", 3, many, processes),
    ]
    for side in sides:
        await side.create()
    for side in sides[1:]:
        side.placed = await asyncio.to_thread(placement, nodes.metadata)
    for turn in range(arguments.rounds + 1):
        for kind in KINDS:
            for offset in range(len(sides)):
                # The first round only warms up.
                await sides[(turn + offset) % len(sides)].take(kind, arguments.rows, warming=turn == 0)
    report(sides)


def report(sides: Sequence[Side]) -> None:
    print(f"{'':<51} {'requests':>10} {'ratio':>6} {'p50':>9} {'p99':>10}   {'all servers':>12} {'ratio':>6}")
    for kind in KINDS:
        for side in sides:
            mine, one = side.figures[kind], sides[1].figures[kind]
            rate, micros = statistics.median(mine.rates), statistics.median(mine.micros)
            faster = statistics.median(a / b for a, b in zip(mine.rates, one.rates, strict=True))
            dearer = statistics.median(a / b for a, b in zip(mine.micros, one.micros, strict=True))
            p50, p99 = (percentile(mine.latencies, share) * 1e3 for share in (0.5, 0.99))
            print(
                f"{kind!s:<39} {side.name:<11} {rate:>8,.0f}/s {faster:>6.2f} {p50:>6.2f} ms {p99:>7.2f} ms"
                f"   {micros:>9.1f} µs {dearer:>6.2f}",
                flush=True,
            )


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


# --- failover -----------------------------------------------------------------------------------------


def run_failovers(nodes: Nodes, times: int, lease_seconds: float) -> None:
    """From the kill until somebody else's answer that the write is done."""
    took = []
    for number in range(times):
        wait_until_at_rest(nodes, 120)
        key = 10**12 + number
        name = placement(nodes.metadata).primary_of("rf3.t", struct.pack(">q", key))
        victim = next(node for node in nodes.all if node.name == name)
        other = next(node for node in nodes.all if node.name != name)
        until_written(other, key)
        victim.kill()
        took.append(until_written(other, key))
        victim.start()
    print(
        f"a key can be written again {statistics.median(took):.2f} s after its primary was killed "
        f"({min(took):.2f} to {max(took):.2f} s, {times} times; a lease is {lease_seconds:g} s)",
        flush=True,
    )


def until_written(node: Node, key: int, patience: float = 120.0) -> float:
    text = f"INSERT INTO rf3.t (k, n) VALUES ({key}, 1)"
    began = time.perf_counter()
    with RawClient(node.host, node.port, patience) as client:
        while (told := client.ask(text, QUORUM)).error is not None:
            if time.perf_counter() - began > patience:
                raise SystemExit(f"the key cannot be written: {told.text}")
            time.sleep(0.01)
    return time.perf_counter() - began


# --- simulations --------------------------------------------------------------------------------------


def run_simulations(seeds: int) -> None:
    for module in SIMULATIONS:
        if importlib.util.find_spec(module) is None:
            continue
        done = subprocess.run(
            [sys.executable, "-m", module, "--seeds", str(seeds)], capture_output=True, text=True
        )
        last = done.stdout.splitlines()[-1] if done.stdout else done.stderr[-500:]
        rate = re.search(r"(\d+) seeds a minute", last)
        if done.returncode != 0 or rate is None:
            raise SystemExit(f"{module}: {last}")
        print(f"{module}: {int(rate[1]):,} seeds a minute of one core ({last})", flush=True)


@contextmanager
def metadata_store(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:{folder}/meta.sqlite"
        return
    etcd = EtcdServer()
    try:
        etcd.wait_until_healthy()
        yield f"etcd:{etcd.endpoint}"
    finally:
        etcd.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=20_000, help="requests of one kind in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--metadata", choices=("sqlite", "etcd"), default="sqlite")
    parser.add_argument("--fsync", choices=("group", "periodic", "none"), default="group")
    parser.add_argument("--lease-seconds", type=float, default=10.0)
    parser.add_argument("--failovers", type=int, default=5, help="how often the primary is killed")
    parser.add_argument("--seeds", type=int, default=500, help="of each simulation")
    parser.add_argument("--quick", action="store_true", help="once, and little of everything: does it work?")
    parser.add_argument("--folder", type=Path, help="where to put the data (default: a temporary folder)")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rows, arguments.rounds, arguments.lease_seconds = 200, 1, 2.0
        arguments.failovers, arguments.seeds = 1, 2
    print(f"{describe()}, metadata in {arguments.metadata}")
    folder = Path(tempfile.mkdtemp(prefix="belvedere-bench-", dir=arguments.folder))
    try:
        with (
            metadata_store(arguments.metadata, folder) as metadata,
            Nodes(
                folder,
                metadata,
                lease_seconds=arguments.lease_seconds,
                options=("--fsync", arguments.fsync),
            ) as nodes,
        ):
            nodes.start()
            alone = Server(folder / "alone", arguments.fsync)
            try:
                uvloop.run(run_rounds(arguments, nodes, alone))
            finally:
                alone.stop()
            run_failovers(nodes, arguments.failovers, arguments.lease_seconds)
            nodes.stop()
        run_simulations(arguments.seeds)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
