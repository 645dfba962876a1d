"""`belvedere demo`: a server is killed in the middle of 100,000 writes, and nothing acknowledged is lost.

It starts a real server process, talks to it through the ordinary Cassandra driver, kills it with SIGKILL,
starts it again, compares every row, and finally reads the very same files with DuckDB.
"""

import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

CITIES = ("Lisbon", "Nairobi", "Osaka", "Quito", "Riga", "Tunis", "Uppsala", "Wellington")
CREATE_KEYSPACE = (
    "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
)
CREATE_TABLE = (
    "CREATE TABLE shop.orders (customer int, id int, city text, total double, PRIMARY KEY (customer, id))"
)
INSERT = "INSERT INTO shop.orders (customer, id, city, total) VALUES (?, ?, ?, ?)"
PER_CUSTOMER = 20
IN_FLIGHT = 256
READY = re.compile(r"up after ([\d.]+) s, (\d+) MiB resident")

console = Console(highlight=False)


def row(number: int) -> tuple[int, int, str, float]:
    return (
        number // PER_CUSTOMER,
        number % PER_CUSTOMER,
        CITIES[number * 7 % len(CITIES)],
        round(number * 0.37 % 500, 2),
    )


class Server:
    """`belvedere start` as a process of its own."""

    def __init__(self, data: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._data = data
        self.process = self._start()

    def _start(self) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "belvedere.cli.main", "start"]
        command += ["--data", str(self._data), "--port", str(self.port)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        if not line:
            raise SystemExit(f"the server did not start (exit status {process.wait()})")
        ready = READY.search(line)
        if ready is None:
            raise SystemExit(f"the server said: {line}")
        note(f"belvedere start --data … --port {self.port}")
        good(f"answers CQL {ready[1]} s after its process was started, {ready[2]} MiB resident")
        return process

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def restart(self) -> None:
        self.process = self._start()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(timeout=60)


def connect(port: int) -> Any:
    import logging

    from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
    from cassandra.policies import ConstantReconnectionPolicy, FallthroughRetryPolicy, RoundRobinPolicy

    # The driver reports the server's death, which is the very thing shown here.
    logging.getLogger("cassandra").setLevel(logging.CRITICAL)
    profile = ExecutionProfile(
        load_balancing_policy=RoundRobinPolicy(),
        retry_policy=FallthroughRetryPolicy(),
        request_timeout=10,
    )
    cluster = Cluster(
        ["127.0.0.1"],
        port=port,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        reconnection_policy=ConstantReconnectionPolicy(0.2, max_attempts=None),
        protocol_version=5,
    )
    return cluster, cluster.connect()


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Gives a function that takes how much is done. Where no terminal is, nothing moves."""
    progress = Progress(
        TextColumn("  {task.description}"),
        BarColumn(bar_width=32),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    with progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


def step(title: str, *explanation: str) -> None:
    console.print(f"\n[bold]{title}[/bold]", soft_wrap=True)
    for line in explanation:
        console.print(f"  {line}", soft_wrap=True)


def note(text: str) -> None:
    console.print(f"  [dim]{text}[/dim]", soft_wrap=True)


def good(text: str) -> None:
    console.print(f"  [green]✓ {text}[/green]", soft_wrap=True)


def bad(text: str) -> int:
    console.print(f"  [bold red]✗ {text}[/bold red]", soft_wrap=True)
    return 1


class Writer:
    """Keeps a window of writes in flight and remembers which were acknowledged."""

    def __init__(self, session: Any, rows: int) -> None:
        self._session = session
        self._insert = session.prepare(INSERT)
        self._window = threading.Semaphore(IN_FLIGHT)
        self._lock = threading.Lock()
        self.acknowledged = [False] * rows
        self.count = 0

    def write(self, numbers: list[int], report: Callable[[int], None], stop_at: int | None = None) -> None:
        for number in numbers:
            if stop_at is not None and self.count >= stop_at:
                return
            self._window.acquire()
            future = self._session.execute_async(self._insert, row(number))
            future.add_callbacks(self._acknowledge, self._fail, callback_args=(number, report))

    def drain(self) -> None:
        for _ in range(IN_FLIGHT):
            self._window.acquire()
        for _ in range(IN_FLIGHT):
            self._window.release()

    def _acknowledge(self, _: Any, number: int, report: Callable[[int], None]) -> None:
        with self._lock:
            self.acknowledged[number] = True
            self.count += 1
            if self.count % 500 == 0:
                report(self.count)
        self._window.release()

    def _fail(self, _: Exception) -> None:
        self._window.release()


def run_demo(rows: int) -> int:
    """0 when all went well, 1 when something is missing."""
    started = time.monotonic()
    console.print(
        f"\nA server takes {rows:,} writes, is killed in the middle, and starts again.\n"
        "Nothing that it has acknowledged may be missing.",
        soft_wrap=True,
    )
    with tempfile.TemporaryDirectory(prefix="belvedere-demo-") as folder:
        data = Path(folder) / "data"
        step("1. A server", "A process of its own, with an empty data directory.")
        server = Server(data)
        try:
            code = _story(server, data, rows)
        finally:
            if server.process.poll() is None:
                server.kill()
    seconds = time.monotonic() - started
    if code == 0:
        console.print(f"\n[bold green]Nothing was lost.[/bold green] The demo took {seconds:.0f} s.\n")
    else:
        console.print(f"\n[bold red]The demo failed[/bold red] after {seconds:.0f} s.\n")
    return code


def _story(server: Server, data: Path, rows: int) -> int:
    step("2. Writes", "Prepared INSERTs through the Cassandra driver, 256 at a time under way.")
    cluster, session = connect(server.port)
    session.execute(CREATE_KEYSPACE)
    session.execute(CREATE_TABLE)
    note(f"{CREATE_TABLE[: CREATE_TABLE.index('(')].strip()}")
    note(f"  {CREATE_TABLE[CREATE_TABLE.index('(') :]}")
    writer = Writer(session, rows)
    before = time.monotonic()
    with progress_bar("writing", rows) as report:
        writer.write(list(range(rows)), report, stop_at=rows * 2 // 3)
        seconds = time.monotonic() - before
        server.kill()
        writer.drain()
        report(writer.count)
    cluster.shutdown()
    acknowledged = [number for number in range(rows) if writer.acknowledged[number]]
    note(f"{len(acknowledged):,} writes acknowledged in {seconds:.1f} s (the driver sets the pace)")

    step(
        "3. kill -9",
        "That is where the bar stopped: the server was killed with writes under way.",
        "Those got no answer, so they may be there or not. Acknowledged ones must be.",
    )
    server.restart()
    cluster, session = connect(server.port)
    found, lost = _compare(session, acknowledged)
    if lost:
        return bad(f"{len(lost):,} acknowledged rows are missing or differ, for example {_shown(lost)}")
    good(f"all {len(acknowledged):,} acknowledged rows are there ({found:,} rows in all)")

    step("4. The rest", "What was not acknowledged is written again, then every row is compared.")
    remaining = [number for number in range(rows) if not writer.acknowledged[number]]
    second = Writer(session, rows)
    with progress_bar("writing", len(remaining)) as report:
        second.write(remaining, report)
        second.drain()
        report(second.count)
    found, lost = _compare(session, list(range(rows)))
    cluster.shutdown()
    if lost or found != rows:
        return bad(f"{len(lost):,} of {found:,} rows are missing or differ, for example {_shown(lost)}")
    good(f"{rows:,} rows, each with the values it was given")
    code = server.stop()
    if code != 0:
        return bad(f"SIGTERM: the server ended with status {code}")
    note("SIGTERM: the server wrote its memory to files and ended")
    return _show_files(data, rows)


def _shown(lost: list[int]) -> str:
    return ", ".join(str(row(number)) for number in lost[:3])


def _compare(session: Any, numbers: list[int]) -> tuple[int, list[int]]:
    """How many rows there are, and which of these are missing or differ."""
    found: dict[tuple[int, int], tuple[str, float]] = {}
    with progress_bar("reading", len(numbers)) as report:
        for result in session.execute("SELECT customer, id, city, total FROM shop.orders"):
            found[result.customer, result.id] = (result.city, result.total)
            if len(found) % 1000 == 0:
                report(min(len(found), len(numbers)))
        report(len(numbers))
    return len(found), [number for number in numbers if found.get(row(number)[:2]) != row(number)[2:]]


def _show_files(data: Path, rows: int) -> int:
    import duckdb

    folder = "node/tables/shop.orders-*/*/*.parquet"
    files = list(data.glob(folder))
    size = sum(path.stat().st_size for path in files)
    step(
        "5. The same files without Belvedere",
        f"The table is {len(files)} Parquet files, {size / 1024:,.0f} KiB together. DuckDB reads them:",
    )
    # Of the kinds of entries in a file, 3 is a row; the others are deletions and static values.
    query = (
        "SELECT city, count(*) AS orders, sum(total) AS total\n"
        "FROM '{}' WHERE _kind = 3 GROUP BY city ORDER BY city"
    )
    for line in query.format("…/*.parquet").split("\n"):
        note(line)
    answer = duckdb.connect().execute(query.format(data / folder)).fetchall()
    for city, orders, total in answer:
        console.print(f"  {city:<12} {orders:>8,} orders {total:>14,.2f}")
    counted = sum(orders for _, orders, _ in answer)
    if counted != rows:
        return bad(f"the files hold {counted:,} rows, not {rows:,}")
    good(f"{counted:,} rows")
    return 0
