"""`belvedere start --nodes`: a cluster in one command, as a person and a driver see it."""

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from belvedere.runtime.process import process_is_alive
from tests.drivers.server_process import BELVEDERE, KEYSPACE, belvedere, server_process

pytestmark = pytest.mark.filterwarnings("ignore")

NODE = re.compile(r"n(\d): answering CQL on 127\.0\.0\.(\d):(\d+), data in (\S+), up after .*\n")
ALL = re.compile(r"belvedere: (\d) nodes answer, contact points ([\d., ]+), port (\d+)\n")


@dataclass
class Started:
    process: "subprocess.Popen[str]"
    errors: Path
    hosts: list[str]
    port: int

    @property
    def children(self) -> list[int]:
        """The nodes' processes, by name."""
        pid = self.process.pid
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return sorted(map(int, found), key=lambda child: Path(f"/proc/{child}/cmdline").read_bytes())

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


@contextmanager
def nodes(folder: Path, *words: str) -> Iterator[Started]:
    errors = folder / "errors.log"
    with errors.open("a") as log:
        command = [*BELVEDERE, "start", "--nodes", "3", *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    try:
        found = []
        for _ in range(3):
            line = process.stdout.readline()
            match = NODE.fullmatch(line)
            assert match is not None, f"{line!r} {errors.read_text()}"
            found.append(match)
        last = ALL.fullmatch(process.stdout.readline())
        assert last is not None
        hosts = last[2].split(", ")
        assert hosts == ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
        assert sorted(one[1] for one in found) == sorted(one[2] for one in found) == ["1", "2", "3"]
        assert {one[3] for one in found} == {last[3]}
        yield Started(process, errors, hosts, int(last[3]))
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()


def wait_for_end(children: list[int]) -> None:
    deadline = time.monotonic() + 30
    while any(process_is_alive(child) for child in children):
        assert time.monotonic() < deadline, "a node goes on"
        time.sleep(0.05)


def sql(started: Started, host: str, *texts: str) -> list[tuple[object, ...]]:
    from cassandra.cluster import Cluster
    from cassandra.policies import WhiteListRoundRobinPolicy

    cluster = Cluster(
        [host],
        port=started.port,
        protocol_version=5,
        load_balancing_policy=WhiteListRoundRobinPolicy([host]),
        connect_timeout=30,
        control_connection_timeout=30,
    )
    try:
        session = cluster.connect()
        return [[tuple(row) for row in session.execute(text, timeout=30)] for text in texts][-1]
    finally:
        cluster.shutdown()


def test_three_nodes_in_one_command(tmp_path: Path) -> None:
    data = ("--port", "0", "--data", str(tmp_path / "data"))
    with nodes(tmp_path, *data) as started:
        children = started.children
        table = "CREATE TABLE ks.t (k int PRIMARY KEY, v int)"
        sql(started, started.hosts[0], KEYSPACE.format("ks"), table, "INSERT INTO ks.t (k, v) VALUES (1, 2)")
        peers = sql(started, started.hosts[2], "SELECT peer FROM system.peers")
        assert sorted(peer for (peer,) in peers) == started.hosts[:2]
        assert started.stop(signal.SIGINT) == 0
        wait_for_end(children)
    assert started.errors.read_text() == ""
    assert sorted(path.name for path in (tmp_path / "data").glob("n*")) == ["n1", "n2", "n3"]
    # What was there is there.
    with nodes(tmp_path, *data) as started:
        assert sql(started, started.hosts[0], "SELECT v FROM ks.t WHERE k = 1") == [(2,)]
        assert started.stop() == 0
    # And it is no server's that is alone.
    alone = belvedere(["start", "--data", str(tmp_path / "data"), "--port", "0"])
    assert alone.returncode == 1
    assert "is that of cluster belvedere" in alone.stderr
    assert not (tmp_path / "data" / "node").exists()


def test_the_others_go_on_when_one_is_killed_and_all_end_when_their_starter_is(tmp_path: Path) -> None:
    with nodes(tmp_path, "--port", "0") as started:
        children = started.children
        folder = Path(f"/proc/{children[0]}/cmdline").read_bytes().split(b"\0")
        os.kill(children[1], signal.SIGKILL)
        deadline = time.monotonic() + 30
        while "node n2 ended" not in started.errors.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert "belvedere: node n2 ended with status -9; the others go on" in started.errors.read_text()
        assert sql(started, started.hosts[2], "SELECT cluster_name FROM system.local") == [("belvedere",)]
        started.process.kill()
        wait_for_end(children)
    data = Path(folder[folder.index(b"--data") + 1].decode())
    assert data.name == "n1"
    subprocess.run(["rm", "-r", str(data.parent)], check=True)


def test_all_are_stopped_when_one_cannot_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.2", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = ["start", "--nodes", "3", "--port", port, "--data", str(tmp_path / "data")]
        done = belvedere(words)
    assert done.returncode == 1
    assert f"n2: belvedere: cannot start: port {port} of 127.0.0.2 is in use" in done.stderr
    assert "belvedere: cannot start: node n2 ended with status 1 before it answered" in done.stderr
    assert "Traceback" not in done.stderr
    assert "nodes answer" not in done.stdout
    for host in ("127.0.0.1", "127.0.0.3"):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))


def test_logs_have_the_name_of_their_node(tmp_path: Path) -> None:
    with nodes(tmp_path, "--port", "0", "--log-level", "info") as started:
        assert started.stop() == 0
    lines = started.errors.read_text().splitlines()
    assert {line[:4] for line in lines if "membership.joined" in line} == {"n1: ", "n2: ", "n3: "}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--nodes", "0"], "a number of nodes from 1 to 9"),
        (
            ["--nodes", "3", "--node", "n1"],
            "--nodes chooses addresses, names and metadata",
        ),
        (["--nodes", "3", "--host", "127.0.0.9"], "--nodes chooses addresses"),
        ([], "start needs --data"),
    ],
)
def test_wrong_arguments(words: list[str], told: str) -> None:
    done = belvedere(["start", *words])
    assert done.returncode == 2
    assert told in done.stderr
    assert "usage: belvedere start" in done.stderr


def test_a_lone_servers_directory_is_refused(tmp_path: Path) -> None:
    with server_process(tmp_path / "data") as alone:
        assert alone.stop() == 0
    done = belvedere(["start", "--nodes", "2", "--port", "0", "--data", str(tmp_path / "data")])
    assert done.returncode == 1
    assert "is that of a server that is alone" in done.stderr
    joining = ["--node", "n1", "--metadata", f"sqlite:{tmp_path}/data/metadata.sqlite", "--rpc-port", "0"]
    done = belvedere(["start", "--data", str(tmp_path / "n1"), "--port", "0", *joining])
    assert done.returncode == 1
    assert "the metadata store is that of a server that is alone" in done.stderr
