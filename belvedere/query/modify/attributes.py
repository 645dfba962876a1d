"""USING TIMESTAMP and USING TTL: their values, limits and messages."""

from dataclasses import dataclass

from belvedere.cql.syntax import Constant, Term
from belvedere.model.rows import NO_TIMESTAMP
from belvedere.model.schema import Table
from belvedere.model.types import BIGINT, INT
from belvedere.query.access import Execution, Unset
from belvedere.query.errors import InvalidRequest
from belvedere.query.results import ResultColumn
from belvedere.query.terms.values import BindCollector, TermValue, prepare_term

#: Twenty years, as in Cassandra.
MAX_TTL = 20 * 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Attributes:
    timestamp: TermValue | None = None
    ttl: TermValue | None = None
    default_ttl: int = 0

    def timestamp_of(self, execution: Execution) -> int | None:
        """The timestamp that the statement sets, None if it leaves that to its surroundings."""
        if self.timestamp is None:
            return None
        value = self.timestamp.evaluate(execution)
        if value is None:
            raise InvalidRequest("Invalid null value of timestamp")
        if isinstance(value, Unset):
            return None
        return check_timestamp(int.from_bytes(value, "big", signed=True))

    def ttl_of(self, execution: Execution) -> int:
        if self.ttl is None:
            return self.default_ttl
        value = self.ttl.evaluate(execution)
        if value is None:
            return 0
        if isinstance(value, Unset):
            return self.default_ttl
        ttl = int.from_bytes(value, "big", signed=True)
        if ttl < 0:
            raise InvalidRequest(f"A TTL must be greater or equal to 0, but was {ttl}")
        if ttl > MAX_TTL:
            raise InvalidRequest(f"ttl is too large. requested ({ttl}) maximum ({MAX_TTL})")
        return ttl


def check_timestamp(timestamp: int) -> int:
    """The smallest number stands for "never written"."""
    if timestamp == NO_TIMESTAMP:
        raise InvalidRequest(f"Invalid timestamp value: must be in [{NO_TIMESTAMP + 1}, {2**63 - 1}]")
    return timestamp


def prepare_attributes(
    table: Table, timestamp: Term | None, ttl: Term | None, collector: BindCollector
) -> Attributes:
    return Attributes(
        _prepare(timestamp, "timestamp", table, collector),
        _prepare(ttl, "ttl", table, collector),
        table.default_ttl,
    )


def _prepare(node: Term | None, name: str, table: Table, collector: BindCollector) -> TermValue | None:
    if node is None:
        return None
    receiver = ResultColumn(table.keyspace, table.name, f"[{name}]", BIGINT if name == "timestamp" else INT)
    try:
        return prepare_term(node, receiver, collector)
    except InvalidRequest:
        if isinstance(node, Constant):
            label = "TTL" if name == "ttl" else name
            raise InvalidRequest(f"Invalid {label} value: {node.text}") from None
        raise
