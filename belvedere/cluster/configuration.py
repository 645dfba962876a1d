"""Who keeps a tablet, as one record of the metadata store says it.

A configuration is changed by compare-and-set only: the next one has the next epoch, and is refused if the
record is not the one that it was made from. So configurations form one chain, whoever proposes.
"""

from enum import Enum
from typing import NamedTuple

import msgspec

from belvedere.meta import records
from belvedere.meta.metadata import Proposal
from belvedere.meta.state import Tablet
from belvedere.meta.store import Put, Unchanged


class Moment(NamedTuple):
    """What a node knows when something happens: its clocks, and whether it certainly holds its lease."""

    #: By the monotonic clock.
    seconds: float
    #: By the wall clock; for versions only.
    micros: int
    leased: bool


class Level(Enum):
    """How many replicas must be in sync for an operation to begin, and when it is acknowledged."""

    ONE = "ONE"
    TWO = "TWO"
    THREE = "THREE"
    QUORUM = "QUORUM"
    ALL = "ALL"

    def needed(self, replicas: int) -> int:
        fixed = _FIXED.get(self)
        if fixed is not None:
            return fixed
        return replicas if self is Level.ALL else replicas // 2 + 1


_FIXED = {Level.ONE: 1, Level.TWO: 2, Level.THREE: 3}


class Configuration(msgspec.Struct, frozen=True, array_like=True):
    epoch: int
    primary: str
    #: They have every acknowledged write on disk. The primary is one of them.
    in_sync: tuple[str, ...]
    #: All who shall keep the tablet; who is not in sync is a learner.
    replicas: tuple[str, ...]
    #: Of the metadata store, which wrote it; of a proposal: what it is made from.
    revision: int

    def next(self, in_sync: tuple[str, ...], primary: str | None = None) -> "Configuration":
        return Configuration(self.epoch + 1, primary or self.primary, in_sync, self.replicas, self.revision)

    def without(self, nodes: list[str]) -> "Configuration":
        return self.next(tuple(node for node in self.in_sync if node not in nodes))

    def joined_by(self, node: str) -> "Configuration":
        return self.next(tuple(one for one in self.replicas if one in self.in_sync or one == node))


def configuration_of(tablet: Tablet) -> Configuration:
    return Configuration(tablet.epoch, tablet.primary, tablet.in_sync, tablet.replicas, tablet.revision)


def proposal_of(tablet: Tablet, proposed: Configuration) -> Proposal:
    """As a transaction's asserts and updates."""
    key = records.tablet_key(tablet.table, tablet.id)
    record = records.TabletRecord(
        str(tablet.first_token),
        str(tablet.last_token),
        proposed.epoch,
        proposed.primary,
        list(proposed.replicas),
        list(proposed.in_sync),
    )
    return (Unchanged(key, proposed.revision),), (Put(key, records.encode(record)),)
