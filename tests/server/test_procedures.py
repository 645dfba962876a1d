"""`CALL verify` and `CALL repair` through a real server: driver, cqlsh, and the embedded database."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cassandra import InvalidRequest
from cassandra.cluster import Cluster, ExecutionProfile, NoHostAvailable, Session
from cassandra.policies import WhiteListRoundRobinPolicy

import belvedere
from belvedere.server.connection_api import ServerSettings
from belvedere.server.procedures import COUNTS
from tests.server.running_server import Running, running_server
from tests.views import damage

pytestmark = pytest.mark.filterwarnings("ignore")
CQLSH = Path(sys.executable).with_name("cqlsh")
ROWS = 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_server(str(tmp_path_factory.mktemp("node"))) as running:
        session = connect(running, 5)
        for text in damage.SCHEMA:
            session.execute(text)
        for k in range(ROWS):
            session.execute(damage.INSERT.format(k, k % 3))
        session.cluster.shutdown()
        yield running


def connect(server: Running, version: int) -> Session:
    profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy([server.host]))
    cluster = Cluster(
        [server.host], port=server.port, protocol_version=version, execution_profiles={"default": profile}
    )
    return cluster.connect()


def hurt(server: Running) -> None:
    work = damage.damage(server.node.database, server.node.views)
    asyncio.run_coroutine_threadsafe(work, server.loop).result(30)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_found_repaired_and_right_again(server: Running, version: int) -> None:
    session = connect(server, version)
    verify = session.prepare("CALL verify(?)")
    assert session.execute(verify, ["ks.mv"]).one()._asdict() == {
        "base_rows": ROWS,
        "view_rows": ROWS,
        **dict.fromkeys(COUNTS[2:], 0),
        "examples": "[]",
    }
    hurt(server)
    found = session.execute(verify, ["ks.mv"]).one()
    assert (found.missing, found.orphaned, found.different, found.repaired) == (1, 1, 1, 0)
    examples = {example["kind"]: example for example in json.loads(found.examples)}
    assert examples["missing"]["found"] is None
    assert examples["missing"]["expected"] == {"w": "right"}
    assert examples["orphaned"]["key"]["v"] == str(damage.WRONG_V)
    assert examples["orphaned"]["expected"] is None
    assert examples["different"]["expected"] == {"w": "right"}
    assert examples["different"]["found"] == {"w": damage.WRONG_W}
    mended = session.execute("CALL repair('ks.mv')").one()
    assert (mended.repaired, mended.unrepaired) == (3, 0)
    again = session.execute(verify, ["ks.mv"]).one()
    assert (again.missing, again.orphaned, again.different, again.view_rows) == (0, 0, 0, ROWS)
    session.cluster.shutdown()


def test_two_at_once_and_while_writes_go_on(server: Running) -> None:
    session = connect(server, 5)
    calls = [session.execute_async("CALL verify('ks.mv')") for _ in range(2)]
    for k in range(ROWS):
        session.execute(damage.INSERT.format(k, k % 5))
    for call in calls:
        found = call.result().one()
        assert (found.missing, found.orphaned, found.different) == (0, 0, 0)
    session.cluster.shutdown()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mv", r"A materialized view is named keyspace\.name.*'mv'"),
        ("ks.", "A materialized view is named"),
        ("", "A materialized view is named"),
        ("ks.mv; DROP TABLE ks.t", "A materialized view is named"),
        ('ks."MV"', r"materialized view ks\.MV does not exist"),
        ("nowhere.mv", r"materialized view nowhere\.mv does not exist"),
        ("ks.t", r"ks\.t is a table, not a materialized view"),
    ],
)
def test_what_is_no_view(server: Running, name: str, message: str) -> None:
    session = connect(server, 5)
    with pytest.raises(InvalidRequest, match=message):
        session.execute("CALL repair(%s)", [name])
    session.cluster.shutdown()


def test_names_as_in_cql(server: Running) -> None:
    session = connect(server, 5)
    session.execute(
        'CREATE MATERIALIZED VIEW ks."OddOne" AS SELECT k, v FROM ks.t '
        "WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (k, v)"
    )
    for name in ('ks."OddOne"', '"ks" . "OddOne"'):
        assert session.execute("CALL belvedere.verify(%s)", [name]).one().view_rows == ROWS
    assert session.execute("CALL VERIFY('KS.MV')").one().view_rows == ROWS
    session.execute('DROP MATERIALIZED VIEW ks."OddOne"')
    session.cluster.shutdown()


def test_a_view_that_is_not_built_is_not_compared(server: Running) -> None:
    session = connect(server, 5)
    session.execute(
        "CREATE MATERIALIZED VIEW ks.held AS SELECT k, v FROM ks.t WHERE v IS NOT NULL AND k IS NOT NULL "
        "PRIMARY KEY (k, v) WITH build = {'hold': 'true'}"
    )
    with pytest.raises(InvalidRequest, match=r"ks\.held is not built yet"):
        session.execute("CALL verify('ks.held')")
    session.execute("DROP MATERIALIZED VIEW ks.held")
    session.cluster.shutdown()


def test_from_cqlsh(server: Running) -> None:
    done = subprocess.run(
        [CQLSH, server.host, str(server.port), "--no-color", "-e", "CALL verify('ks.mv')"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    header, _, row = (line for line in done.stdout.splitlines()[1:4])
    assert [name.strip() for name in header.split("|")][:3] == ["base_rows", "view_rows", "missing"]
    assert [value.strip() for value in row.split("|")] == [
        str(ROWS),
        str(ROWS),
        *("0" for _ in COUNTS[2:]),
        "[]",
    ]


def test_a_server_that_stops_does_not_wait_for_calls(tmp_path: Path) -> None:
    called = threading.Event()

    async def long(*_: object, **__: object) -> None:
        called.set()
        await asyncio.Event().wait()

    with running_server(str(tmp_path)) as server:
        session = connect(server, 5)
        for text in damage.SCHEMA:
            session.execute(text)
        server.node.views.verify = long  # type: ignore[method-assign, assignment]
        call = session.execute_async("CALL verify('ks.mv')", timeout=30)
        assert called.wait(30)
        begun = time.monotonic()
    assert time.monotonic() - begun < ServerSettings().stop_seconds
    with pytest.raises(NoHostAvailable, match="The node stops; call verify again when it is back"):
        call.result()
    session.cluster.shutdown()


def test_embedded(tmp_path: Path) -> None:
    with belvedere.open(tmp_path / "data") as db:
        for text in damage.SCHEMA:
            db.execute(text)
        for k in range(ROWS):
            db.execute(damage.INSERT.format(k, k % 3))
        db._background.call(damage.damage(db._database, db._node.views))
        assert db.execute("CALL verify(?)", ["ks.mv"]).one().missing == 1
        assert db.execute("CALL repair('ks.mv')").one().repaired == 3
        assert db.execute("CALL verify('ks.mv')").one().different == 0
        listed = {row.name: row for row in db.execute("SELECT * FROM system_views.procedures")}
        assert set(listed) >= {"verify", "repair"}
        assert listed["verify"].parameters == ["view text"]
