"""The few keys and values that statements on one table choose from, so that they meet each other often."""

import copy
import random
from typing import Any

from belvedere.sim.model.restrictions import Restriction
from belvedere.sim.model.schema import Column, Table
from belvedere.sim.model.state import Key

#: A moment shortly after the simulated clocks begin: client timestamps around it meet the server's own.
TIMES = 1_767_225_600_000_000 + 20_000_000


class Pool:
    def __init__(self, rng: random.Random, table: Table) -> None:
        self.rng = rng
        self.table = table
        self.domains = [_domain(rng, column, 3) for column in table.partition]
        self.clustering = [_domain(rng, column, rng.choice((2, 3, 4))) for column in table.clustering]

    def split(self, count: int) -> "list[Pool]":
        """As many pools whose partitions are apart, or fewer if there are not so many values."""
        first = self.domains[0]
        pools = []
        for start in range(min(count, len(first))):
            pool = copy.copy(self)
            pool.domains = [first[start::count], *self.domains[1:]]
            pools.append(pool)
        return pools

    def key(self) -> Key:
        return tuple(self.rng.choice(domain) for domain in self.domains)

    def keys(self, *, several: float) -> tuple[Key, ...]:
        key = self.key()
        if self.rng.random() >= several:
            return (key,)
        last = self.domains[-1]
        chosen = self.rng.sample(last, self.rng.randint(1, len(last)))
        return tuple((*key[:-1], value) for value in chosen)

    def clustering_value(self, index: int) -> Any:
        return self.rng.choice(self.clustering[index])

    def full_row(self, *, several: float = 0.0) -> tuple[Restriction, ...]:
        width = len(self.table.clustering)
        parts = [Restriction(i, "=", ((self.clustering_value(i),),)) for i in range(width)]
        if parts and self.rng.random() < several:
            domain = self.clustering[-1]
            chosen = self.rng.sample(domain, self.rng.randint(1, len(domain)))
            parts[-1] = Restriction(width - 1, "IN", tuple((value,) for value in chosen))
        return tuple(parts)

    def range(self, *, lists: bool) -> tuple[Restriction, ...]:
        """Equalities (with `lists` also IN) on some leading columns, then perhaps a slice."""
        rng, width = self.rng, len(self.table.clustering)
        if not width:
            return ()
        equal = rng.randint(0, width)
        parts = [Restriction(i, "=", ((self.clustering_value(i),),)) for i in range(equal)]
        if lists and parts and rng.random() < 0.3:
            index = rng.randrange(equal)
            chosen = rng.sample(self.clustering[index], rng.randint(1, len(self.clustering[index])))
            parts[index] = Restriction(index, "IN", tuple((value,) for value in chosen))
        if equal == width:
            return tuple(parts)
        if not equal and rng.random() < 0.3:
            return self._tuple_restriction(lists)
        return (*parts, *self._slice(equal, 1 if rng.random() < 0.7 else rng.randint(1, width - equal)))

    def _tuple_restriction(self, lists: bool) -> tuple[Restriction, ...]:
        rng, width = self.rng, len(self.table.clustering)
        if lists and rng.random() < 0.4:
            values = {tuple(self.clustering_value(i) for i in range(width)): None for _ in range(3)}
            return (Restriction(0, "IN", tuple(values), True),)
        return self._slice(0, rng.randint(1, width), tuples=True)

    def _slice(self, first: int, width: int, *, tuples: bool = False) -> tuple[Restriction, ...]:
        rng = self.rng
        tuples = tuples or width > 1

        def bound(op: str) -> Restriction:
            wide = width if rng.random() < 0.7 else rng.randint(1, width)
            values = tuple(self.clustering_value(first + i) for i in range(wide))
            return Restriction(first, op, (values,), tuples)

        low, high = bound(rng.choice((">", ">="))), bound(rng.choice(("<", "<=")))
        return rng.choice(((low,), (high,), (low, high)))

    def timestamp(self) -> int | None:
        """For USING TIMESTAMP."""
        share = self.rng.random()
        if self.table.prompt_purge or share < 0.4:
            return None
        return draw_timestamp(self.rng)


def draw_timestamp(rng: random.Random) -> int:
    if rng.random() < 0.75:
        return TIMES + 1000 * rng.randint(0, 9)
    return rng.choice((1000, 2000, 3000, TIMES - 15_000_000, TIMES + 3_600_000_000))


def _domain(rng: random.Random, column: Column, size: int) -> list[Any]:
    """Distinct values, fewer where the type has not so many."""
    found: dict[Any, None] = {}
    for _ in range(3 * size):
        if len(found) < size:
            found[column.kind.draw(rng)] = None
    return list(found)
