"""What a task gives back as it goes: sstables for tablets, progress."""

import pyarrow as pa

from belvedere.meta.state import ClusterState
from belvedere.pipeline.runs import cut_by_tablet, write_run
from belvedere.pipeline.tasks import OutputFile, TaskFiles
from belvedere.storage.sstable_format import Layout
from belvedere.storage.sstable_rows import Bounds


class Outputs:
    """The files made so far."""

    def __init__(self, files: TaskFiles, state: ClusterState) -> None:
        self._files = files
        self._state = state
        self.made: list[OutputFile] = []

    def add(self, layout: Layout, run: pa.Table, inside: Bounds | None = None) -> None:
        """One file for each tablet that the sorted run has rows of. `inside`: the stamps in collections."""
        table = layout.table
        for tablet, part in cut_by_tablet(run, self._state.tablet_maps[table.id].tablets):
            built = write_run(layout, part, bounds=inside)
            name = f"{len(self.made):06d}.parquet"
            path = self._files.save(name, built.data)
            self.made.append(OutputFile(path, table.id.hex(), tablet.id, built.facts))


class Pace:
    """Tells what was read, and waits where it goes too fast."""

    def __init__(self, files: TaskFiles, max_rate: int = 0) -> None:
        self._files = files
        self._max_rate = max_rate

    def on_read(self, rows: int, size: int) -> None:
        self._files.progress(rows, size)
        if self._max_rate:
            self._files.pause(rows / self._max_rate)
