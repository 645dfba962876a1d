"""Scenario: what a client has just been told of the schema by one node, it uses through another one.

Three nodes with databases over one metadata store. One of them hears of changes late; nodes are cut off from
each other, and from the store. Clients create, alter, truncate and drop tables through any node and ask any
other as soon as they have the answer: no node may ever say that it does not know what is there, and unless
the answer warned of it, none may go by an older definition, find what was dropped, or know the tablets of
before a truncation, where that replaces them.
"""

import asyncio
from dataclasses import dataclass, field

from belvedere.cluster.failover_leader import FailoverLeader
from belvedere.cluster.member import Member
from belvedere.cluster.members import Registration
from belvedere.cluster.operations import Fenced
from belvedere.cluster.rpc_settings import RpcSettings
from belvedere.meta.metadata import Metadata
from belvedere.meta.store import Change, Committed, Granted, Loaded, MetadataError, Refused, Transaction
from belvedere.query.database import Database, DatabaseOptions
from belvedere.query.errors import CQLError, InvalidRequest
from belvedere.query.options import QueryOptions
from belvedere.query.replicated.replication import Replication
from belvedere.query.results import Result
from belvedere.sim.metastore import MetadataService, ServiceClient
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.scenarios import register
from belvedere.sim.world import World

NODES = ("a", "b", "c")
_PORT = 7000
_LEASE_SECONDS = 10.0
_SETTINGS = RpcSettings(connect_seconds=1.0, longest_pause=0.5, heartbeat_seconds=0.5)
_CLIENTS = 2
_ROUNDS = 6


class LateStore:
    """Tells of changes late; whoever asks is told."""

    def __init__(self, inner: ServiceClient, runtime: SimRuntime, late: float) -> None:
        self._inner = inner
        self._runtime = runtime
        self._late = late

    async def wait_beyond(self, revision: int) -> None:
        await self._inner.wait_beyond(revision)
        await self._runtime.clock.sleep(self._runtime.random.random() * self._late)

    async def load(self) -> Loaded:
        return await self._inner.load()

    async def commit(self, transaction: Transaction) -> Committed | Refused:
        return await self._inner.commit(transaction)

    async def changes_since(self, revision: int) -> list[Change]:
        return await self._inner.changes_since(revision)

    async def grant(self, seconds: float) -> Granted:
        return await self._inner.grant(seconds)

    async def keep_alive(self, lease: int) -> float:
        return await self._inner.keep_alive(lease)

    async def revoke(self, lease: int) -> None:
        await self._inner.revoke(lease)

    async def close(self) -> None:
        await self._inner.close()


class Node:
    def __init__(self, runtime: SimRuntime, name: str, service: MetadataService, late: float) -> None:
        self.runtime = runtime
        self.name = name
        store = LateStore(service.connect(runtime), runtime, late)
        self._metadata = Metadata(runtime, store)
        self._failover = FailoverLeader(runtime, self._metadata, _LEASE_SECONDS)
        self._member = Member(
            *(runtime, "sim", name, store, self._metadata),
            lease_seconds=_LEASE_SECONDS,
            lead=self._failover.lead,
            settings=_SETTINGS,
        )
        self.database: Database

    async def start(self) -> None:
        await self._metadata.start()
        self._failover.start()
        _, port = await self._member.listen("0.0.0.0", _PORT)
        registration = Registration(self.name, "sim", "id", self.runtime.machine, port)
        incarnation = await self._member.join(registration)
        options = DatabaseOptions(node=self.name)
        self.database = await Database.open(self.runtime, "data/node", self._metadata, options)
        self.database.admit_by(self._member.operations)
        self.database.barrier = self._member.known_to_all
        self._replication = Replication.start(self.runtime, self._member, incarnation, self.database)

    async def stop(self) -> None:
        await self._member.leave()
        await self._replication.stop()
        await self.database.close()
        await self._metadata.stop()

    @property
    def serves(self) -> bool:
        return self._member.operations.allowed

    async def run(self, text: str) -> Result:
        return await self.runtime.perform(self.database.query(text, None, QueryOptions()))

    def columns(self, table: str) -> set[str]:
        """As this node would answer at this moment."""
        return {column.name for column in self.database.plan(f"SELECT * FROM {table}", None).result_columns}

    def tablets(self, table: str) -> set[int]:
        """Which this node would ask at this moment."""
        found = self.database.state.table(*table.split("."))
        tablet_map = None if found is None else self.database.state.tablet_maps.get(found.id)
        return set() if tablet_map is None else {tablet.id for tablet in tablet_map.tablets}


@dataclass
class _Run:
    world: World
    nodes: list[Node]
    violations: list[str] = field(default_factory=list)

    def other(self) -> Node:
        return self.world.fault_random.choice(self.nodes)

    async def change(self, text: str) -> bool:
        """Whether all nodes know of it, by the answer of the one that was asked; again until it is made."""
        while True:
            try:
                answer = await self.other().run(text)
            except (Fenced, MetadataError, CQLError) as error:
                if isinstance(error, InvalidRequest):
                    raise
                self.world.mark(f"schema.again after {type(error).__name__}")
                await self.world.sleep(0.5)
                continue
            if answer.warnings:
                self.world.mark("schema.warned")
            return not answer.warnings

    async def ask(self, text: str) -> None:
        """Of all nodes: each knows what the statement names."""
        for node in self.nodes:
            before = node.database.state.revision
            try:
                await node.run(text)
            except InvalidRequest as error:
                self.violations.append(f"{node.name} does not know at {before}: {text}: {error}")
            except Fenced:
                self.world.mark("schema.fenced")
            except CQLError:
                # It is another node's table, or the store cannot be asked: either is no answer about it.
                self.world.mark("schema.elsewhere")
            if node.database.state.revision > before:
                self.world.mark("schema.looked up")

    def expect_columns(self, table: str, wanted: set[str]) -> None:
        for node in self.nodes:
            if not node.serves:
                continue
            try:
                found = node.columns(table)
            except InvalidRequest:
                found = set()
            if found != wanted:
                self.violations.append(f"{node.name} has {sorted(found)}, not {sorted(wanted)}, of {table}")

    def expect_none_of(self, tablets: set[int], table: str) -> None:
        for node in self.nodes:
            if node.serves and node.tablets(table) & tablets:
                self.violations.append(f"{node.name} has tablets of {table} from before it was truncated")


async def _client(run: _Run, number: int) -> None:
    keyspace = f"ks{number}"
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    await run.change(f"CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {replication}")
    await run.ask(f"USE {keyspace}")
    for round_ in range(_ROUNDS):
        table = f"{keyspace}.t{round_}"
        known = await run.change(f"CREATE TABLE IF NOT EXISTS {table} (k int PRIMARY KEY, v int)")
        if known:
            run.expect_columns(table, {"k", "v"})
        await run.ask(f"SELECT * FROM {table}")
        known = await run.change(f"ALTER TABLE {table} ADD IF NOT EXISTS w int")
        if known:
            run.expect_columns(table, {"k", "v", "w"})
        await run.ask(f"INSERT INTO {table} (k, w) VALUES (1, 2)")
        before = {tablet for node in run.nodes for tablet in node.tablets(table)}
        if await run.change(f"TRUNCATE {table}"):
            run.expect_none_of(before, table)
        if run.world.fault_random.random() < 0.5:
            known = await run.change(f"DROP TABLE IF EXISTS {table}")
            if known:
                run.expect_columns(table, set())
        await run.world.sleep(run.world.fault_random.random())


async def _strike(run: _Run, service: MetadataService) -> None:
    random, world = run.world.fault_random, run.world
    while True:
        await world.sleep(random.random() * 1.5)
        victim = random.choice(NODES)
        if random.random() < 0.5:
            world.network.partition([victim], [name for name in NODES if name != victim])
        else:
            service.cut_off.add(victim)
        # Sometimes for longer than a change waits, sometimes for longer than a lease lasts.
        await world.sleep(random.random() * random.choice((1.0, 12.0, 25.0)))
        world.network.heal()
        service.cut_off.clear()


async def schema(world: World) -> None:
    random = world.fault_random
    service = MetadataService(world)
    slow, late = random.choice(NODES), random.choice((0.0, 3.0, 30.0))
    nodes = [Node(world.boot(name), name, service, late if name == slow else 0.0) for name in NODES]
    for node in nodes:
        await node.runtime.perform(node.start())
    run = _Run(world, nodes)
    striking = asyncio.create_task(_strike(run, service))
    await asyncio.gather(*(_client(run, number) for number in range(_CLIENTS)))
    striking.cancel()
    world.network.heal()
    service.cut_off.clear()
    if not await run.change(
        "CREATE KEYSPACE IF NOT EXISTS last WITH replication = {'class': 'SimpleStrategy'}"
    ):
        # Once more: a node may have been about to lose its lease.
        run.violations.extend([] if await run.change("DROP KEYSPACE last") else ["not healed"])
    for node in nodes:
        await node.runtime.perform(node.stop())
    if run.violations:
        raise AssertionError(f"seed {world.seed}: " + "; ".join(run.violations[:5]))


register("schema", schema)
