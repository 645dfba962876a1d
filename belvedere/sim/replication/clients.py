"""Clients of the simulated cluster: each is a task of one life of a node, and asks through that node."""

from dataclasses import dataclass, field

from belvedere.cluster.configuration import Level
from belvedere.cluster.messages import Done, Kind, Outcome, Unknown
from belvedere.sim.checkers.history import History, Operation
from belvedere.sim.replication.keyvalue import APPLIED, NOTHING
from belvedere.sim.replication.node import SimNode

_LEVELS = (Level.QUORUM, Level.QUORUM, Level.QUORUM, Level.ONE, Level.ALL)


@dataclass
class Asked:
    """What all clients of a run did, and were told."""

    history: History
    tablets: int
    keys: int
    #: Reads at ONE promise less: only that what they see was written and stays so.
    weak_reads: list[tuple[str, bytes]] = field(default_factory=list)
    values: int = 0
    stopped: bool = False

    def tablet_of(self, key: str) -> int:
        return 1 + int(key[1:]) % self.tablets

    def all_keys(self) -> list[str]:
        return [f"k{number}" for number in range(self.keys * self.tablets)]


def number_of(value: bytes) -> int | None:
    return None if value == NOTHING else int(value)


def text_of(value: int | None) -> bytes:
    return NOTHING if value is None else b"%d" % value


class Client:
    def __init__(self, asked: Asked, node: SimNode, name: str) -> None:
        self._asked = asked
        self._node = node
        self._name = name
        self._seen: dict[str, int | None] = {}

    async def run(self, pause: float) -> None:
        random, asked = self._node.runtime.random, self._asked
        keys = asked.all_keys()
        while not asked.stopped:
            await self._node.runtime.clock.sleep(pause * (0.2 + 1.6 * random.random()))
            key = keys[random.randint(0, len(keys) - 1)]
            level = _LEVELS[random.randint(0, len(_LEVELS) - 1)]
            kind = random.random()
            if kind < 0.3:
                await self.read(key, level)
            elif kind < 0.75:
                await self.write(key, level)
            else:
                await self.compare_and_set(key, level)

    async def _ask(self, key: str, kind: str, level: Level, body: bytes) -> Outcome:
        return await self._node.ask(self._asked.tablet_of(key), kind, level, body)

    async def read(self, key: str, level: Level) -> Outcome:
        if level is Level.ONE:
            outcome = await self._ask(key, Kind.READ, level, key.encode())
            if isinstance(outcome, Done):
                self._asked.weak_reads.append((key, outcome.result))
            return outcome
        operation = self._asked.history.read(self._name, key)
        outcome = await self._ask(key, Kind.READ, level, key.encode())
        if isinstance(outcome, Done):
            value = self._seen[key] = number_of(outcome.result)
            self._asked.history.found(operation, value)
        else:
            self._note_failure(operation, outcome)
        return outcome

    async def write(self, key: str, level: Level) -> Outcome:
        value = self._next_value()
        operation = self._asked.history.write(self._name, key, value)
        outcome = await self._ask(key, Kind.WRITE, level, b"%s=%d" % (key.encode(), value))
        if isinstance(outcome, Done):
            self._seen[key] = value
            self._asked.history.done(operation)
        else:
            self._note_failure(operation, outcome)
        return outcome

    async def compare_and_set(self, key: str, level: Level) -> Outcome:
        value, expected = self._next_value(), self._seen.get(key)
        operation = self._asked.history.cas(self._name, key, expected, value)
        body = b"%s=%d?%s" % (key.encode(), value, text_of(expected))
        outcome = await self._ask(key, Kind.UPDATE, level, body)
        if not isinstance(outcome, Done):
            self._note_failure(operation, outcome)
        elif outcome.result == APPLIED:
            self._seen[key] = value
            self._asked.history.done(operation)
        else:
            seen = self._seen[key] = number_of(outcome.result[1:])
            self._asked.history.refused(operation, seen)
        return outcome

    def _note_failure(self, operation: Operation, outcome: Outcome) -> None:
        """Only what is unknown may still happen; everything else was certainly refused."""
        if not isinstance(outcome, Unknown):
            self._asked.history.failed(operation)

    def _next_value(self) -> int:
        self._asked.values += 1
        return self._asked.values
