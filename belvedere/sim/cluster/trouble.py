"""What befalls the simulated cluster: strikes until it is told to stop; then everything is whole again."""

import asyncio
from collections.abc import Awaitable, Callable

from belvedere.sim.cluster.nodes import Cluster, calm_store
from belvedere.sim.network import NetworkFaults
from belvedere.sim.randomness import between


class Trouble:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._random = cluster.world.fault_random
        self._machines = list(cluster.plan.machines)
        strikes: dict[str, Callable[[], Awaitable[None]]] = {
            "breaks": self._break,
            "partition": self._partition,
            "one way": self._one_way,
            "isolation": self._isolation,
            "crash": self._crash,
            "uneven crash": self._uneven_crash,
            "all crash": self._all_crash,
            "restart": self._restart,
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
        network = NetworkFaults()
        if "breaks" in faults:
            network.breaks = between(random.random(), 0.0003, 0.01)
        if "delay" in faults:
            network.spikes = between(random.random(), 0.005, 0.1)
        self._world.network.faults = network
        if "store unanswered" in faults:
            store = self._cluster.service.faults
            share = between(random.random(), 0.01, 0.15)
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
        self._world.network.faults = NetworkFaults()
        self._world.network.heal()
        self._cluster.service.faults = calm_store()
        for machine in self._machines:
            self._world.disk(machine).faults.slowness = 1.0

    # --- strikes -------------------------------------------------------------------------------------

    def _some(self) -> str:
        """Some machine; most often one that is primary of something."""
        machines = self._machines
        if self._random.random() < 0.6:
            machines = [tablet.primary for tablet in self._cluster.tablets] or machines
        return machines[int(self._random.random() * len(machines))]

    def _others(self, one: str) -> list[str]:
        return [machine for machine in self._machines if machine != one]

    async def _for(self, shortest: float, longest: float) -> None:
        await self._world.sleep(between(self._random.random(), shortest, longest))

    async def _break(self) -> None:
        one = self._some()
        for other in self._others(one):
            if self._random.random() < 0.6:
                self._world.network.break_streams(one, other)

    async def _partition(self) -> None:
        one = self._some()
        others = [machine for machine in self._others(one) if self._random.random() < 0.7]
        self._world.network.partition([one], others)
        await self._for(0.05, 2.0)
        self._rejoin(one, others)

    def _rejoin(self, one: str, others: list[str]) -> None:
        for other in others:
            self._world.network.unblock(one, other)
            self._world.network.unblock(other, one)

    async def _one_way(self) -> None:
        source, target = self._some(), self._some()
        self._world.network.block(source, target)
        await self._for(0.05, 2.0)
        self._world.network.unblock(source, target)

    async def _isolation(self) -> None:
        """From the other machines, often from the metadata store, too; and maybe it does not survive that."""
        one = self._some()
        others = self._others(one)
        if self._random.random() < 0.5:
            self._cluster.service.cut_off.add(one)
        self._world.network.partition([one], others)
        await self._for(0.05, 2.5)
        if self._random.random() < 0.3:
            await self._crash_all([one])
        self._rejoin(one, others)
        await self._for(0.01, 1.0)
        self._cluster.service.cut_off.discard(one)

    async def _crash(self) -> None:
        await self._crash_all([self._some()])

    async def _uneven_crash(self) -> None:
        """A primary dies when some of its backups have records that others lack."""
        placed = [tablet for tablet in self._cluster.tablets if len(tablet.in_sync) > 1]
        if not placed:
            return
        tablet = placed[int(self._random.random() * len(placed))]
        backups = [machine for machine in tablet.in_sync if machine != tablet.primary]
        self._random.shuffle(backups)
        behind = backups[: max(1, int(self._random.random() * len(backups)))]
        self._world.network.partition([tablet.primary], behind, one_way=True)
        await self._for(0.01, 0.3)
        down = asyncio.create_task(self._crash_all([tablet.primary]))
        await self._for(0.01, 0.1)
        for other in behind:
            self._world.network.unblock(tablet.primary, other)
        await down

    async def _all_crash(self) -> None:
        if self._random.random() < 0.4:
            await self._crash_all(list(self._machines))

    async def _crash_all(self, machines: list[str]) -> None:
        down = [machine for machine in machines if self._cluster.is_up(machine)]
        self._random.shuffle(down)
        for machine in down:
            self._cluster.crash(machine)
        for machine in down:
            # Back before anybody noticed, or after its lease has run out.
            await self._for(*((0.02, 0.3) if self._random.random() < 0.4 else (0.7, 2.0)))
            self._cluster.boot(machine)

    async def _restart(self) -> None:
        machine = self._some()
        if self._cluster.is_up(machine):
            await self._cluster.stop(machine)
            if not self._world.is_running(machine):
                self._cluster.boot(machine)

    async def _pause(self) -> None:
        machine = self._some()
        if self._world.is_running(machine):
            self._world.pause(machine, between(self._random.random(), 0.02, 2.0))

    async def _store_away(self) -> None:
        self._cluster.service.away = True
        await self._for(0.05, 2.0)
        self._cluster.service.away = False

    async def _store_cut_off(self) -> None:
        machine = self._some()
        self._cluster.service.cut_off.add(machine)
        await self._for(0.05, 2.5)
        self._cluster.service.cut_off.discard(machine)

    async def _clock_jump(self) -> None:
        self._world.jump_wall_clock(self._some(), self._random.uniform(-5.0, 5.0))
