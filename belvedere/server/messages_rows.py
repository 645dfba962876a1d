"""RESULT Rows and RESULT Prepared: metadata of columns, and rows as length-prefixed values.

The bytes of a statement's metadata are made once (`EncodedColumns`) and reused for as long as the columns
stay the same object.
"""

from collections.abc import Sequence

from belvedere.query.results import ResultColumn, Rows
from belvedere.server import protocol as wire
from belvedere.server.protocol import INT, NULL_VALUE, SHORT, V4, V5, short_bytes, string

_ROWS_KIND = INT.pack(wire.RESULT_ROWS)
_PREPARED_KIND = INT.pack(wire.RESULT_PREPARED)
#: The length prefix of short values, ready made: most values are short.
_LENGTHS = tuple(INT.pack(length) for length in range(512))
_READY_LENGTHS = len(_LENGTHS)


class EncodedColumns:
    """One result's columns as metadata bytes for one protocol version."""

    __slots__ = ("_body", "_count", "_flags", "columns", "plain_prefix", "skipping_prefix")

    def __init__(self, columns: tuple[ResultColumn, ...], version: int) -> None:
        self.columns = columns
        self._count = INT.pack(len(columns))
        self._flags, self._body = _encode_columns(columns, version)
        #: Everything in front of the row count when there is no further page: metadata sent, or left out.
        self.plain_prefix = self.prefix(None, skip=False)
        self.skipping_prefix = self.prefix(None, skip=True)

    def prefix(self, paging_state: bytes | None, *, skip: bool, new_id: bytes | None = None) -> bytes:
        return _ROWS_KIND + self.metadata(paging_state, skip=skip, new_id=new_id)

    def metadata(
        self, paging_state: bytes | None = None, *, skip: bool = False, new_id: bytes | None = None
    ) -> bytes:
        flags = wire.METADATA_NONE if skip else self._flags
        parts = [self._count]
        if paging_state is not None:
            flags |= wire.METADATA_MORE_PAGES
            parts.append(wire.value_bytes(paging_state))
        if new_id is not None:
            flags |= wire.METADATA_CHANGED
            parts.append(short_bytes(new_id))
        if not skip:
            parts.append(self._body)
        return INT.pack(flags) + b"".join(parts)


def _encode_columns(columns: Sequence[ResultColumn], version: int) -> tuple[int, bytes]:
    """Flags and column specifications; the table is named once when all columns are of one."""
    if not columns:
        return wire.METADATA_NONE, b""
    tables = {(column.keyspace, column.table) for column in columns}
    if len(tables) == 1:
        ((keyspace, table),) = tables
        parts = [string(keyspace), string(table)]
        for column in columns:
            parts += [string(column.name), column.type.encode_option(version)]
        return wire.METADATA_GLOBAL_TABLE, b"".join(parts)
    parts = []
    for column in columns:
        parts += [
            string(column.keyspace),
            string(column.table),
            string(column.name),
            column.type.encode_option(version),
        ]
    return 0, b"".join(parts)


def encode_rows(prefix: bytes, rows: Sequence[Sequence[bytes | None]]) -> bytes:
    """The body of RESULT Rows: what stands in front of the row count, the count, and every value."""
    parts = [prefix, INT.pack(len(rows))]
    append = parts.append
    lengths, ready, null = _LENGTHS, _READY_LENGTHS, NULL_VALUE
    for row in rows:
        for value in row:
            if value is None:
                append(null)
            else:
                size = len(value)
                append(lengths[size] if size < ready else INT.pack(size))
                append(value)
    return b"".join(parts)


def rows_body(
    result: Rows,
    encoded: EncodedColumns,
    *,
    skip_metadata: bool = False,
    new_id: bytes | None = None,
) -> bytes:
    """`new_id` tells a client of protocol v5 that the columns are not what it believed: then all are sent."""
    if result.paging_state is None and new_id is None:
        prefix = encoded.skipping_prefix if skip_metadata else encoded.plain_prefix
    else:
        prefix = encoded.prefix(result.paging_state, skip=skip_metadata and new_id is None, new_id=new_id)
    return encode_rows(prefix, result.rows)


def prepared_body(
    version: int,
    statement_id: bytes,
    result_metadata_id: bytes,
    bindings: Sequence[ResultColumn],
    partition_key_bindings: Sequence[int],
    result_columns: tuple[ResultColumn, ...],
) -> bytes:
    flags, body = _encode_columns(bindings, version)
    if not bindings:
        flags = 0
    parts = [_PREPARED_KIND, short_bytes(statement_id)]
    if version >= V5:
        parts.append(short_bytes(result_metadata_id))
    parts += [INT.pack(flags), INT.pack(len(bindings))]
    if version >= V4:
        parts.append(INT.pack(len(partition_key_bindings)))
        parts += [SHORT.pack(index) for index in partition_key_bindings]
    parts += [body, EncodedColumns(result_columns, version).metadata()]
    return b"".join(parts)
