"""`belvedere start` as a process of its own, for clients that must not share its interpreter."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BELVEDERE = [sys.executable, "-m", "belvedere.cli.main"]
READY = re.compile(
    r"belvedere: answering CQL on (?P<host>\S+):(?P<port>\d+), data in (?P<data>.+), "
    r"up after (?P<seconds>[\d.]+) s, (?P<mib>\d+) MiB resident\n"
)
KEYSPACE = "CREATE KEYSPACE {} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"


@dataclass
class ServerProcess:
    process: "subprocess.Popen[str]"
    host: str
    port: int
    first_line: str
    log: Path

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def resident_mib(self) -> float:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=60)

    def log_text(self) -> str:
        return self.log.read_text()


@contextmanager
def server_process(data: Path, *options: str, log: Path | None = None) -> Iterator[ServerProcess]:
    """Killed at the end if it still runs."""
    log = log or data.with_name(f"{data.name}.log")
    command = [*BELVEDERE, "start", "--data", str(data), "--port", "0", *options]
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        ready = READY.fullmatch(line)
        assert ready is not None, f"{line!r}, {log.read_text()}"
        yield ServerProcess(process, ready["host"], int(ready["port"]), line, log)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def belvedere(words: Sequence[str], **options: object) -> "subprocess.CompletedProcess[str]":
    """Run the command to its end."""
    return subprocess.run(
        [*BELVEDERE, *words],
        capture_output=True,
        text=True,
        timeout=60,
        **options,  # type: ignore[call-overload]
    )
