"""A load from its beginning to its commit, whoever hands out the work.

The driver begins it with the node, workers turn rows into files below the directory that the node named, and
the driver tells the node which files there are. Until that last call nothing is part of the table.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pyarrow as pa

from belvedere.model.schema import Table
from belvedere.pipeline import schema_of
from belvedere.pipeline.load import LoadDescription, LoadRefused, RunWriter, files_of
from belvedere.pipeline.load_rows import BadRow, RowFitter
from belvedere.pipeline.tasks import OutputFile
from belvedere.runtime.plain_files import PlainFiles, append_lines, join_files, write_durably
from belvedere.spark.calls import ConnectionBroke, SparkFaceError
from belvedere.spark.lines import LINE, Lines
from belvedere.spark.options import SourceOptions

#: Reasons that are told, and how many of them of each worker.
_TOLD: Final = 5
_KEPT: Final = 1000
#: How often a node is asked to commit if the connection to it breaks.
_TRIES: Final = 3


class BadRowsFound(SparkFaceError):
    """Rows do not fit the table, and the load was not to go on without them."""


@dataclass(frozen=True, slots=True)
class BegunLoad:
    """What workers need to know; travels to them by pickle."""

    id: str
    directory: str
    description: bytes
    options: SourceOptions


class Part(msgspec.Struct):
    """What one worker did."""

    outputs: list[OutputFile] = []
    rows: int = 0
    bad_rows: int = 0
    #: How often rows were bad for what reason; not all of them if they are very many.
    reasons: dict[str, int] = {}
    #: Where they were written.
    bad_file: str | None = None


@dataclass(frozen=True, slots=True)
class LoadSummary:
    rows: int
    bad_rows: int
    bad_rows_path: str | None
    #: How often rows were bad for what reason.
    reasons: dict[str, int]
    seconds: float = 0.0


def begin(options: SourceOptions, incoming: Callable[[Table], pa.Schema]) -> BegunLoad:
    """Raises SparkFaceError if rows of the `incoming` schema cannot be loaded into the table."""
    answer = options.address.call("begin_load", options.table, options.for_load())
    load = BegunLoad(answer["load"], answer["directory"], answer["description"].encode(), options)
    try:
        table = table_of(load)
        RowFitter(table, incoming(table))
    except LoadRefused as error:
        abort(load)
        raise SparkFaceError(str(error)) from None
    except BaseException:
        abort(load)
        raise
    return load


def _description(load: BegunLoad) -> LoadDescription:
    return msgspec.json.decode(load.description, type=LoadDescription)


def table_of(load: BegunLoad) -> Table:
    description = _description(load)
    return schema_of.table_of(description.schema, description.table)


def write_part(
    load: BegunLoad, attempt: str, batches: Iterable[pa.RecordBatch], lines: Lines | None = None
) -> Part:
    """One worker's rows as files of their own; `attempt` is unlike that of any other try of this load.
    With `lines`, batches are of lines that are yet to be parsed."""
    files = PlainFiles(f"{load.directory}/attempt-{attempt}")
    writer = RunWriter.of(_description(load), files.save)
    part = Part()
    fitter: RowFitter | None = None
    for given in batches:
        batch = given
        if lines is not None:
            batch, bad = lines.parse(given)
            _note(load, part, files.directory, given.select([LINE]), bad)
        fitter = fitter or writer.fitter(batch.schema)
        rows, bad = fitter.fit(batch)
        _note(load, part, files.directory, batch, bad)
        # Of a load that fails anyhow only the bad rows are of interest.
        if not part.bad_rows or load.options.skip_bad_rows:
            writer.add(rows)
    if not part.bad_rows or load.options.skip_bad_rows:
        part.outputs = writer.finish()
        part.rows = writer.rows
    return part


def _note(load: BegunLoad, part: Part, directory: str, batch: pa.RecordBatch, bad: Sequence[BadRow]) -> None:
    if not bad:
        return
    part.bad_rows += len(bad)
    for one in bad:
        if one.reason in part.reasons or len(part.reasons) < _KEPT:
            part.reasons[one.reason] = part.reasons.get(one.reason, 0) + 1
    if load.options.bad_rows_path:
        part.bad_file = f"{directory}/bad_rows.jsonl"
        append_lines(part.bad_file, [_line(one.reason, _row(batch, one.row)) for one in bad])


def _line(reason: str, row: dict[str, Any]) -> bytes:
    text = json.dumps({"reason": reason, "row": row}, default=_as_text, ensure_ascii=False)
    return text.encode(errors="replace")


def _row(batch: pa.RecordBatch, row: int) -> dict[str, Any]:
    return {name: _value(column[row]) for name, column in zip(batch.schema.names, batch.columns, strict=True)}


def _value(scalar: pa.Scalar) -> Any:
    """What is wrong with it may be that it is no text."""
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        if pa.types.is_nested(scalar.type):
            return "(with text that is not UTF-8)"
        return scalar.as_buffer().to_pybytes().decode(errors="replace")


def _as_text(value: object) -> str:
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)


def commit(load: BegunLoad, parts: Sequence[Part]) -> LoadSummary:
    """Make the rows part of the table, all at once; or raise, and nothing is."""
    options = load.options
    bad = sum(part.bad_rows for part in parts)
    reasons: Counter[str] = Counter()
    for part in parts:
        reasons.update(part.reasons)
    path = _keep_bad_rows(options, parts) if bad else None
    if bad and not options.skip_bad_rows:
        raise BadRowsFound(_complaint(options, bad, reasons, path))
    outputs = [output for part in parts for output in part.outputs]
    if outputs:
        write_durably(f"{load.directory}/load.json", files_of(outputs))
        _make_part_of_table(load)
    else:
        abort(load)
    return LoadSummary(sum(part.rows for part in parts), bad, path, dict(reasons.most_common()))


def _make_part_of_table(load: BegunLoad) -> None:
    """Asked again a node gives the same answer, so that a broken connection need not leave it open."""
    broke: SparkFaceError | None = None
    for _ in range(_TRIES):
        try:
            load.options.address.call("commit_load", load.id)
            return
        except ConnectionBroke as error:
            broke = error
        except SparkFaceError:
            if broke is None:
                raise
            break
    raise SparkFaceError(
        f"whether the rows are part of {load.options.table} is not known: {broke}. Look there: all of them "
        "are, or none. To load them again does no harm"
    )


def _keep_bad_rows(options: SourceOptions, parts: Sequence[Part]) -> str | None:
    if not options.bad_rows_path:
        return None
    try:
        join_files([part.bad_file for part in parts if part.bad_file], options.bad_rows_path)
    except OSError as error:
        raise SparkFaceError(f"bad rows cannot be written to {options.bad_rows_path}: {error}") from error
    return options.bad_rows_path


def _complaint(options: SourceOptions, bad: int, reasons: Counter[str], path: str | None) -> str:
    told = [f"  {count} × {reason}" for reason, count in reasons.most_common(_TOLD)]
    if len(reasons) > _TOLD:
        told.append("  …")
    where = f"They are in {path}. " if path else ""
    return (
        f"{bad} {'row does' if bad == 1 else 'rows do'} not fit {options.table}, so nothing was loaded:\n"
        + "\n".join(told)
        + f"\n{where}With badRows=skip the others are loaded, and badRowsPath names a file for these."
    )


def abort(load: BegunLoad) -> None:
    """What was written goes; a node that cannot be asked does that by itself, later."""
    try:
        load.options.address.call("abort_load", load.id)
    except SparkFaceError:
        return
