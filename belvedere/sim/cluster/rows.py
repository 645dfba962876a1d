"""Clients that write random rows of a base, and make, drop and empty its views meanwhile."""

import asyncio
from collections.abc import Callable

from belvedere.query.errors import InvalidRequest
from belvedere.sim.clock import EPOCH_MICROS
from belvedere.sim.cluster.asking import ALL, KEYSPACE, ONE, QUORUM, Row
from belvedere.sim.cluster.clients import Client, Work
from belvedere.sim.incarnation import MachineCrashed

BASE = "items"
_KEYS = "k IS NOT NULL AND c IS NOT NULL"
#: Name to key and filter.
VIEWS = {
    "by_v": ("v, k, c", f"{_KEYS} AND v IS NOT NULL"),
    "swapped": ("c, k", _KEYS),
    "some": ("(k, v), c", f"{_KEYS} AND v IS NOT NULL AND x > 1"),
}
#: What a view's filter says of a row of the base.
FILTERS: dict[str, Callable[[Row], bool]] = {
    "by_v": lambda row: row["c"] is not None and row["v"] is not None,
    "swapped": lambda row: row["c"] is not None,
    "some": lambda row: row["c"] is not None and row["v"] is not None and (row["x"] or 0) > 1,
}
SHOWN = ("k", "c", "v", "x", "w", "m")
#: What is compared: write times, too.
COMPARED = (*SHOWN, *(f"{f}({column})" for column in ("x", "w") for f in ("WRITETIME", "TTL")))
_LEVELS = (QUORUM, QUORUM, QUORUM, ONE, ALL)
_VERIFY_SECONDS = 10.0


def creation(view: str) -> str:
    key, where = VIEWS[view]
    return (
        f"CREATE MATERIALIZED VIEW IF NOT EXISTS {view} AS SELECT {', '.join(SHOWN)} FROM {BASE} "
        f"WHERE {where} PRIMARY KEY ({key}) WITH tablets = {{'initial': 1}}"
    )


class RowClient(Client):
    def works(self) -> dict[str, Work]:
        return {"rows": self._write}

    async def _write(self) -> None:
        share = self.random.random()
        if share < 0.1:
            parts = "; ".join(self._statement() for _ in range(int(2 + 3 * self.random.random())))
            text = f"BEGIN BATCH {parts}; APPLY BATCH"
        elif share < 0.18:
            text = f"UPDATE {BASE} SET {self._assignments()} WHERE {self._one()} IF v = {self._below(3)}"
        else:
            text = self._statement()
        await self.asker.ask(text, self.one_of(_LEVELS))

    def _below(self, limit: int) -> int:
        return int(self.random.random() * limit)

    def _one(self) -> str:
        return f"k = {self._below(3)} AND c = {self._below(4)}"

    def _statement(self) -> str:
        random = self.random
        stamp = f"TIMESTAMP {self._past()}" if random.random() < 0.25 else ""
        ttl = f"TTL {1 + self._below(4)}" if random.random() < 0.15 else ""
        both = " AND ".join(part for part in (stamp, ttl) if part)
        using = f"USING {both}" if both else ""
        deleting = f"USING {stamp}" if stamp else ""
        roll = random.random()
        k, c = self._below(3), self._below(4)
        if roll < 0.45:
            names, values = (", ".join(part) for part in zip(*self._values(), strict=True))
            return f"INSERT INTO {BASE} (k, c, {names}) VALUES ({k}, {c}, {values}) {using}"
        if roll < 0.75:
            return f"UPDATE {BASE} {using} SET {self._assignments()} WHERE {self._one()}"
        if roll < 0.78:
            return f"UPDATE {BASE} {using} SET st = 1 WHERE k = {k}"
        if roll < 0.86:
            return f"DELETE {self.one_of(('v', 'x', 'w', 'm'))} FROM {BASE} {deleting} WHERE {self._one()}"
        if roll < 0.93:
            return f"DELETE FROM {BASE} {deleting} WHERE {self._one()}"
        if roll < 0.98:
            return f"DELETE FROM {BASE} {deleting} WHERE k = {k} AND c >= {c} AND c < {c + 2}"
        return f"DELETE FROM {BASE} {deleting} WHERE k = {k}"

    def _past(self) -> int:
        """Timestamps that often lose, and now and then tie."""
        tenths = (EPOCH_MICROS + self.now // 1000) // 100_000
        return (tenths - self._below(20)) * 100_000

    def _values(self) -> list[tuple[str, str]]:
        chosen = [
            ("v", str(self._below(3)) if self.random.random() < 0.9 else "null"),
            ("x", str(self._below(4))),
            ("w", f"'{self._below(5) * 'long '}'"),
            ("m", f"{{{self._below(3)}: {self._below(10)}}}"),
        ]
        kept = [one for one in chosen if self.random.random() < 0.6]
        return kept or chosen[:1]

    def _assignments(self) -> str:
        parts = [f"{name} = {value}" for name, value in self._values() if name != "m"]
        roll = self.random.random()
        if roll < 0.2:
            parts.append(f"m[{self._below(3)}] = {self._below(10)}")
        elif roll < 0.3 or not parts:
            parts.append(f"m = m - {{{self._below(3)}}}")
        return ", ".join(parts)


class ViewClient(Client):
    """Makes views, drops them, and empties their base."""

    def works(self) -> dict[str, Work]:
        return {"rows": self._change}

    async def _change(self) -> None:
        await asyncio.sleep(0.05 + 0.4 * self.random.random())
        view = self.one_of(sorted(VIEWS))
        share = self.random.random()
        if share < 0.35:
            await self.asker.change_schema(f"DROP MATERIALIZED VIEW IF EXISTS {view}")
        elif share < 0.42:
            await self.asker.change_schema(f"TRUNCATE {BASE}")
            self.cluster.world.mark("cluster.truncated_base")
        else:
            await self.asker.change_schema(creation(view))


class VerifyingClient(Client):
    """Compares views with their base while both are written: what is built has nothing wrong, at any time."""

    def works(self) -> dict[str, Work]:
        return {"rows": self._verify}

    async def _verify(self) -> None:
        await asyncio.sleep(0.2 + 0.6 * self.random.random())
        view = self.cluster.truth.table(KEYSPACE, self.one_of(sorted(VIEWS)))
        up = self.cluster.up
        if view is None or not up:
            return
        node = self.cluster.nodes[self.one_of(up)]
        try:
            async with asyncio.timeout(_VERIFY_SECONDS):
                report = await node.runtime.perform(node.views.verify(view))
        except (MachineCrashed, TimeoutError, InvalidRequest):
            return  # It is not built, or gone.
        except Exception as error:
            raise self.asker.judged(error, f"{node.runtime.machine}: verify {view.name}") from error
        self.cluster.world.mark("cluster.verified")
        if report.wrong:
            self.cluster.findings.append(f"{view.name} while it is written: {report}")
