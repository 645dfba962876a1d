"""Two or more nodes with their Rpc on one runtime, real or simulated, over one metadata store."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from belvedere.cluster import members
from belvedere.cluster.members import Registration
from belvedere.cluster.rpc import Method, Rpc
from belvedere.cluster.rpc_settings import Peer, RpcSettings
from belvedere.meta.memory import MemoryStore
from belvedere.meta.metadata import Metadata
from belvedere.meta.store import Change, Committed, Delete, Granted, Loaded, Put, Refused, Transaction
from belvedere.runtime.api import Runtime

ECHO: Method[bytes, bytes] = Method("test.echo", bytes, bytes)
WAIT: Method[float, str] = Method("test.wait", float, str)
FAIL: Method[str, None] = Method("test.fail", str, type(None))
REVISION: Method[None, int] = Method("test.revision", type(None), int)
REVISION_LATER: Method[None, int] = Method("test.revision_later", type(None), int)


class GatedStore:
    """One node's way to the store; while `gate` is closed it learns nothing."""

    def __init__(self, inner: MemoryStore) -> None:
        self._inner = inner
        self.gate = asyncio.Event()
        self.gate.set()

    async def load(self) -> Loaded:
        return await self._inner.load()

    async def commit(self, transaction: Transaction) -> Committed | Refused:
        return await self._inner.commit(transaction)

    async def changes_since(self, revision: int) -> list[Change]:
        await self.gate.wait()
        return await self._inner.changes_since(revision)

    async def wait_beyond(self, revision: int) -> None:
        await self._inner.wait_beyond(revision)

    async def grant(self, seconds: float) -> Granted:
        return await self._inner.grant(seconds)

    async def keep_alive(self, lease: int) -> float:
        return await self._inner.keep_alive(lease)

    async def revoke(self, lease: int) -> None:
        await self._inner.revoke(lease)

    async def close(self) -> None: ...


class TestNode:
    __test__ = False

    def __init__(self, cluster: "TestCluster", name: str, cluster_name: str, settings: RpcSettings) -> None:
        self._cluster = cluster
        self.name = name
        self.store = GatedStore(cluster.store)
        self.metadata = Metadata(cluster.runtime, self.store)
        self.rpc = Rpc(cluster.runtime, cluster_name, name, self.metadata, settings)
        #: What handlers saw.
        self.seen: list[object] = []
        self.incarnation = 0
        self.address = ("127.0.0.1", 0)
        rpc = self.rpc
        rpc.serve_at_once(ECHO, lambda caller, body: self.seen.append(caller) or body)
        rpc.serve(WAIT, self._wait)
        rpc.serve(FAIL, self._fail)
        rpc.serve_at_once(REVISION, lambda caller, _: self.metadata.state.revision)
        rpc.serve(REVISION_LATER, self._revision)

    @property
    def peer(self) -> Peer:
        return Peer(self.name, self.incarnation, *self.address)

    async def start(self) -> None:
        await self.metadata.start()
        self.address = await self.rpc.listen("127.0.0.1", self.address[1])

    async def register(self) -> None:
        """A new life, at once: whoever lived under this name is dead."""
        lease = (await self._cluster.store.grant(1000.0)).lease
        registration = Registration(self.name, "test", "id", *self.address)

        def propose(state: Any) -> Any:
            held = state.alive.get(self.name)
            if held is not None and held.lease != lease:
                state = members_without(state, self.name)
            return members.claiming(state, registration, lease)

        state = await self.metadata.commit(propose)
        self.incarnation = state.nodes[self.name].incarnation
        self.rpc.introduce(self.incarnation)

    async def stop(self) -> None:
        await self.rpc.close()
        self.store.gate.set()
        await self.metadata.stop()

    async def _wait(self, caller: Any, seconds: float) -> str:
        self.seen.append("begun")
        try:
            await self._cluster.runtime.clock.sleep(seconds)
        except asyncio.CancelledError:
            self.seen.append("cancelled")
            raise
        self.seen.append("done")
        return f"{seconds}"

    async def _fail(self, caller: Any, kind: str) -> None:
        raise self._cluster.failures[kind]

    async def _revision(self, caller: Any, _: None) -> int:
        return self.metadata.state.revision


def members_without(state: Any, name: str) -> Any:
    from dataclasses import replace

    return replace(state, alive={node: held for node, held in state.alive.items() if node != name})


class TestCluster:
    __test__ = False

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.store = MemoryStore()
        self.failures: dict[str, Exception] = {}
        self._nodes: list[TestNode] = []

    async def node(
        self, name: str, cluster_name: str = "test", settings: RpcSettings | None = None, member: bool = True
    ) -> TestNode:
        node = TestNode(self, name, cluster_name, settings or RpcSettings())
        self._nodes.append(node)
        await node.start()
        if member:
            await node.register()
        return node

    async def two(self, settings: RpcSettings | None = None) -> tuple[TestNode, TestNode]:
        return await self.node("one", settings=settings), await self.node("two", settings=settings)

    async def change(self) -> int:
        """Some change of the metadata, such as a new table; its revision."""
        transaction = Transaction(self.runtime.random.uuid_bytes(), (), (Put("something", b"new"),))
        outcome = await self.store.commit(transaction)
        assert isinstance(outcome, Committed)
        return outcome.revision

    async def remove(self, name: str) -> None:
        updates = (Delete(f"nodes/{name}"), Delete(f"alive/{name}"))
        await self.store.commit(Transaction(self.runtime.random.uuid_bytes(), (), updates))

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                await self.runtime.clock.sleep(0.01)

    async def close(self) -> None:
        for node in self._nodes:
            await node.stop()


Test = Callable[[TestCluster], Coroutine[Any, Any, None]]
Harness = Callable[[Test], None]
