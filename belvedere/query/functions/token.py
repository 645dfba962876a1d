"""token(…): the partitioner's view of a key."""

from collections.abc import Sequence

from belvedere.model.ordering import join_partition_key
from belvedere.model.token import token_of
from belvedere.model.types import BIGINT
from belvedere.query.errors import InvalidRequest
from belvedere.query.functions.registry import AnyFunction, Function, Request, no_nulls, register_factory


def _token(*values: bytes | None) -> bytes:
    key = join_partition_key([value for value in values if value is not None])
    return token_of(key).to_bytes(8, "big", signed=True)


def _make(request: Request) -> Sequence[AnyFunction]:
    if request.table is None:
        raise InvalidRequest("The token() function needs the partition key of a table")
    types = tuple(column.type for column in request.table.partition_key)
    return (Function("token", types, BIGINT, no_nulls(_token)),)


register_factory(_make, "token")
