"""What replicas say to each other survives being bytes."""

import msgspec
import pytest

from belvedere.cluster import messages as said
from belvedere.cluster.configuration import Level
from belvedere.model.positions import NOWHERE, Position, Record

RECORDS = (Record(Position(1, 5), NOWHERE, b"one"), Record(Position(2, 1 << 53), Position(1, 5), b"\0"))
HEADING = (7, 3, 99)


@pytest.mark.parametrize(
    "message",
    [
        said.Append(*HEADING, NOWHERE, RECORDS, Position(1, 5)),
        said.Standing(*HEADING, Position(2, 9), Position(1, 5), NOWHERE, True),
        said.CutBack(*HEADING, Position(2, 9), Position(1, 5)),
        said.AskTail(*HEADING, Position(1, 5)),
        said.TailOf(*HEADING, Position(2, 9), RECORDS),
        said.Stale(*HEADING),
        said.Request(*HEADING, 4, 5, said.Kind.UPDATE, Level.QUORUM, b"body"),
        said.Reply(*HEADING, 4, 5, said.Done(b"result")),
        said.Reply(*HEADING, 4, 5, said.Unavailable(2, 1)),
        said.Reply(*HEADING, 4, 5, said.StaleEpoch(101)),
    ],
    ids=lambda message: type(message).__name__,
)
def test_messages_go_through_bytes(message: said.AnyMessage) -> None:
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=said.AnyMessage)
    assert again == message
    assert type(again) is type(message)
    if isinstance(again, said.Append):
        assert again.previous.epoch == 0, "positions are positions again"
