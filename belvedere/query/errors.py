"""CQL's own errors with their codes, as clients and drivers know them."""

from collections.abc import Mapping
from typing import Any


class CQLError(Exception):
    """Base of everything a client may be told. `code` is the native protocol's."""

    code = 0x0000

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        # Subclasses take other arguments than Exception believes; errors must cross process borders.
        return _rebuild, (type(self), self.message, self.__dict__)


def _rebuild(kind: type[CQLError], message: str, fields: dict[str, Any]) -> CQLError:
    error = kind.__new__(kind, message)
    error.__dict__.update(fields)
    return error


class ServerError(CQLError):
    code = 0x0000


class ProtocolError(CQLError):
    code = 0x000A


class BadCredentials(CQLError):
    code = 0x0100


class Unavailable(CQLError):
    code = 0x1000

    def __init__(self, consistency: int, required: int, alive: int) -> None:
        super().__init__(f"Cannot achieve consistency level {consistency_name(consistency)}")
        self.consistency, self.required, self.alive = consistency, required, alive


class Overloaded(CQLError):
    code = 0x1001


class IsBootstrapping(CQLError):
    code = 0x1002


class TruncateError(CQLError):
    code = 0x1003


class WriteTimeout(CQLError):
    """The outcome is unknown: the write may have happened."""

    code = 0x1100

    def __init__(self, message: str, consistency: int, received: int, required: int, write_type: str) -> None:
        super().__init__(message)
        self.consistency, self.received, self.required = consistency, received, required
        self.write_type = write_type


class ReadTimeout(CQLError):
    code = 0x1200

    def __init__(
        self, message: str, consistency: int, received: int, required: int, data_present: bool
    ) -> None:
        super().__init__(message)
        self.consistency, self.received, self.required = consistency, received, required
        self.data_present = data_present


class ReadFailure(CQLError):
    code = 0x1300

    def __init__(self, message: str, consistency: int, received: int, required: int) -> None:
        super().__init__(message)
        self.consistency, self.received, self.required = consistency, received, required
        self.failures: Mapping[str, int] = {}
        self.data_present = False


class FunctionFailure(CQLError):
    code = 0x1400

    def __init__(self, message: str, keyspace: str, function: str, argument_types: tuple[str, ...]) -> None:
        super().__init__(message)
        self.keyspace, self.function, self.argument_types = keyspace, function, argument_types


class WriteFailure(CQLError):
    code = 0x1500

    def __init__(self, message: str, consistency: int, received: int, required: int, write_type: str) -> None:
        super().__init__(message)
        self.consistency, self.received, self.required = consistency, received, required
        self.failures: Mapping[str, int] = {}
        self.write_type = write_type


class SyntaxException(CQLError):
    code = 0x2000


class Unauthorized(CQLError):
    code = 0x2100


class InvalidRequest(CQLError):
    code = 0x2200


class ConfigurationError(CQLError):
    code = 0x2300


class AlreadyExists(CQLError):
    code = 0x2400

    def __init__(self, keyspace: str, table: str = "") -> None:
        what = (
            f'Cannot add already existing table "{table}" to keyspace "{keyspace}"'
            if table
            else f'Cannot add existing keyspace "{keyspace}"'
        )
        super().__init__(what)
        self.keyspace, self.table = keyspace, table


class Unprepared(CQLError):
    code = 0x2500

    def __init__(self, statement_id: bytes) -> None:
        super().__init__(
            f"Prepared query with ID {statement_id.hex()} not found (either the query was not prepared "
            "on this host (maybe the host has been restarted?) or you have prepared too many queries and it "
            "has been evicted from the internal cache)"
        )
        self.statement_id = statement_id


CONSISTENCY_NAMES = {
    0: "ANY", 1: "ONE", 2: "TWO", 3: "THREE", 4: "QUORUM", 5: "ALL", 6: "LOCAL_QUORUM",
    7: "EACH_QUORUM", 8: "SERIAL", 9: "LOCAL_SERIAL", 10: "LOCAL_ONE",
}  # fmt: skip


def consistency_name(consistency: int) -> str:
    return CONSISTENCY_NAMES.get(consistency, f"UNKNOWN({consistency})")
