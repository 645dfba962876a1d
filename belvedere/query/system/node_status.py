"""Facts about a running node, gathered from its parts when somebody asks."""

from collections.abc import Iterable
from typing import Any

from belvedere.meta.state import ClusterState
from belvedere.query.system.virtual import VirtualRow
from belvedere.runtime.process import age_seconds, process_id, resident_bytes
from belvedere.runtime.version import VERSION
from belvedere.storage.engine import StorageEngine


def node_facts(
    node_id: str, state: ClusterState, engine: StorageEngine, prepared: int
) -> list[tuple[str, str]]:
    """What is shown, in order. Memory and age are those of the whole process."""
    statistics: dict[str, Any] = engine.statistics()
    return [
        ("version", VERSION),
        ("node_id", node_id),
        ("process_id", str(process_id())),
        ("uptime_seconds", f"{age_seconds():.0f}"),
        ("resident_bytes", str(resident_bytes())),
        ("metadata_revision", str(state.revision)),
        ("keyspaces", str(len(state.keyspaces))),
        ("tables", str(len(state.tables_by_id))),
        ("tablets", str(len(engine.stores))),
        ("prepared_statements", str(prepared)),
        ("memtable_bytes", str(statistics["memtable_bytes"])),
        ("cache_bytes", str(statistics["cache_bytes"])),
        ("log_problem", statistics["log_failure"] or "none"),
        ("flush_problem", statistics["flush_failure"] or "none"),
    ]


def table_facts(state: ClusterState, engine: StorageEngine) -> Iterable[VirtualRow]:
    for table in state.tables_by_id.values():
        tablet_map = state.tablet_maps.get(table.id)
        tablets = () if tablet_map is None else tablet_map.tablets
        found = [engine.stores[tablet.id].statistics() for tablet in tablets if tablet.id in engine.stores]
        sums = {
            name: sum(statistics[name] for statistics in found)
            for name in ("files", "file_bytes", "file_rows", "memtable_bytes")
        }
        yield {"keyspace_name": table.keyspace, "table_name": table.name, "tablets": len(tablets), **sums}
