"""Scenario: tablets replicated over three to seven nodes, through everything a network and a crash can do.

Clients on every node read, write, and compare-and-set. Messages are lost, late, doubled; links break one way
or both; nodes crash, pause, and their clocks run apart; disks are slow; the metadata store is slow, silent or
away. Then all that ends, and the cluster must become quiet, whole and right: every replica in sync and equal,
every operation answered, nothing lost that was acknowledged, every history linearizable.
"""

import asyncio
from collections.abc import Awaitable, Callable

from belvedere.cluster.configuration import Level
from belvedere.cluster.messages import Done
from belvedere.cluster.primary import Primary
from belvedere.meta import records
from belvedere.meta.memory import MemoryStore
from belvedere.meta.store import Change, Put, Transaction
from belvedere.sim.checkers.history import History
from belvedere.sim.metastore import MetadataService, StoreFaults
from belvedere.sim.randomness import between
from belvedere.sim.replication.checks import (
    Broken,
    Watch,
    check_configurations,
    check_history,
    check_replicas,
    check_told,
    newest_tablets,
)
from belvedere.sim.replication.clients import Asked, Client
from belvedere.sim.replication.keyvalue import KeyValueStore, Platter
from belvedere.sim.replication.mail import Mail, MailFaults
from belvedere.sim.replication.node import SimNode
from belvedere.sim.replication.plan import Plan, draw
from belvedere.sim.scenarios import register
from belvedere.sim.world import World

_TABLE = bytes(16)
#: By when a healed cluster must be at rest, in seconds.
_HEALED = 20.0


class Cluster:
    """The world's nodes, whichever of them live."""

    def __init__(self, world: World, plan: Plan) -> None:
        self.world = world
        self.plan = plan
        self.inner = MemoryStore(history=100_000)
        self.service = MetadataService(world, self.inner, StoreFaults(delay=(50e-6, 3e-3), patience=0.2))
        self.mail = Mail(world)
        self.platters = {machine: Platter() for machine in plan.machines}
        self.nodes: dict[str, SimNode] = {}
        self.watch = Watch(self.nodes)
        self.asked = Asked(History(lambda: world.loop.now_ns), len(plan.tablets), plan.keys)

    def create_tablets(self) -> None:
        step = 2**64 // len(self.plan.tablets)
        puts = []
        for number, replicas in enumerate(self.plan.tablets):
            first = -(2**63) + number * step
            last = first + step - 1 if number + 1 < len(self.plan.tablets) else 2**63 - 1
            record = records.TabletRecord(
                str(first), str(last), 1, replicas[0], list(replicas), list(replicas)
            )
            puts.append(Put(records.tablet_key(_TABLE, number + 1), records.encode(record)))
        self.inner.apply(Transaction(b"create", (), tuple(puts)))

    def boot(self, machine: str) -> None:
        runtime = self.world.boot(machine)
        node = SimNode(self.world, runtime, self.service, self.mail, self.platters[machine], self.watch)
        self.nodes[machine] = node
        if "slow disk" in self.plan.faults and self.world.fault_random.random() < 0.5:
            node.stores.log.slowness = between(self.world.fault_random.random(), 1.0, 20.0)
        runtime.spawn("live", self._live(node))

    async def _live(self, node: SimNode) -> None:
        await node.live()
        for number in range(2 if len(self.plan.machines) == 3 else 1):
            client = Client(self.asked, node, f"{node.name}#{node.incarnation}.{number}")
            node.runtime.spawn("client", client.run(between(node.runtime.random.random(), 0.015, 0.15)))

    def crash(self, machine: str) -> None:
        random = self.world.fault_random
        loses = random.random() < 0.7
        self.world.crash(machine, lose_unsynced=loses)
        self.platters[machine].crash(random.random() if loses else 1.0)

    @property
    def changes(self) -> list[Change]:
        """Everything that the metadata store ever did."""
        return self.inner.history(0)

    def placements(self) -> dict[int, records.TabletRecord]:
        return newest_tablets(self.changes)

    def is_writing(self, number: int, machine: str) -> bool:
        """Something is on its way to the tablet's backups."""
        seat = self.nodes[machine].host.seats.get(number)
        return seat is not None and seat.replica.log.committed < seat.replica.log.last

    # --- being at rest -------------------------------------------------------------------------------

    def unrest(self) -> str | None:
        """What is not as it should be once everything works, if anything."""
        for machine, node in self.nodes.items():
            if not node.host.leased:
                return f"{machine} has no lease"
        for number, record in self.placements().items():
            if sorted(record.in_sync) != sorted(record.replicas):
                return f"tablet {number} has only {record.in_sync} of {record.replicas} in sync"
            ends = []
            for machine in record.replicas:
                seat = self.nodes[machine].host.seats.get(number)
                if seat is None:
                    return f"tablet {number} is not open on {machine}"
                if machine == record.primary and not seat.replica.serves(seat.moment()):
                    return f"tablet {number} is not served by {machine}"
                role, log = seat.replica.role, seat.replica.log
                if isinstance(role, Primary) and role.proposed is not None:
                    return f"tablet {number}: {machine} has proposed something"
                ends.append((log.last, log.committed))
            if len({end for pair in ends for end in pair}) > 1:
                return f"tablet {number}: last and committed are {ends}"
        return None

    async def at_rest(self, what: str) -> None:
        until = self.world.loop.time() + _HEALED
        while (unrest := self.unrest()) is not None:
            if self.world.loop.time() > until:
                raise Broken(f"{what}: not at rest after {_HEALED:.0f} s: {unrest}")
            await self.world.sleep(0.1)

    def stores(self, number: int) -> dict[str, KeyValueStore]:
        replicas = self.placements()[number].replicas
        return {machine: self.nodes[machine].stores.stores[number] for machine in replicas}

    # --- checks --------------------------------------------------------------------------------------

    async def ask_everything(self) -> None:
        """Every key is read and written from some node, and all of that succeeds."""
        names = sorted(self.nodes)
        for number, key in enumerate(self.asked.all_keys()):
            node = self.nodes[names[number % len(names)]]
            client = Client(self.asked, node, f"last {key}")
            for ask, level in ((client.read, Level.QUORUM), (client.write, Level.ALL)):
                outcome = await node.runtime.perform(ask(key, level))
                if not isinstance(outcome, Done):
                    raise Broken(f"{key} through {node.name}, when everything works: {outcome}")

    def check(self) -> None:
        if self.watch.failure is not None:
            raise Broken(self.watch.failure)
        check_configurations(self.changes)
        final = {}
        for number in self.placements():
            stores = self.stores(number)
            check_replicas(number, stores)
            final[number] = next(iter(stores.values()))
        check_told(self.asked, final)
        check_history(self.asked)


class Trouble:
    """Strikes until it is told to stop; then everything is whole again."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._random = cluster.world.fault_random
        self._machines = list(cluster.plan.machines)
        strikes: dict[str, Callable[[], Awaitable[None]]] = {
            "partition": self._partition,
            "one way": self._one_way,
            "isolation": self._isolation,
            "crash": self._crash,
            "uneven crash": self._uneven_crash,
            "all crash": self._all_crash,
            "pause": self._pause,
            "store away": self._store_away,
            "store cut off": self._store_cut_off,
            "clock jump": self._clock_jump,
        }
        self._strikes = [strike for name, strike in strikes.items() if name in cluster.plan.faults]
        self._under_way: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """What goes on all the time."""
        faults, random = self._cluster.plan.faults, self._random
        mail = MailFaults()
        if "loss" in faults:
            mail.lost = between(random.random(), 0.002, 0.2)
        if "delay" in faults:
            mail.spikes = between(random.random(), 0.005, 0.2)
        if "doubling" in faults:
            mail.doubled = between(random.random(), 0.01, 0.3)
        self._cluster.mail.faults = mail
        if "store unanswered" in faults:
            store = self._cluster.service.faults
            share = between(random.random(), 0.01, 0.2)
            store.unavailable = store.lost = store.landed = store.late = share
            store.latest = 1.5
        if "drift" in faults:
            # Less than the margin of a lease covers.
            for machine in self._machines:
                self._world.machine_clock(machine).rate = 1.0 + random.uniform(-0.04, 0.04)

    async def strike(self) -> None:
        plan = self._cluster.plan
        until = self._world.loop.time() + plan.lasts
        while self._world.loop.time() < until:
            await self._world.sleep(plan.pace * (0.3 + 1.4 * self._random.random()))
            if self._strikes:
                chosen = self._strikes[int(self._random.random() * len(self._strikes))]
                self._under_way.append(asyncio.create_task(chosen()))  # type: ignore[arg-type]

    async def end(self) -> None:
        for task in self._under_way:
            await task
        self._cluster.mail.faults = MailFaults()
        self._cluster.service.faults = StoreFaults(delay=(50e-6, 3e-3), patience=0.2)
        self._world.network.heal()
        for node in self._cluster.nodes.values():
            node.stores.log.slowness = 1.0
        # Pauses last until they are over, and so do the slowest syncs.
        loop = self._world.loop
        awake = max(node.runtime.incarnation.resume_at_ns for node in self._cluster.nodes.values())
        await self._world.sleep(0.6 + max(0, awake - loop.now_ns) / 1e9)

    def _some(self) -> str:
        """Some machine; most often one that is primary of something."""
        machines = self._machines
        if self._random.random() < 0.6:
            machines = [record.primary for record in self._cluster.placements().values()]
        return machines[int(self._random.random() * len(machines))]

    async def _for(self, shortest: float, longest: float) -> None:
        await self._world.sleep(between(self._random.random(), shortest, longest))

    async def _partition(self) -> None:
        one = self._some()
        others = [machine for machine in self._machines if machine != one and self._random.random() < 0.7]
        self._world.network.partition([one], others)
        await self._for(0.05, 2.0)
        for other in others:
            self._world.network.unblock(one, other)
            self._world.network.unblock(other, one)

    async def _isolation(self) -> None:
        """From the other machines, often from the metadata store, too; and maybe it does not survive that."""
        one = self._some()
        others = [machine for machine in self._machines if machine != one]
        if self._random.random() < 0.5:
            self._cluster.service.cut_off.add(one)
        self._world.network.partition([one], others)
        await self._for(0.05, 2.5)
        if self._random.random() < 0.3:
            await self._crash_all([one])
        for other in others:
            self._world.network.unblock(one, other)
            self._world.network.unblock(other, one)
        await self._for(0.01, 1.0)
        self._cluster.service.cut_off.discard(one)

    async def _one_way(self) -> None:
        source, target = self._some(), self._some()
        self._world.network.block(source, target)
        await self._for(0.05, 2.0)
        self._world.network.unblock(source, target)

    async def _crash(self) -> None:
        machine = self._some()
        if self._random.random() < 0.5:
            await self._until(lambda: self._cluster.platters[machine].unsynced > 0)
        await self._crash_all([machine])

    async def _uneven_crash(self) -> None:
        """A primary dies when some of its backups have records that others lack."""
        placed = [one for one in self._cluster.placements().items() if len(one[1].in_sync) > 1]
        if not placed:
            return
        number, record = placed[int(self._random.random() * len(placed))]
        one = record.primary
        backups = [machine for machine in record.in_sync if machine != one]
        self._random.shuffle(backups)
        behind = backups[: max(1, int(self._random.random() * len(backups)))]
        self._world.network.partition([one], behind, one_way=True)
        await self._until(lambda: self._cluster.is_writing(number, one))
        await self._for(0.001, 0.1)
        down = asyncio.create_task(self._crash_all([one]))
        await self._for(0.01, 0.1)
        for other in behind:
            self._world.network.unblock(one, other)
        await down

    async def _until(self, condition: Callable[[], bool]) -> None:
        """A bad moment to crash; for want of one, any moment."""
        for _ in range(20):
            if condition():
                return
            await self._world.sleep(0.005)

    async def _all_crash(self) -> None:
        if self._random.random() < 0.4:
            await self._crash_all(self._machines)

    async def _crash_all(self, machines: list[str]) -> None:
        down = [machine for machine in machines if self._world.is_running(machine)]
        self._random.shuffle(down)
        for machine in down:
            self._cluster.crash(machine)
        for machine in down:
            # Back before anybody noticed, or after its lease has run out.
            await self._for(*((0.02, 0.3) if self._random.random() < 0.4 else (0.55, 1.5)))
            self._cluster.boot(machine)

    async def _pause(self) -> None:
        machine = self._some()
        if self._world.is_running(machine):
            self._world.pause(machine, between(self._random.random(), 0.02, 1.5))

    async def _store_away(self) -> None:
        self._cluster.service.away = True
        await self._for(0.05, 1.5)
        self._cluster.service.away = False

    async def _store_cut_off(self) -> None:
        machine = self._some()
        self._cluster.service.cut_off.add(machine)
        await self._for(0.05, 2.5)
        self._cluster.service.cut_off.discard(machine)

    async def _clock_jump(self) -> None:
        self._world.jump_wall_clock(self._some(), self._random.uniform(-5.0, 5.0))


async def replication(world: World) -> None:
    plan = draw(world.seed)
    cluster = Cluster(world, plan)
    cluster.create_tablets()
    trouble = Trouble(cluster)
    trouble.begin()
    for machine in plan.machines:
        cluster.boot(machine)
    await trouble.strike()
    await trouble.end()
    cluster.asked.stopped = True
    await cluster.at_rest("healed")
    await cluster.ask_everything()
    await cluster.at_rest("after the last writes")
    cluster.check()


register("replication", replication)
