"""Positions of list elements: time UUIDs, so that a list is the order in which its elements were written.

An append takes the present, in the clock that also gives out write timestamps (not the client's timestamp,
which may be anything): later appends stand later. A prepend takes the moment mirrored at 1970: later
prepends stand earlier. Elements of one write share the moment and are told apart by a sequence
number.
"""

from collections.abc import Iterator

from belvedere.query.access import Execution

#: 100 ns steps between the beginning of the Gregorian calendar and 1970.
_GREGORIAN = 0x01B21DD213814000


class ListPaths:
    """The positions that one run of a statement gives out."""

    __slots__ = ("_execution", "_given", "_moment", "_node")

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._moment = 0
        self._given = 0
        self._node = b""

    def after(self, count: int) -> Iterator[bytes]:
        """Ascending positions behind everything written so far."""
        first = self._take(count)
        return (self._path(self._moment, first + index) for index in range(count))

    def before(self, count: int) -> Iterator[bytes]:
        """Ascending positions before everything written so far."""
        # Each prepend of a statement needs a moment of its own: it must stand before the one before it.
        moment = -self._execution.access.next_timestamp()
        first = self._take(count)
        return (self._path(moment, first + index) for index in range(count))

    def _take(self, count: int) -> int:
        if not self._moment:
            execution = self._execution
            self._moment = execution.access.next_timestamp()
            # Two nodes may come to the same microsecond; list elements of both must stay apart.
            self._node = execution.random_bytes(3) if execution.random_bytes is not None else b"\0\0\0"
        first = self._given
        self._given += count
        return first

    def _path(self, moment: int, sequence: int) -> bytes:
        return list_position(moment, sequence, self._node)


def list_position(moment: int, sequence: int, node: bytes) -> bytes:
    """Version 1 at a moment (µs); the sequence number fills the clock sequence and half of the node, seven
    bits a byte; the other three bytes tell writers apart."""
    time = moment * 10 + _GREGORIAN
    head = (time & 0xFFFFFFFF).to_bytes(4, "big") + (time >> 32 & 0xFFFF).to_bytes(2, "big")
    head += (time >> 48 | 0x1000).to_bytes(2, "big")
    digits = bytes(sequence >> shift & 0x7F for shift in (21, 14, 7, 0))
    return head + b"\x80" + digits + node
