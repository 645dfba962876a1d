"""Compaction of a tablet: which of its files are merged, and what of them may go for good."""

import asyncio
from collections.abc import Sequence

from belvedere.model.rows import NO_TIMESTAMP
from belvedere.storage.compaction import choose, compact
from belvedere.storage.files import LiveFile, Pinned
from belvedere.storage.reads import MAX_TOKEN
from belvedere.storage.tablet_core import TabletCore
from belvedere.storage.tablet_files import Outputs
from belvedere.storage.uninterrupted import to_the_end


class CompactedTablet(TabletCore):
    def wants_compaction(self, now: int | None = None) -> bool:
        """`now` given: files of mostly tombstones count, too, though memory may yet forbid to purge them."""
        return not self.dropped and self._choose(now, MAX_TOKEN) is not None

    def _choose(self, now: int | None, oldest_in_memory: int) -> list[int] | None:
        live = self._files.live
        ordinary = [index for index, file in enumerate(live) if not file.staged]
        purging = now is not None and not self.tombstones_needed
        gc_before = now - self.table.gc_grace_seconds if now is not None and purging else 0
        chosen = choose(
            [live[index].facts for index in ordinary],
            [live[index].run for index in ordinary],
            gc_before=gc_before,
            oldest_elsewhere=min([oldest_in_memory, *(f.facts.min_timestamp for f in live if f.staged)]),
        )
        return None if chosen is None else [ordinary[index] for index in chosen]

    async def compact(self, now: int, everything: bool = False) -> bool:
        """Merge some files (`everything`: all that are not staged); False if there is nothing to do. When
        cancelled, the files are left as they were."""
        oldest = MAX_TOKEN
        if not everything and self._choose(None, oldest) is None and self._choose(now, oldest) is not None:
            oldest = await self._oldest_in_memory()
        files = self._files.live
        if everything:
            inputs = [file for file in files if not file.staged]
        else:
            inputs = [files[index] for index in self._choose(now, oldest) or ()]
        if not inputs or self.dropped:
            return False
        with Pinned(inputs):
            outputs = Outputs(self._files)
            try:
                purge_before = await self._purge_before(inputs, now)
                tables = [file.sstable for file in inputs]
                await compact(self._runtime, self.table, tables, now, purge_before, emit=outputs.add)
            except (Exception, asyncio.CancelledError):
                outputs.abandon()
                raise
            await to_the_end(
                self._runtime, "tablet.replace", lambda: self._replace(inputs, files, outputs, purge_before)
            )
        return True

    async def _replace(
        self, inputs: Sequence[LiveFile], known: Sequence[LiveFile], outputs: Outputs, purge_before: int
    ) -> None:
        async with self._changing:
            # Truncated meanwhile; or a tombstone went that deletes something of a file that came meanwhile.
            came = [file for file in self._files.live if not any(file is one for one in known)]
            if (
                self.dropped
                or any(file.obsolete for file in inputs)
                or any(file.facts.min_timestamp < purge_before for file in came)
            ):
                outputs.abandon()
                return
            flushed = self.flushed
            await self._files.commit(inputs, outputs.entries, lambda files: self._manifest(files, flushed))
            self._compactions += 1

    async def _purge_before(self, inputs: Sequence[LiveFile], now: int) -> int:
        """Tombstones older than this time may go, once their grace is over: nothing outside the inputs is as
        old. Looking through the memtables is only worth it if there are such tombstones."""
        grace = now - self.table.gc_grace_seconds
        if self.tombstones_needed:
            return NO_TIMESTAMP
        if not any(file.facts.max_second and file.facts.min_second <= grace for file in inputs):
            return NO_TIMESTAMP
        # Taken before anything is waited for: a memtable that is flushed meanwhile counts as such.
        others = [file.facts for file in self._files.live if not any(file is chosen for chosen in inputs)]
        return min([await self._oldest_in_memory(), *(facts.min_timestamp for facts in others)])

    async def _oldest_in_memory(self) -> int:
        """The oldest write time in the memtables. Others run meanwhile: what they write older than that is
        as if it had come after the compaction."""
        oldest = MAX_TOKEN
        for memtable in self._memtables:
            for stamp in memtable.oldest_stamps():
                oldest = min(oldest, stamp)
                await self._runtime.clock.sleep(0)
        return oldest
