"""Scenario: nodes of one cluster that know of each other through the metadata store and through messages.

They are cut off from each other (one way, too), from the store, paused, killed, robbed of power and started
again, also twice under one name; a node of another cluster has their addresses by mistake. Meanwhile they put
things into the metadata and tell each other of them at once, pass barriers while operations are in flight,
ask who is confirmed, and stand for the topology office. Looking into all of them at any moment: no two lives
of one node may serve, no two nodes may hold the office, whoever is told of a thing must find it, and after a
barrier nothing older is in flight on a node that may serve. When all is healed, everything must work again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from belvedere.cluster import members
from belvedere.cluster.barrier import BarrierTimeout
from belvedere.cluster.member import Member
from belvedere.cluster.members import NodeIdTaken, Registration
from belvedere.cluster.membership import GREET, NotConfirmed
from belvedere.cluster.operations import Fenced
from belvedere.cluster.rpc import Method, Rpc
from belvedere.cluster.rpc_errors import RemoteFailure, RpcError
from belvedere.cluster.rpc_server import Caller
from belvedere.cluster.rpc_settings import Peer, RpcSettings
from belvedere.meta.election import Tenure
from belvedere.meta.memory import MemoryStore
from belvedere.meta.metadata import Metadata
from belvedere.meta.state import ClusterState
from belvedere.meta.store import Absent, MetadataError, Put
from belvedere.sim.incarnation import MachineCrashed
from belvedere.sim.metastore import MetadataService, StoreFaults
from belvedere.sim.runtime import SimRuntime
from belvedere.sim.scenarios import register
from belvedere.sim.world import World

NODES = ("a", "b", "c")
_PORT = 7000
_LEASE_SECONDS = 3.0
_SETTINGS = RpcSettings(connect_seconds=1.0, longest_pause=0.5, heartbeat_seconds=0.5)
_FAULTS = ("links", "links", "one way", "store", "pause", "crash", "crash", "twin", "breaks", "late")
#: How long anything may take once all is healed.
_PATIENCE = 60.0

#: "There is a thing of this name": the receiver must know it. The cluster's name and the receiver's
#: incarnation go along.
TELL: Method[tuple[str, str, int], bool] = Method("sim.tell", tuple[str, str, int], bool)


@dataclass
class Known:
    """What the outside sees: it survives every crash."""

    service: MetadataService
    lives: list["Life"] = field(default_factory=list)
    #: Who answered whom directly: the asker's and the answerer's (node, incarnation).
    greeted: set[tuple[str, int, str, int]] = field(default_factory=set)
    violations: list[str] = field(default_factory=list)
    things: int = 0

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.violations.append(what)


class Life:
    """One process, from its start to its end."""

    def __init__(self, world: World, runtime: SimRuntime, known: Known, name: str) -> None:
        self.world = world
        self.runtime = runtime
        self.known = known
        self.name = name
        store = known.service.connect(runtime)
        self.metadata = Metadata(runtime, store)
        self.member = Member(
            runtime,
            "sim",
            name,
            store,
            self.metadata,
            lead=self._lead,
            lease_seconds=_LEASE_SECONDS,
            on_lease=self._remember,
            settings=_SETTINGS,
        )
        rpc, greet = self.member.rpc, self.member.rpc.methods[GREET.name].at_once
        assert greet is not None
        self._greet = greet
        rpc.serve_at_once(GREET, self._greeted)
        rpc.serve_at_once(TELL, self._told)
        known.lives.append(self)

    @property
    def is_running(self) -> bool:
        return self.runtime.incarnation.alive

    @property
    def serves(self) -> bool:
        return self.is_running and self.member.operations.allowed

    async def start(self) -> None:
        while True:
            try:
                await self.metadata.start()
                break
            except MetadataError:
                await self.runtime.clock.sleep(0.2)
        address = await self.member.listen("0.0.0.0", _PORT)
        former = await self._former_lease()
        registration = Registration(self.name, "sim", "id", self.runtime.machine, address[1])
        while True:
            try:
                await self.member.join(registration, former)
                break
            except MetadataError:
                await self.runtime.clock.sleep(0.2)
        for number in range(3):
            self.runtime.spawn(f"operations {number}", self._forever(self._operate))
        self.runtime.spawn("things", self._forever(self._make_thing))
        self.runtime.spawn("barriers", self._forever(self._pass_barrier))
        self.runtime.spawn("confirmations", self._forever(self._confirm))

    async def _former_lease(self) -> int | None:
        """The disk is this machine's alone, so whoever wrote there is dead."""
        disk = self.runtime.disk
        return int(await disk.read("home/lease")) if await disk.exists("home/lease") else None

    async def _remember(self, lease: int) -> None:
        await self.runtime.disk.make_directory("home")
        await self.runtime.disk.write("home/lease", str(lease).encode())

    async def _forever(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self.runtime.clock.sleep(self.runtime.random.random() * 0.3)
            try:
                await work()
            except (Fenced, MetadataError, RpcError, BarrierTimeout, NotConfirmed) as error:
                self.known.expect(not isinstance(error, RemoteFailure), f"{self.name} was told: {error}")

    # --- what it does --------------------------------------------------------------------------------

    async def _operate(self) -> None:
        long = self.runtime.random.random() < 0.1
        with self.member.operations.under(self.metadata.state):
            await self.runtime.clock.sleep(self.runtime.random.random() * (8.0 if long else 0.2))

    async def make_change(self) -> tuple[str, ClusterState]:
        self.known.things += 1
        key = f"things/{self.known.things}"
        return key, await self.metadata.commit(lambda state: _making(state, key))

    async def _make_thing(self) -> None:
        key, state = await self.make_change()
        for peer in members.living(state):
            await self.tell(peer, key)

    async def tell(self, peer: Peer, key: str) -> None:
        await self.member.rpc.call(peer, TELL, ("sim", key, peer.incarnation), 3.0)

    def _told(self, caller: Caller, told: tuple[str, str, int]) -> bool:
        cluster, key, wanted = told
        state, own = self.metadata.state, self.member.membership.incarnation
        self.known.expect(wanted == own, f"{self.name}#{own} heard what was meant for its life {wanted}")
        self.known.expect(cluster == "sim", f"{self.name} heard a node of cluster {cluster}")
        self.known.expect(key in state.entries, f"{self.name} was told of {key} and does not know it")
        record = state.nodes.get(caller.node)
        newest = None if record is None else record.incarnation
        self.known.expect(
            newest == caller.incarnation,
            f"{self.name} heard {caller.node}#{caller.incarnation}, now #{newest}",
        )
        return True

    async def _pass_barrier(self) -> None:
        _, state = await self.make_change()
        await self.pass_barrier(state.revision, within=20.0)

    async def pass_barrier(self, revision: int, within: float) -> None:
        await self.member.barrier.wait(revision, within)
        self.runtime.sometimes("nodes.barrier_passed")
        for life in self.known.lives:
            if not life.serves:
                self.runtime.sometimes("nodes.barrier_without_somebody", life.is_running)
                continue
            oldest = life.member.operations.oldest
            self.known.expect(
                oldest is None or oldest >= revision,
                f"{life.name} has an operation under {oldest} in flight after a barrier at {revision}",
            )
            self.known.expect(
                life.metadata.state.revision >= revision,
                f"{life.name} begins operations under {life.metadata.state.revision} after {revision}",
            )

    async def _confirm(self) -> None:
        others = [name for name in NODES if name != self.name]
        name = others[self.runtime.random.randint(0, len(others) - 1)]
        await self.confirm(name, 3.0)

    async def confirm(self, name: str, within: float) -> None:
        peer = await self.member.membership.confirmed(name, within)
        exchange = (self.name, self.member.membership.incarnation, peer.node, peer.incarnation)
        # Heard in an earlier life of this process counts as well: it is the other one that is in question.
        heard = any((one[0], *one[2:]) == (exchange[0], *exchange[2:]) for one in self.known.greeted)
        self.known.expect(heard, f"{self.name} believes in {peer} and never heard of it")

    def _greeted(self, caller: Caller, _: None) -> None:
        self._greet(caller, None)
        own = self.member.membership.incarnation
        self.known.greeted.add((caller.node, caller.incarnation, self.name, own))

    async def _lead(self, tenure: Tenure) -> None:
        self.runtime.sometimes("nodes.elected")
        while True:
            await self.runtime.clock.sleep(0.05)


def _making(state: ClusterState, key: str) -> Any:
    return None if key in state.entries else ((Absent(key),), (Put(key, b""),))


# --- the outside -----------------------------------------------------------------------------------------


async def _watch(world: World, known: Known) -> None:
    """Two at once is wrong at any moment, however short."""
    while True:
        await world.sleep(0.007)
        serving = [life for life in known.lives if life.serves]
        names = sorted(life.name for life in serving)
        known.expect(len(names) == len(set(names)), f"two lives of one node serve: {names}")
        tenures = [(life.name, life.member.leadership.tenure) for life in known.lives if life.is_running]
        leaders = [name for name, tenure in tenures if tenure is not None and tenure.holds]
        known.expect(len(leaders) <= 1, f"several hold the office: {leaders}")


async def _live(world: World, known: Known, machine: str, name: str) -> None:
    """Start a process; what a crash cuts short is begun again by whoever crashed it."""
    runtime = world.boot(machine)
    try:
        await runtime.perform(Life(world, runtime, known, name).start())
    except (MachineCrashed, NodeIdTaken) as error:
        world.mark(f"nodes.{type(error).__name__}")


async def _stranger(world: World, known: Known) -> None:
    """A node of another cluster that was given our addresses."""
    runtime = world.boot("stranger")
    metadata = Metadata(runtime, MemoryStore())
    rpc = Rpc(runtime, "other", "a", metadata, _SETTINGS)

    async def call() -> None:
        await metadata.start()
        while True:
            await runtime.clock.sleep(0.3)
            for life in list(known.lives):
                own = life.member.rpc.identity
                if own is None or not life.is_running:
                    continue
                # A name and a number that ours would believe.
                rpc.introduce(_incarnation_of(life, "a"))
                peer = Peer(own.node, own.incarnation, life.runtime.machine, _PORT)
                try:
                    await rpc.call(peer, TELL, ("other", "things/0", own.incarnation), 1.0)
                except RpcError:
                    world.mark("nodes.stranger_refused")

    runtime.spawn("stranger", call())


def _incarnation_of(life: Life, name: str) -> int:
    record = life.metadata.state.nodes.get(name)
    return 0 if record is None else record.incarnation


class _Faults:
    def __init__(self, world: World, known: Known, starts: list["asyncio.Task[None]"]) -> None:
        self._world = world
        self._known = known
        self._random = world.fault_random
        self._starts = starts

    async def strike(self) -> None:
        random, world = self._random, self._world
        victim = random.choice(NODES)
        kind = random.choice(_FAULTS)
        others = [name for name in NODES if name != victim]
        match kind:
            case "links" | "one way":
                world.network.partition([victim], others, one_way=kind == "one way")
            case "store":
                self._known.service.cut_off.add(victim)
            case "pause" if world.is_running(victim):
                world.pause(victim, random.random() * 6)
            case "crash" if world.is_running(victim):
                world.crash(victim, lose_unsynced=random.random() < 0.5)
                await world.sleep(random.random() * (4.0 if random.random() < 0.3 else 0.05))
                self.start(victim, victim)
            case "twin" if not world.is_running("twin"):
                self.start("twin", victim)
            case "late" if world.is_running(victim):
                # What it sends now arrives when it is long dead, and alive again.
                world.network.partition([victim], others, one_way=True)
                await world.sleep(0.2 + random.random())
                world.crash(victim, lose_unsynced=random.random() < 0.5)
                self.start(victim, victim)
                await world.sleep(random.random())
            case "breaks":
                world.network.break_streams(victim, random.choice(others))
        await world.sleep(random.random() * 2)
        if random.random() < 0.6:
            self.heal()

    def start(self, machine: str, name: str) -> None:
        self._starts.append(asyncio.create_task(_live(self._world, self._known, machine, name)))

    def heal(self) -> None:
        self._world.network.heal()
        self._known.service.cut_off.clear()


async def nodes(world: World) -> None:
    faults = StoreFaults(unavailable=0.01, lost=0.01, landed=0.01, late=0.005, latest=5.0)
    known = Known(MetadataService(world, faults=faults))
    world.network.faults.spikes = 0.02
    starts: list[asyncio.Task[None]] = []
    striking = _Faults(world, known, starts)
    for name in NODES:
        striking.start(name, name)
    watching = asyncio.create_task(_watch(world, known))
    await _stranger(world, known)
    for _ in range(6):
        await striking.strike()
    striking.heal()
    known.service.faults = StoreFaults()
    if world.is_running("twin"):
        world.crash("twin")
    await _everything_works(world, known, striking, starts)
    watching.cancel()
    if known.violations:
        raise AssertionError(f"seed {world.seed}: " + "; ".join(known.violations[:5]))


async def _everything_works(
    world: World, known: Known, striking: _Faults, starts: list["asyncio.Task[None]"]
) -> None:
    """Within a bounded time, each node is there, hears all others, passes a barrier, and somebody leads."""
    async with asyncio.timeout(_PATIENCE):
        await asyncio.gather(*starts)
        # One whose name the twin had was refused, and is started again as an operator would.
        for name in NODES:
            if not any(life.name == name and life.serves for life in known.lives):
                if world.is_running(name):
                    world.crash(name)
                await world.sleep(2 * _LEASE_SECONDS)
                await _live(world, known, name, name)
        lives = [life for life in known.lives if life.is_running]
        if sorted(life.name for life in lives) != list(NODES):
            raise AssertionError(f"not all nodes are back: {[life.name for life in lives]}")
        await asyncio.gather(*(_do_all(life) for life in lives))
        while not any(life.member.leadership.tenure for life in lives):
            await world.sleep(0.1)


async def _do_all(life: Life) -> None:
    """What the world's last fault left behind may take its time, but not forever."""

    async def work() -> None:
        while True:
            try:
                for name in NODES:
                    if name != life.name:
                        await life.confirm(name, _PATIENCE)
                key, state = await life.make_change()
                await life.pass_barrier(state.revision, _PATIENCE)
                for peer in members.living(state):
                    await life.tell(peer, key)
                return
            except (RpcError, MetadataError, BarrierTimeout, NotConfirmed):
                await life.runtime.clock.sleep(0.2)

    await life.runtime.perform(work())


register("nodes", nodes)
