"""`belvedere demo`: a server is killed in the middle of 100,000 writes, and nothing acknowledged is lost.

It starts a real server process, talks to it through the ordinary Cassandra driver, kills it with SIGKILL,
starts it again, compares every row, and finally reads the very same files with DuckDB.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
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
        console.print(f"  [dim]{line}[/dim]")
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


def bar(title: str) -> Progress:
    return Progress(
        TextColumn("  {task.description}"),
        BarColumn(bar_width=40),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=not console.is_terminal,
    )


class Writer:
    """Keeps a window of writes in flight and remembers which were acknowledged."""

    def __init__(self, session: Any, rows: int) -> None:
        self._session = session
        self._insert = session.prepare(INSERT)
        self._window = threading.Semaphore(256)
        self._lock = threading.Lock()
        self.acknowledged = [False] * rows
        self.count = 0

    def write(self, numbers: list[int], progress: Progress, task: Any, stop_at: int | None = None) -> None:
        for number in numbers:
            if stop_at is not None and self.count >= stop_at:
                return
            self._window.acquire()
            future = self._session.execute_async(self._insert, row(number))
            future.add_callbacks(self._acknowledge, self._fail, callback_args=(number, progress, task))

    def drain(self) -> None:
        for _ in range(256):
            self._window.acquire()
        for _ in range(256):
            self._window.release()

    def _acknowledge(self, _: Any, number: int, progress: Progress, task: Any) -> None:
        with self._lock:
            self.acknowledged[number] = True
            self.count += 1
            if self.count % 500 == 0:
                progress.update(task, completed=self.count)
        self._window.release()

    def _fail(self, _: Exception) -> None:
        self._window.release()


def run_demo(rows: int) -> int:
    with tempfile.TemporaryDirectory(prefix="belvedere-demo-") as folder:
        data = Path(folder) / "data"
        console.print("\n[bold]1. A server[/bold]")
        server = Server(data)
        try:
            return _story(server, data, rows)
        finally:
            if server.process.poll() is None:
                server.kill()


def _story(server: Server, data: Path, rows: int) -> int:
    console.print("\n[bold]2. A table, and writes through the Cassandra driver[/bold]")
    cluster, session = connect(server.port)
    session.execute(CREATE_KEYSPACE)
    session.execute(CREATE_TABLE)
    console.print(f"  [dim]{CREATE_TABLE}[/dim]")
    writer = Writer(session, rows)
    with bar("writing") as progress:
        task = progress.add_task("writing", total=rows)
        writer.write(list(range(rows)), progress, task, stop_at=rows * 2 // 3)
        console.print(f"\n[bold]3. kill -9, with 256 writes in flight, {writer.count:,} acknowledged[/bold]")
        server.kill()
        writer.drain()
        acknowledged = [number for number in range(rows) if writer.acknowledged[number]]
    cluster.shutdown()

    console.print("\n[bold]4. Restart[/bold]")
    server.restart()
    cluster, session = connect(server.port)
    lost = _compare(session, acknowledged)
    if lost:
        console.print(f"[red]  {len(lost)} acknowledged rows are missing, for example {lost[:5]}[/red]")
        return 1
    console.print(f"  [green]all {len(acknowledged):,} acknowledged rows are there[/green]")

    console.print("\n[bold]5. The remaining rows, then every row compared[/bold]")
    remaining = [number for number in range(rows) if not writer.acknowledged[number]]
    second = Writer(session, rows)
    with bar("writing") as progress:
        task = progress.add_task("writing", total=len(remaining))
        second.write(remaining, progress, task)
        second.drain()
        progress.update(task, completed=second.count)
    lost = _compare(session, list(range(rows)))
    cluster.shutdown()
    if lost:
        console.print(f"[red]  {len(lost)} rows are missing or differ, for example {lost[:5]}[/red]")
        return 1
    console.print(f"  [green]{rows:,} rows, all as written[/green]")
    code = server.stop()
    console.print(f"  [dim]SIGTERM: the server flushed and ended with status {code}[/dim]")
    return _show_files(data, rows) if code == 0 else 1


def _compare(session: Any, numbers: list[int]) -> list[int]:
    """Which of the rows are missing or differ."""
    found: dict[tuple[int, int], tuple[str, float]] = {}
    with bar("reading") as progress:
        task = progress.add_task("reading", total=len(numbers))
        for result in session.execute("SELECT customer, id, city, total FROM shop.orders"):
            found[result.customer, result.id] = (result.city, result.total)
            if len(found) % 1000 == 0:
                progress.update(task, completed=min(len(found), len(numbers)))
        progress.update(task, completed=len(numbers))
    return [number for number in numbers if found.get(row(number)[:2]) != row(number)[2:]]


def _show_files(data: Path, rows: int) -> int:
    import duckdb

    pattern = str(data / "node" / "tables" / "shop.orders-*" / "*" / "*.parquet")
    console.print("\n[bold]6. The same files, read by DuckDB without Belvedere[/bold]")
    query = (
        f"SELECT city, count(*) AS orders, round(sum(total), 2) AS total "
        f"FROM read_parquet('{pattern}') WHERE _kind = 3 GROUP BY city ORDER BY city"
    )
    console.print(
        "  [dim]SELECT city, count(*), sum(total) FROM read_parquet('…/*.parquet') WHERE _kind = 3 …[/dim]"
    )
    answer = duckdb.connect().execute(query).fetchall()
    for city, orders, total in answer:
        console.print(f"  {city:<12} {orders:>8,} orders {total:>14,.2f}")
    files = list(data.glob("node/tables/shop.orders-*/*/*.parquet"))
    size = sum(os.path.getsize(path) for path in files)
    console.print(f"  [dim]{len(files)} Parquet files, {size / 1024:,.0f} KiB[/dim]")
    return 0 if sum(orders for _, orders, _ in answer) == rows else 1


if __name__ == "__main__":
    started = time.monotonic()
    code = run_demo(100_000)
    console.print(f"{time.monotonic() - started:.1f} s")
    sys.exit(code)
