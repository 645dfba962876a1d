"""One server process for all driver tests of a worker, and sessions on it."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, Session
from cassandra.policies import RoundRobinPolicy

from tests.drivers.server_process import KEYSPACE, ServerProcess, server_process

Connect = Callable[..., Session]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("drivers") / "data") as running:
        yield running
        assert running.stop() == 0
        assert running.log_text() == "", "the server had something to complain about"


@pytest.fixture
def connect(server: ServerProcess) -> Iterator[Connect]:
    """Sessions, closed at the end of the test."""
    clusters: list[Cluster] = []

    def made(**options: Any) -> Session:
        options.setdefault("protocol_version", 5)
        profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy(), request_timeout=60)
        cluster = Cluster(
            [server.host],
            port=server.port,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            connect_timeout=30,
            control_connection_timeout=30,
            **{name: value for name, value in options.items() if value is not None},
        )
        clusters.append(cluster)
        return cluster.connect()

    yield made
    for cluster in clusters:
        cluster.shutdown()


@pytest.fixture
def session(connect: Connect) -> Session:
    return connect()


@pytest.fixture
def keyspace(session: Session) -> str:
    """A new one, which `session` uses."""
    name = f"ks_{uuid.uuid4().hex[:12]}"
    session.execute(KEYSPACE.format(name))
    session.set_keyspace(name)
    return name
