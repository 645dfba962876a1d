"""What the demo stands on, when servers and drivers do not do as they should."""

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from belvedere.cli import demo_stage
from belvedere.cli.demo_clerk import IN_FLIGHT, Clerk
from belvedere.cli.demo_stage import DemoFailed, Server


def played(monkeypatch: pytest.MonkeyPatch, home: Path, source: str) -> Path:
    """A server that does this instead; where it writes its id, if it does."""
    told = home / "id"
    tell = f"import os, pathlib, signal, time\npathlib.Path({str(told)!r}).write_text(str(os.getpid()))\n"
    monkeypatch.setattr(demo_stage, "BELVEDERE", [sys.executable, "-c", tell + source])
    return told


def runs(told: Path) -> bool:
    return Path(f"/proc/{told.read_text()}").exists()


def test_a_server_that_says_something_else_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = played(monkeypatch, tmp_path, "print('not now', flush=True); time.sleep(600)")
    with pytest.raises(DemoFailed, match="the server did not start: not now"):
        Server(tmp_path)
    assert not runs(told)


def test_a_server_that_ends_at_once_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch, tmp_path, "raise SystemExit(3)")
    with pytest.raises(DemoFailed, match="the server did not start: exit status 3"):
        Server(tmp_path)


def test_a_server_that_does_not_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stubborn = (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print('up after 0.1 s, 10 MiB resident', flush=True); time.sleep(600)"
    )
    told = played(monkeypatch, tmp_path, stubborn)
    monkeypatch.setattr(demo_stage, "ENDS_WITHIN", 0.3)
    server = Server(tmp_path)
    with pytest.raises(DemoFailed, match=r"did not end within 0\.3 s, and was killed"):
        server.stop()
    assert not runs(told)


class Refusing:
    """A session that was shut down."""

    def prepare(self, text: str) -> str:
        return text

    def execute_async(self, statement: Any, values: Any) -> Any:
        raise RuntimeError("Pool is shutdown")


def test_a_write_that_cannot_be_sent_is_not_waited_for() -> None:
    clerk = Clerk(1000)
    clerk._session = Refusing()
    clerk._insert = clerk._move = clerk._delete = "statement"
    for _ in range(IN_FLIGHT + 1):
        with pytest.raises(RuntimeError, match="shutdown"):
            clerk._write()
    resting = threading.Thread(target=clerk.rest, daemon=True)
    resting.start()
    resting.join(20)
    assert not resting.is_alive()
    assert clerk.acknowledged == 0
