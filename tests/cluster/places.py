"""Nodes as the metadata has them, for tests of what is decided about them."""

from collections.abc import Iterable, Mapping

from belvedere.meta import records
from belvedere.meta.state import EMPTY, ClusterState, advance
from belvedere.meta.store import Put


def node_entries(
    nodes: Iterable[str] | Mapping[str, tuple[str, str]], down: Iterable[str] = ()
) -> dict[str, bytes]:
    """Registered nodes, by name or with (datacenter, rack), all alive but some."""
    where = nodes if isinstance(nodes, Mapping) else dict.fromkeys(nodes, ("datacenter1", "rack1"))
    entries: dict[str, bytes] = {}
    for number, (name, (datacenter, rack)) in enumerate(where.items(), 1):
        record = records.NodeRecord("127.0.0.1", 9000 + number, datacenter, rack, incarnation=number)
        entries[records.node_key(name)] = records.encode(record)
        if name not in set(down):
            entries[records.alive_key(name)] = records.encode(records.AliveRecord(number, number, True))
    return entries


def state_of(entries: Mapping[str, bytes], before: ClusterState = EMPTY) -> ClusterState:
    return advance(before, before.revision + 1, tuple(Put(key, value) for key, value in entries.items()))
