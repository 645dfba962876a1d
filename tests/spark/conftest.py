"""One Spark session and one server process for all tests of a worker."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from belvedere.pipeline.spark_session import make_session
from tests.cli.commands import query
from tests.drivers.server_process import KEYSPACE, ServerProcess, server_process

#: Small, and as our own sessions are but for that.
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
}
#: The node needs no Spark of its own for what is tested here.
NO_SPARK = ("--spark", "spark.master=none")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Workers find the tests' own functions as the tests do.
    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    session = make_session(SETTINGS, "tests")
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    patch.undo()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("spark") / "data", *NO_SPARK) as running:
        yield running
        assert running.stop() == 0
        assert running.log_text() == "", "the server had something to complain about"


@dataclass
class Store:
    """A keyspace on a server, through CQL and through Spark."""

    server: ServerProcess
    spark: SparkSession
    keyspace: str
    data: Path

    def cql(self, *texts: str) -> list[dict[str, Any]]:
        return query(self.server, *(text.replace("KS", self.keyspace) for text in texts))

    def json(self, table: str) -> list[str]:
        """All rows as CQL prints them, sorted."""
        return sorted(row["[json]"] for row in self.cql(f"SELECT JSON * FROM KS.{table}"))

    @property
    def options(self) -> dict[str, str]:
        return {"host": self.server.host, "port": str(self.server.port)}

    def name(self, table: str) -> str:
        return f"{self.keyspace}.{table}"

    def read(self, table: str, **options: str) -> DataFrame:
        reader = self.spark.read.format("belvedere").options(**self.options, **options)
        return reader.load(self.name(table))

    def write(self, frame: DataFrame, table: str, mode: str = "append", **options: str) -> None:
        writer = frame.write.format("belvedere").options(**self.options, **options)
        writer.mode(mode).save(self.name(table))

    def jobs(self, prefix: str) -> set[str]:
        """What loads (load-) or reads (read-) there are in the exchange."""
        return {path.name for path in (self.data / "exchange").iterdir() if path.name.startswith(prefix)}

    def wait_for_loads(self, view: str) -> None:
        """Until views have what was loaded."""
        text = (
            f"SELECT state, loads_pending FROM system_views.view_builds "
            f"WHERE keyspace_name = 'KS' AND view_name = '{view}'"
        )
        for _ in range(600):
            row = self.cql(text)[0]
            if row["state"] == "BUILT" and row["loads_pending"] == 0:
                return
            time.sleep(0.1)
        raise AssertionError(f"{view} does not follow")

    def compare(self, view: str) -> dict[str, Any]:
        row = self.cql(f"CALL verify('KS.{view}')")[0]
        assert (row["missing"], row["orphaned"], row["different"]) == (0, 0, 0), row
        return row


_numbers = iter(range(10_000))


@pytest.fixture
def store(server: ServerProcess, spark: SparkSession) -> Store:
    """A new keyspace, KS in statements."""
    name = f"ks{next(_numbers)}"
    query(server, KEYSPACE.format(name))
    return Store(server, spark, name, server.log.with_name("data"))


@dataclass
class Gate:
    """Rows pass it once it is open: what happens meanwhile happens in the middle of a job."""

    path: Path

    def behind(self, frame: DataFrame) -> DataFrame:
        path = str(self.path)

        def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _ in range(600):
                if Path(path).exists():
                    break
                time.sleep(0.1)
            yield from batches

        return frame.mapInArrow(wait, frame.schema)

    def open(self) -> None:
        self.path.touch()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    found = Gate(tmp_path / "open")
    yield found
    found.open()


@dataclass
class Background:
    """Something that runs meanwhile."""

    work: Callable[[], Any]
    result: Any = None
    failure: BaseException | None = None
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.result = self.work()
        except BaseException as failure:
            self.failure = failure

    def end(self) -> Any:
        self.thread.join(100)
        assert not self.thread.is_alive()
        if self.failure is not None:
            raise self.failure
        return self.result


def until(condition: Callable[[], object]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it does not come")
