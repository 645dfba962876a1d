"""An etcd of the tests' own: on loopback, in a folder that goes with it, with its ordinary fsync."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def etcd_program() -> str | None:
    unpacked = ROOT / ".venv/peers/etcd/usr/bin/etcd"
    return shutil.which("etcd") or (str(unpacked) if unpacked.exists() else None)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class EtcdServer:
    """One member. `kill`, `stop` (SIGSTOP) and `start` again do to it what happens to servers."""

    def __init__(
        self, name: str = "one", peers: dict[str, int] | None = None, *extra: str, scheme: str = "http"
    ) -> None:
        program = etcd_program()
        assert program is not None
        self._folder = tempfile.mkdtemp(prefix="belvedere-etcd-")
        self.port = free_port()
        peers = peers or {name: free_port()}
        client = f"{scheme}://127.0.0.1:{self.port}"
        peer = f"http://127.0.0.1:{peers[name]}"
        cluster = ",".join(f"{one}=http://127.0.0.1:{port}" for one, port in peers.items())
        # Ends with the tests, however these end.
        ends_with_us = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        self._command = [
            *ends_with_us,
            *(program, "--name", name, "--data-dir", f"{self._folder}/data"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", cluster, "--initial-cluster-token", "tests"),
            *("--heartbeat-interval", "50", "--election-timeout", "500"),
            *("--logger", "zap", "--log-level", "error", *extra),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        with open(f"{self._folder}/log", "ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Settings of another etcd on this machine are none of ours.
                env={key: value for key, value in os.environ.items() if not key.startswith("ETCD_")},
            )

    def wait_until_healthy(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
                with opener.open(f"http://{self.endpoint}/health", timeout=1) as answer:
                    if b'"true"' in answer.read():
                        return
            assert self._process is not None
            assert self._process.poll() is None, Path(f"{self._folder}/log").read_text()
            assert time.monotonic() < deadline, Path(f"{self._folder}/log").read_text()
            time.sleep(0.05)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._folder)
