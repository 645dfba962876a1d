"""From the start of the process to the first CQL answer, and the memory it takes.

    ./run bench startup [--rounds 7] [--rows 20000]

Three servers: one with an empty data directory, the same started again, and one whose tables hold rows.
Beside them, as what cannot be undercut, a bare interpreter and one that imports pyarrow. Each figure is the
median of the rounds, the fastest in parentheses. Bytecode is cached, as it is wherever the package was
installed.
"""

import argparse
import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import belvedere

STARTUP = b"\x04\x00\x00\x00\x01\x00\x00\x00\x16\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0"
SELECT = b"SELECT cluster_name FROM system.local"
QUERY = (
    b"\x04\x00\x00\x01\x07"
    + struct.pack(">II", len(SELECT) + 7, len(SELECT))
    + SELECT
    + struct.pack(">HB", 1, 0)
)
REPORT_PEAK = "print(open('/proc/self/statm').read().split()[1])"
PAGE = os.sysconf("SC_PAGE_SIZE")

Figures = tuple[float, float]


def environment(cache: str) -> dict[str, str]:
    wanted = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**wanted, "PYTHONPYCACHEPREFIX": cache}


def answer(client: socket.socket) -> int:
    head = client.recv(9, socket.MSG_WAITALL)
    client.recv(struct.unpack(">I", head[5:])[0], socket.MSG_WAITALL)
    return head[4]


def first_answer(port: int) -> None:
    """Knock until a SELECT is answered with rows."""
    while True:
        try:
            client = socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.001)
            continue
        with client:
            client.sendall(STARTUP)
            answer(client)
            client.sendall(QUERY)
            if answer(client) != 8:
                raise SystemExit("the server answered with something else than rows")
        return


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def server(data: Path, cache: str) -> Figures:
    """Seconds to the first answer, resident MiB then."""
    port = free_port()
    command = [sys.executable, "-m", "belvedere.cli.main", "start", "--data", str(data), "--port", str(port)]
    started = time.perf_counter()
    process = subprocess.Popen(command, env=environment(cache), stdout=subprocess.DEVNULL)
    try:
        first_answer(port)
        seconds = time.perf_counter() - started
        pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    return seconds, pages * PAGE / 2**20


def python(script: str, cache: str) -> Figures:
    """Seconds from start to end, resident MiB at the end."""
    started = time.perf_counter()
    command = [sys.executable, "-c", f"{script}\n{REPORT_PEAK}"]
    done = subprocess.run(command, env=environment(cache), capture_output=True, text=True, check=True)
    return time.perf_counter() - started, int(done.stdout) * PAGE / 2**20


def fill(data: Path, rows: int) -> None:
    with belvedere.open(data) as db:
        db.execute(
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        db.execute("CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c))")
        insert = db.prepare("INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)")
        for k in range(max(1, rows // 100)):
            db.execute_batch([(insert, (k, c, f"value {c}")) for c in range(100)], kind="UNLOGGED")


def show(title: str, rounds: list[Figures]) -> None:
    seconds = [figures[0] for figures in rounds]
    resident = statistics.median(figures[1] for figures in rounds)
    print(f"{title:<44} {statistics.median(seconds):6.2f} s ({min(seconds):.2f})   {resident:6.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", type=int, default=20_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="belvedere-startup-") as folder:
        cache = f"{folder}/bytecode"
        full = Path(folder, "full")
        fill(full, arguments.rows)
        server(full, cache)  # compiles everything
        python("import pyarrow, pyarrow.parquet", cache)
        empty = [(Path(folder, f"empty-{n}")) for n in range(arguments.rounds)]
        print(
            f"median of {arguments.rounds} (fastest), load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
        )
        show("python, nothing imported", [python("", cache) for _ in empty])
        show("python, import pyarrow", [python("import pyarrow", cache) for _ in empty])
        show(
            "python, import pyarrow.parquet, numpy",
            [python("import pyarrow.parquet, numpy", cache) for _ in empty],
        )
        show("python, import belvedere", [python("import belvedere", cache) for _ in empty])
        show("fresh server, first CQL answer", [server(data, cache) for data in empty])
        show("started again, first CQL answer", [server(data, cache) for data in empty])
        show(f"with {arguments.rows:,} rows, first CQL answer", [server(full, cache) for _ in empty])


if __name__ == "__main__":
    main()
