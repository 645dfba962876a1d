"""Who belongs and who lives, decided on states of the metadata; operations in flight; fenced databases."""

import asyncio
from typing import Any

import pytest

from belvedere.cluster import members
from belvedere.cluster.members import Confirmed, NodeIdTaken, NodeRefused, Registration
from belvedere.cluster.operations import Fenced, Operations
from belvedere.cluster.rpc_errors import NotMember, Superseded
from belvedere.cluster.rpc_settings import Peer
from belvedere.meta import records
from belvedere.meta.leases import Lease
from belvedere.meta.memory import MemoryStore
from belvedere.meta.metadata import Proposal
from belvedere.meta.state import EMPTY, ClusterState, advance
from belvedere.meta.store import Delete, Put
from belvedere.query.errors import IsBootstrapping
from belvedere.query.failures import as_cql_error
from belvedere.runtime.api import Runtime
from belvedere.runtime.real import run
from tests.query.database_help import Client, with_database


def after(state: ClusterState, proposal: Proposal | None) -> ClusterState:
    assert proposal is not None
    return advance(state, state.revision + 1, proposal[1])


def registration(node: str, **changed: Any) -> Registration:
    fields = {"cluster": "c", "cluster_id": "id", "internal_host": f"host-{node}", "internal_port": 7000}
    return Registration(node, **fields | changed)


def joined(state: ClusterState, node: str, lease: int, **changed: Any) -> ClusterState:
    return after(state, members.claiming(state, registration(node, **changed), lease))


def gone(state: ClusterState, *keys: str) -> ClusterState:
    return advance(state, state.revision + 1, tuple(Delete(key) for key in keys))


def whats(before: ClusterState, now: ClusterState) -> list[tuple[str, str]]:
    return [(change.what, change.node) for change in members.changes(before, now)]


def test_incarnations_grow_whoever_claims() -> None:
    state = joined(joined(EMPTY, "a", 1), "b", 2)
    again = joined(gone(state, "alive/a"), "a", 3)
    assert [state.nodes["a"].incarnation, state.nodes["b"].incarnation] == [1, 2]
    assert again.nodes["a"].incarnation == 3
    assert members.peer_of(again, "a") == Peer("a", 3, "host-a", 7000)
    # A node that was removed and comes back does not begin at 1.
    forgotten = after(gone(again, "alive/a"), members.forgetting(gone(again, "alive/a"), "a"))
    assert joined(forgotten, "a", 4).nodes["a"].incarnation == 4


def test_a_name_is_one_life_at_a_time() -> None:
    state = joined(EMPTY, "a", 1)
    with pytest.raises(NodeIdTaken) as raised:
        members.claiming(state, registration("a"), 2)
    assert raised.value.peer == Peer("a", 1, "host-a", 7000)
    assert members.claiming(state, registration("a"), 1) is None, "that is we ourselves"


def test_standing() -> None:
    state = joined(joined(EMPTY, "a", 1), "b", 2)
    later = joined(gone(state, "alive/a"), "a", 3)
    assert members.standing(state, "a", 1) is None
    assert isinstance(members.standing(later, "a", 1), Superseded)
    assert isinstance(members.standing(state, "a", 3), NotMember)
    assert isinstance(members.standing(state, "c", 1), NotMember)


def test_features_are_on_when_all_have_them() -> None:
    state = joined(EMPTY, "a", 1, features=frozenset({"x", "y"}))
    assert members.features_on(state) == {"x", "y"}
    with pytest.raises(NodeRefused, match="lacks what the cluster uses already: y"):
        members.claiming(state, registration("b", features=frozenset({"x", "z"})), 2)
    state = joined(state, "b", 2, features=frozenset({"x", "y", "z"}))
    assert members.features_on(state) == {"x", "y"}
    state = joined(gone(state, "alive/a"), "a", 3, features=frozenset({"x", "y", "z"}))
    assert members.features_on(state) == {"x", "y", "z"}
    assert members.features_on(EMPTY) == set()


def test_a_cluster_keeps_its_name() -> None:
    with pytest.raises(NodeRefused, match="that of cluster c, not of d"):
        members.claiming(joined(EMPTY, "a", 1), registration("b", cluster="d"), 2)


def test_only_what_is_dead_and_empty_is_forgotten() -> None:
    state = joined(EMPTY, "a", 1)
    with pytest.raises(NodeRefused, match="alive"):
        members.forgetting(state, "a")
    dead = gone(state, "alive/a")
    tablet = records.encode(records.TabletRecord("0", "1", 1, "b", ["b", "a"]))
    holding = advance(dead, dead.revision + 1, (Put(records.tablet_key(bytes(16), 1), tablet),))
    with pytest.raises(NodeRefused, match="tablets"):
        members.forgetting(holding, "a")
    assert "a" not in after(dead, members.forgetting(dead, "a")).nodes
    assert members.forgetting(EMPTY, "a") is None


def test_what_clients_are_told() -> None:
    registered = joined(EMPTY, "a", 1)
    assert whats(EMPTY, registered) == [], "it does not answer clients yet"
    up = after(registered, members.announcing(registered, "a", 1, "10.0.0.1", 9042))
    assert members.changes(registered, up)[0].host == "10.0.0.1"
    assert whats(registered, up) == [("NEW_NODE", "a"), ("UP", "a")]
    assert whats(EMPTY, up) == [("NEW_NODE", "a"), ("UP", "a")], "in one leap, too"
    down = gone(up, "alive/a")
    assert whats(up, down) == [("DOWN", "a")]
    back = joined(down, "a", 2)
    assert whats(down, back) == []
    answering = after(back, members.announcing(back, "a", 2, "10.0.0.1", 9042))
    assert whats(back, answering) == [("UP", "a")]
    assert whats(up, answering) == [("DOWN", "a"), ("UP", "a")], "another life is another one"
    moved = after(back, members.announcing(back, "a", 2, "10.0.0.2", 9042))
    assert whats(back, moved) == [("REMOVED_NODE", "a"), ("NEW_NODE", "a"), ("UP", "a")]
    removed = after(down, members.forgetting(down, "a"))
    assert whats(down, removed) == [("REMOVED_NODE", "a")]
    assert whats(up, removed) == [("DOWN", "a"), ("REMOVED_NODE", "a")]


def test_a_dead_life_announces_nothing() -> None:
    state = joined(EMPTY, "a", 1)
    assert members.announcing(state, "a", 7, "h", 1) is None
    assert members.announcing(gone(state, "alive/a"), "a", 1, "h", 1) is None
    said = after(state, members.announcing(state, "a", 1, "h", 1))
    assert members.announcing(said, "a", 1, "h", 1) is None


def test_confirmed_is_a_life_and_not_a_name() -> None:
    confirmed = Confirmed()
    first, second = Peer("a", 1, "h", 1), Peer("a", 5, "h", 1)
    assert not confirmed.holds(first)
    confirmed.heard(first)
    assert confirmed.holds(first)
    assert not confirmed.holds(second)
    confirmed.heard(second)
    confirmed.heard(first)
    assert (confirmed.holds(first), confirmed.holds(second)) == (False, True)
    confirmed.keep_only(["b"])
    assert not confirmed.holds(second)


# --- operations ----------------------------------------------------------------------------------------


def test_operations_are_counted_by_their_snapshot() -> None:
    async def main(runtime: Runtime) -> None:
        operations = Operations(runtime)
        operations.begin(5)
        operations.begin(5)
        operations.begin(9)
        assert (operations.oldest, operations.count) == (5, 3)
        waiting = asyncio.ensure_future(operations.none_before(9))
        both = asyncio.ensure_future(operations.none())
        operations.end(5)
        await asyncio.sleep(0)
        assert not waiting.done()
        operations.begin(12)
        operations.end(5)
        await waiting
        assert operations.oldest == 9
        operations.end(12)
        operations.end(9)
        await both
        assert operations.oldest is None

    run(main, log_level="error")


def test_nothing_begins_without_a_valid_lease() -> None:
    async def main(runtime: Runtime) -> None:
        operations = Operations(runtime)
        with pytest.raises(Fenced, match="not a member"):
            operations.check()
        store = MemoryStore()
        lease = await Lease.take(runtime, store, 0.5)
        operations.open(lease)
        with operations.under(EMPTY):
            assert operations.count == 1
        assert operations.count == 0
        assert lease._keeper is not None
        lease._keeper.cancel()
        await asyncio.sleep(0.55)
        assert not operations.allowed
        with pytest.raises(Fenced, match="no valid lease"), operations.under(EMPTY):
            pass
        await lease.end()

    run(main, log_level="error")


class Gate:
    """An admission that can be shut, and remembers what is in flight."""

    def __init__(self) -> None:
        self.open = True
        self.begun: list[int] = []

    def check(self) -> None:
        if not self.open:
            raise Fenced("shut")

    def begin(self, revision: int) -> None:
        self.begun.append(revision)

    def end(self, revision: int) -> None:
        self.begun.remove(revision)


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t (k) VALUES (1)",
        "SELECT * FROM t WHERE k = 1",
        "SELECT * FROM t",
        "UPDATE t SET n = n + 1 WHERE k = 1",
        "INSERT INTO t (k) VALUES (1) IF NOT EXISTS",
        "BEGIN BATCH INSERT INTO t (k) VALUES (1); INSERT INTO t (k) VALUES (2); APPLY BATCH",
        "TRUNCATE t",
    ],
)
def test_a_fenced_database_serves_no_data(text: str) -> None:
    async def use(client: Client) -> None:
        kind = "counter" if "n + 1" in text else "int"
        await client.run(f"CREATE TABLE t (k int PRIMARY KEY, n {kind})")
        gate = Gate()
        client.database.admit_by(gate)
        if kind == "int":
            await client.run(text)
        gate.open = False
        with pytest.raises(Fenced) as raised:
            await client.run(text)
        assert isinstance(as_cql_error(raised.value), IsBootstrapping)
        assert gate.begun == []
        assert await client.rows("SELECT cluster_name FROM system.local") == [("belvedere",)]
        gate.open = True

    with_database(use)


def test_what_waits_is_in_flight_and_what_changes_the_schema_is_not() -> None:
    async def use(client: Client) -> None:
        await client.run("CREATE TABLE t (k int PRIMARY KEY, n int)")
        gate = Gate()
        client.database.admit_by(gate)
        seen: list[list[int]] = []
        table = client.database.state.keyspaces["ks"].tables["t"]
        async with client.database.access.lock([(table, (1).to_bytes(4))]):
            writing = client.start("INSERT INTO t (k, n) VALUES (1, 2)")
            await client.runtime.clock.sleep(0.1)
            seen.append(list(gate.begun))
            began = client.database.state.revision
            await client.run("ALTER TABLE t ADD m int")
            assert client.database.state.revision > began
        await writing
        assert seen == [[began]]
        assert gate.begun == []

    with_database(use)
