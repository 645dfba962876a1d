"""Scenario: whole nodes of a cluster, three to seven, and clients that speak CQL to any of them.

Connections break, links are cut, one way too; nodes crash, pause, restart, all of them at once, too; clocks
run apart and jump; disks lose what was not synced; the metadata store is slow, silent or away. Meanwhile
clients read and write registers, also under conditions, write batches, count, truncate, make and drop tables
and views. Then all that ends, and the cluster must come to rest and be right.
"""

import asyncio

from belvedere.sim.checkers.history import History
from belvedere.sim.cluster.asking import QUORUM, Asker, NoAnswer, Refused
from belvedere.sim.cluster.checks import (
    check_batches,
    check_counters,
    check_inserts,
    check_registers,
    check_replicas,
    check_schemas,
    check_view,
)
from belvedere.sim.cluster.clients import KEYS, PAIRED, Client, DataClient
from belvedere.sim.cluster.memory import Memory
from belvedere.sim.cluster.nodes import Cluster
from belvedere.sim.cluster.plan import draw
from belvedere.sim.cluster.rest import Broken, at_rest
from belvedere.sim.cluster.rows import BASE, COMPARED, FILTERS, RowClient, VerifyingClient, ViewClient
from belvedere.sim.cluster.tables import PARTS_VIEW, SchemaClient, statements
from belvedere.sim.cluster.trouble import Trouble
from belvedere.sim.cluster.watch import Watch
from belvedere.sim.randomness import stream
from belvedere.sim.scenarios import register
from belvedere.sim.world import World


async def cluster(world: World) -> None:
    plan = draw(world.seed)
    nodes = Cluster(world, plan)
    nodes.watch = Watch(nodes.nodes, nodes.findings)
    memory = Memory(History(lambda: world.loop.now_ns))
    asker = Asker(nodes, stream(world.seed, "cluster asker"))
    for machine in plan.machines:
        nodes.boot(machine)
    while len(nodes.up) < len(plan.machines):
        await world.sleep(0.05)
    for text in statements(plan):
        await asker.change_schema(text)
    trouble = Trouble(nodes)
    trouble.begin()
    running = [asyncio.create_task(client.run()) for client in _clients(nodes, memory)]
    await trouble.strike()
    await trouble.end()
    # Clients see the healed cluster, too.
    await world.sleep(0.5)
    memory.stopped = True
    await asyncio.gather(*running)
    await at_rest(nodes, "healed")
    await _ask_everything(nodes, memory)
    await at_rest(nodes, "after the last writes")
    await _check(nodes, memory, asker)
    if plan.dark_end:
        for machine in plan.machines:
            nodes.crash(machine, lose_unsynced=True)
        for machine in plan.machines:
            nodes.boot(machine)
        await at_rest(nodes, "after a power failure")
        await _check(nodes, memory, asker)


def _clients(nodes: Cluster, memory: Memory) -> list[Client]:
    found: list[Client] = []
    for number in range(nodes.plan.clients):
        found.append(DataClient(nodes, memory, f"data {number}"))
        found.append(RowClient(nodes, memory, f"rows {number}"))
    found += [ViewClient(nodes, memory, "views"), VerifyingClient(nodes, memory, "verifying")]
    found += [SchemaClient(nodes, memory, f"schema {number}") for number in range(2)]
    return found


async def _ask_everything(nodes: Cluster, memory: Memory) -> None:
    """When everything works, every register is read and written through some node."""
    if "registers" not in nodes.plan.works:
        return
    last = DataClient(nodes, memory, "last")
    for key in map(str, range(KEYS + PAIRED)):
        machine = last.one_of(nodes.plan.machines)
        try:
            await last.read(key, machine)
            await last.write(key, memory.next_value(), QUORUM, machine)
        except (Refused, NoAnswer) as error:
            raise Broken(f"register {key} through {machine}, when everything works: {error}") from error


async def _check(nodes: Cluster, memory: Memory, asker: Asker) -> None:
    if nodes.findings:
        raise Broken("; ".join(nodes.findings[:5]))
    if nodes.world.error_lines:
        raise Broken(f"logged as errors: {nodes.world.error_lines[:5]}")
    works = nodes.plan.works
    check_registers(memory)
    check_schemas(nodes)
    if "batches" in works:
        await check_batches(asker, memory)
        await check_view(nodes, "parts", PARTS_VIEW, ("k", "n", "v"), lambda row: True, asker)
    if "counters" in works:
        await check_counters(asker, memory)
    if "truncation" in works:
        await check_inserts(asker, memory)
    if "rows" in works:
        for view, passes in FILTERS.items():
            if nodes.truth.table("ks", view) is not None:
                await check_view(nodes, BASE, view, COMPARED, passes, asker)
                nodes.world.mark("cluster.view_compared")
    await check_replicas(nodes)


register("cluster", cluster)
