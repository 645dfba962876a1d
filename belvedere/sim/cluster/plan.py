"""What one seed draws: the cluster, what its clients do, and which faults it has to bear."""

from dataclasses import dataclass

from belvedere.sim.randomness import between, stream

#: Switched on one by one. Never more than what the protocol promises to bear: disks keep what was synced, and
#: clocks run apart by less than the margin of a lease.
FAULTS: tuple[str, ...] = (
    "breaks",
    "delay",
    "partition",
    "one way",
    "isolation",
    "crash",
    "uneven crash",
    "all crash",
    "restart",
    "pause",
    "drift",
    "clock jump",
    "store unanswered",
    "store away",
    "store cut off",
    "slow disk",
)

#: What clients do: each seed has a few of these.
WORKS: tuple[str, ...] = ("registers", "batches", "counters", "rows", "truncation", "schema")


@dataclass(frozen=True)
class Plan:
    machines: tuple[str, ...]
    #: Replicas of each tablet, and tablets of each table.
    factor: int
    tablets: int
    works: tuple[str, ...]
    clients: int
    #: Seconds between what one client asks.
    haste: float
    faults: frozenset[str]
    #: Seconds of faults, and between one and the next.
    lasts: float
    pace: float
    #: Of each node. With little memory rows go to files, the log is let go, and who is behind needs a
    #: snapshot.
    memtable_bytes: int
    #: Whether the power of all machines fails when all is done: everything must be on their disks.
    dark_end: bool

    def describe(self) -> str:
        faults = ", ".join(fault for fault in FAULTS if fault in self.faults) or "none"
        return (
            f"{len(self.machines)} nodes, replication factor {self.factor}, {self.tablets} tablets each, "
            f"{self.clients} clients of {', '.join(self.works)}; faults: {faults}"
        )


def draw(seed: int) -> Plan:
    """Most seeds have some of the faults only: fewer hide less. One in ten has none."""
    random = stream(seed, "cluster plan")
    count = random.choice((3, 3, 3, 3, 4, 4, 5, 5, 6, 7))
    factor = min(count, random.choice((1, 2, 3, 3, 3, 3, 3, 5)))
    works = tuple(sorted(random.sample(WORKS, random.choice((1, 2, 2, 3)))))
    chosen = FAULTS
    share = random.random()
    if share < 0.1:
        chosen = ()
    elif share < 0.8:
        chosen = tuple(fault for fault in FAULTS if random.random() < 0.35)
    return Plan(
        tuple(f"n{number}" for number in range(1, count + 1)),
        factor,
        random.choice((1, 1, 2, 3)),
        works,
        random.choice((2, 3, 4)),
        between(random.random(), 0.01, 0.15),
        frozenset(chosen),
        random.uniform(1.5, 3.5),
        between(random.random(), 0.15, 0.8),
        random.choice((60_000, 60_000, 60_000, 12_000, 5_000)),
        random.random() < 0.2,
    )
