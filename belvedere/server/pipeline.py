"""A node's pipeline put together: the exchange, who runs jobs, and what stands on both."""

from typing import Self

from belvedere.pipeline.exchange import Exchange
from belvedere.pipeline.in_process import InProcessRunner
from belvedere.pipeline.jobs import JobRunner
from belvedere.pipeline.loads import Loads
from belvedere.pipeline.reads import Reads
from belvedere.pipeline.spark_runner import SparkRunner
from belvedere.pipeline.view_work import ViewWork
from belvedere.query.database import Database
from belvedere.runtime.api import Runtime
from belvedere.runtime.plain_files import absolute
from belvedere.server.settings import PipelineSettings

#: A value of `spark.master`: large jobs are done by the node itself, as small ones are.
NO_SPARK = "none"


class NodePipeline:
    """Open it before views start; `stop` it after they have stopped and before the database closes."""

    def __init__(
        self, exchange: Exchange, runners: list[JobRunner], work: ViewWork, loads: Loads, reads: Reads
    ) -> None:
        self._runners = runners
        self.exchange = exchange
        self.work = work
        self.loads = loads
        self.reads = reads

    @classmethod
    async def open(cls, runtime: Runtime, database: Database, data: str, settings: PipelineSettings) -> Self:
        """Loads that were committed are part of their tables on return."""
        # Whoever reads and writes there may have another working directory.
        exchange = Exchange(runtime, absolute(settings.exchange or f"{data}/exchange"))
        loads = Loads(runtime, database, exchange)
        await exchange.open(keep=loads.kept())
        await loads.recover()
        inline = InProcessRunner(runtime, exchange)
        runners: list[JobRunner] = [inline]
        large: JobRunner = inline
        if settings.spark.get("spark.master") != NO_SPARK:
            large = SparkRunner(runtime, exchange, settings.spark)
            runners.append(large)
        work = ViewWork(runtime, database, exchange, inline=inline, large=large)
        return cls(exchange, runners, work, loads, Reads(runtime, database, exchange))

    async def stop(self) -> None:
        await self.loads.stop()
        await self.reads.stop()
        for runner in self._runners:
            await runner.stop()
