"""Jobs whose tasks do next to nothing, for what carries them out."""

import msgspec

from belvedere.pipeline.jobs import Job
from belvedere.pipeline.tasks import BuildTask, InputFile, OutputFile, Task, TaskFiles, TaskResult
from belvedere.storage.sstable_format import SSTableFacts

FACTS = SSTableFacts(
    format=1,
    rows=1,
    partitions=1,
    heads=0,
    tombstones=0,
    min_token=0,
    max_token=0,
    min_timestamp=0,
    max_timestamp=0,
    min_second=0,
    max_second=0,
    first_version=0,
    last_version=0,
    size=0,
    crc32c=0,
    tail_offset=0,
    tail_crc32c=0,
    groups=(),
)


def copying(number: int, inputs: list[InputFile], *, text: str = "") -> BuildTask:
    """`text` says what the task shall do instead of copying its inputs: see `perform_fake`."""
    return BuildTask({"text": text}, base="00", views=["01"], version=number, inputs=inputs)


def job_of(tasks: list[BuildTask], name: str = "job-1") -> Job:
    return Job(name, "building ks.view", tasks)


def perform_fake(task: Task, files: TaskFiles) -> TaskResult:
    assert isinstance(task, BuildTask)
    if task.schema["text"].startswith("raise"):
        raise ValueError(task.schema["text"])
    outputs, size = [], 0
    for number, file in enumerate(task.inputs):
        data = files.open(file.path).read()
        files.progress(1, len(data))
        size += len(data)
        path = files.save(f"{number}.parquet", bytes(reversed(data)))
        outputs.append(OutputFile(path, "01", task.version, FACTS))
    if task.schema["text"].startswith("pace"):
        files.pause(float(task.schema["text"].split()[1]))
    return TaskResult(outputs, len(outputs), size, msgspec.Raw(b"%d" % task.version))
