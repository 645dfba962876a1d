"""What the embedded API answers: rows as Python values, or whole results as Arrow tables."""

import re
from collections import namedtuple
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from belvedere.query.results import Result, ResultColumn, Rows

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

WireRow = Sequence[bytes | None]

#: Rows that become one chunk of an Arrow table: large enough for vectorised work, small enough to bound
#: what is in memory twice.
_CHUNK_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class Pages:
    """How to get the page that a paging state leads to, from a thread or from an event loop."""

    next: Callable[[bytes], Rows]
    next_async: Callable[[bytes], Awaitable[Rows]]


class ResultSet:
    """The rows of one result, named tuples; further pages are fetched as they are needed.

    Reading uses a result up: each row comes once, whether by iteration, `all` or `to_arrow` and its like,
    which take all that is left. Only `one` leaves its row in place. The `…_async` forms and `async for`
    wait for further pages without blocking the event loop.
    """

    def __init__(self, result: Result, pages: Pages | None = None) -> None:
        page = result if isinstance(result, Rows) else Rows()
        self.columns: tuple[ResultColumn, ...] = page.columns
        self.warnings: tuple[str, ...] = result.warnings
        self._rows: Sequence[WireRow] = page.rows
        self._position = 0
        self._paging_state = page.paging_state
        self._pages = pages
        self._applied = not (self.columns and self.columns[0].name == "[applied]" and page.rows) or (
            page.rows[0][0] == b"\x01"
        )
        self._make_row = _row_type(tuple(self.column_names))._make
        self._decoders = [column.type.decode for column in self.columns]

    @property
    def column_names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def was_applied(self) -> bool:
        """Of a conditional statement: whether its condition held. True for any other statement."""
        return self._applied

    # --- rows ------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        while self._has_rows():
            yield self._take()

    def one(self) -> Any:
        """The first of the rows that are left, or None."""
        return self._decoded(self._rows[self._position]) if self._has_rows() else None

    def all(self) -> list[Any]:
        """The rows that are left."""
        return list(self)

    async def __aiter__(self) -> AsyncIterator[Any]:
        while await self._has_rows_async():
            yield self._take()

    async def one_async(self) -> Any:
        """`one` from an event loop."""
        return self._decoded(self._rows[self._position]) if await self._has_rows_async() else None

    async def all_async(self) -> list[Any]:
        """`all` from an event loop."""
        return [row async for row in self]

    # --- tables ----------------------------------------------------------------------------------------

    def to_arrow(self) -> "pa.Table":
        """The rows that are left, as an Arrow table."""
        chunks = _ArrowChunks(self.columns)
        while self._has_rows():
            chunks.add(self._take_page())
        return chunks.table()

    async def to_arrow_async(self) -> "pa.Table":
        """`to_arrow` from an event loop; `pandas` and `polars` take its table without copying much."""
        chunks = _ArrowChunks(self.columns)
        while await self._has_rows_async():
            chunks.add(self._take_page())
        return chunks.table()

    def to_pandas(self) -> "pandas.DataFrame":
        """The rows that are left, as a pandas DataFrame; times of day in whole µs. Needs pandas."""
        import pyarrow as pa

        table = self.to_arrow()
        fields = [field.with_type(_for_pandas(field.type)) for field in table.schema]
        return table.cast(pa.schema(fields), safe=False).to_pandas()

    def to_polars(self) -> "polars.DataFrame":
        """The rows that are left, as a Polars DataFrame. Needs polars."""
        import polars

        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    # --- pages -----------------------------------------------------------------------------------------

    def _has_rows(self) -> bool:
        while self._position >= len(self._rows):
            if self._paging_state is None or self._pages is None:
                return False
            self._turn(self._pages.next(self._paging_state))
        return True

    async def _has_rows_async(self) -> bool:
        while self._position >= len(self._rows):
            if self._paging_state is None or self._pages is None:
                return False
            self._turn(await self._pages.next_async(self._paging_state))
        return True

    def _turn(self, page: Rows) -> None:
        self._rows, self._position = page.rows, 0
        self._paging_state = page.paging_state
        self.warnings += tuple(warning for warning in page.warnings if warning not in self.warnings)

    def _take(self) -> Any:
        row = self._rows[self._position]
        self._position += 1
        return self._decoded(row)

    def _take_page(self) -> Sequence[WireRow]:
        rows = self._rows[self._position :] if self._position else self._rows
        self._position = len(self._rows)
        return rows

    def _decoded(self, row: WireRow) -> Any:
        return self._make_row(
            [
                None if value is None else decode(value)
                for decode, value in zip(self._decoders, row, strict=True)
            ]
        )


class _ArrowChunks:
    """Gathers pages of wire rows into an Arrow table."""

    def __init__(self, columns: tuple[ResultColumn, ...]) -> None:
        self._columns = columns
        self._rows: list[WireRow] = []
        self._batches: list[pa.RecordBatch] = []

    def add(self, rows: Sequence[WireRow]) -> None:
        self._rows.extend(rows)
        if len(self._rows) >= _CHUNK_ROWS:
            self._convert()

    def table(self) -> "pa.Table":
        import pyarrow as pa

        if self._rows or not self._batches:
            self._convert()
        return pa.Table.from_batches(self._batches)

    def _convert(self) -> None:
        import pyarrow as pa

        from belvedere.storage.columns import to_arrow

        cells = zip(*self._rows, strict=True) if self._rows else ((),) * len(self._columns)
        arrays = [to_arrow(column.type, values) for column, values in zip(self._columns, cells, strict=True)]
        self._batches.append(pa.RecordBatch.from_arrays(arrays, names=[c.name for c in self._columns]))
        self._rows = []


def _for_pandas(arrow_type: "pa.DataType") -> "pa.DataType":
    """pandas shows times as datetime.time, and pyarrow refuses what is finer than that."""
    import pyarrow as pa

    def field(inner: pa.Field) -> pa.Field:
        return inner.with_type(_for_pandas(inner.type))

    if pa.types.is_time64(arrow_type):
        return pa.time64("us")
    if pa.types.is_map(arrow_type):
        return pa.map_(field(arrow_type.key_field), field(arrow_type.item_field))
    if pa.types.is_fixed_size_list(arrow_type):
        return pa.list_(field(arrow_type.value_field), arrow_type.list_size)
    if pa.types.is_list(arrow_type):
        return pa.list_(field(arrow_type.value_field))
    if pa.types.is_struct(arrow_type):
        return pa.struct([field(arrow_type.field(index)) for index in range(arrow_type.num_fields)])
    return arrow_type


@lru_cache(maxsize=512)
def _row_type(names: tuple[str, ...]) -> Any:
    """Named tuples as the drivers give: `system.sum(total)` is called `system_sum_total`.

    Making a type takes far longer than making a row of it, and the same statements come again and again.
    """
    plain = [re.sub(r"\W+", "_", name).strip("_") for name in names]
    fields: Any = namedtuple("Row", plain, rename=True)  # type: ignore[misc]
    # A type made here has no place where pickle would find it again.
    return type("Row", (fields,), {"__slots__": (), "__reduce__": lambda row: (_row, (names, tuple(row)))})


def _row(names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """A pickled row, made anew."""
    return _row_type(names)._make(values)
