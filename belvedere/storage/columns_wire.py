"""Columns of wire values in few large objects: quick to index, small to keep in a cache."""

import sys
from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = Sequence[int] | NDArray[np.integer[Any]]


class WireColumn:
    """A column of wire values, null being None. Indices are trusted: 0 <= index < len(column)."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(self.to_list())

    def get(self, index: int) -> bytes | None:
        """One value."""
        return self.to_list()[index]

    def slice(self, start: int, stop: int) -> list[bytes | None]:
        """The values from start to before stop."""
        return self.to_list()[start:stop]

    def take(self, indices: Indices) -> list[bytes | None]:
        """The values at these places, in this order."""
        get = self.get
        return [get(index) for index in indices]

    def to_list(self) -> list[bytes | None]:
        """All values."""
        return [self.get(index) for index in range(len(self))]

    @property
    def nbytes(self) -> int:
        """How much memory the column holds, roughly."""
        return 0


class FixedColumn(WireColumn):
    """Values of one width, one after the other. `valid` has a byte per value, 0 for null."""

    __slots__ = ("_count", "_data", "_valid", "_width")

    def __init__(self, data: bytes, width: int, count: int, valid: bytes | None) -> None:
        self._data = data
        self._width = width
        self._count = count
        self._valid = valid

    @property
    def data(self) -> bytes:
        """All values without gaps; what stands in the place of a null means nothing."""
        return self._data

    def __len__(self) -> int:
        return self._count

    def get(self, index: int) -> bytes | None:
        if self._valid is not None and not self._valid[index]:
            return None
        width = self._width
        start = index * width
        return self._data[start : start + width]

    def slice(self, start: int, stop: int) -> list[bytes | None]:
        start, stop, _ = slice(start, stop).indices(self._count)
        return self._cut(self._data[start * self._width : stop * self._width], start, stop)

    def take(self, indices: Indices) -> list[bytes | None]:
        if len(indices) < 16:
            return WireColumn.take(self, indices)
        chosen = np.asarray(indices)
        values: list[bytes | None] = np.frombuffer(self._data, f"V{self._width}")[chosen].tolist()
        if self._valid is None:
            return values
        valid = np.frombuffer(self._valid, np.uint8)[chosen].tolist()
        return [value if ok else None for value, ok in zip(values, valid, strict=True)]

    def to_list(self) -> list[bytes | None]:
        return self._cut(self._data, 0, self._count)

    def _cut(self, data: bytes, start: int, stop: int) -> list[bytes | None]:
        # numpy's void scalars become bytes objects: several times faster than slicing in Python.
        values: list[bytes | None] = np.frombuffer(data, f"V{self._width}").tolist()
        if self._valid is None:
            return values
        return [value if ok else None for value, ok in zip(values, self._valid[start:stop], strict=True)]

    @property
    def nbytes(self) -> int:
        return len(self._data) + (0 if self._valid is None else len(self._valid))


class VariableColumn(WireColumn):
    """Values of any widths: value i is data[offsets[i]:offsets[i + 1]]."""

    __slots__ = ("_data", "_offsets", "_valid")

    def __init__(self, data: bytes, offsets: "array[int]", valid: bytes | None) -> None:
        self._data = data
        self._offsets = offsets
        self._valid = valid

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def get(self, index: int) -> bytes | None:
        if self._valid is not None and not self._valid[index]:
            return None
        offsets = self._offsets
        return self._data[offsets[index] : offsets[index + 1]]

    def slice(self, start: int, stop: int) -> list[bytes | None]:
        start, stop, _ = slice(start, stop).indices(len(self))
        data = self._data
        bounds = self._offsets[start : stop + 1].tolist()
        values: list[bytes | None] = [data[begin:end] for begin, end in pairwise(bounds)]
        if self._valid is None:
            return values
        return [value if ok else None for value, ok in zip(values, self._valid[start:stop], strict=True)]

    def to_list(self) -> list[bytes | None]:
        return self.slice(0, len(self))

    @property
    def nbytes(self) -> int:
        return len(self._data) + 4 * len(self._offsets) + (0 if self._valid is None else len(self._valid))


class ListColumn(WireColumn):
    """Values that had to be made one by one."""

    __slots__ = ("_nbytes", "_values")

    def __init__(self, values: list[bytes | None]) -> None:
        self._values = values
        self._nbytes = sum(map(sys.getsizeof, values)) + 8 * len(values)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, index: int) -> bytes | None:
        return self._values[index]

    def slice(self, start: int, stop: int) -> list[bytes | None]:
        return self._values[start:stop]

    def to_list(self) -> list[bytes | None]:
        return list(self._values)

    @property
    def nbytes(self) -> int:
        return self._nbytes
