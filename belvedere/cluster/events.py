"""What happens to a replica of a tablet, and what it wants done."""

import msgspec

from belvedere.cluster.configuration import Configuration, Level
from belvedere.cluster.messages import Outcome, ReplicaMessage
from belvedere.model.positions import Position, Record


class Happening(msgspec.Struct, frozen=True, gc=False):
    pass


class Configured(Happening, frozen=True):
    """The metadata store says so."""

    configuration: Configuration


class Withdrawn(Happening, frozen=True):
    """The tablet is gone from the metadata."""


class Restored(Happening, frozen=True):
    """A snapshot is in place: what was here is gone, and the log begins after `position`."""

    position: Position


class Received(Happening, frozen=True):
    sender: str
    message: ReplicaMessage


class Durable(Happening, frozen=True):
    """The own log is on disk up to here."""

    position: Position


class Tick(Happening, frozen=True):
    """`wake_at` has come."""


class WriteAsked(Happening, frozen=True):
    request: int
    epoch: int
    level: Level
    data: bytes
    #: The record's version is not below this: the data names times that all later ones must be beyond.
    least: int = 0


class ReadAsked(Happening, frozen=True):
    """`to_write`: what is found may lead to a write of the same request, so it must be the newest: all that
    has its place in the log by now is to be seen."""

    request: int
    epoch: int
    level: Level
    to_write: bool = False
    #: It waits for others, and keeps nobody from being served.
    idle: bool = False


class Looked(Happening, frozen=True):
    """A read has seen what is stored; the newest record of it is at `seen`."""

    request: int
    seen: Position


class Decided(Happening, frozen=True):
    """A read has led to a write."""

    request: int
    data: bytes
    least: int = 0


class ProposalRefused(Happening, frozen=True):
    """It did not land, and never will."""

    number: int


class ProposalUnanswered(Happening, frozen=True):
    """It may have landed, or land later."""

    number: int


class TailRead(Happening, frozen=True):
    """From the log on disk: `floor` is the newest position not beyond what was asked for."""

    node: str
    asked: Position
    floor: Position
    records: tuple[Record, ...]


class TailGone(Happening, frozen=True):
    """The log does not go back so far any more."""

    node: str


Event = (
    Configured
    | Withdrawn
    | Restored
    | Received
    | Durable
    | Tick
    | WriteAsked
    | ReadAsked
    | Looked
    | Decided
    | ProposalRefused
    | ProposalUnanswered
    | TailRead
    | TailGone
)


# --- effects, to be carried out in their order --------------------------------------------------------


class AppendToLog(Happening, frozen=True):
    """And say Durable when they are. Readers do not see them before ApplyUpTo."""

    records: tuple[Record, ...]
    committed: Position


class ApplyUpTo(Happening, frozen=True):
    """Show readers what the log holds up to here."""

    position: Position


class CutLog(Happening, frozen=True):
    """Drop what is beyond, from the log and from what readers see, before anything is appended."""

    position: Position


class Send(Happening, frozen=True):
    node: str
    message: ReplicaMessage


class SendWhenDurable(Happening, frozen=True):
    """Once the own log is on disk up to `position`; never, if it is cut before."""

    node: str
    message: ReplicaMessage
    position: Position


class Propose(Happening, frozen=True):
    """Compare and set in the metadata store; the same number again is the same transaction again."""

    number: int
    configuration: Configuration


class CatchUp(Happening, frozen=True):
    """Somebody knows newer metadata."""

    revision: int


class Look(Happening, frozen=True):
    """Carry the request's read out, then say Looked or Decided."""

    request: int


class Answer(Happening, frozen=True):
    request: int
    outcome: Outcome


class ReadTail(Happening, frozen=True):
    """Read from the log on disk what comes after `position`, for a learner."""

    node: str
    position: Position


class NeedSnapshot(Happening, frozen=True):
    """The log does not reach back to where this learner is: somebody has to bring it a snapshot."""

    node: str


Effect = (
    AppendToLog
    | ApplyUpTo
    | CutLog
    | Send
    | SendWhenDurable
    | Propose
    | CatchUp
    | Look
    | Answer
    | ReadTail
    | NeedSnapshot
)
