"""What one seed draws: the cluster, and which faults it has to bear."""

from dataclasses import dataclass

from belvedere.sim.randomness import between, stream

#: Switched on one by one. Never more than what the protocol promises to bear: disks are never lost, and
#: clocks run apart by less than the margin of a lease.
FAULTS: tuple[str, ...] = (
    "loss",
    "delay",
    "doubling",
    "partition",
    "one way",
    "isolation",
    "crash",
    "uneven crash",
    "all crash",
    "pause",
    "drift",
    "store unanswered",
    "store away",
    "store cut off",
    "slow disk",
    "clock jump",
)


@dataclass(frozen=True)
class Plan:
    machines: tuple[str, ...]
    #: Replicas of each tablet, the primary first.
    tablets: tuple[tuple[str, ...], ...]
    keys: int
    faults: frozenset[str]
    #: Seconds of faults, and between one and the next.
    lasts: float
    pace: float

    @property
    def everything(self) -> bool:
        return len(self.faults) == len(FAULTS)


def draw(seed: int) -> Plan:
    """Three of four seeds have some of the faults only: fewer hide less."""
    random = stream(seed, "replication plan")
    count = random.choice((3, 3, 3, 3, 3, 4, 4, 5, 6, 7))
    machines = tuple(f"n{number}" for number in range(1, count + 1))
    tablets = []
    for _ in range(random.choice((1, 1, 1, 2, 2))):
        replicas = min(count, random.choice((1, 2, 2, 3, 3, 3, 4, 5)))
        tablets.append(tuple(random.sample(machines, replicas)))
    chosen = FAULTS
    if random.random() < 0.75:
        chosen = tuple(fault for fault in FAULTS if random.random() < 0.35)
    lasts = random.uniform(1.5, 3.0)
    pace = between(random.random(), 0.08, 0.6)
    return Plan(machines, tuple(tablets), random.randint(2, 5), frozenset(chosen), lasts, pace)
