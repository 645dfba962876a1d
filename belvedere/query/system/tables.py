"""The tables that tell clients about the cluster: which exist, and how they are looked up."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from belvedere.model.schema import Keyspace
from belvedere.query.system.local import LocalNode, SystemSources, system, system_views
from belvedere.query.system.schema import system_schema, system_virtual_schema

#: Keyspaces that users can neither change nor write to.
SYSTEM_KEYSPACES = ("system", "system_schema", "system_virtual_schema", "system_views")


class SystemTables:
    """`keyspaces` stays the same object for the life of a node; rows are made when they are read."""

    def __init__(self, sources: SystemSources) -> None:
        #: Who the node is and where rows come from may still change, when the server has found its port.
        self.sources = sources
        ordinary: dict[str, Keyspace] = {}
        virtual: dict[str, Keyspace] = {}

        def described() -> Iterable[Keyspace]:
            yield from ordinary.values()
            yield from sources.state().keyspaces.values()

        ordinary["system"] = system(sources)
        ordinary["system_schema"] = system_schema(described)
        virtual["system_views"] = system_views(sources)
        virtual["system_virtual_schema"] = system_virtual_schema(virtual.values)
        self.keyspaces: Mapping[str, Keyspace] = MappingProxyType(ordinary | virtual)

    def with_users(self, users: Mapping[str, Keyspace]) -> Mapping[str, Keyspace]:
        """All keyspaces that a statement may name."""
        return {**users, **self.keyspaces}


__all__ = ["SYSTEM_KEYSPACES", "LocalNode", "SystemSources", "SystemTables"]
