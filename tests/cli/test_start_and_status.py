"""`belvedere start` and `belvedere status` as processes: what they print, and how they end."""

import json
import signal
import socket
import struct
import threading
from pathlib import Path

import pytest

import belvedere
from belvedere.cli.arguments import spark_settings
from belvedere.cli.main import build_parser
from tests.drivers.server_process import KEYSPACE, server_process
from tests.drivers.server_process import belvedere as command


def test_one_line_when_it_answers(tmp_path: Path) -> None:
    with server_process(tmp_path / "data") as server:
        assert server.first_line.startswith(f"belvedere: answering CQL on 127.0.0.1:{server.port}, data in ")
        with socket.create_connection((server.host, server.port)) as client:
            client.sendall(struct.pack(">BBhBi", 4, 0, 0, 5, 0))
            assert client.recv(9)[4] == 6, "OPTIONS are answered as soon as the line is there"
        assert server.stop(signal.SIGINT) == 0
        assert server.process.stdout is not None
        assert server.process.stdout.read() == ""
        assert server.log_text() == ""


def test_status_for_people_and_programs(tmp_path: Path) -> None:
    with belvedere.open(tmp_path / "data") as db:
        db.execute(KEYSPACE.format("ks"))
        db.execute("CREATE TABLE ks.things (k int PRIMARY KEY)")
        for k in range(10):
            db.execute("INSERT INTO ks.things (k) VALUES (?)", [k])
    with server_process(tmp_path / "data") as server:
        human = command(["status", "--port", str(server.port)])
        assert (human.returncode, human.stderr) == (0, "")
        lines = human.stdout.splitlines()
        assert lines[0] == f"Belvedere answers at {server.address}"
        assert any(line.split() == ["process", "id", str(server.process.pid)] for line in lines)
        assert next(line for line in lines if "ks.things" in line).split()[3] == "10"
        machine = command(["status", "--port", str(server.port), "--json"])
        told = json.loads(machine.stdout)
        assert told["server"]["process_id"] == server.process.pid
        assert told["server"]["version"] == belvedere.__version__
        assert told["server"]["log_problem"] is None
        assert told["server"]["resident_bytes"] > 10_000_000
        (table,) = told["tables"]
        assert (table["keyspace_name"], table["table_name"], table["file_rows"]) == ("ks", "things", 10)


def test_status_without_a_server(tmp_path: Path) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        done = command(["status", "--port", str(port)])
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"no answer from 127.0.0.1:{port}" in done.stderr
    assert "belvedere start --data DIR" in done.stderr
    assert "Traceback" not in done.stderr


def test_status_of_something_that_is_no_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(100)
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        done = command(["status", "--port", str(listener.getsockname()[1])])
        thread.join()
    assert done.returncode == 1
    assert "no answer from" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = command(["start", "--data", str(tmp_path / "data"), "--port", port])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"belvedere: cannot start: port {port} of 127.0.0.1 is in use; --port takes another one\n"
    )
    # Nothing is held on to: the directory can be used.
    belvedere.open(tmp_path / "data").close()


def test_a_directory_in_use(tmp_path: Path) -> None:
    with server_process(tmp_path / "data"):
        done = command(["start", "--data", str(tmp_path / "data"), "--port", "0"])
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("belvedere: cannot start: the data directory ")
        assert "is in use" in done.stderr
        with pytest.raises(belvedere.DataDirectoryInUse):
            belvedere.open(tmp_path / "data")
    # Killed: the lock went with the process.
    belvedere.open(tmp_path / "data").close()


def test_a_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    for data in ("file", "file/below"):
        done = command(["start", "--data", str(tmp_path / data), "--port", "0"])
        assert (done.returncode, done.stdout) == (1, "")
        assert "cannot start: the data directory is, or lies in, a file" in done.stderr
    done = command(["start", "--data", "/proc/belvedere", "--port", "0"])
    assert done.returncode == 1
    assert "/proc/belvedere" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["start", "--data", "d", "--port", "65536"],
        ["start", "--data", "d", "--port", "-1"],
        ["start", "--data", "d", "--fsync", "sometimes"],
        ["start", "--data", "d", "--cache-mb", "0"],
        ["start", "--data", "d", "--inline-rows", "few"],
        ["start", "--data", "d", "--spark", "spark.master"],
        ["start", "--data", "d", "--spark", "master=local[2]"],
        ["start", "--data", "d", "--spark", "spark.master=local", "--spark", "spark.remote=sc://there"],
        ["status", "--port", "cql"],
        ["demo", "--rows", "3"],
        ["dance"],
    ],
)
def test_wrong_arguments_end_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args(words)
    assert ended.value.code == 2
    assert "usage: belvedere" in capsys.readouterr().err


def test_help_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in (
        (["--help"], ("start", "status", "views", "verify", "repair", "load", "demo")),
        (["start", "--help"], ("--data", "--fsync", "--spark", "exit status")),
        (["status", "--help"], ("--json", "exit status")),
        (["views", "--help"], ("--wait", "pause", "exit status")),
        (["verify", "--help"], ("--json", "exit status")),
        (["repair", "--help"], ("--json", "exit status")),
        (["load", "--help"], ("--on-bad-rows", "exit status")),
        (["demo", "--help"], ("--rows", "exit status")),
    ):
        with pytest.raises(SystemExit) as ended:
            build_parser().parse_args(words)
        assert ended.value.code == 0
        text = capsys.readouterr().out
        assert all(word in text for word in told)


def test_settings_of_spark_gather() -> None:
    words = ["start", "--data", "d", "--spark", "spark.master=local[2]", "--spark", "spark.driver.memory=2g"]
    arguments = build_parser().parse_args([*words, "--spark", "spark.app.name=a=b", "--inline-rows", "7"])
    assert spark_settings(arguments) == {
        "spark.master": "local[2]",
        "spark.driver.memory": "2g",
        "spark.app.name": "a=b",
    }
    assert arguments.inline_rows == 7
    assert spark_settings(build_parser().parse_args(["start", "--data", "d"])) == {}


@pytest.mark.parametrize(
    ("fsync", "number"), [("group", signal.SIGTERM), ("periodic", signal.SIGINT), ("none", signal.SIGTERM)]
)
@pytest.mark.filterwarnings("ignore")
def test_a_clean_end_under_load(tmp_path: Path, fsync: str, number: int) -> None:
    from cassandra.cluster import Cluster
    from cassandra.policies import FallthroughRetryPolicy

    with server_process(tmp_path / "data", "--fsync", fsync) as server:
        cluster = Cluster(
            [server.host],
            port=server.port,
            protocol_version=5,
            connect_timeout=30,
            default_retry_policy=FallthroughRetryPolicy(),
        )
        session = cluster.connect()
        session.execute(KEYSPACE.format("ks"))
        session.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
        insert = session.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)")
        acknowledged: list[int] = []
        window = threading.Semaphore(128)
        enough = threading.Event()

        def acknowledge(_: object, k: int) -> None:
            acknowledged.append(k)
            if len(acknowledged) >= 1000:
                enough.set()
            window.release()

        def load() -> None:
            for k in range(1_000_000):
                window.acquire()
                if stopped.is_set():
                    return
                future = session.execute_async(insert, (k, "x" * 50))
                future.add_callbacks(acknowledge, lambda _: window.release(), callback_args=(k,))

        stopped = threading.Event()
        thread = threading.Thread(target=load)
        thread.start()
        assert enough.wait(60)
        assert server.stop(number) == 0
        stopped.set()
        window.release(128)
        thread.join()
        cluster.shutdown()
        assert server.log_text() == ""
    with belvedere.open(tmp_path / "data") as db:
        assert set(acknowledged) <= {row.k for row in db.execute("SELECT k FROM ks.t")}
