"""The replicated logs of all tablets of a node, which share its commit log."""

from collections.abc import Iterable, Sequence

from belvedere.runtime.api import Runtime
from belvedere.storage.commitlog import CommitLog
from belvedere.storage.errors import Dropped, StorageError
from belvedere.storage.replica_entries import decode_entry
from belvedere.storage.replica_log import ReplicaLog
from belvedere.storage.replica_records import Surroundings
from belvedere.storage.replica_replay import ReplicaReplay
from belvedere.storage.tablet import TabletStore


class ReplicaLogs:
    def __init__(self, runtime: Runtime, log: CommitLog, surroundings: Surroundings) -> None:
        self._runtime = runtime
        self._log = log
        self._surroundings = surroundings
        self._replicas: dict[int, ReplicaLog] = {}
        self._replays: dict[int, ReplicaReplay] = {}

    def __getitem__(self, tablet: int) -> ReplicaLog:
        return self._replicas[tablet]

    def add(self, stores: Iterable[TabletStore]) -> None:
        """They were opened: feed `replay`, or have been made just now, and `offer`."""
        for store in stores:
            replica = ReplicaLog(self._runtime, store, self._log, self._surroundings)
            self._replicas[store.id] = replica
            self._replays[store.id] = ReplicaReplay(replica)

    def replay(self, frame: int, entries: Sequence[bytes]) -> int:
        """Returns how many concerned tablets that are here."""
        count = 0
        for data in entries:
            entry = decode_entry(data)
            replay = self._replays.get(entry.tablet)
            if replay is not None:
                replay.take(frame, entry)
                count += 1
        return count

    def offer(self) -> None:
        """What was added is as it was found."""
        while self._replays:
            _, replay = self._replays.popitem()
            replay.finish()

    def first_needed(self) -> list[int]:
        """The oldest positions of the commit log that tablets need."""
        return [p for replica in self._replicas.values() if (p := replica.first_needed) is not None]

    def drop(self, store: TabletStore) -> None:
        replica = self._replicas.pop(store.id, None)
        if replica is not None:
            replica.close(Dropped(f"table {store.table.full_name} was dropped"))

    def close(self) -> None:
        for replica in self._replicas.values():
            replica.close(StorageError("the storage engine is closed"))
