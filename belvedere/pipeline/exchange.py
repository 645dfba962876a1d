"""The exchange: the directory through which a node and jobs hand each other files.

    <exchange>/<job>/inputs/<number>-<name>     hard links of the sstables that the job reads
    <exchange>/<job>/attempt-…/                 what one attempt at a task wrote
    <exchange>/<job>/results/<number>.json      what a task gave back (written by Spark workers)

Everything in it can be made again but for jobs that somebody keeps (loads that are not yet committed).
"""

from collections.abc import Sequence, Set

from belvedere.pipeline.tasks import InputFile
from belvedere.runtime.api import Runtime
from belvedere.runtime.errors import DiskError, FileExists
from belvedere.storage.linking import link_or_copy
from belvedere.storage.sstable_format import SSTableFacts

#: A directory that is still written to is removed again and again, with such pauses (in seconds).
_TRIES, _PAUSE = 25, 0.2


class Exchange:
    """Outlives the jobs in it; its paths are good for this machine and for whoever shares the file system."""

    def __init__(self, runtime: Runtime, directory: str) -> None:
        self._runtime = runtime
        self._disk = runtime.disk
        self.directory = directory

    async def open(self, keep: Set[str] = frozenset()) -> None:
        """Make the directory. Of what earlier lives left behind, only the jobs in `keep` stay."""
        await self._disk.make_directory(self.directory)
        for name in await self._disk.list(self.directory):
            if name not in keep:
                await self._disk.remove_tree(f"{self.directory}/{name}")

    def job_directory(self, job_id: str) -> str:
        if not job_id or job_id.startswith(".") or "/" in job_id:
            raise ValueError(f"{job_id!r} is no name for a job's directory")
        return f"{self.directory}/{job_id}"

    async def publish(self, job_id: str, files: Sequence[tuple[str, SSTableFacts]]) -> list[InputFile]:
        """Give a job these files (see `Snapshot.files`), which must stay pinned until this returns. They are
        hard links, so nothing is copied unless the exchange lies on another file system."""
        inputs = f"{self.job_directory(job_id)}/inputs"
        await self._disk.make_directory(inputs)
        number = len(await self._disk.list(inputs))
        published = []
        for path, facts in files:
            while True:
                number += 1
                target = f"{inputs}/{number:04}-{path.rpartition('/')[2]}"
                try:
                    await link_or_copy(self._disk, path, target)
                except FileExists:
                    continue
                break
            published.append(InputFile(target, facts.size, facts.crc32c))
        return published

    async def discard(self, job_id: str) -> None:
        """Remove all that the job read and wrote; fine if there is nothing. Tasks that do not know yet that
        it is over may still write: what they put into a directory while it is removed keeps it there."""
        directory = self.job_directory(job_id)
        for left in reversed(range(_TRIES)):
            try:
                await self._disk.remove_tree(directory)
                if not await self._disk.exists(directory):
                    return
            except DiskError:
                if not left:
                    raise
            await self._runtime.clock.sleep(_PAUSE)
        # Whoever asked is done with the job all the same; the next start removes what is left.
        self._runtime.log("warning", "exchange.still_written_to", path=directory)
