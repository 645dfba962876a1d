"""`belvedere demo`, with fewer rows: it tells its story, and it notices what is not as it must be."""

import subprocess
from typing import Any

import pytest

from belvedere.cli import damage, demo, demo_stage

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(400)]

ROWS = 20_000


@pytest.fixture
def rows_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Spark, which one of these tests has already seen to work."""
    import belvedere.cli.demo_clerk as clerk

    def write(port: int, rows: int) -> float:
        cluster, session = demo_stage.connect(port)
        insert = session.prepare(clerk.INSERT)
        futures = [
            session.execute_async(insert, (n % 7, n, clerk.CITIES[n % 8], n % 500.0)) for n in range(rows)
        ]
        for future in futures:
            future.result()
        cluster.shutdown()
        return 1.0

    monkeypatch.setattr(demo, "_write_from_spark", write)


def test_the_story_ends_well() -> None:
    # In a process of its own: it starts Spark, and stops it.
    command = [*demo_stage.BELVEDERE, "demo", "--rows", str(ROWS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=390, check=False)
    told = done.stdout
    assert done.returncode == 0, told + done.stderr[-3000:]
    assert [line[0] for line in told.splitlines() if line[1:3] == ". "] == list("1234567")
    assert f"✓ {ROWS:,} rows in " in told
    assert "acknowledged writes are there" in told
    assert told.count("the view is equal to its base") == 3
    assert "missing, in the base, but not in the view: 1 row" in told
    assert "orphaned, in the view, but not in the base: 1 row" in told
    assert "different, not as the base has it: 1 row" in told
    assert "Both views equal their table." in told


@pytest.mark.usefixtures("rows_by_python")
def test_damage_that_nobody_finds_is_told(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing: dict[str, Any] = {}
    monkeypatch.setattr(damage, "damage", lambda *given: damage.Damage(nothing, nothing, nothing))
    assert demo.run_demo(1000) == 1
    told = capfd.readouterr().out
    assert "✗ the damage was not found" in told
    assert "The demo failed" in told


@pytest.mark.usefixtures("rows_by_python")
def test_a_lost_write_is_told(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    restart = demo.Server.restart

    def restart_with_a_loss(server: Any) -> None:
        restart(server)
        cluster, session = demo.connect(server.port)
        session.execute("TRUNCATE shop.orders")
        cluster.shutdown()

    monkeypatch.setattr(demo.Server, "restart", restart_with_a_loss)
    assert demo.run_demo(1000) == 1
    assert "writes are missing" in capfd.readouterr().out
