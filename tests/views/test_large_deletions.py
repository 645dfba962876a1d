"""A deletion of very many rows of a table with views: a few at a time, and others run in between."""

import pytest

from belvedere.query import keeping
from belvedere.storage.engine import StorageEngine, Write
from belvedere.storage.tablet import TabletStore
from belvedere.storage.tablet_changes import RowChange
from tests.query.database_help import Client, with_database

ROWS = 400
AT_ONCE = 10


class Watched:
    """What a deletion holds in memory at a time, and what went on meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most_rows = self.most_updates = 0
        self.turns = 0
        #: How many turns others had had at each write of a piece.
        self.turns_at: list[int] = []
        changes, write = TabletStore.changes, StorageEngine.write_together_now
        changes_now = TabletStore.changes_now

        def seen(found: list[RowChange] | None) -> list[RowChange] | None:
            self.most_rows = max(self.most_rows, len(found or ()))
            return found

        async def watched_changes(store: TabletStore, *given: object) -> object:
            return seen(await changes(store, *given))  # type: ignore[arg-type]

        def watched_write(engine: StorageEngine, writes: list[Write]) -> int | None:
            self.turns_at.append(self.turns)
            derived = sum(len(one.derive(1)) for one in writes if one.derive is not None)
            self.most_updates = max(self.most_updates, derived)
            return write(engine, writes)

        monkeypatch.setattr(TabletStore, "changes", watched_changes)
        monkeypatch.setattr(TabletStore, "changes_now", lambda *given: seen(changes_now(*given)))
        monkeypatch.setattr(StorageEngine, "write_together_now", watched_write)

    async def tick(self, client: Client) -> None:
        while True:
            self.turns += 1
            await client.runtime.clock.sleep(0)


async def _fill(client: Client) -> None:
    await client.run("CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))")
    await client.run(
        "CREATE MATERIALIZED VIEW mv AS SELECT * FROM t WHERE v IS NOT NULL AND k IS NOT NULL "
        "AND c IS NOT NULL PRIMARY KEY (v, k, c)"
    )
    for c in range(ROWS):
        await client.run(f"INSERT INTO t (k, c, v) VALUES (1, {c}, {c % 3})")


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("deletion", ["DELETE FROM t WHERE k = 1", "DELETE FROM t WHERE k = 1 AND c >= 0"])
def test_goes_in_pieces(monkeypatch: pytest.MonkeyPatch, deletion: str, flushed: bool) -> None:
    monkeypatch.setattr(keeping, "DELETED_AT_ONCE", AT_ONCE)

    async def use(client: Client) -> None:
        await _fill(client)
        if flushed:
            await client.database.engine.flush()
        watched = Watched(monkeypatch)
        client.runtime.spawn("others", watched.tick(client))
        await client.run(deletion)
        assert watched.most_rows <= AT_ONCE
        assert watched.most_updates <= AT_ONCE
        assert len(watched.turns_at) >= ROWS // AT_ONCE
        # The simulator gives the next turn to anybody: not to others each time, but again and again.
        assert len(set(watched.turns_at)) > ROWS // AT_ONCE // 3
        assert await client.rows("SELECT * FROM t") == await client.rows("SELECT * FROM mv") == []

    with_database(use)


def test_that_this_would_notice_a_deletion_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(client: Client) -> None:
        await _fill(client)
        watched = Watched(monkeypatch)
        await client.run("DELETE FROM t WHERE k = 1")
        assert watched.most_rows == watched.most_updates == ROWS

    with_database(use)
