"""Clients under load that remember what was acknowledged to them, and compare it with what is there later."""

import random
import threading
from dataclasses import dataclass, field
from typing import Any

from cassandra import DriverException, RequestExecutionException
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable, Session
from cassandra.connection import ConnectionException
from cassandra.policies import WhiteListRoundRobinPolicy

SCHEMA = (
    "CREATE KEYSPACE IF NOT EXISTS crash WITH replication = "
    "{'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE IF NOT EXISTS crash.rows (writer int, key int, value int, filler blob, "
    "PRIMARY KEY (writer, key))",
    "CREATE TABLE IF NOT EXISTS crash.left (id int PRIMARY KEY, value int)",
    "CREATE TABLE IF NOT EXISTS crash.right (id int PRIMARY KEY, value int)",
    "CREATE TABLE IF NOT EXISTS crash.claims (id int PRIMARY KEY, owner int)",
)
#: What a request may fail with when its server dies. Its outcome is then unknown.
LOST = (NoHostAvailable, DriverException, RequestExecutionException, ConnectionException, OSError)
WRITERS, KEYS = 8, 60
Row = tuple[int, int]


@dataclass
class Memory:
    """What clients know: of each row, the values that it may have now (None: not there)."""

    rows: dict[Row, set[int | None]] = field(default_factory=dict)
    pairs: dict[int, set[int | None]] = field(default_factory=dict)
    #: Who was told that it claimed an id.
    claims: dict[int, int] = field(default_factory=dict)
    next_value: int = 1
    next_claim: int = 1
    acknowledged: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fresh_value(self) -> int:
        with self.lock:
            self.next_value += 1
            return self.next_value


def connect(host: str, port: int) -> tuple[Cluster, Session]:
    profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy([host]), request_timeout=60)
    cluster = Cluster([host], port=port, execution_profiles={EXEC_PROFILE_DEFAULT: profile})
    return cluster, cluster.connect()


class Writer(threading.Thread):
    """One client: rows and pairs of its own, so that it knows their order of writes; claims of all."""

    def __init__(self, number: int, session: Session, memory: Memory, statements: dict[str, Any], seed: int):
        super().__init__(name=f"writer-{number}")
        self.number = number
        self.failure: BaseException | None = None
        self._session, self._memory, self._statements = session, memory, statements
        self._random = random.Random(f"{seed}/{number}")
        self.stopping = threading.Event()

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                share = self._random.random()
                if share < 0.8:
                    self._write_row()
                elif share < 0.9:
                    self._write_pair()
                else:
                    self._claim()
                self._memory.acknowledged += 1
        except LOST:
            pass
        except BaseException as failure:
            self.failure = failure

    def _write_row(self) -> None:
        row = (self.number, self._random.randrange(KEYS))
        value = None if self._random.random() < 0.2 else self._memory.fresh_value()
        known = self._memory.rows.setdefault(row, {None})
        known.add(value)
        if value is None:
            self._session.execute(self._statements["delete"], row)
        else:
            filler = bytes(self._random.randrange(1500))
            self._session.execute(self._statements["insert"], (*row, value, filler))
        self._memory.rows[row] = {value}

    def _write_pair(self) -> None:
        number = self.number * 100 + self._random.randrange(10)
        value = self._memory.fresh_value()
        self._memory.pairs.setdefault(number, {None}).add(value)
        self._session.execute(self._statements["pair"], (number, value, number, value))
        self._memory.pairs[number] = {value}

    def _claim(self) -> None:
        number = self._memory.next_claim
        result = self._session.execute(self._statements["claim"], (number, self.number))
        self._memory.next_claim = max(self._memory.next_claim, number + 1)
        if result.one().applied:
            with self._memory.lock:
                before = self._memory.claims.setdefault(number, self.number)
            assert before == self.number, f"{number} was claimed by {before} and by {self.number}"


def prepare(session: Session) -> dict[str, Any]:
    return {
        "insert": session.prepare("INSERT INTO crash.rows (writer, key, value, filler) VALUES (?, ?, ?, ?)"),
        "delete": session.prepare("DELETE FROM crash.rows WHERE writer = ? AND key = ?"),
        "pair": session.prepare(
            "BEGIN BATCH INSERT INTO crash.left (id, value) VALUES (?, ?); "
            "INSERT INTO crash.right (id, value) VALUES (?, ?); APPLY BATCH"
        ),
        "claim": session.prepare("INSERT INTO crash.claims (id, owner) VALUES (?, ?) IF NOT EXISTS"),
    }


def start_writers(session: Session, memory: Memory, seed: int) -> list[Writer]:
    statements = prepare(session)
    writers = [Writer(number, session, memory, statements, seed) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    return writers


def finish(writers: list[Writer]) -> None:
    for writer in writers:
        writer.stopping.set()
    for writer in writers:
        writer.join(60)
        assert not writer.is_alive(), f"{writer.name} hangs"
        if writer.failure is not None:
            raise writer.failure


def check(session: Session, memory: Memory) -> None:
    """Compare, and take over what turned out of writes whose outcome was unknown."""
    found = {
        (row.writer, row.key): row.value
        for row in session.execute("SELECT writer, key, value FROM crash.rows")
    }
    wrong = [
        f"{row} may be {values}, is {found.get(row)}"
        for row, values in memory.rows.items()
        if found.get(row) not in values
    ]
    assert not wrong, wrong[:5]
    assert found.keys() <= memory.rows.keys()
    memory.rows = {row: {found.get(row)} for row in memory.rows}
    left = {row.id: row.value for row in session.execute("SELECT id, value FROM crash.left")}
    right = {row.id: row.value for row in session.execute("SELECT id, value FROM crash.right")}
    assert left == right, "a batch was torn"
    wrong = [
        f"pair {number} may be {values}, is {left.get(number)}"
        for number, values in memory.pairs.items()
        if left.get(number) not in values
    ]
    assert not wrong, wrong[:5]
    memory.pairs = {number: {left.get(number)} for number in memory.pairs}
    owners = {row.id: row.owner for row in session.execute("SELECT id, owner FROM crash.claims")}
    lost = {number: who for number, who in memory.claims.items() if owners.get(number) != who}
    assert not lost, f"claims lost: {lost}"
    memory.claims = dict(owners)
