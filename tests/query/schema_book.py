"""Schema statements run on plain ClusterStates: decided, committed and folded without any store."""

from collections.abc import Mapping

from belvedere.cql.parser import parse_statement
from belvedere.meta.metadata import Proposal
from belvedere.meta.state import EMPTY, ClusterState, advance
from belvedere.meta.store import Delete, Put, first_failure
from belvedere.model.schema import Table
from belvedere.query.results import SchemaChange
from belvedere.query.schema.change import decide
from belvedere.query.schema.describe import DescribeContext, describe
from belvedere.query.schema.edits import DdlContext
from belvedere.query.schema.events import schema_changes

SIMPLE = "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"


class SchemaBook:
    def __init__(self, keyspace: str | None = "ks", nodes: Mapping[str, bytes] | None = None) -> None:
        """`nodes`, if there are any, keep tablets for each other."""
        self.state: ClusterState = EMPTY
        self.replicated = nodes is not None
        if nodes is not None:
            puts = tuple(Put(key, value) for key, value in nodes.items())
            self.state = advance(EMPTY, 1, puts)
        self.keyspace = keyspace
        self.now = 1_000
        self.events: list[tuple[str, ...]] = []

    def run(self, *texts: str) -> SchemaChange | None:
        """The last statement's answer, None if it changed nothing."""
        answer = None
        for text in texts:
            answer = self._run(text)
        return answer

    def _run(self, text: str) -> SchemaChange | None:
        statement = parse_statement(text)
        self.now += 1
        context = DdlContext(self.keyspace, self.now.to_bytes(16), "node", self.now, self.replicated)
        before = self.state
        decision = decide(statement, before, context)
        if decision is None:
            return None
        asserts, updates = decision.proposal
        assert first_failure(asserts, before.entries) is None
        assert {a.key for a in asserts} >= {u.key for u in updates}
        assert all(isinstance(update, Put | Delete) for update in updates)
        self.state = advance(before, before.revision + 1, updates)
        found = schema_changes(before, self.state)
        self.events = [(c.change, c.target, c.keyspace, c.name) for c in found]
        return decision.result

    def proposed(self, text: str) -> Proposal:
        """What a statement would change, without changing it."""
        context = DdlContext(self.keyspace, self.now.to_bytes(16), "node", self.now, self.replicated)
        decision = decide(parse_statement(text), self.state, context)
        assert decision is not None
        return decision.proposal

    def table(self, name: str = "t", keyspace: str = "ks") -> Table:
        table = self.state.table(keyspace, name)
        assert table is not None
        return table

    def describe(self, text: str) -> list[tuple[str, ...]]:
        context = DescribeContext(self.state.keyspaces, self.state, "the cluster", self.keyspace)
        rows = describe(parse_statement(text), context).rows  # type: ignore[arg-type]
        return [tuple(value.decode() for value in row if value is not None) for row in rows]


def book(*texts: str) -> SchemaBook:
    """One with keyspace ks, in use, and what the statements make."""
    made = SchemaBook()
    made.run(f"CREATE KEYSPACE ks {SIMPLE}", *texts)
    return made


def columns(table: Table) -> dict[str, tuple[str, str, int, bool]]:
    return {c.name: (c.type.name, c.kind.value, c.position, c.descending) for c in table.columns}
