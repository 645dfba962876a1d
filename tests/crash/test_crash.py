"""A server process under load from the real driver, killed and stopped again and again: what was acknowledged
is there afterwards."""

import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "drivers"))
from load import SCHEMA, Memory, check, connect, finish, start_writers
from server_process import ServerProcess, server_process

LONG = os.environ.get("BELVEDERE_LONG") == "1"
ROUNDS = 50 if LONG else 2


def _load_and_stop(server: ServerProcess, memory: Memory, seconds: float, number: int, seed: int) -> int:
    """Returns the server's exit status."""
    cluster, session = connect(server.host, server.port)
    try:
        for statement in SCHEMA:
            session.execute(statement)
        check(session, memory)
        writers = start_writers(session, memory, seed)
        time.sleep(seconds)
        status = server.stop(number)
        finish(writers)
    finally:
        cluster.shutdown()
    return status


def _check(data: Path, memory: Memory) -> None:
    with server_process(data) as server:
        cluster, session = connect(server.host, server.port)
        try:
            check(session, memory)
            # The comparison itself notices a loss.
            writer, key = next(row for row, values in memory.rows.items() if values != {None})
            session.execute(f"DELETE FROM crash.rows WHERE writer = {writer} AND key = {key}")
            with pytest.raises(AssertionError, match="may be"):
                check(session, memory)
        finally:
            cluster.shutdown()
        assert server.stop() == 0


@pytest.mark.timeout(1800 if LONG else 120)
def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path) -> None:
    data, memory = tmp_path / "data", Memory()
    moments = random.Random(1 if not LONG else None)
    for number in range(ROUNDS):
        before = memory.acknowledged
        with server_process(data, "--memtable-mb", "1", log=tmp_path / f"{number}.log") as server:
            status = _load_and_stop(server, memory, moments.uniform(0.3, 2.5), signal.SIGKILL, number)
        assert status == -signal.SIGKILL
        assert memory.acknowledged > before
    _check(data, memory)


@pytest.mark.timeout(600 if LONG else 120)
def test_sigterm_under_load_ends_in_order(tmp_path: Path) -> None:
    data, memory = tmp_path / "data", Memory()
    for number in range(5 if LONG else 1):
        log = tmp_path / f"{number}.log"
        with server_process(data, "--memtable-mb", "1", log=log) as server:
            status = _load_and_stop(server, memory, 1.0, signal.SIGTERM, number)
        assert status == 0
        assert "error" not in log.read_text().lower(), log.read_text()
        assert "Traceback" not in log.read_text()
    assert memory.acknowledged
    _check(data, memory)
