"""A dumb twin of one replica's log: the list of its records, and every list that it was before.

A crash takes the log back to one of these: not before the last that was said to be written.
"""

import random
from bisect import bisect_right
from dataclasses import dataclass, field

from belvedere.model.mutations import decode_replicated
from belvedere.model.positions import NOWHERE, Position, Record
from belvedere.storage.engine import StorageEngine
from belvedere.storage.errors import StorageError
from belvedere.storage.replica_log import ReplicaLog
from belvedere.storage.replica_records import OpenedReplica
from tests.storage.replica_help import expected, record, shown


@dataclass
class ReplicaModel:
    tablet: int
    records: list[Record] = field(default_factory=list)
    #: What everybody agreed on: nobody cuts that.
    committed: Position = NOWHERE
    applied: Position = NOWHERE
    #: The log after each thing that was done to it since the last that is certainly on disk.
    histories: list[list[Record]] = field(default_factory=lambda: [[]])
    written: list[Position] = field(default_factory=list)
    epoch: int = 1
    delivered: int = 0
    #: Something that was appended is not in the log, though nothing crashed.
    refused: bool = False
    #: In files for certain.
    flushed: Position = NOWHERE

    @property
    def end(self) -> Position:
        return self.records[-1].position if self.records else NOWHERE

    def index(self, position: Position) -> int:
        """How many records are not beyond it."""
        return bisect_right([one.position for one in self.records], position)

    def shown_now(self) -> dict[bytes, bytes]:
        return expected(self.records[: self.index(self.applied)])

    # --- what is done to both ----------------------------------------------------------------------------

    def append(self, replica: ReplicaLog, generator: random.Random) -> None:
        count = generator.choice([1, 1, 1, 2, 5, 20])
        new: list[Record] = []
        end = self.end
        for _ in range(count):
            version = end.version + generator.randint(1, 9)
            position = Position(self.epoch, version)
            new.append(
                record(
                    position,
                    end,
                    size=generator.choice([1, 10, 100, 1500 if count == 1 else 30]),
                    empty=generator.random() < 0.2,
                    to_deliver=generator.random() < 0.1,
                    delivered=self.delivered,
                )
            )
            end = position
        self.records = self.records + new
        self.histories.append(self.records)
        state, last = self.records, end

        def written(error: Exception | None) -> None:
            if error is not None:
                # It waited for room in the log when the engine was closed.
                assert isinstance(error, StorageError)
                self.refused = True
                return
            self.written.append(last)
            at = next(index for index, one in enumerate(self.histories) if one is state)
            del self.histories[:at]

        replica.append(tuple(new), self.committed, written)

    def commit(self, generator: random.Random) -> None:
        index = self.index(self.committed)
        if index < len(self.records):
            self.committed = self.records[generator.randint(index, len(self.records) - 1)].position

    def apply(self, replica: ReplicaLog) -> None:
        replica.apply(self.committed)
        self.applied = self.committed

    def cut(self, replica: ReplicaLog, generator: random.Random) -> None:
        first = self.index(self.committed)
        index = generator.randint(first, len(self.records))
        position = self.records[index - 1].position if index else NOWHERE
        self.epoch += 1
        replica.cut(position)
        if index < len(self.records):
            self.records = self.records[:index]
            self.histories.append(self.records)

    def deliver(self, generator: random.Random) -> int:
        """Something up to an applied record was delivered."""
        index = self.index(self.applied)
        if index:
            self.delivered = max(
                self.delivered, self.records[generator.randint(0, index - 1)].position.version
            )
        return self.delivered

    # --- what must be so ---------------------------------------------------------------------------------

    def first_kept(self) -> Position:
        """The log must go back to here: what follows is not in files, or has something to deliver."""
        needed = self.first_undelivered(self.index(self.flushed))
        return self.records[needed - 1].position if needed else NOWHERE

    def first_undelivered(self, count: int) -> int:
        """The first of so many records that has something to deliver."""
        for index, one in enumerate(self.records[:count]):
            if one.position.version > self.delivered and decode_replicated(one.data).views:
                return index
        return count

    def check_tail(
        self, after: Position, limit: int, found: tuple[Position, tuple[Record, ...]] | None
    ) -> None:
        if found is None:
            assert after < self.first_kept(), f"{after} is gone, though {self.first_kept()} must be there"
            return
        index = self.index(after)
        floor = self.records[index - 1].position if index else NOWHERE
        assert found == (floor, tuple(self.records[index : index + limit]))

    async def check_shown(self, engine: StorageEngine) -> None:
        # What waits for room in the commit log is not shown before it has got it.
        await engine.replica(self.tablet)._backlog.drained()
        assert await shown(engine, self.tablet) == self.shown_now()

    def check_opened(self, opened: OpenedReplica, remembered: int) -> None:
        """The log is one of those that it was, and this model goes on from there."""
        truth, committed = self.records, self.committed
        state = next((one for one in reversed(self.histories) if _ends_like(one, opened)), None)
        assert state is not None, f"{opened.base}, {len(opened.records)} records: that was never the log"
        common = [one.position for one, other in zip(state, truth, strict=False) if one == other]
        agreed = max((one for one in common if one <= committed), default=NOWHERE)
        assert self.flushed <= opened.committed <= agreed
        first = len(state) - len(opened.records)
        known = bisect_right([one.position for one in state], opened.committed)
        assert first <= known
        self.records, self.committed, self.applied = state, agreed, opened.committed
        self.histories, self.refused = [state], False
        assert first <= self.first_undelivered(known)
        if first < known - remembered:
            oldest = decode_replicated(opened.records[0].data)
            assert oldest.views, "more than is asked for, and nothing to deliver"


def _ends_like(state: list[Record], opened: OpenedReplica) -> bool:
    first = len(state) - len(opened.records)
    if first < 0 or tuple(state[first:]) != opened.records:
        return False
    return opened.base == (state[first - 1].position if first else NOWHERE)
