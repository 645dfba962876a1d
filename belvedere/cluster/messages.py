"""What replicas of a tablet, and those who ask them, say to each other.

Messages may be lost, delayed, doubled and overtaken by others. Each names the epoch in which it was said and
the revision of the metadata that this epoch came with: who does not know it yet catches up before it listens.
"""

import msgspec

from belvedere.cluster.configuration import Level
from belvedere.model.positions import Position, Record


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    tablet: int
    epoch: int
    revision: int


class Append(Message, frozen=True, tag=1):
    """Primary to follower: what comes after `previous`, maybe nothing. Up to `committed` it is for good."""

    previous: Position
    records: tuple[Record, ...]
    committed: Position


class Standing(Message, frozen=True, tag=2):
    """Follower to primary: where my log ends, how far it is on disk, what I know to be committed. `waits`:
    send me what comes after `last`, whatever is on its way."""

    last: Position
    durable: Position
    committed: Position
    waits: bool = False


class CutBack(Message, frozen=True, tag=3):
    """Primary to learner: `last`, where your log ends, is none of mine. Cut everything beyond `to`; if it
    ends elsewhere by now, this comes late, and would take away what is good."""

    last: Position
    to: Position


class AskTail(Message, frozen=True, tag=4):
    """New primary to those in sync: what do you have beyond `after`?"""

    after: Position


class TailOf(Message, frozen=True, tag=5):
    """Answer to AskTail: my log ends at `last`; here is some of it."""

    last: Position
    records: tuple[Record, ...]


class Stale(Message, frozen=True, tag=6):
    """You speak of an old epoch: catch up with this revision."""


ReplicaMessage = Append | Standing | CutBack | AskTail | TailOf | Stale


# --- requests ----------------------------------------------------------------------------------------


class Kind:
    READ = "read"
    #: A read that only the primary can answer, whatever the level.
    FRESH = "fresh"
    WRITE = "write"
    #: Reads, decides, and writes or not: nobody gets in between.
    UPDATE = "update"


class Request(Message, frozen=True, tag=7):
    """Somebody's operation, on its way to a replica. Sender, incarnation and number name it for good."""

    incarnation: int
    number: int
    kind: str
    level: Level
    body: bytes


class Done(msgspec.Struct, frozen=True, array_like=True, tag=1):
    result: bytes = b""


class Unknown(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """It may have been carried out, or be carried out later."""

    why: str


class StaleEpoch(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Nothing was done: catch up with this revision, and ask again."""

    revision: int


class NotServing(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Nothing was done: this replica serves nobody now. Ask again in a moment."""

    why: str


class Unavailable(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Nothing was done: too few replicas are in sync."""

    needed: int
    alive: int


class Overloaded(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """Nothing was done: too much is under way already."""


class Failed(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """Nothing was done: it cannot be. `kind` names the error."""

    kind: str
    why: str


Outcome = Done | Unknown | StaleEpoch | NotServing | Unavailable | Overloaded | Failed


class Reply(Message, frozen=True, tag=8):
    incarnation: int
    number: int
    outcome: Outcome


AnyMessage = ReplicaMessage | Request | Reply
