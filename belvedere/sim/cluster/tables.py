"""The tables that every run has, and clients that make, change and drop others."""

from belvedere.sim.cluster.asking import KEYSPACE, QUORUM, Unknown
from belvedere.sim.cluster.clients import Client, Work
from belvedere.sim.cluster.plan import Plan
from belvedere.sim.cluster.rows import BASE, VIEWS, creation

_NAMES = ("x0", "x1")
#: View of what batches write.
PARTS_VIEW = "parts_by_v"


def statements(plan: Plan) -> list[str]:
    """What is there from the beginning, for the works of a plan."""
    replication = f"{{'class': 'SimpleStrategy', 'replication_factor': {plan.factor}}}"
    made = [f"CREATE KEYSPACE {KEYSPACE} WITH replication = {replication}"]
    tablets = f"WITH tablets = {{'initial': {plan.tablets}}}"
    tables = {
        "registers": ["CREATE TABLE registers (k int PRIMARY KEY, v int)"],
        "batches": [
            "CREATE TABLE parts (k int, n int, v int, PRIMARY KEY (k, n))",
            f"CREATE MATERIALIZED VIEW {PARTS_VIEW} AS SELECT k, n, v FROM parts WHERE k IS NOT NULL "
            "AND n IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k, n)",
        ],
        "counters": ["CREATE TABLE counters (k int PRIMARY KEY, n counter)"],
        "truncation": ["CREATE TABLE emptied (k int, n int, PRIMARY KEY (k, n))"],
        "rows": [
            f"CREATE TABLE {BASE} (k int, c int, v int, x int, w text, m map<int, int>, st int static, "
            "PRIMARY KEY (k, c))",
        ],
    }
    for work in plan.works:
        made += [f"{text} {tablets}" for text in tables.get(work, [])]
    if "rows" in plan.works:
        made.append(creation(sorted(VIEWS)[len(plan.machines) % len(VIEWS)]))
    return made


class SchemaClient(Client):
    """A table that exists all the time that a statement takes is known to whichever node is asked."""

    def works(self) -> dict[str, Work]:
        return {"schema": self._something}

    async def _something(self) -> None:
        name, share = self.one_of(_NAMES), self.random.random()
        if share < 0.2:
            columns = "(k int PRIMARY KEY, v int) WITH tablets = {'initial': 1}"
            await self.asker.change_schema(f"CREATE TABLE IF NOT EXISTS {name} {columns}")
        elif share < 0.25:
            await self.asker.change_schema(f"DROP TABLE IF EXISTS {name}")
        elif share < 0.35:
            await self._known(name, f"ALTER TABLE {name} ADD more{self.memory.next_value()} int", schema=True)
        elif share < 0.65:
            await self._known(name, f"INSERT INTO {name} (k, v) VALUES (1, {self.memory.next_value()})")
        else:
            await self._known(name, f"SELECT * FROM {name} WHERE k = 1")

    async def _known(self, name: str, text: str, *, schema: bool = False) -> None:
        before = self._id_of(name)
        try:
            if schema:
                await self.asker.change_schema(text)
            else:
                await self.asker.ask(text, QUORUM)
        except Unknown:
            if before is not None and before == self._id_of(name):
                raise

    def _id_of(self, name: str) -> bytes | None:
        """By the metadata store itself, not by what any node knows."""
        table = self.cluster.truth.table(KEYSPACE, name)
        return None if table is None else table.id
