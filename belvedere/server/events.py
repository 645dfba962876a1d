"""Events that the server pushes: who asked for which, and telling them."""

from typing import Protocol

from belvedere.query.results import SchemaChange
from belvedere.server.messages_responses import node_event_body, schema_event_body
from belvedere.server.protocol import SUPPORTED_VERSIONS


class EventListener(Protocol):
    @property
    def version(self) -> int:
        """Of the protocol that the client speaks."""

    def push_event(self, body: bytes) -> None: ...


class EventHub:
    def __init__(self) -> None:
        # Dicts, because they keep the order of registration.
        self._listeners: dict[str, dict[EventListener, None]] = {}

    def register(self, listener: EventListener, kinds: list[str]) -> None:
        for kind in kinds:
            self._listeners.setdefault(kind, {})[listener] = None

    def forget(self, listener: EventListener) -> None:
        for listeners in self._listeners.values():
            listeners.pop(listener, None)

    def schema_changed(self, change: SchemaChange) -> None:
        if self._listeners.get("SCHEMA_CHANGE"):
            bodies = {version: schema_event_body(change, version) for version in SUPPORTED_VERSIONS}
            self._push("SCHEMA_CHANGE", bodies)

    def topology_changed(self, change: str, host: str, port: int) -> None:
        """NEW_NODE, REMOVED_NODE or MOVED_NODE."""
        self._node_changed("TOPOLOGY_CHANGE", change, host, port)

    def status_changed(self, change: str, host: str, port: int) -> None:
        """UP or DOWN."""
        self._node_changed("STATUS_CHANGE", change, host, port)

    def _node_changed(self, kind: str, change: str, host: str, port: int) -> None:
        body = node_event_body(kind, change, host, port)
        self._push(kind, dict.fromkeys(SUPPORTED_VERSIONS, body))

    def _push(self, kind: str, bodies: dict[int, bytes]) -> None:
        for listener in list(self._listeners.get(kind, ())):
            listener.push_event(bodies[listener.version])
