"""When a healed cluster is at rest: everybody lives, is in sync, and has nothing left to do."""

from belvedere.cluster.primary import Primary
from belvedere.cluster.seat import Seat
from belvedere.meta import view_records
from belvedere.meta.state import Tablet
from belvedere.sim.cluster.nodes import Cluster

#: By when a healed cluster must be at rest, in seconds.
PATIENCE = 40.0


class Broken(AssertionError):
    """Something that must hold did not."""


async def at_rest(cluster: Cluster, what: str) -> None:
    until = cluster.world.loop.time() + PATIENCE
    while (unrest := _unrest(cluster)) is not None:
        if cluster.world.loop.time() > until:
            raise Broken(f"{what}: not at rest after {PATIENCE:.0f} s: {unrest}")
        await cluster.world.sleep(0.1)


def _unrest(cluster: Cluster) -> str | None:
    """What is not as it should be once everything works, if anything."""
    truth = cluster.truth
    for machine in cluster.plan.machines:
        if not cluster.is_up(machine):
            return f"{machine} has not started"
        node = cluster.nodes[machine]
        if not node.is_member:
            return f"{machine} has no lease"
        if node.database.state.revision != truth.revision:
            return f"{machine} knows revision {node.database.state.revision}, not {truth.revision}"
    for table in truth.tables_by_id.values():
        known = view_records.status_of(truth, table.id) if table.view is not None else None
        if known is not None and known.state != view_records.BUILT:
            return f"view {table.name} is {known.state}"
    for tablet in cluster.tablets:
        unrest = _of_tablet(cluster, tablet)
        if unrest is not None:
            table = truth.tables_by_id[tablet.table]
            return f"tablet {tablet.id} of {table.name}: {unrest}"
    return None


def _of_tablet(cluster: Cluster, tablet: Tablet) -> str | None:
    if sorted(tablet.in_sync) != sorted(tablet.replicas):
        return f"only {tablet.in_sync} of {tablet.replicas} are in sync"
    ends = set()
    for machine in tablet.replicas:
        seat = _seat(cluster, machine, tablet.id)
        if seat is None:
            return f"it is not open on {machine}"
        role, log = seat.replica.role, seat.replica.log
        if machine == tablet.primary and not seat.replica.serves(seat.moment()):
            return f"{machine} does not serve"
        if isinstance(role, Primary) and role.proposed is not None:
            return f"{machine} has proposed something"
        ends |= {log.last, log.committed}
        count = cluster.nodes[machine].replication.replicas.rows[tablet.id].outbox.count
        if count:
            return f"{machine} has {count} records to deliver"
    return None if len(ends) == 1 else f"last and committed are {sorted(ends)}"


def _seat(cluster: Cluster, machine: str, tablet: int) -> Seat | None:
    return cluster.nodes[machine].replication.host.seats.get(tablet)
