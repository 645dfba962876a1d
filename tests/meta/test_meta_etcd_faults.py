"""What the world does to etcd and the way to it, and what the store makes of it."""

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from belvedere.meta.election import campaign
from belvedere.meta.etcd import RETRY_SECONDS, EtcdStore
from belvedere.meta.etcd_layout import TransactionTooLarge
from belvedere.meta.leases import Lease
from belvedere.meta.metadata import Metadata, Proposal
from belvedere.meta.state import ClusterState
from belvedere.meta.store import (
    Absent,
    Committed,
    LeaseGone,
    OutcomeUnknown,
    Put,
    Refused,
    StoreUnavailable,
    Unchanged,
)
from belvedere.runtime.api import Runtime
from belvedere.runtime.etcd_client import EtcdClient, EtcdTls
from belvedere.runtime.real import run
from tests.meta.etcd_server import EtcdServer, etcd_program, free_port
from tests.meta.stores import transaction
from tests.meta.tcp_proxy import TcpProxy

PATIENCE = 1.0
_clusters = iter(range(1, 1000))


def in_reality(test: Callable[[Runtime], Coroutine[Any, Any, None]]) -> None:
    async def main(runtime: Runtime) -> None:
        async with asyncio.timeout(110):
            await test(runtime)

    run(main, log_level="error")


@asynccontextmanager
async def opened(
    runtime: Runtime, *endpoints: str, cluster: str = "", patience: float = PATIENCE
) -> AsyncIterator[EtcdStore]:
    store = EtcdStore(runtime, EtcdClient(endpoints, patience=patience), cluster or fresh_cluster())
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def fresh_cluster() -> str:
    return f"faults-{next(_clusters)}"


@pytest.fixture
def own_etcd(etcd: EtcdServer) -> Iterator[EtcdServer]:
    """One that a test may kill; `etcd` decides whether there can be any."""
    server = EtcdServer()
    try:
        server.wait_until_healthy()
        yield server
    finally:
        server.close()


@pytest.fixture
def three_members(etcd: EtcdServer) -> Iterator[list[EtcdServer]]:
    peers = {name: free_port() for name in ("one", "two", "three")}
    servers = [EtcdServer(name, peers) for name in peers]
    try:
        for server in servers:
            server.wait_until_healthy()
        yield servers
    finally:
        for server in servers:
            server.close()


async def eventually(call: Callable[[], Coroutine[Any, Any, Any]], *failures: type[Exception]) -> Any:
    while True:
        try:
            return await call()
        except failures:
            await asyncio.sleep(0.1)


# --- outcomes ------------------------------------------------------------------------------------------


def test_a_commit_whose_answer_is_lost_is_found_to_have_landed(etcd: EtcdServer) -> None:
    async def test(runtime: Runtime) -> None:
        cluster = fresh_cluster()
        async with (
            TcpProxy(etcd.port) as line,
            opened(runtime, line.endpoint, cluster=cluster) as store,
            opened(runtime, etcd.endpoint, cluster=cluster) as other,
        ):
            begin = await store.commit(transaction(Put("before", b"")))
            line.answers_lost = True
            asked = transaction(Absent("a"), Put("a", b"1"))
            with pytest.raises(OutcomeUnknown):
                await store.commit(asked)
            # Still deaf, then cut off: a retry does not know either, and does not say "unavailable".
            with pytest.raises(OutcomeUnknown):
                await store.commit(asked)
            line.closed = True
            line.hang_up()
            with pytest.raises(OutcomeUnknown):
                await store.commit(asked)
            line.closed = line.answers_lost = False
            (landed,) = [change.revision for change in await other.changes_since(begin.revision)]
            outcome = await eventually(lambda: store.commit(asked), OutcomeUnknown)
            assert outcome == Committed(landed)
            assert (await other.load()).entries["a"].revision == landed
            assert store._undecided == {}

    in_reality(test)


def test_a_commit_that_got_lost_lands_when_it_is_tried_again(etcd: EtcdServer) -> None:
    async def test(runtime: Runtime) -> None:
        async with TcpProxy(etcd.port) as line, opened(runtime, line.endpoint) as store:
            begin = await store.commit(transaction(Put("before", b"")))
            line.requests_held = True
            asked = transaction(Absent("a"), Put("a", b"1"))
            with pytest.raises(OutcomeUnknown):
                await store.commit(asked)
            line.requests_held = False
            line.hang_up()
            outcome = await eventually(lambda: store.commit(asked), OutcomeUnknown)
            assert isinstance(outcome, Committed)
            assert [change.revision for change in await store.changes_since(begin.revision)] == [
                outcome.revision
            ]

    in_reality(test)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("why", ["assertion", "lease"])
def test_what_was_called_refused_does_not_land_when_its_first_try_arrives_at_last(
    etcd: EtcdServer, why: str, large: bool
) -> None:
    async def test(runtime: Runtime) -> None:
        cluster = fresh_cluster()
        async with (
            TcpProxy(etcd.port) as line,
            opened(runtime, line.endpoint, etcd.endpoint, cluster=cluster) as store,
            opened(runtime, etcd.endpoint, cluster=cluster) as other,
        ):
            lease = (await store.grant(60)).lease
            # So that it goes through the proxy.
            store._client._current = 0
            await store.commit(transaction(Put("before", b"")))
            others = [Absent(f"other {number}") for number in range(300 if large else 0)]
            asked = transaction(*others, Absent("a"), Put("a", b"1", lease if why == "lease" else None))
            if large:
                _hold_the_last_request(store, line)
            else:
                line.requests_held = True
            with pytest.raises(OutcomeUnknown):
                await store.commit(asked)
            assert line.holds
            line.hang_up()
            if why == "lease":
                await other.revoke(lease)
                with pytest.raises(LeaseGone):
                    await eventually(lambda: store.commit(asked), OutcomeUnknown)
            else:
                taken = await other.commit(transaction(Put("a", b"taken")))
                refused = await eventually(lambda: store.commit(asked), OutcomeUnknown)
                assert refused == Refused(Absent("a"), taken.revision)
                await other.commit(transaction(Put("b", b""), Unchanged("a", taken.revision)))
                await _delete(other, "a")
            at = (await other.load()).revision
            line.release()
            await asyncio.sleep(0.5)
            assert await other.changes_since(at) == []
            assert "a" not in (await other.load()).entries

    in_reality(test)


@pytest.mark.parametrize(("leased", "says"), [(True, LeaseGone), (False, StoreUnavailable)])
def test_what_was_settled_speaks_of_leases_only_where_there_are_any(
    etcd: EtcdServer, leased: bool, says: type[Exception]
) -> None:
    async def test(runtime: Runtime) -> None:
        async with opened(runtime, etcd.endpoint) as store:
            lease = (await store.grant(60)).lease if leased else None
            asked = transaction(Put("a", b"1", lease))
            assert await store._settle(asked, await store._present_id_lease()) is None
            for _ in range(2):
                with pytest.raises(says):
                    await store.commit(asked)
            assert (await store.load()).entries == {}
            assert store._undecided == {}

    in_reality(test)


def _hold_the_last_request(store: EtcdStore, line: TcpProxy) -> None:
    """A large transaction reads before it writes: only the write is to be held up."""
    send = store._send

    async def send_held(request: Any) -> Any:
        line.requests_held = True
        store._send = send  # type: ignore[method-assign]
        return await send(request)

    store._send = send_held  # type: ignore[method-assign]


async def _delete(store: EtcdStore, key: str) -> None:
    from belvedere.meta.store import Delete

    assert isinstance(await store.commit(transaction(Delete(key))), Committed)


def test_a_retry_that_comes_too_late_says_so(etcd: EtcdServer) -> None:
    async def test(runtime: Runtime) -> None:
        async with (
            TcpProxy(etcd.port) as line,
            opened(runtime, line.endpoint) as store,
            opened(runtime, etcd.endpoint) as other,
        ):
            line.answers_lost = True
            asked = transaction(Absent("a"), Put("a", b"1"))
            id_lease = await eventually(_id_lease_of(store, line), StoreUnavailable)
            line.answers_lost = True
            with pytest.raises(OutcomeUnknown):
                await store.commit(asked)
            line.answers_lost = False
            line.hang_up()
            # As time would.
            await other.revoke(id_lease)
            for _ in range(3):
                with pytest.raises(OutcomeUnknown):
                    await store.commit(asked)
                await asyncio.sleep(0.3)
            # Others are not concerned: they get a new lease for their ids.
            assert isinstance(await store.commit(transaction(Put("b", b""))), Committed)

    in_reality(test)


def _id_lease_of(store: EtcdStore, line: TcpProxy) -> Callable[[], Coroutine[Any, Any, int]]:
    async def get() -> int:
        line.answers_lost = False
        return (await store._present_id_lease()).lease

    return get


def test_ids_outlive_the_change_of_their_lease_and_go_with_it(etcd: EtcdServer) -> None:
    async def test(runtime: Runtime) -> None:
        async with opened(runtime, etcd.endpoint) as store:
            asked = transaction(Absent("a"), Put("a", b""))
            landed = await store.commit(asked)
            first = store._id_lease
            assert first is not None
            assert first.good_until > runtime.clock.monotonic() + RETRY_SECONDS
            # As time would.
            store._id_lease = replace(first, good_until=runtime.clock.monotonic())
            await store.commit(transaction(Put("b", b"")))
            assert store._id_lease.lease != first.lease
            assert await store.commit(asked) == landed
            ids = f"{store._layout.state.decode().removesuffix('state/')}ids".encode()
            assert len((await store._client.range(key=ids, range_end=ids + b"0")).kvs) == 2
            await store.revoke(first.lease)
            assert len((await store._client.range(key=ids, range_end=ids + b"0")).kvs) == 1

    in_reality(test)


def test_what_etcd_will_never_take_is_said_at_once(etcd: EtcdServer) -> None:
    async def test(runtime: Runtime) -> None:
        async with opened(runtime, etcd.endpoint) as store:
            with pytest.raises(TransactionTooLarge):
                await store.commit(transaction(*(Put(str(number), b"") for number in range(5000))))
            with pytest.raises(StoreUnavailable, match="too large"):
                await store.commit(transaction(Put("a", bytes(2_000_000))))
            assert store._undecided == {}
            assert isinstance(await store.commit(transaction(Put("a", b""))), Committed)
            assert set((await store.load()).entries) == {"a"}

    in_reality(test)


def test_without_a_server_nothing_is_sent_and_nothing_changed(etcd: EtcdServer) -> None:
    async def test(runtime: Runtime) -> None:
        nobody = EtcdStore(runtime, EtcdClient([f"127.0.0.1:{free_port()}"], patience=0.5))
        with pytest.raises(StoreUnavailable):
            await nobody.open()
        with pytest.raises(StoreUnavailable):
            await nobody.commit(transaction(Put("a", b"")))
        with pytest.raises(StoreUnavailable):
            await nobody.grant(5)
        assert nobody._undecided == {}
        await nobody.close()

    in_reality(test)


# --- following -----------------------------------------------------------------------------------------


def increment(state: ClusterState) -> Proposal:
    entry = state.entries.get("n")
    held = Absent("n") if entry is None else Unchanged("n", entry.revision)
    return (held,), (Put("n", b"%d" % (1 + (0 if entry is None else int(entry.value)))),)


def count(metadata: Metadata) -> int:
    entry = metadata.state.entries.get("n")
    return 0 if entry is None else int(entry.value)


def test_a_follower_survives_broken_lines_and_compaction(etcd: EtcdServer) -> None:
    async def test(runtime: Runtime) -> None:
        cluster = fresh_cluster()
        async with (
            TcpProxy(etcd.port) as line,
            opened(runtime, line.endpoint, cluster=cluster) as far,
            opened(runtime, etcd.endpoint, cluster=cluster) as near,
        ):
            reader, writer = Metadata(runtime, far), Metadata(runtime, near)
            heard: list[tuple[int, int]] = []
            reader.listen(lambda before, after: heard.append((before.revision, after.revision)))
            await reader.start()
            await writer.start()
            await writer.commit(increment)
            await reader.until(lambda state: count(reader) == 1)
            # Cut, and back: nothing is missed, nothing comes twice.
            line.closed = True
            line.hang_up()
            for _ in range(5):
                await writer.commit(increment)
            line.closed = False
            await reader.until(lambda state: count(reader) == 6)
            assert len(heard) == 6
            # Cut, and what was missed is compacted away meanwhile: one leap.
            line.closed = True
            line.hang_up()
            for _ in range(5):
                await writer.commit(increment)
            await near._client.compact(writer.state.revision)
            await asyncio.sleep(0.5)
            line.closed = False
            await reader.until(lambda state: count(reader) == 11)
            assert len(heard) == 7
            await writer.commit(increment)
            await reader.until(lambda state: count(reader) == 12)
            assert [before for before, _ in heard[1:]] == [after for _, after in heard[:-1]]
            await reader.stop()
            await writer.stop()

    in_reality(test)


def test_what_was_committed_survives_a_killed_server(own_etcd: EtcdServer) -> None:
    async def test(runtime: Runtime) -> None:
        cluster = fresh_cluster()
        async with (
            opened(runtime, own_etcd.endpoint, cluster=cluster, patience=3) as first,
            opened(runtime, own_etcd.endpoint, cluster=cluster, patience=3) as second,
        ):
            nodes = [Metadata(runtime, first), Metadata(runtime, second)]
            for node in nodes:
                await node.start()
            done = asyncio.Event()
            outcomes = {"committed": 0, "unknown": 0}

            async def work(node: Metadata) -> None:
                while not done.is_set():
                    try:
                        await node.commit(increment)
                        outcomes["committed"] += 1
                    except OutcomeUnknown:
                        outcomes["unknown"] += 1
                    except StoreUnavailable:
                        await asyncio.sleep(0.05)

            workers = [asyncio.ensure_future(work(node)) for node in nodes]
            for _ in range(3):
                await asyncio.sleep(0.5)
                own_etcd.kill()
                await asyncio.sleep(0.3)
                before = outcomes["committed"]
                own_etcd.start()
                await asyncio.to_thread(own_etcd.wait_until_healthy)
                while outcomes["committed"] == before:
                    await asyncio.sleep(0.05)
            done.set()
            await asyncio.gather(*workers)
            loaded = await first.load()
            landed = int(loaded.entries["n"].value)
            assert outcomes["committed"] <= landed <= sum(outcomes.values())
            for node in nodes:
                await node.until(lambda state: int(state.entries["n"].value) == landed)
                await node.stop()

    in_reality(test)


def test_clusters_in_one_etcd_do_not_see_each_other(etcd: EtcdServer) -> None:
    async def test(runtime: Runtime) -> None:
        async with (
            opened(runtime, etcd.endpoint, cluster="mine") as mine,
            opened(runtime, etcd.endpoint, cluster="mine-too") as theirs,
        ):
            metadata = Metadata(runtime, mine)
            await metadata.start()
            heard: list[int] = []
            metadata.listen(lambda before, after: heard.append(after.revision))
            for _ in range(20):
                await theirs.commit(transaction(Put("n", b"77")))
            # Its revision is behind etcd's own; what it commits, and what is refused, does not wait for that.
            await metadata.commit(increment)
            state = await metadata.commit(increment)
            assert state.entries["n"].value == b"2"
            assert heard == [change.revision for change in await mine.changes_since(heard[0] - 1)]
            refused = await mine.commit(transaction(Absent("n")))
            assert refused == Refused(Absent("n"), state.revision)
            await metadata.stop()

    in_reality(test)


# --- several members -----------------------------------------------------------------------------------


def test_a_cluster_goes_on_when_a_member_dies_or_stops(three_members: list[EtcdServer]) -> None:
    async def test(runtime: Runtime) -> None:
        endpoints = [server.endpoint for server in three_members]
        async with opened(runtime, *endpoints, cluster="ha", patience=6.0) as store:
            metadata = Metadata(runtime, store)
            await metadata.start()
            lease = await Lease.take(runtime, store, 30.0)
            tenure = await campaign(runtime, metadata, "building", "node", lease)
            committed, unknown = 0, 0
            for fault in ("kill", "pause", "none"):
                victim = three_members[store._client._current]
                if fault == "kill":
                    victim.kill()
                elif fault == "pause":
                    victim.pause()
                for _ in range(3):
                    try:
                        await metadata.commit(increment)
                        committed += 1
                    except OutcomeUnknown:
                        unknown += 1
                    except StoreUnavailable:
                        continue
                if fault == "kill":
                    victim.start()
                elif fault == "pause":
                    victim.resume()
                await asyncio.to_thread(victim.wait_until_healthy)
                assert tenure.holds
            assert committed >= 6
            assert committed <= int((await store.load()).entries["n"].value) <= committed + unknown
            assert await store.keep_alive(lease.id) > 0
            await lease.end()
            await metadata.stop()

    in_reality(test)


def test_over_tls_with_certificates_of_both_sides(etcd: EtcdServer, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make certificates with")
    _make_certificates(tmp_path)
    assert etcd_program() is not None
    server = EtcdServer(
        "tls",
        None,
        *("--cert-file", f"{tmp_path}/server.pem", "--key-file", f"{tmp_path}/server.key"),
        *("--client-cert-auth", "--trusted-ca-file", f"{tmp_path}/ca.pem"),
        scheme="https",
    )

    async def test(runtime: Runtime) -> None:
        tls = EtcdTls(f"{tmp_path}/ca.pem", f"{tmp_path}/server.pem", f"{tmp_path}/server.key")
        store = EtcdStore(runtime, EtcdClient([server.endpoint], tls, patience=5.0))
        await eventually(store.open, StoreUnavailable)
        assert isinstance(await store.commit(transaction(Put("a", b""))), Committed)
        assert len(await store.changes_since(0)) == 1
        await store.close()
        stranger = EtcdStore(runtime, EtcdClient([server.endpoint], EtcdTls(tls.authority), patience=1.0))
        with pytest.raises(StoreUnavailable):
            await stranger.open()
        await stranger.close()

    try:
        in_reality(test)
    finally:
        server.close()


def _make_certificates(folder: Path) -> None:
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=tests"]
    for arguments in (
        ["req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2"],
        ["req", *new, "-keyout", "server.key", "-out", "server.csr"],
        [
            *("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
            *("-CAcreateserial", "-extfile", "names", "-out", "server.pem", "-days", "2"),
        ],
    ):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
