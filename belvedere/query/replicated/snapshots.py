"""Snapshots for learners that the log does not reach: offered by the primary, fetched by the learner in
pieces.

A snapshot that nobody reads from any more is let go. A fetch that fails leaves nothing, and the primary
offers anew when the learner says again where its log ends.
"""

import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import msgspec

from belvedere.cluster import members
from belvedere.cluster.host import Host
from belvedere.cluster.rpc import Method, Rpc
from belvedere.cluster.rpc_errors import RpcError
from belvedere.cluster.rpc_server import Caller
from belvedere.cluster.rpc_settings import Peer
from belvedere.meta.metadata import Metadata
from belvedere.model.positions import Position
from belvedere.query.replicated.tablet_rows import TabletRows
from belvedere.runtime.api import Runtime, TaskHandle
from belvedere.runtime.errors import DiskError
from belvedere.storage.errors import StorageError
from belvedere.storage.replica_snapshot import ReplicaSnapshot, SnapshotFile

#: Bytes asked for at once, and how long that may take.
_PIECE = 1 << 20
_PIECE_SECONDS = 10.0
#: Without a question for so long, a snapshot is let go.
_PATIENCE = 30.0


class Offer(msgspec.Struct, frozen=True, array_like=True):
    number: int
    tablet: int
    position: Position
    files: list[SnapshotFile]


class Piece(msgspec.Struct, frozen=True, array_like=True):
    number: int
    name: str
    offset: int
    length: int


class NoSuchSnapshot(Exception):
    """It was let go."""


#: Answered at once: what comes of it, the learner's log shows.
OFFER: Method[Offer, None] = Method("snapshot.offer", Offer, type(None))
PIECE: Method[Piece, bytes] = Method("snapshot.piece", Piece, bytes)
DONE: Method[int, None] = Method("snapshot.done", int, type(None))


_Write = Callable[[str, int, bytes], Awaitable[None]]


@dataclass(slots=True)
class _Given:
    tablet: int
    learner: str
    #: None while it is being taken.
    snapshot: ReplicaSnapshot | None = None
    asked_at: float = 0.0


class Snapshots:
    def __init__(
        self,
        runtime: Runtime,
        rpc: Rpc,
        metadata: Metadata,
        host: Host,
        rows: Callable[[int], TabletRows | None],
    ) -> None:
        self._runtime = runtime
        self._rpc = rpc
        self._metadata = metadata
        self._host = host
        self._rows = rows
        self._given: dict[int, _Given] = {}
        self._fetching: set[int] = set()
        self._tasks: list[TaskHandle] = []
        self._next = 1
        host.on_snapshot_needed = self._needed
        rpc.serve_at_once(OFFER, self._offered)
        rpc.serve(PIECE, self._piece)
        rpc.serve_at_once(DONE, lambda caller, number: self._let_go(number))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(Exception):  # It is in the log.
                await task.wait()
        for number in list(self._given):
            self._let_go(number)

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks.append(self._runtime.spawn(name, work))

    # --- giving --------------------------------------------------------------------------------------

    def _needed(self, tablet: int, learner: str) -> None:
        if any(one.tablet == tablet and one.learner == learner for one in self._given.values()):
            return
        number, self._next = self._next, self._next + 1
        self._given[number] = _Given(tablet, learner, None, self._runtime.clock.monotonic())
        self._spawn("snapshot.give", self._give(number))

    async def _give(self, number: int) -> None:
        given = self._given[number]
        rows = self._rows(given.tablet)
        peer = members.peer_of(self._metadata.state, given.learner)
        try:
            if rows is None or peer is None:
                return
            self._runtime.sometimes("replication.snapshot")
            snapshot = await rows.log.snapshot()
            if number not in self._given:
                snapshot.release()
                return
            given.snapshot = snapshot
            offer = Offer(number, given.tablet, given.snapshot.position, list(given.snapshot.files))
            await self._rpc.call(peer, OFFER, offer, _PIECE_SECONDS)
            while number in self._given:
                await self._runtime.clock.sleep(1.0)
                if self._runtime.clock.monotonic() > given.asked_at + _PATIENCE:
                    return
        except (RpcError, StorageError, DiskError) as error:
            self._runtime.log("warning", "snapshot.not_given", tablet=given.tablet, cause=str(error))
        finally:
            self._let_go(number)

    async def _piece(self, caller: Caller, piece: Piece) -> bytes:
        given = self._given.get(piece.number)
        if given is None or given.snapshot is None or given.learner != caller.node:
            raise NoSuchSnapshot(f"there is no snapshot {piece.number} for {caller.node}")
        given.asked_at = self._runtime.clock.monotonic()
        return await given.snapshot.read(piece.name, piece.offset, min(piece.length, _PIECE))

    def _let_go(self, number: int) -> None:
        given = self._given.pop(number, None)
        if given is not None and given.snapshot is not None:
            given.snapshot.release()

    # --- fetching ------------------------------------------------------------------------------------

    def _offered(self, caller: Caller, offer: Offer) -> None:
        peer = members.peer_of(self._metadata.state, caller.node)
        if peer is None or offer.tablet in self._fetching:
            return
        self._fetching.add(offer.tablet)
        self._spawn("snapshot.fetch", self._fetch(peer, offer))

    async def _fetch(self, peer: Peer, offer: Offer) -> None:
        try:
            await self._restore(peer, offer)
            await self._rpc.call(peer, DONE, offer.number, _PIECE_SECONDS)
        except Exception as error:
            self._runtime.log("warning", "snapshot.not_fetched", tablet=offer.tablet, cause=str(error))
        finally:
            self._fetching.discard(offer.tablet)

    async def _restore(self, peer: Peer, offer: Offer) -> None:
        rows = self._rows(offer.tablet)
        if rows is None:
            return
        incoming = await rows.log.receive(offer.files)
        try:
            for file in offer.files:
                await self._copy(peer, offer.number, file, incoming.write)
            seat = self._host.seats.get(offer.tablet)
            if seat is None or not seat.lacks(offer.position, peer.node):
                return  # It got what it needs another way, or from another primary.
            position = await rows.restore(incoming)
            self._host.restored(offer.tablet, position)
        finally:
            await incoming.abandon()

    async def _copy(self, peer: Peer, number: int, file: SnapshotFile, write: _Write) -> None:
        offset = 0
        while offset < file.size:
            piece = Piece(number, file.name, offset, _PIECE)
            data = await self._rpc.call(peer, PIECE, piece, _PIECE_SECONDS)
            if not data:
                raise StorageError(f"{file.name} ends at {offset} of {file.size} bytes")
            await write(file.name, offset, data)
            offset += len(data)
