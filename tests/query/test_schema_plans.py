"""USE, TRUNCATE, DDL and refusals as plans over a database."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from belvedere.cql.parser import parse_statement
from belvedere.meta.memory import MemoryStore
from belvedere.meta.metadata import Metadata
from belvedere.meta.state import ClusterState
from belvedere.meta.store import Put
from belvedere.model.schema import Table
from belvedere.query.access import Execution
from belvedere.query.errors import CQLError, InvalidRequest, Unauthorized
from belvedere.query.results import Result, Rows, SchemaChange, SetKeyspace, Void
from belvedere.query.schema.plans import plan_schema_statement
from belvedere.query.schema_view import KeyspacesView
from belvedere.runtime.api import Runtime
from belvedere.sim.world import World
from tests.cluster.places import node_entries
from tests.query.schema_book import SIMPLE


@dataclass
class Access:
    host: "Host"
    #: Tables whose tablets are open, and what was truncated.
    open: set[str] = field(default_factory=set)
    truncated: list[str] = field(default_factory=list)
    keeper: "Keeper | None" = None

    async def align(self) -> None:
        self.open = {table.full_name for table in self.host.state.tables_by_id.values()}

    async def truncate(self, table: Table) -> None:
        self.truncated.append(table.full_name)


@dataclass
class Keeper:
    host: "Host"
    #: Views that are to be built, and what was open then.
    created_views: list[tuple[str, set[str]]] = field(default_factory=list)

    async def created(self, view: Table) -> None:
        self.created_views.append((view.full_name, set(self.host.access.open)))


@dataclass
class Barrier:
    """Which revisions have been passed, and what is said of it."""

    passed_at: list[int] = field(default_factory=list)
    warning: str | None = None

    async def passed(self, revision: int) -> str | None:
        self.passed_at.append(revision)
        return self.warning


class Host:
    node_id = "node"
    options = SimpleNamespace(cluster_name="the cluster", node=None)

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.metadata = Metadata(runtime, MemoryStore())
        self.barrier: Barrier | None = None
        #: Of looks for a newer schema; None: nobody is there to ask.
        self.looks: list[bool] | None = None
        self.access = Access(self)
        self.access.keeper = self.views = Keeper(self)

    @property
    def state(self) -> ClusterState:
        return self.metadata.state

    @property
    def schema(self) -> KeyspacesView:
        return KeyspacesView(self.state.keyspaces)

    def knows_more(self, unknown: InvalidRequest) -> Awaitable[bool] | None:
        return None if self.looks is None else self._look(self.looks)

    async def _look(self, looks: list[bool]) -> bool:
        if looks[0]:
            await self.run(f"CREATE KEYSPACE IF NOT EXISTS newer {SIMPLE}")
            await self.run("CREATE TABLE IF NOT EXISTS newer.t (k int PRIMARY KEY)")
        return looks.pop(0)

    async def run(self, text: str, keyspace: str | None = "ks") -> Result:
        plan = plan_schema_statement(parse_statement(text), keyspace, self)  # type: ignore[arg-type]
        assert plan is not None
        answer = plan.execute(Execution(None))  # type: ignore[arg-type]
        assert not isinstance(answer, Result)
        result = await answer
        if isinstance(result, Rows):
            assert result.columns == plan.result_columns
        return result


Test = Callable[[Host], Coroutine[Any, Any, None]]


def on_host(test: Test) -> None:
    async def main(world: World) -> None:
        runtime = world.boot("machine")

        async def work() -> None:
            host = Host(runtime)
            await host.metadata.start()
            await host.run(f"CREATE KEYSPACE ks {SIMPLE}")
            await test(host)
            await host.metadata.stop()

        await runtime.perform(work())

    World(1).run(main)


def test_a_new_table_is_open_when_its_statement_is_answered() -> None:
    async def test(host: Host) -> None:
        answer = await host.run("CREATE TABLE t (k int PRIMARY KEY)")
        assert isinstance(answer, SchemaChange)
        assert host.access.open == {"ks.t"}
        assert isinstance(await host.run("CREATE TABLE IF NOT EXISTS t (k int PRIMARY KEY)"), Void)
        await host.run("DROP TABLE t")
        assert host.access.open == set()

    on_host(test)


def test_use() -> None:
    async def test(host: Host) -> None:
        answer = await host.run("USE ks", None)
        assert isinstance(answer, SetKeyspace)
        assert answer.keyspace == "ks"
        with pytest.raises(InvalidRequest, match=r"^Keyspace 'nope' does not exist$"):
            await host.run("USE nope")

    on_host(test)


def test_truncate() -> None:
    async def test(host: Host) -> None:
        await host.run("CREATE TABLE t (k int PRIMARY KEY)")
        assert isinstance(await host.run("TRUNCATE t"), Void)
        assert isinstance(await host.run("TRUNCATE TABLE ks.t", None), Void)
        assert host.access.truncated == ["ks.t", "ks.t"]
        with pytest.raises(InvalidRequest, match=r"^table nope does not exist$"):
            await host.run("TRUNCATE nope")
        with pytest.raises(Unauthorized, match=r"^system keyspace is not user-modifiable\.$"):
            await host.run("TRUNCATE system.local")

    on_host(test)


def test_a_change_is_answered_when_the_others_know_whoever_has_made_it() -> None:
    async def test(host: Host) -> None:
        barrier = host.barrier = Barrier()
        create = "CREATE TABLE IF NOT EXISTS t (k int PRIMARY KEY)"
        assert isinstance(await host.run(create), SchemaChange)
        assert barrier.passed_at == [host.state.revision]
        barrier.warning = "b does not know"
        answer = await host.run(create)
        assert isinstance(answer, Void)
        assert answer.warnings == ("b does not know",)
        answer = await host.run("ALTER TABLE t WITH read_repair_chance = 0.5 AND comment = 'x'")
        assert answer.warnings == ("The property 'read_repair_chance' is ignored", "b does not know")
        assert barrier.passed_at == [2, 2, 3]
        # Nothing was changed: there is nothing to know.
        with pytest.raises(InvalidRequest):
            await host.run("ALTER TABLE nope ADD v int")
        await host.run("TRUNCATE t")
        assert len(barrier.passed_at) == 3

    on_host(test)


def test_truncate_where_nodes_keep_tablets_for_each_other() -> None:
    async def test(host: Host) -> None:
        barrier = host.barrier = Barrier(warning="b does not know")
        host.options = SimpleNamespace(cluster_name="the cluster", node="a")
        entries = tuple(Put(key, value) for key, value in node_entries("abc").items())
        await host.metadata.commit(lambda _: ((), entries))
        await host.run("CREATE TABLE t (k int PRIMARY KEY)")
        table = host.state.tables_by_id[next(iter(host.state.tablet_maps))]
        before = host.state.tablet_maps[table.id].tablets
        assert {tablet.primary for tablet in before} == {"a", "b", "c"}
        answer = await host.run("TRUNCATE t")
        assert (type(answer), answer.warnings) == (Void, ("b does not know",))
        assert barrier.passed_at[-1] == host.state.revision
        after = host.state.tablet_maps[table.id].tablets
        assert not {tablet.id for tablet in before} & {tablet.id for tablet in after}
        assert host.access.truncated == []
        with pytest.raises(InvalidRequest, match=r"^table nope does not exist$"):
            await host.run("TRUNCATE nope")

    on_host(test)


@pytest.mark.parametrize("text", ["USE newer", "TRUNCATE newer.t", "DESCRIBE TABLE newer.t"])
def test_what_is_unknown_when_it_runs_is_looked_up(text: str) -> None:
    async def test(host: Host) -> None:
        for looks in (None, [False]):
            host.looks = looks
            with pytest.raises(InvalidRequest, match="newer"):
                await host.run(text)
        host.looks = [True]
        await host.run(text)
        assert host.looks == []

    on_host(test)


def test_a_new_view_is_open_and_handed_to_its_builder_when_its_statement_is_answered() -> None:
    create = (
        "CREATE MATERIALIZED VIEW {} v AS SELECT * FROM t "
        "WHERE k IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k)"
    )

    async def test(host: Host) -> None:
        await host.run("CREATE TABLE t (k int PRIMARY KEY, v int)")
        await host.run(create.format(""))
        assert host.views.created_views == [("ks.v", {"ks.t", "ks.v"})]
        assert isinstance(await host.run(create.format("IF NOT EXISTS")), Void)
        assert len(host.views.created_views) == 1
        with pytest.raises(
            InvalidRequest,
            match=r"^Cannot TRUNCATE materialized view directly; must truncate base table instead$",
        ):
            await host.run("TRUNCATE v")
        await host.run("DROP MATERIALIZED VIEW v")
        assert host.access.open == {"ks.t"}

    on_host(test)


def test_describe() -> None:
    async def test(host: Host) -> None:
        answer = await host.run("DESCRIBE CLUSTER", None)
        assert isinstance(answer, Rows)
        assert answer.rows == [[b"the cluster", b"Murmur3Partitioner", b"SimpleSnitch"]]
        answer = await host.run("DESCRIBE KEYSPACES")
        assert isinstance(answer, Rows)
        assert answer.rows == [[b"ks", b"keyspace", b"ks"]]

    on_host(test)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("CREATE INDEX ON t (v)", InvalidRequest, "Secondary indexes are not supported"),
        ("DROP INDEX i", InvalidRequest, "Secondary indexes are not supported"),
        ("DROP FUNCTION f", InvalidRequest, "DROP FUNCTION is not supported"),
        ("CREATE TRIGGER x ON t USING 'y'", InvalidRequest, "CREATE TRIGGER is not supported"),
        (
            "LIST ROLES",
            Unauthorized,
            "LIST ROLES is not supported: there are no roles, every client may do everything",
        ),
        (
            "CREATE MATERIALIZED VIEW ks.v AS SELECT * FROM t WHERE k = ? PRIMARY KEY (k)",
            InvalidRequest,
            "Cannot use query parameters in CREATE MATERIALIZED VIEW statements",
        ),
        (
            "CREATE TABLE t (k int PRIMARY KEY)",
            InvalidRequest,
            "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename",
        ),
        (
            "TRUNCATE t",
            InvalidRequest,
            "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename",
        ),
    ],
)
def test_refused_when_planned(text: str, kind: type[CQLError], message: str) -> None:
    async def test(host: Host) -> None:
        with pytest.raises(CQLError) as caught:
            plan_schema_statement(parse_statement(text), None, host)  # type: ignore[arg-type]
        assert (type(caught.value), caught.value.message) == (kind, message)

    on_host(test)


def test_data_statements_are_left_to_others() -> None:
    async def test(host: Host) -> None:
        for text in ("SELECT * FROM t", "INSERT INTO t (k) VALUES (1)"):
            assert plan_schema_statement(parse_statement(text), "ks", host) is None  # type: ignore[arg-type]

    on_host(test)
