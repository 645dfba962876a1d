"""What one client does, operation by operation, each noted in its history.

Keys are used for a few seconds and then left: their histories stay short enough to be searched, and those of
many moments are there to be compared at the end. Values are written once, so each tells who wrote it.
"""

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from cassandra import ConsistencyLevel, OperationTimedOut, ReadTimeout, Unavailable, WriteTimeout
from cassandra.cluster import NoHostAvailable, Session
from cassandra.connection import ConnectionException
from cassandra.protocol import IsBootstrappingErrorMessage, OverloadedErrorMessage

from belvedere.sim.checkers.history import History, Kind, Operation, Outcome, Value
from tests.cluster.chaos import schema
from tests.cluster.chaos.recording import Trouble

#: What tells a client that nothing was begun.
REFUSALS = (Unavailable, IsBootstrappingErrorMessage, OverloadedErrorMessage)
#: What may end an operation whose outcome nobody knows then.
LOST = (WriteTimeout, ReadTimeout, OperationTimedOut, NoHostAvailable, ConnectionException)

KEYS = 3
_GENERATION_SECONDS = 4.0
_PAUSE_SECONDS = 0.04
#: At most, of a row: so that memtables are flushed, and logs end that somebody who was away would need.
_FILLER_BYTES = 6000

Q, ONE, ALL = ConsistencyLevel.QUORUM, ConsistencyLevel.ONE, ConsistencyLevel.ALL


class Statements:
    """Prepared once for all who share a session."""

    def __init__(self, session: Session) -> None:
        self.execute = session.execute

        def prepared(text: str, level: int = Q) -> Any:
            statement = session.prepare(text)
            statement.consistency_level = level
            return statement

        ks = schema.KEYSPACE
        tables = (schema.REGISTERS, schema.CONDITIONAL, schema.LEFT, schema.RIGHT)
        write = f"INSERT INTO {ks}.registers (k, v, filler) VALUES (?, ?, ?)"
        self.write = [prepared(write, level) for level in (ALL, ONE, Q, Q, Q, Q, Q, Q)]
        self.remove = prepared(f"DELETE FROM {ks}.registers WHERE k = ?")
        self.read = {one: prepared(f"SELECT v FROM {ks}.{one} WHERE k = ?") for one in tables}
        self.read_one = prepared(f"SELECT v FROM {ks}.registers WHERE k = ?", ONE)
        self.read_serial = prepared(f"SELECT v FROM {ks}.conditional WHERE k = ?", ConsistencyLevel.SERIAL)
        self.claim = prepared(f"INSERT INTO {ks}.conditional (k, v) VALUES (?, ?) IF NOT EXISTS")
        self.swap = prepared(f"UPDATE {ks}.conditional SET v = ? WHERE k = ? IF v = ?")
        self.give_up = prepared(f"DELETE FROM {ks}.conditional WHERE k = ? IF v = ?")
        self.pair = prepared(
            f"BEGIN BATCH INSERT INTO {ks}.left (k, v) VALUES (?, ?); "
            f"INSERT INTO {ks}.right (k, v) VALUES (?, ?); APPLY BATCH"
        )
        self.put = prepared(f"INSERT INTO {ks}.items (shelf, id, place, size, filler) VALUES (?, ?, ?, ?, ?)")
        self.move = prepared(f"UPDATE {ks}.items SET place = ?, size = ? WHERE shelf = ? AND id = ?")
        self.take = prepared(f"DELETE FROM {ks}.items WHERE shelf = ? AND id = ?")
        self.clear = prepared(f"DELETE FROM {ks}.items WHERE shelf = ? AND id >= ? AND id < ?")
        self.scan = prepared(f"SELECT k, v FROM {ks}.registers")
        self.scan.fetch_size = 20
        self.look = prepared(f"SELECT size FROM {ks}.items WHERE shelf = ? AND id = ?")
        self.count = prepared(f"UPDATE {ks}.counters SET n = n + 1 WHERE k = ?")


class Client:
    """One at a time, as fast as one person would."""

    def __init__(self, name: str, number: int, seed: int, statements: Statements, began: int):
        self.history = History(time.monotonic_ns)
        self.troubles: list[Trouble] = []
        self._name, self._statements, self._began = name, statements, began
        self._draw = random.Random(f"{seed}/{name}")
        self._next_value = number * 1_000_000
        self._seen: dict[str, Value] = {}
        #: Conditional registers of which it was not told what became of its last write.
        self._unsettled: list[str] = []

    def step(self) -> None:
        works = (
            self._register,
            self._register,
            self._condition,
            self._condition,
            self._pair,
            self._item,
            self._item,
        )
        self._draw.choice((*works, self._counter))()
        time.sleep(self._draw.random() * _PAUSE_SECONDS)

    # Each kind of work.

    def _register(self) -> None:
        key = self._key()
        name = schema.register(schema.REGISTERS, key)
        share, do = self._draw.random(), self._statements
        if share < 0.02:
            self._scan()
        elif share < 0.45:
            value = self._value()
            # Even for one replica's word all have it who are in sync: no level is weaker than another here.
            statement = self._draw.choice(do.write)
            self._write(
                [self.history.write(self._name, name, value)], statement, (key, value, self._filler())
            )
        elif share < 0.5:
            self._write([self.history.write(self._name, name, None)], do.remove, (key,))
        elif share < 0.9:
            self._read(name, do.read[schema.REGISTERS], (key,))
        else:
            self._read(schema.WEAK + name, do.read_one, (key,))

    def _condition(self) -> None:
        if self._unsettled:
            key = self._unsettled.pop()
            self._look_at_condition(key, self._statements.read_serial)
            return
        key = self._key()
        share, do = self._draw.random(), self._statements
        known = self._seen.get(key)
        if share < 0.25:
            self._look_at_condition(key, do.read_serial)
        elif share < 0.35:
            self._look_at_condition(key, do.read[schema.CONDITIONAL])
        elif known is None:
            value = self._value()
            self._swap(key, None, value, do.claim, (key, value))
        elif share < 0.9:
            value = self._value()
            self._swap(key, known, value, do.swap, (value, key, known))
        else:
            self._swap(key, known, None, do.give_up, (key, known))

    def _pair(self) -> None:
        key = self._key()
        sides = schema.LEFT, schema.RIGHT
        if self._draw.random() < 0.5:
            value = self._value()
            both = [self.history.write(self._name, schema.register(side, key), value) for side in sides]
            # Of several tablets one may have refused and another not.
            self._write(both, self._statements.pair, (key, value, key, value), refusal_is_certain=False)
        else:
            side = self._draw.choice(sides)
            self._read(schema.register(side, key), self._statements.read[side], (key,))

    def _item(self) -> None:
        shelf = self._draw.randrange(schema.SHELVES)
        number = self._generation() * KEYS + self._draw.randrange(KEYS)
        name = schema.item(shelf, number)
        share, do = self._draw.random(), self._statements
        if share < 0.03:
            first = number - number % KEYS
            names = [schema.item(shelf, one) for one in range(first, first + KEYS)]
            every = [self.history.write(self._name, one, None) for one in names]
            self._write(every, do.clear, (shelf, first, first + KEYS))
        elif share < 0.6:
            value = self._value()
            place = schema.place_of(value)
            operation = self.history.write(self._name, name, value)
            if share < 0.35:
                self._write([operation], do.put, (shelf, number, place, value, self._filler()))
            else:
                self._write([operation], do.move, (place, value, shelf, number))
        elif share < 0.75:
            self._write([self.history.write(self._name, name, None)], do.take, (shelf, number))
        else:
            self._read(name, do.look, (shelf, number))

    def _counter(self) -> None:
        key = self._key()
        operation = self.history.write(self._name, schema.register(schema.COUNTERS, key), 1)
        self._write([operation], self._statements.count, (key,))

    def _scan(self) -> None:
        """Page by page, while the primaries of what was not seen yet may change. Each row was there at some
        moment of it, and whatever is not in it was not there at some moment."""
        known = {one.key for one in self.history.operations if one.key.startswith(schema.REGISTERS)}
        began = time.monotonic_ns()
        found: dict[str, Value] = {}

        def note(rows: Any) -> None:
            # Whoever takes the next row may be told that its page cannot be had.
            found.update((schema.register(schema.REGISTERS, key), value) for key, value in rows)

        if self._carry_out((), self._statements.scan, (), note):
            ended = time.monotonic_ns()
            for key in known | found.keys():
                seen = Operation(self._name, key, Kind.READ, began, ended=ended, outcome=Outcome.DONE)
                seen.seen = found.get(key)
                self.history.operations.append(seen)

    # How each is carried out and noted.

    def _write(
        self,
        operations: Sequence[Operation],
        statement: Any,
        values: tuple,
        *,
        refusal_is_certain: bool = True,
    ) -> None:
        def done(_: Any) -> None:
            for operation in operations:
                self.history.done(operation)

        self._carry_out(operations if refusal_is_certain else (), statement, values, done)

    def _read(self, name: str, statement: Any, values: tuple) -> bool:
        operation = self.history.read(self._name, name)

        def found(rows: Any) -> None:
            row = rows.one()
            self.history.found(operation, None if row is None else row[0])

        return self._carry_out((operation,), statement, values, found)

    def _look_at_condition(self, key: str, statement: Any) -> None:
        if self._read(schema.register(schema.CONDITIONAL, key), statement, (key,)):
            seen = self.history.operations[-1].seen
            self._seen[key] = seen

    def _swap(self, key: str, expected: Value, value: Value, statement: Any, values: tuple) -> None:
        name = schema.register(schema.CONDITIONAL, key)
        operation = self.history.cas(self._name, name, expected, value)

        def told(rows: Any) -> None:
            row = rows.one()
            if row.applied:
                self._seen[key] = value
                self.history.done(operation)
            else:
                # Without a row there is no column v in the answer.
                self._seen[key] = getattr(row, "v", None)
                self.history.refused(operation, self._seen[key])

        if not self._carry_out((operation,), statement, values, told):
            self._unsettled.append(key)

    def _carry_out(
        self, refusable: Sequence[Operation], statement: Any, values: tuple, note: Callable[[Any], None]
    ) -> bool:
        """Whether there was an answer."""
        try:
            note(self._statements.execute(statement, values))
        except Exception as error:
            if isinstance(error, REFUSALS):
                for operation in refusable:
                    self.history.failed(operation)
            self._trouble(error, isinstance(error, REFUSALS + LOST))
            # As somebody who tries again would.
            time.sleep(0.05)
            return False
        return True

    def _trouble(self, error: Exception, allowed: bool) -> None:
        told = Trouble(self._name, time.monotonic_ns(), type(error).__name__, str(error)[:500], allowed)
        self.troubles.append(told)

    # What is drawn.

    def _generation(self) -> int:
        now = int((time.monotonic_ns() - self._began) / 1e9 / _GENERATION_SECONDS)
        # Now and then an old one: what was left long ago must be there still.
        return self._draw.randrange(now + 1) if self._draw.random() < 0.1 else now

    def _key(self) -> str:
        return f"{self._generation()}.{self._draw.randrange(KEYS)}"

    def _filler(self) -> bytes:
        return self._draw.randbytes(self._draw.randrange(_FILLER_BYTES))

    def _value(self) -> int:
        self._next_value += 1
        return self._next_value
