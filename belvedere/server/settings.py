"""What whoever starts a node may say about building in columns, and about the cluster that it is to join."""

from collections.abc import Mapping
from dataclasses import dataclass, field

#: Of a node's life: long enough for two renewals to fail; so long, at most, a dead node counts as alive.
LEASE_SECONDS = 10.0

#: Views of bases with fewer rows are built by the node itself: a JVM takes longer to start.
INLINE_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    #: Spark's own settings: `spark.master` or `spark.remote` says where it runs, by default in this machine.
    spark: Mapping[str, str] = field(default_factory=dict)
    #: Below so many rows of the base views are built without Spark; 0: never.
    inline_rows: int = INLINE_ROWS
    #: A directory that Spark's workers reach, too; None: one beside the data, for Spark on this machine.
    exchange: str | None = None

    def __post_init__(self) -> None:
        for name, value in self.spark.items():
            if not is_spark_setting(name) or not isinstance(value, str):
                raise ValueError(f"settings of Spark are texts named spark.…, not {name!r}: {value!r}")
        if "spark.master" in self.spark and "spark.remote" in self.spark:
            raise ValueError("spark.master and spark.remote exclude each other: Spark runs in one place")
        if self.inline_rows < 0:
            raise ValueError(f"inline_rows is a number of rows, not {self.inline_rows}")


@dataclass(frozen=True, slots=True)
class SqliteMetadata:
    """A file that all nodes of one machine share."""

    path: str


@dataclass(frozen=True, slots=True)
class EtcdMetadata:
    #: HOST:PORT each.
    endpoints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """For a node that is one of several."""

    node: str
    metadata: SqliteMetadata | EtcdMetadata
    cluster: str = "belvedere"
    #: Where other nodes reach this one.
    rpc_host: str = "127.0.0.1"
    rpc_port: int = 7000
    datacenter: str = "datacenter1"
    rack: str = "rack1"
    lease_seconds: float = LEASE_SECONDS


def is_spark_setting(name: str) -> bool:
    return name.startswith("spark.") and name != "spark."
