"""The one place that makes Spark sessions.

Where Spark runs is a setting: `spark.master` (all processors of this machine by default) or `spark.remote`
(Spark Connect). What a setting does not say gets a default that suits a machine which also runs a node.
"""

import os.path
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from belvedere.pipeline.spark_failures import telling_line
from belvedere.runtime.java import (
    OLDEST_JAVA,
    java_command,
    java_home_is_set,
    java_version,
    memory_bytes,
    python_for_spark,
    stay_on_this_machine,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REMOTE: Final = "spark.remote"
MASTER: Final = "spark.master"

#: True of every session, wherever it runs.
_EVERYWHERE: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Spark's own lz4 is not the LZ4 of other readers.
    "spark.sql.parquet.compression.codec": "zstd",
}
#: Where this machine is the whole cluster.
_HERE: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Work comes in batches of few, long tasks: waiting for a better place is only waiting.
    "spark.locality.wait": "0",
}
#: Our tasks keep their rows in Python's memory: the JVM hands them out, and reads CSV and JSON.
_LEAST_HEAP_MIB, _MOST_HEAP_MIB = 512, 2048


class SparkUnavailable(Exception):
    """No session can be had; the message says what is wrong and what to do."""


def make_session(settings: Mapping[str, str], name: str) -> "SparkSession":
    """Start Spark, or connect to it: seconds. Raises SparkUnavailable."""
    check_available(settings)
    python_for_spark(_package_directory())
    effective = effective_settings(settings)
    if REMOTE not in effective and _is_local(effective):
        stay_on_this_machine()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    for key, value in effective.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        # py4j, gRPC and Spark itself raise what they like.
        raise SparkUnavailable(explain(settings, error)) from error
    if REMOTE not in settings:
        session.sparkContext.setLogLevel("ERROR")
    return session


def session_is_running() -> bool:
    """Whether this process has one. The active session is one of a thread of the JVM, and may have gone with
    its thread: the context, of which there is one in a process, tells."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    return SparkContext._active_spark_context is not None or SparkSession.getActiveSession() is not None


def effective_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """What was asked for, over our defaults."""
    if REMOTE in settings:
        return {**_EVERYWHERE, **settings}
    found = {MASTER: "local[*]", **settings}
    if not _is_local(found):
        return {**_EVERYWHERE, **found}
    defaults = {**_EVERYWHERE, **_HERE, "spark.driver.memory": f"{_heap_mib(memory_bytes())}m"}
    return {**defaults, **found}


def check_available(settings: Mapping[str, str]) -> None:
    """Raises SparkUnavailable for what can be known before anything is started."""
    if find_spec("pyspark") is None:
        raise SparkUnavailable("PySpark is not installed: pip install 'belvedere[spark]'")
    if REMOTE in settings:
        return
    command = java_command()
    if command is None:
        where = "JAVA_HOME names no Java" if java_home_is_set() else "there is no Java on this machine"
        raise SparkUnavailable(
            f"Spark needs Java {OLDEST_JAVA} or newer, and {where}: install one (Debian: apt-get install "
            "openjdk-17-jre-headless), or set spark.remote to use a Spark elsewhere"
        )
    version = java_version(command)
    if version is None or version < OLDEST_JAVA:
        found = "does not say its version" if version is None else f"is Java {version}"
        raise SparkUnavailable(
            f"Spark needs Java {OLDEST_JAVA} or newer, and {command} {found}: install a newer one (Debian: "
            "apt-get install openjdk-17-jre-headless) and let JAVA_HOME name it"
        )


def explain(settings: Mapping[str, str], error: BaseException) -> str:
    """Why there is no session, for people."""
    where = settings.get(REMOTE) or settings.get(MASTER, "local[*]")
    return f"Spark could not be started at {where}: {telling_line(str(error)) or type(error).__name__}"


def _is_local(settings: Mapping[str, str]) -> bool:
    return settings[MASTER].startswith("local")


def _heap_mib(memory: int) -> int:
    """A tenth of the memory, within bounds."""
    return max(_LEAST_HEAP_MIB, min(_MOST_HEAP_MIB, memory // 10 >> 20))


def _package_directory() -> str:
    """Where `import belvedere` finds the package."""
    return os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
