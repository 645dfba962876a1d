"""The kernel of a build: the files of one tablet of a base in, images for its views out.

The base is read once for all views, in windows; of each window every tablet of a view gets one sorted file.
"""

from belvedere.pipeline.image_columns import image_makers
from belvedere.pipeline.inputs import KEEP_ALIVE, OpenInput, Stream, merged_rows, windows
from belvedere.pipeline.outputs import Outputs, Pace
from belvedere.pipeline.schema_of import state_of
from belvedere.pipeline.tasks import BuildTask, TaskFiles, TaskResult
from belvedere.storage.compaction_merge import WindowMerger


def build(task: BuildTask, files: TaskFiles) -> TaskResult:
    state = state_of(task.schema)
    inputs = [OpenInput(files, given) for given in task.inputs]
    layout, makers = image_makers(state, task.base, task.views, inputs)
    streams = [Stream(layout, opened) for opened in inputs]
    merger = WindowMerger(layout, KEEP_ALIVE, look_into_collections=False)
    outputs = Outputs(files, state)
    pace = Pace(files, task.max_rate)
    total = 0
    for parts in windows(streams, pace.on_read, most=task.max_rate):
        rows = merged_rows(merger, parts)
        total += rows.count
        for maker in makers:
            outputs.add(maker.layout, *maker.images(rows, task.version))
    return TaskResult(outputs.made, total, sum(given.size for given in task.inputs))
