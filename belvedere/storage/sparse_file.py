"""A file of which only one stretch is at hand: what a Parquet reader needs for one row group."""


class SparseFile:
    """Read-only, in the manner of Python's binary files. Asking for anything else than the stretch fails."""

    closed = False

    def __init__(self, size: int, offset: int = 0, data: bytes = b"") -> None:
        self._size = size
        self._position = 0
        self.show(offset, data)

    def show(self, offset: int, data: bytes) -> None:
        """Have these bytes at hand from now on, instead of the former."""
        self._offset = offset
        self._data = memoryview(data)

    def read(self, count: int = -1) -> memoryview:
        if count < 0:
            count = self._size - self._position
        start = self._position - self._offset
        end = start + min(count, self._size - self._position)
        if start < 0 or end > len(self._data):
            raise OSError(f"bytes {self._position} to {self._offset + end} are outside of what was read")
        self._position = self._offset + end
        return self._data[start:end]

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self._position, self._size)[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        return self._size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def flush(self) -> None:
        pass

    def close(self) -> None:
        """Nothing to give back: the bytes belong to whoever read them."""
