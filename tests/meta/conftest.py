"""Fixtures: an etcd for the whole run, and a harness that runs a test on each kind of store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.meta.etcd_server import EtcdServer, etcd_program
from tests.meta.stores import Harness, Test, in_simulation, on_etcd, on_sqlite


@pytest.fixture(scope="session")
def etcd() -> Iterator[EtcdServer]:
    if etcd_program() is None:
        pytest.skip("there is no etcd: ./run setup fetches it where apt-get can")
    server = EtcdServer()
    try:
        server.wait_until_healthy()
        yield server
    finally:
        server.close()


@pytest.fixture(params=["memory", "sqlite", "etcd"])
def on_stores(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    def run_test(test: Test, history: int = 1000) -> None:
        if request.param == "memory":
            in_simulation(test, history)
        elif request.param == "sqlite":
            on_sqlite(test, str(tmp_path / "meta"), history)
        else:
            on_etcd(test, request.getfixturevalue("etcd"), history)

    return run_test
