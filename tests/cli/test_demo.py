"""`belvedere demo`, with fewer rows: it tells its story, and it notices a loss."""

from typing import Any

import pytest

from belvedere.cli import demo

pytestmark = pytest.mark.filterwarnings("ignore")


def test_the_story_ends_well(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "console", demo.Console(highlight=False, width=80))
    assert demo.run_demo(3000) == 0
    told = capsys.readouterr().out
    assert [line[:2] for line in told.splitlines() if line[:1].isdigit()] == ["1.", "2.", "3.", "4.", "5."]
    assert "✓ 3,000 rows, each with the values it was given" in told
    assert "Nothing was lost." in told
    assert max(map(len, told.splitlines())) <= 80


@pytest.mark.parametrize("damage", ["DELETE FROM shop.orders", "UPDATE shop.orders SET total = 0"])
def test_a_loss_is_noticed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr(demo, "console", demo.Console(highlight=False, width=80))
    restart = demo.Server.restart

    def restart_with_damage(server: Any) -> None:
        restart(server)
        cluster, session = demo.connect(server.port)
        session.execute(f"{damage} WHERE customer = 0 AND id = 1")
        cluster.shutdown()

    monkeypatch.setattr(demo.Server, "restart", restart_with_damage)
    assert demo.run_demo(1000) == 1
    told = capsys.readouterr().out
    assert "✗ 1 acknowledged rows are missing or differ, for example (0, 1," in told
    assert "The demo failed" in told
