"""What views ask of the floor above: large work, done in columns, on Spark or in this process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from belvedere.storage.tablet import TabletStore
from belvedere.views.coordinator import Amount, Lane
from belvedere.views.images import ImageMaker, Place


@dataclass(frozen=True, slots=True)
class Range:
    """One tablet of a base, and the views that its rows are wanted for."""

    store: TabletStore
    makers: tuple[ImageMaker, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """Where a view may differ from its base. Places that are named differ, unless a write changed them
    meanwhile; at others nothing is wrong."""

    base_rows: int
    view_rows: int
    places: Sequence[tuple[int, Place]] = field(default=())
    #: How many more places there are.
    unnamed: int = 0


#: The number of a range that is done, and what was read of it.
OnDone = Callable[[int, Amount], None]
#: What was read of all ranges so far.
OnProgress = Callable[[Amount], None]


class Pipeline(Protocol):
    async def build(self, ranges: Sequence[Range], max_rate: int, done: OnDone, progress: OnProgress) -> None:
        """Bring the rows of the ranges into the views. What is told as done is durable. Raises RangeChanged
        if the base was truncated meanwhile."""

    async def stage(self, ranges: Sequence[Range], lane: Lane, done: OnDone, progress: OnProgress) -> None:
        """Bring into the views what loaded files change in the ranges, and make these files ordinary."""

    async def compare(self, base: Sequence[TabletStore], maker: ImageMaker, now: int) -> Compared:
        """Look for what is wrong in a view, without holding anything up."""
