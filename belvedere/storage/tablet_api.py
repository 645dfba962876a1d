"""What a tablet needs of its surroundings, and what it tells them."""

from typing import Protocol


class TabletInfo(Protocol):
    """What the metadata store says of a tablet."""

    @property
    def id(self) -> int: ...
    @property
    def table(self) -> bytes: ...
    @property
    def first_token(self) -> int: ...
    @property
    def last_token(self) -> int: ...
    @property
    def epoch(self) -> int: ...


class Durability(Protocol):
    """What a tablet needs of the commit log."""

    @property
    def durable(self) -> int: ...
    async def wait_written(self, position: int) -> None: ...


class MemoryUse:
    """Bytes in the memtables of all tablets; `frozen` of them wait for a flush."""

    __slots__ = ("frozen", "used")

    def __init__(self) -> None:
        self.used = 0
        self.frozen = 0
