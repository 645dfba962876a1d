"""Where the commit log has a replicated tablet's records, in chunks: small enough to be read at once."""

from bisect import bisect_left, bisect_right

from belvedere.model.positions import Position

#: A chunk lies within about as many bytes of one segment.
CHUNK_BYTES = 256 << 10


class Chunk:
    """Records after `previous`, up to `last`, are in the frames from `first_frame` to `last_frame`; so may be
    some that were cut."""

    __slots__ = ("first_frame", "last", "last_frame", "offset", "previous", "segment")

    def __init__(self, frame: int, place: tuple[int, int], previous: Position) -> None:
        self.first_frame = self.last_frame = frame
        self.segment, self.offset = place
        self.previous = self.last = previous


class Chunks:
    def __init__(self) -> None:
        self._chunks: list[Chunk] = []

    def add(self, frame: int, place: tuple[int, int], previous: Position, last: Position) -> None:
        """Records were appended, those after `previous` up to `last`."""
        chunk = self._chunks[-1] if self._chunks else None
        segment, offset = place
        if chunk is None or chunk.segment != segment or offset - chunk.offset > CHUNK_BYTES:
            chunk = Chunk(frame, place, previous)
            self._chunks.append(chunk)
        chunk.last_frame, chunk.last = frame, last

    def cut(self, position: Position) -> None:
        chunks = self._chunks
        while chunks and chunks[-1].previous >= position:
            chunks.pop()
        if chunks and chunks[-1].last > position:
            chunks[-1].last = position

    def clear(self) -> None:
        self._chunks.clear()

    def holding(self, after: Position, oldest_frame: int) -> Chunk | None:
        """The one that has the records after this position; None if the log does not go back so far."""
        chunks = self._chunks
        gone = bisect_left(chunks, oldest_frame, key=lambda chunk: chunk.first_frame)
        del chunks[:gone]
        index = bisect_right(chunks, after, key=lambda chunk: chunk.previous)
        return chunks[index - 1] if index else None

    def frame_of(self, version: int) -> int | None:
        """Everything from this version on is in this frame or in later ones; None if there is nothing."""
        index = bisect_left(self._chunks, version, key=lambda chunk: chunk.last.version)
        return self._chunks[index].first_frame if index < len(self._chunks) else None
