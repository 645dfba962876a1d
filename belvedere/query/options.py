"""What a client sends along with a statement."""

from collections.abc import Sequence

import msgspec

from belvedere.query.access import BoundValue
from belvedere.query.errors import InvalidRequest
from belvedere.query.results import ResultColumn

#: Consistency levels by their protocol code; names are in query.errors.CONSISTENCY_NAMES.
ONE = 1
SERIAL = 8


class QueryOptions(msgspec.Struct, gc=False):
    """One per request: a struct that the garbage collector does not walk, since it is in no cycle."""

    consistency: int = ONE
    values: Sequence[BoundValue] = ()
    #: One name per value when the client bound by name.
    names: list[str] | None = None
    #: Rows per page; 0 means all at once.
    page_size: int = 0
    paging_state: bytes | None = None
    serial_consistency: int = SERIAL
    #: The default write timestamp in µs; None lets the server choose.
    timestamp: int | None = None
    #: Overrides the connection's keyspace for this statement (protocol v5).
    keyspace: str | None = None
    #: Seconds that TTLs are judged by; None means the server's clock (protocol v5).
    now_seconds: int | None = None

    def values_for(self, bindings: Sequence[ResultColumn]) -> Sequence[BoundValue]:
        """The values in the order of a statement's bind variables, one for each."""
        values = self.values
        if self.names is not None:
            by_name = dict(zip(self.names, values, strict=True))
            values = [by_name[binding.name] for binding in bindings if binding.name in by_name]
        if len(values) != len(bindings):
            raise InvalidRequest("Invalid amount of bind variables")
        return values
