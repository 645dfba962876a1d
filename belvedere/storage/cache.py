"""Decoded row groups, kept until room is needed: one cache per node, bounded in bytes."""

from collections import OrderedDict
from typing import Generic, Protocol, TypeVar


class HasCost(Protocol):
    @property
    def cost(self) -> int:
        """Bytes that keeping the object takes, at most."""


V = TypeVar("V", bound=HasCost)

#: (number of the open file, row group)
CacheKey = tuple[int, int]


class GroupCache(Generic[V]):
    """Least recently used goes first. Used on the event loop's thread alone."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.hits = 0
        self.misses = 0
        self._groups: OrderedDict[CacheKey, V] = OrderedDict()
        self._files = 0

    def new_file(self) -> int:
        """A number for a newly opened file, never given twice, so that a new file meets no old groups."""
        self._files += 1
        return self._files

    def get(self, key: CacheKey) -> V | None:
        group = self._groups.get(key)
        if group is None:
            self.misses += 1
            return None
        self.hits += 1
        self._groups.move_to_end(key)
        return group

    def put(self, key: CacheKey, group: V) -> None:
        """Something larger than the whole cache is not kept."""
        self.drop(key)
        if group.cost > self.limit:
            return
        self._groups[key] = group
        self.used += group.cost
        while self.used > self.limit:
            _, evicted = self._groups.popitem(last=False)
            self.used -= evicted.cost

    def drop(self, key: CacheKey) -> None:
        group = self._groups.pop(key, None)
        if group is not None:
            self.used -= group.cost

    def drop_file(self, number: int, groups: int) -> None:
        for group in range(groups):
            self.drop((number, group))

    def __len__(self) -> int:
        return len(self._groups)
