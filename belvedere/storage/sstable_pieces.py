"""A partition that lies in several row groups, put together."""

from belvedere.storage.partitions import StoredPartition


class Pieces:
    """A partition put together from several row groups, which come in the order of reading."""

    def __init__(self, token: int, key: bytes, max_rows: int, reverse: bool) -> None:
        self._max_rows = max_rows
        self._reverse = reverse
        self._parts: list[StoredPartition] = []
        self._rows = 0
        self._key = (token, key)

    @property
    def is_full(self) -> bool:
        return bool(self._max_rows) and self._rows >= self._max_rows

    @property
    def wanted(self) -> int:
        """How many rows are missing; 0 means all there are."""
        return self._max_rows - self._rows if self._max_rows else 0

    def add(self, piece: StoredPartition | None) -> None:
        if piece is not None:
            self._parts.append(piece)
            self._rows += len(piece.rows)

    def found(self) -> StoredPartition | None:
        if not self._parts:
            return None
        parts = self._parts[::-1] if self._reverse else self._parts
        whole = parts[0]
        for part in parts[1:]:
            extend(whole, part)
        return whole


def extend(whole: StoredPartition, more: StoredPartition) -> None:
    """Append what a following row group holds of the same partition."""
    whole.rows += more.rows
    whole.ranges += more.ranges
    if more.deletion is not None:
        whole.deletion = more.deletion
    if more.static is not None:
        whole.static = more.static
