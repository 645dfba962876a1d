"""Elections: an office is a key under its holder's lease, and the revision that wrote it is the term.

The key is put where there is none, and never written again: terms grow, and no two holders have the same one.
"""

from dataclasses import dataclass

import msgspec

from belvedere.meta import records
from belvedere.meta.leases import Lease
from belvedere.meta.metadata import Metadata, Proposal
from belvedere.meta.state import ClusterState
from belvedere.meta.store import Absent, Delete, OutcomeUnknown, Put, StoreUnavailable, Unchanged
from belvedere.runtime.api import Runtime

#: Between attempts while the store cannot be reached, in seconds.
_PAUSE = 0.5


@dataclass(frozen=True, slots=True)
class Leader:
    """Who holds an office as this state of the metadata says; whether it still may act, only it knows."""

    node: str
    term: int


class Tenure:
    """One node's time in office. Everything it does names the term, and others refuse older ones."""

    def __init__(self, metadata: Metadata, office: str, term: int, lease: Lease) -> None:
        self._metadata = metadata
        self._office = office
        self._lease = lease
        self.term = term

    @property
    def holds(self) -> bool:
        """Asked before each act of office: true only while nobody else can be elected."""
        entry = self._metadata.state.entries.get(records.leader_key(self._office))
        return self._lease.valid and entry is not None and entry.revision == self.term

    async def resign(self) -> None:
        key = records.leader_key(self._office)

        def leave(state: ClusterState) -> Proposal | None:
            entry = state.entries.get(key)
            if entry is None or entry.revision != self.term:
                return None
            return (Unchanged(key, self.term),), (Delete(key),)

        await self._metadata.commit(leave)


def leader_of(state: ClusterState, office: str) -> Leader | None:
    entry = state.entries.get(records.leader_key(office))
    if entry is None:
        return None
    return Leader(msgspec.json.decode(entry.value, type=records.LeaderRecord).node, entry.revision)


async def campaign(runtime: Runtime, metadata: Metadata, office: str, node: str, lease: Lease) -> Tenure:
    """Wait to be elected. Raises LeaseGone when the lease is lost before that."""
    key = records.leader_key(office)
    # The lease tells this life of a node from an earlier one, whose key may still be there.
    own = records.encode(records.LeaderRecord(node, lease.id))

    def stand(state: ClusterState) -> Proposal | None:
        return None if key in state.entries else ((Absent(key),), (Put(key, own, lease.id),))

    while True:
        try:
            state = await metadata.commit(stand)
        except (StoreUnavailable, OutcomeUnknown) as error:
            # Even if it landed: the next look finds it.
            runtime.log("warning", "election.store_away", office=office, error=str(error))
            await runtime.clock.sleep(_PAUSE)
            continue
        entry = state.entries.get(key)
        if entry is not None and entry.value == own:
            return Tenure(metadata, office, entry.revision, lease)
        await metadata.until(lambda state: key not in state.entries)
