"""What the embedded API answers: rows as Python values, or whole results as Arrow tables."""

import re
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from belvedere.query.results import Result, ResultColumn, Rows
from belvedere.storage.columns import to_arrow

if TYPE_CHECKING:
    import pandas
    import polars

#: Fetches the page that a paging state leads to.
NextPage = Callable[[bytes], Rows]


class ResultSet:
    """Iterate it for rows (named tuples); further pages are fetched as they are needed.

    Iterating uses it up; `to_arrow` and its like take all that is left.
    """

    def __init__(self, result: Result, next_page: NextPage | None = None) -> None:
        self._page = result if isinstance(result, Rows) else Rows()
        self._next_page = next_page
        self.columns: tuple[ResultColumn, ...] = self._page.columns
        self.warnings: tuple[str, ...] = result.warnings
        self._row_type = _row_type(self.columns)
        self._decoders = [column.type.decode for column in self.columns]

    @property
    def column_names(self) -> list[str]:
        return [column.name for column in self.columns]

    def __iter__(self) -> Iterator[Any]:
        for page in self._pages():
            for row in page:
                yield self._decoded(row)

    def one(self) -> Any:
        """The first row, or None."""
        return next(iter(self), None)

    def all(self) -> list[Any]:
        return list(self)

    @property
    def was_applied(self) -> bool:
        """Of a conditional statement: whether its condition held. True for any other statement."""
        if not self.columns or self.columns[0].name != "[applied]":
            return True
        return self._page.rows[0][0] == b"\x01"

    def to_arrow(self) -> pa.Table:
        columns: list[list[bytes | None]] = [[] for _ in self.columns]
        for page in self._pages():
            for values, cells in zip(columns, zip(*page, strict=True), strict=False):
                values.extend(cells)
        arrays = [to_arrow(column.type, values) for column, values in zip(self.columns, columns, strict=True)]
        return pa.Table.from_arrays(arrays, names=self.column_names)

    def to_pandas(self) -> "pandas.DataFrame":
        """Needs pandas."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> "polars.DataFrame":
        """Needs polars."""
        import polars

        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def _pages(self) -> Iterator[Sequence[Sequence[bytes | None]]]:
        page = self._page
        self._page = Rows()
        while True:
            if page.rows:
                yield page.rows
            if page.paging_state is None or self._next_page is None:
                return
            page = self._next_page(page.paging_state)

    def _decoded(self, row: Sequence[bytes | None]) -> Any:
        return self._row_type(
            *(
                None if value is None else decode(value)
                for decode, value in zip(self._decoders, row, strict=True)
            )
        )


def _row_type(columns: tuple[ResultColumn, ...]) -> Callable[..., Any]:
    """Named tuples as the drivers give: `system.sum(total)` is called `system_sum_total`."""
    names = [re.sub(r"\W+", "_", column.name).strip("_") for column in columns]
    return namedtuple("Row", names, rename=True)
