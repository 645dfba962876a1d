"""Views of large tables on one node, with real Spark: built, kept meanwhile, resumed, verified, repaired."""

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import belvedere
from belvedere.cli.damage import damage
from tests.drivers.server_process import server_process
from tests.pipeline.test_spark_runner import SPARK, descendants

pytestmark = pytest.mark.timeout(400)

KEYSPACE = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
TABLE = (
    "CREATE TABLE ks.t (k int, c int, v int, w text, x double, m map<text, int>, PRIMARY KEY (k, c)) "
    "WITH tablets = {'initial': 4}"
)
_KEYS = "k IS NOT NULL AND c IS NOT NULL"
BY_V = (
    f"CREATE MATERIALIZED VIEW ks.by_v AS SELECT * FROM ks.t WHERE v IS NOT NULL AND {_KEYS} "
    "PRIMARY KEY (v, k, c) WITH tablets = {'initial': 3}"
)
SOME = (
    f"CREATE MATERIALIZED VIEW ks.some AS SELECT k, c, w, x FROM ks.t WHERE w IS NOT NULL AND x > 1 AND "
    f"{_KEYS} PRIMARY KEY (w, c, k) WITH build = {{}}"
)
ASKED = "k, c, v, w, x, WRITETIME(x) AS written, TTL(x) AS ttl"


def status(db: Any, view: str) -> Any:
    (row,) = db.execute(
        f"SELECT * FROM system_views.view_builds WHERE keyspace_name = 'ks' AND view_name = '{view}'"
    )
    return row


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.1)


def until_built(db: Any, view: str) -> None:
    until(lambda: status(db, view).state == "BUILT")


def counts(db: Any, procedure: str, view: str) -> dict[str, Any]:
    found: dict[str, Any] = db.execute(f"CALL {procedure}('ks.{view}')").to_arrow().to_pylist()[0]
    return found


def write_at_random(db: Any, seed: int, statements: int) -> None:
    """Every way to change rows, with timestamps that lose and rows that end."""
    rnd = random.Random(seed)
    for _ in range(statements):
        k, c = rnd.randrange(40), rnd.randrange(8)
        stamp = rnd.choice(["", "", f"TIMESTAMP {1_600_000_000_000_000 + rnd.randrange(50)}"])
        # Long enough that none ends while this test runs.
        ttl = rnd.choice(["", "", "", "TTL 100000"])
        using = " AND ".join(part for part in (stamp, ttl) if part)
        using, deleting = f"USING {using}" if using else "", f"USING {stamp}" if stamp else ""
        v, w, x = (
            rnd.choice([*map(str, range(5)), "null"]),
            rnd.choice(["'a'", "'b'", "null"]),
            rnd.randrange(4),
        )
        roll = rnd.random()
        if roll < 0.5:
            db.execute(
                f"INSERT INTO ks.t (k, c, v, w, x, m) VALUES ({k}, {c}, {v}, {w}, {x}, {{'a': {x}}}) {using}"
            )
        elif roll < 0.8:
            db.execute(f"UPDATE ks.t {using} SET v = {v}, x = {x}, m['z'] = {x} WHERE k = {k} AND c = {c}")
        elif roll < 0.9:
            db.execute(
                f"DELETE {rnd.choice(['v', 'x', 'w', 'm'])} FROM ks.t {deleting} WHERE k = {k} AND c = {c}"
            )
        elif roll < 0.97:
            db.execute(f"DELETE FROM ks.t {deleting} WHERE k = {k} AND c = {c}")
        else:
            db.execute(f"DELETE FROM ks.t {deleting} WHERE k = {k} AND c > {c}")


def rows_of(db: Any, table: str, passes: Callable[[dict[str, Any]], bool] = lambda row: True) -> list[str]:
    """What a reader sees, in an order of its own; times to live as the hour in which they end."""
    found = []
    for row in (
        db.execute(f"SELECT {ASKED}, {'m' if table != 'some' else 'x'} AS more FROM ks.{table}")
        .to_arrow()
        .to_pylist()
    ):
        if passes(row):
            row["ttl"] = row["ttl"] is not None and row["ttl"] > 90_000
            found.append(repr(sorted((name, repr(value)) for name, value in row.items())))
    return sorted(found)


def assert_views_are_right(db: Any) -> None:
    assert rows_of(db, "by_v") == rows_of(db, "t", lambda row: row["v"] is not None)
    base = db.execute("SELECT k, c, w, x FROM ks.t").to_arrow().to_pylist()
    shown = db.execute("SELECT k, c, w, x FROM ks.some").to_arrow().to_pylist()
    wanted = [row for row in base if row["w"] is not None and (row["x"] or 0) > 1]
    assert sorted(map(repr, shown)) == sorted(map(repr, wanted))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark") / "data"


@pytest.fixture(scope="module")
def _filled(home: Path) -> None:
    with belvedere.open(home, spark=SPARK) as db:
        db.execute(KEYSPACE)
        db.execute(TABLE)
        write_at_random(db, 1, 600)


@pytest.mark.usefixtures("_filled")
def test_views_are_built_in_one_scan_verified_damaged_and_repaired(home: Path) -> None:
    with belvedere.open(home, spark=SPARK, inline_rows=0) as db:
        db.execute(BY_V)
        assert status(db, "by_v").state == "BUILDING"
        with pytest.raises(belvedere.InvalidRequest, match="not built yet: 0 of 4 ranges are done"):
            db.execute("SELECT * FROM ks.by_v")
        write_at_random(db, 2, 200)
        db.execute(SOME.format("{'wait': 'true'}"))
        assert status(db, "some").state == "BUILT", "CREATE waited for it"
        until_built(db, "by_v")
        assert status(db, "by_v").ranges_done == 4
        write_at_random(db, 3, 200)
        assert_views_are_right(db)
        for view in ("by_v", "some"):
            found = counts(db, "verify", view)
            assert found["view_rows"] > 20
            assert found["missing"] == found["orphaned"] == found["different"] == 0
        assert os.listdir(home / "exchange") == []
    done = damage(str(home), "ks.by_v", "x", 77.0)
    with belvedere.open(home, spark=SPARK, inline_rows=0) as db:
        assert rows_of(db, "by_v") != rows_of(db, "t", lambda row: row["v"] is not None)
        found = counts(db, "verify", "by_v")
        examples = {one["kind"]: one for one in json.loads(found["examples"])}
        assert [found[kind] for kind in ("missing", "orphaned", "different", "repaired")] == [1, 1, 1, 0]
        for kind, row in (
            ("missing", done.removed),
            ("different", done.changed),
            ("orphaned", done.invented),
        ):
            assert examples[kind]["key"] == {name: str(row[name]) for name in ("v", "k", "c")}
        assert examples["different"]["found"]["x"] == "77.0"
        found = counts(db, "repair", "by_v")
        assert [found[kind] for kind in ("missing", "orphaned", "different")] == [1, 1, 1]
        assert (found["repaired"], found["unrepaired"]) == (3, 0)
        found = counts(db, "verify", "by_v")
        assert found["missing"] == found["orphaned"] == found["different"] == 0
        assert_views_are_right(db)
        db.execute("TRUNCATE ks.t")
        until_built(db, "by_v")
        assert rows_of(db, "by_v") == []


def test_a_spark_that_fails_is_told_and_nothing_counts_as_built(tmp_path: Path) -> None:
    with belvedere.open(tmp_path / "data", spark={"spark.master": "nonsense"}, inline_rows=0) as db:
        db.execute(KEYSPACE)
        db.execute(TABLE)
        write_at_random(db, 1, 50)
        db.execute(BY_V)
        until(lambda: status(db, "by_v").failed_attempts >= 2)
        now = status(db, "by_v")
        assert now.state == "FAILING"
        assert "Spark could not be started at nonsense" in now.last_failure
        with pytest.raises(belvedere.InvalidRequest, match="Spark could not be started at nonsense"):
            db.execute("SELECT * FROM ks.by_v")
    # Where it can be done, it is.
    with belvedere.open(tmp_path / "data", spark={"spark.master": "none"}, inline_rows=0) as db:
        until_built(db, "by_v")
        assert rows_of(db, "by_v") == rows_of(db, "t", lambda row: row["v"] is not None)


@pytest.fixture
def session_of() -> Iterator[Callable[[Any], Any]]:
    from cassandra.cluster import Cluster
    from cassandra.query import dict_factory

    clusters = []

    def connect(server: Any) -> Any:
        cluster = Cluster([server.host], port=server.port, protocol_version=5)
        clusters.append(cluster)
        session = cluster.connect()
        session.row_factory = dict_factory
        return session

    yield connect
    for cluster in clusters:
        cluster.shutdown()


def test_a_build_on_spark_goes_on_after_kill_9(tmp_path: Path, session_of: Callable[[Any], Any]) -> None:
    data, options = tmp_path / "data", ["--inline-rows", "0", "--memtable-mb", "1"]
    for name, value in SPARK.items():
        options += ["--spark", f"{name}={value}"]
    before = descendants()

    def progress(session: Any) -> dict[str, Any]:
        found: dict[str, Any] = session.execute("SELECT * FROM system_views.view_builds").one()
        return found

    with server_process(data, *options, log=tmp_path / "1.log") as server:
        session = session_of(server)
        session.execute(KEYSPACE)
        session.execute(TABLE.replace("4}", "8}"))
        insert = session.prepare("INSERT INTO ks.t (k, c, v, w) VALUES (?, ?, ?, 'some text')")
        futures = [session.execute_async(insert, (n // 8, n % 8, n % 97)) for n in range(8000)]
        for future in futures:
            future.result()
        # About a second for each of eight ranges.
        session.execute(f"{BY_V} AND build = {{'max_rate': '8000'}}")
        until(lambda: progress(session)["ranges_done"] >= 2, 90)
        started = descendants() - before
        server.stop(signal.SIGKILL)
    until(lambda: not started & descendants(), 30)
    with server_process(data, *options, log=tmp_path / "2.log") as server:
        session = session_of(server)
        now = progress(session)
        assert now["ranges_done"] >= 2, "what was done stays done"
        session.execute("INSERT INTO ks.t (k, c, v) VALUES (1, 1, 1000)")
        until(lambda: progress(session)["state"] == "BUILT", 90)
        shown = session.execute("SELECT v, k, c, w FROM ks.by_v")
        base = session.execute("SELECT v, k, c, w FROM ks.t")
        assert sorted(map(repr, shown)) == sorted(map(repr, base))
        assert session.execute("CALL verify('ks.by_v')", timeout=60).one()["missing"] == 0
        assert (data / "exchange").exists()
        assert os.listdir(data / "exchange") == []
        session.cluster.shutdown()
        assert server.stop() == 0
        assert " error " not in server.log_text().lower()
