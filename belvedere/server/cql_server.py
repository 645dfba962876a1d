"""The CQL server: accepts connections, knows them all, and ends them in order."""

import asyncio
from dataclasses import asdict

from belvedere.cluster.members import NodeChange
from belvedere.query.results import SchemaChange
from belvedere.runtime.api import Listener, Runtime
from belvedere.server.connection import CqlConnection
from belvedere.server.connection_api import ServedDatabase, ServerSettings
from belvedere.server.connection_requests import ResultMetadata
from belvedere.server.events import EventHub


class CqlServer:
    """`start`, then `stop`; both once."""

    def __init__(
        self, runtime: Runtime, database: ServedDatabase, settings: ServerSettings | None = None
    ) -> None:
        self.runtime = runtime
        self.database = database
        self.settings = settings or ServerSettings()
        self.events = EventHub()
        self.metadata = ResultMetadata()
        self._connections: dict[CqlConnection, None] = {}
        self._listener: Listener | None = None
        self._stopping = False
        self._empty = asyncio.Event()
        self._refused = 0
        database.on_schema_change(self._on_schema_change)

    async def start(self) -> tuple[str, int]:
        """Listen; returns the address, with the port that was picked if the settings say 0."""
        self._listener = await self.runtime.network.listen(
            self.settings.host, self.settings.port, lambda: CqlConnection(self)
        )
        return self._listener.address

    async def stop(self) -> None:
        """Accept no more, let requests in flight finish for a bounded time, close every connection."""
        self._stopping = True
        if self._listener is not None:
            await self._listener.close()
        for connection in list(self._connections):
            connection.finish()
        if self._connections:
            self._empty.clear()
            cancel = self.runtime.call_later(self.settings.stop_seconds, self._abort_all)
            await self._empty.wait()
            cancel()

    @property
    def connections(self) -> tuple[CqlConnection, ...]:
        return tuple(self._connections)

    def client_rows(self) -> list[dict[str, object]]:
        """What system_views.clients shows."""
        return [connection.describe() for connection in self._connections]

    def setting_rows(self) -> list[tuple[str, str]]:
        """What system_views.settings shows."""
        return [(name, str(value)) for name, value in asdict(self.settings).items()]

    @property
    def refused_connections(self) -> int:
        """How many were turned away because there were too many."""
        return self._refused

    # --- what connections call ---------------------------------------------------------------------------

    def admit(self, connection: CqlConnection) -> bool:
        if self._stopping or len(self._connections) >= self.settings.max_connections:
            self._refused += 1
            self.runtime.log(
                "warning", "connection.refused", peer=connection.peer, open=len(self._connections)
            )
            return False
        self._connections[connection] = None
        return True

    def forget(self, connection: CqlConnection) -> None:
        self._connections.pop(connection, None)
        if not self._connections:
            self._empty.set()

    def node_changed(self, change: NodeChange) -> None:
        """Tell those who registered for it that a node came or went."""
        if change.what in ("UP", "DOWN"):
            self.events.status_changed(change.what, change.host, change.port)
        else:
            self.events.topology_changed(change.what, change.host, change.port)

    def _on_schema_change(self, change: SchemaChange) -> None:
        self.events.schema_changed(change)

    def _abort_all(self) -> None:
        for connection in list(self._connections):
            self.runtime.log(
                "warning", "connection.aborted", peer=connection.peer, in_flight=connection.in_flight
            )
            connection.abort()
