"""What a node and its Spark driver, a child process, say to each other: a line of JSON each."""

import msgspec


class Start(msgspec.Struct, frozen=True, tag="start"):
    """The first thing that the driver hears; it answers Ready or Unavailable."""

    settings: dict[str, str]
    name: str


class RunJob(msgspec.Struct, frozen=True, tag="run"):
    """Answered, in the end, by one JobEnded."""

    id: str
    #: Of the job in the exchange; the tasks lie there.
    directory: str
    tasks: int


class CancelJob(msgspec.Struct, frozen=True, tag="cancel"):
    id: str


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    spark_version: str


class Unavailable(msgspec.Struct, frozen=True, tag="unavailable"):
    message: str


class JobEnded(msgspec.Struct, frozen=True, tag="ended"):
    id: str
    #: Why it was not done; None: it was.
    failure: str | None = None


ToDriver = Start | RunJob | CancelJob
FromDriver = Ready | Unavailable | JobEnded

encode = msgspec.json.encode
to_driver = msgspec.json.Decoder(ToDriver).decode
from_driver = msgspec.json.Decoder(FromDriver).decode
