"""What a run leaves behind: all that is needed to judge it, in files that can be looked at later."""

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from belvedere.sim.checkers.history import History

#: Of a row of the base or of a view: shelf, id, place, size.
ItemRow = tuple[int, int, str | None, int | None]


class Trouble(msgspec.Struct):
    """What a client was told instead of an answer."""

    client: str
    at: int
    error: str
    text: str
    #: Whether clients must expect it while nodes come and go.
    allowed: bool


class Contents(msgspec.Struct):
    """What is there at the end, as one node tells it."""

    node: str
    consistency: str
    began: int
    ended: int
    #: By their names in the history.
    registers: dict[str, int | None] = {}
    counters: dict[str, int] = {}
    items: list[ItemRow] = []
    views: dict[str, list[ItemRow]] = {}


class LifeTold(msgspec.Struct):
    """One process of a node: how it ended, and what it had to say."""

    node: str
    status: int | None
    killed: bool
    asked_to_stop: bool
    log: list[str]


@dataclass
class Record:
    history: History
    troubles: list[Trouble] = field(default_factory=list)
    contents: list[Contents] = field(default_factory=list)
    lives: list[LifeTold] = field(default_factory=list)
    #: What was wrong before anything could be compared.
    failures: list[str] = field(default_factory=list)

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "history.jsonl").write_bytes(self.history.to_lines())
        for name in ("troubles", "contents", "lives", "failures"):
            encoded = (msgspec.json.encode(one) for one in getattr(self, name))
            (folder / f"{name}.jsonl").write_bytes(b"".join(line + b"\n" for line in encoded))

    @staticmethod
    def load(folder: Path) -> "Record":
        def lines(name: str, kind: type) -> list:
            return [
                msgspec.json.decode(line, type=kind)
                for line in (folder / f"{name}.jsonl").read_bytes().splitlines()
            ]

        return Record(
            History.merged([(folder / "history.jsonl").read_bytes()]),
            lines("troubles", Trouble),
            lines("contents", Contents),
            lines("lives", LifeTold),
            lines("failures", str),
        )
