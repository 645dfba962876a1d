"""Records of a tablet's replicated log, and where they stand in it.

Every record names the one before it. The primary of an epoch gives each of its records a larger version than
any record before, so (epoch, version) names a record for good: two logs that hold the same position hold the
same records up to it. Positions are compared epoch first, which is their order in any log.
"""

from typing import NamedTuple

import msgspec


class Position(NamedTuple):
    epoch: int
    #: The commit version.
    version: int


#: Before the first record.
NOWHERE = Position(0, 0)


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    position: Position
    previous: Position
    #: What the write does: `model.mutations.ReplicatedWrite`, encoded.
    data: bytes
