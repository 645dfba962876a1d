"""Commands run in this process, and statements sent to a server process."""

from typing import Any

import pytest

from belvedere.cli.main import main
from belvedere.runtime.real import RealRuntime, run
from belvedere.server.client import Client
from tests.drivers.server_process import ServerProcess


def query(server: ServerProcess, *texts: str) -> list[dict[str, Any]]:
    """The rows of the last statement."""

    async def ask(runtime: RealRuntime) -> list[dict[str, Any]]:
        client = await Client.connect(runtime, server.host, server.port)
        rows: list[dict[str, Any]] = []
        try:
            for text in texts:
                rows = await client.query(text)
        finally:
            client.close()
        return rows

    return run(ask)


class Shell:
    """`belvedere …` against one server: exit status, what went to stdout, what to stderr."""

    def __init__(self, server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> None:
        self.server = server
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        status = main([*words, "--host", self.server.host, "--port", str(self.server.port)])
        told = self._capsys.readouterr()
        return status, told.out, told.err
