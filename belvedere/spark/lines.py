"""Lines of text as rows: CSV with a header, and JSON objects. Values stay text, which the table's types read.

Spark only hands out the lines. Its own readers of CSV and JSON turn a value that does not fit into null and
guess types, which rounds decimals; and a quote that nobody closed would swallow the lines behind it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, Self

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from belvedere.model.schema import ColumnKind, Table
from belvedere.pipeline.load_rows import BadRow
from belvedere.spark.calls import SparkFaceError

#: Columns of the batches to be parsed: a line; for CSV also which file it is from, and where its part of the
#: file begins.
LINE, FILE, START = "line", "file", "start"

Parsed = tuple[pa.RecordBatch, list[BadRow]]


class Lines(Protocol):
    """Travels to workers by pickle: each task has its own."""

    def schema(self) -> pa.Schema:
        """Of the rows."""

    def parse(self, batch: pa.RecordBatch) -> Parsed:
        """Rows, in any order, and the places of lines that are none. Blank lines are nothing."""


# -- CSV -------------------------------------------------------------------------------------------

#: A field and what ends it: in quotes, where a quote is doubled; or bare, and then without a quote in front.
_FIELD: Final = re.compile(r'(?:"((?:[^"]|"")*)"|((?:[^",][^,]*)?))(,|\Z)')


def csv_fields(line: str) -> list[str | None] | None:
    """Nothing between commas is null, "" an empty text. None if a quote is not closed, or closed too soon."""
    fields: list[str | None] = []
    place = 0
    while (found := _FIELD.match(line, place)) is not None:
        quoted, bare, end = found.groups()
        fields.append(quoted.replace('""', '"') if quoted is not None else bare or None)
        if not end:
            return fields
        place = found.end()
    return None


class CsvLines:
    def __init__(self, header: str) -> None:
        names = csv_fields(header)
        if names is None or None in names:
            raise SparkFaceError(f"the first line of a CSV file names its columns, not {header[:200]!r}")
        self._names: list[str] = [name for name in names if name is not None]
        if len(set(self._names)) < len(self._names):
            raise SparkFaceError(f"two columns of the CSV file have the same name: {header[:200]!r}")
        #: File and start of the part that the last batch ended in.
        self._last: tuple[int, int] | None = None

    def schema(self) -> pa.Schema:
        return pa.schema([(name, pa.string()) for name in self._names])

    def parse(self, batch: pa.RecordBatch) -> Parsed:
        text = batch.column(LINE)
        is_row, bad = _readable(text)
        is_row &= ~self._headers(batch, is_row)
        is_quoted = is_row & _flags(pc.match_substring(text, '"'))
        plain = np.flatnonzero(is_row & ~is_quoted)
        parts = pc.split_pattern(text.take(pa.array(plain)), ",")
        lengths = np.asarray(pc.list_value_length(parts))
        width = len(self._names)
        for place in np.flatnonzero(lengths != width).tolist():
            bad.append(self._bad(int(plain[place]), int(lengths[place])))
        values = parts.filter(pa.array(lengths == width)).flatten()
        rows: list[list[str | None]] = []
        for row in np.flatnonzero(is_quoted).tolist():
            fields = csv_fields(text[row].as_py())
            if fields is None or len(fields) != width:
                bad.append(self._bad(row, None if fields is None else len(fields)))
            else:
                rows.append(fields)
        columns = []
        for number in range(width):
            bare = values.take(pa.array(np.arange(number, len(values), width)))
            bare = pc.if_else(pc.equal(bare, ""), pa.scalar(None, pa.string()), bare)
            columns.append(pa.concat_arrays([bare, pa.array([row[number] for row in rows], pa.string())]))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema()), bad

    def _bad(self, row: int, fields: int | None) -> BadRow:
        if fields is None:
            return BadRow(row, "a line of CSV with a quote that is not closed, or not at the end of a value")
        return BadRow(row, f"a line of CSV with {fields} values instead of {len(self._names)}")

    def _headers(self, batch: pa.RecordBatch, is_row: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The first line of each file."""
        is_header = np.zeros(len(is_row), np.bool_)
        places = np.flatnonzero(is_row)
        if not len(places):
            return is_header
        files = np.asarray(batch.column(FILE))[places]
        starts = np.asarray(batch.column(START))[places]
        first_file, first_start = self._last or (~files[0], 0)
        same_file = files == np.concatenate(([first_file], files[:-1]))
        same_start = starts == np.concatenate(([first_start], starts[:-1]))
        self._last = int(files[-1]), int(starts[-1])
        is_header[places[~(same_file & same_start) & (starts == 0)]] = True
        for row in np.flatnonzero(is_header).tolist():
            self._check_header(batch.column(LINE)[row].as_py())
        return is_header

    def _check_header(self, line: str) -> None:
        names = csv_fields(line)
        if names != self._names:
            raise SparkFaceError(
                "CSV files that are loaded together have the same columns in the same order: one begins "
                f"with {','.join(self._names)[:200]!r}, another with {line[:200]!r}"
            )


# -- JSON ------------------------------------------------------------------------------------------

#: Of these types a number is no value, as in INSERT JSON.
_TEXTS: Final = frozenset(("text", "ascii", "blob"))

_object_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_string_of = msgspec.json.Decoder(str).decode


class _NoRow(Exception):
    """A line that is no row; why."""


@dataclass(frozen=True, slots=True)
class JsonLines:
    """Of a line's object, each value as text: that of a string, else the JSON itself."""

    table: str
    #: Whether a value must be a string, by column.
    columns: Mapping[str, bool]
    statics: frozenset[str]

    @classmethod
    def of(cls, table: Table) -> Self:
        visible = [column for column in table.select_order if not column.hidden]
        return cls(
            table.full_name,
            {c.name: c.type.name in _TEXTS for c in visible if c.kind is not ColumnKind.STATIC},
            frozenset(c.name for c in visible if c.kind is ColumnKind.STATIC),
        )

    def schema(self) -> pa.Schema:
        return pa.schema([(name, pa.string()) for name in self.columns])

    def parse(self, batch: pa.RecordBatch) -> Parsed:
        text = batch.column(LINE)
        is_row, bad = _readable(text)
        lines = text.cast(pa.binary()).to_pylist()
        columns: dict[str, list[str | None]] = {name: [] for name in self.columns}
        for row in np.flatnonzero(is_row).tolist():
            try:
                values = self._values(lines[row])
            except _NoRow as error:
                bad.append(BadRow(row, str(error)))
                continue
            for name, column in columns.items():
                column.append(values.get(name))
        arrays = [pa.array(column, pa.string()) for column in columns.values()]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema()), bad

    def _values(self, line: bytes) -> dict[str, str]:
        values: dict[str, str] = {}
        try:
            for key, raw in _object_of(line).items():
                name = key if key in self.columns else self._meant(key)
                if name in values:
                    raise _NoRow(f"column {name}: given twice")
                text = bytes(raw)
                if text.startswith(b'"'):
                    values[name] = _string_of(text)
                elif text != b"null":
                    if self.columns[name]:
                        raise _NoRow(f"column {name}: {text.decode():.60} is not a string")
                    values[name] = text.decode()
        except msgspec.DecodeError as error:
            # With its place in the line each would be a reason of its own.
            what = re.sub(r" \(byte \d+\)$", "", str(error))
            raise _NoRow(f"not a line with a JSON object: {what}") from None
        return values

    def _meant(self, key: str) -> str:
        """The column of this name, but for case."""
        alike = [name for name in self.columns if name.lower() == key.lower()]
        if len(alike) == 1:
            return alike[0]
        if key in self.statics:
            raise _NoRow(f"column {key} is static: static columns cannot be loaded")
        raise _NoRow(f"{self.table} has no column {key:.60}; it has {', '.join(self.columns)}")


# -- helpers ---------------------------------------------------------------------------------------


def _readable(text: pa.Array) -> tuple[NDArray[np.bool_], list[BadRow]]:
    """Lines that are not blank; and those that are no text."""
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return _readable_one_by_one(text)
    return ~_flags(pc.match_substring_regex(text, r"^\s*$")), []


def _readable_one_by_one(text: pa.Array) -> tuple[NDArray[np.bool_], list[BadRow]]:
    is_row = np.zeros(len(text), np.bool_)
    bad = []
    for row, line in enumerate(text.cast(pa.binary()).to_pylist()):
        try:
            is_row[row] = bool(line.decode().strip())
        except UnicodeDecodeError:
            bad.append(BadRow(row, "a line that is not UTF-8"))
    return is_row, bad


def _flags(array: pa.Array) -> NDArray[np.bool_]:
    return np.array(array.to_numpy(zero_copy_only=False), np.bool_)
