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
