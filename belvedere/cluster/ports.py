"""What replication needs of others: who keeps a replica's data, and who carries messages.

This is the seam to the storage engine and to the network. Whoever stands behind it is asked from one event
loop; what is not `async` happens at once.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

from belvedere.cluster.messages import AnyMessage
from belvedere.model.positions import Position, Record

#: None, or what made it impossible: then nobody can know what the log holds.
WhenWritten = Callable[[Exception | None], None]


class Written(msgspec.Struct, frozen=True):
    """What a write puts into the log, and the least version that its record may have."""

    data: bytes
    least: int = 0


class Found(msgspec.Struct, frozen=True):
    """What a read or an update comes to. `seen`: the newest record that what it saw depends on."""

    result: bytes
    seen: Position
    #: Of an update: None if it writes nothing.
    written: Written | None = None


class TabletStore(Protocol):
    """One replica's log, and what readers see. Log and cuts survive in the order in which they were made."""

    def has_room(self) -> bool:
        """Whether `append` would be taken now."""

    def append(self, records: tuple[Record, ...], committed: Position, written: WhenWritten) -> None:
        """To the log; call back once on disk. Readers do not see it yet. `committed` is worth keeping, more
        or less: the next start need not find out so much."""

    def apply(self, position: Position) -> None:
        """Show readers what the log holds up to here. It is never taken back."""

    def cut(self, position: Position) -> None:
        """Take everything beyond out of the log; nothing of that was applied. Needs no sync of its own: what
        is appended later is on disk later."""

    async def read_tail(self, after: Position, limit: int) -> tuple[Position, tuple[Record, ...]] | None:
        """The newest position in the log that is not beyond `after`, and records that follow it; None if
        the log does not go back so far."""

    def takes_write(self, body: bytes) -> bool:
        """Whether what earlier writes have left to do leaves room for this one."""

    def key_of(self, body: bytes) -> bytes:
        """What an update is alone with while it reads, decides and writes; and what a write changes."""

    def at_once(self, body: bytes) -> Written | None:
        """What a write puts into the log; None if that follows from what is stored: it is an update then."""

    def look_now(self, body: bytes, update: bool) -> Found | None:
        """What a read finds, or an update decides; None if that needs a disk: then `look`."""

    async def look(self, body: bytes, update: bool) -> Found: ...


class Opened(msgspec.Struct, frozen=True):
    store: TabletStore
    #: The newest records of the log, at least all that are not known to be committed, and the position
    #: before them.
    base: Position
    records: tuple[Record, ...]
    committed: Position


class Stores(Protocol):
    async def open(self, tablet: int) -> Opened:
        """The replica of this node, as its disk has it: maybe empty."""


class Peers(Protocol):
    """Carries messages between nodes: they may be lost, doubled, late and out of order. A message is handed
    to the life of the receiver that lived when it was sent, or to none."""

    def send(self, node: str, message: AnyMessage) -> None: ...
