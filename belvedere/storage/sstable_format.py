"""What an sstable file looks like: names of its columns, its metadata, and the facts kept beside it.

The whole format is told in docs/file-format.md; this module is its only place in the code where names and
versions are written down, so that writer, reader and compaction cannot disagree.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec
import pyarrow as pa

from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.storage.columns import arrow_type
from belvedere.storage.errors import Corrupt

FORMAT_VERSION: Final = 1
#: Rows of a row group, and bytes of one with several rows: what a cold read must fetch and decode.
GROUP_ROWS: Final = 4096
GROUP_BYTES: Final = 4 << 20
#: Key of our JSON document in the file's key-value metadata.
METADATA_KEY: Final = b"belvedere"

PARTITION_DELETION: Final = 0
RANGE_DELETION: Final = 1
STATIC_ROW: Final = 2
ROW: Final = 3

TOKEN: Final = "_token"
KIND: Final = "_kind"
KEY: Final = "_key"
CK: Final = "_ck"
END: Final = "_end"
TS: Final = "_ts"
TTL: Final = "_ttl"
EXP: Final = "_exp"
LIVE: Final = "_live"
DEL_TS: Final = "_del_ts"
DEL_AT: Final = "_del_at"
UNTIL: Final = "_until"

#: `_until` of a row that does not expire.
FOREVER: Final = 2**63 - 1

#: Key types whose wire bytes follow from the readable column alone, bit by bit. A table with any other in
#: its partition key also gets the `_key` column.
_EXACT: Final = frozenset(
    ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "text", "ascii", "blob")
    + ("uuid", "timeuuid", "timestamp", "date", "time")
)

_RESERVED: Final = frozenset((TOKEN, KIND, KEY, CK, END, TS, TTL, EXP, LIVE, DEL_TS, DEL_AT, UNTIL))
_RESERVED_PREFIXES: Final = ("_ts.", "_ttl.", "_exp.", "_el.")


class CorruptSSTable(Corrupt):
    """A file does not hold what was written to it. Says which file and where."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"corrupt sstable {path}: {what}")
        self.path = path


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column of the table and the names under which a file keeps it."""

    column: Column
    name: str

    @property
    def is_multicell(self) -> bool:
        return self.column.type.is_multicell

    @property
    def ts(self) -> str:
        return f"_ts.{self.name}"

    @property
    def ttl(self) -> str:
        return f"_ttl.{self.name}"

    @property
    def exp(self) -> str:
        return f"_exp.{self.name}"

    @property
    def elements(self) -> str:
        return f"_el.{self.name}"


class Layout:
    """The columns of a table as a file stores them."""

    def __init__(self, table: Table) -> None:
        self.table = table
        hidden = (column for column in table.columns if column.hidden)
        names = _stored_names((*table.select_order, *hidden))
        self.partition_key = _stored(table.partition_key, names)
        self.clustering = _stored(table.clustering, names)
        self.statics = _stored(table.statics, names)
        self.regulars = _stored(table.regulars, names)

    @property
    def keys(self) -> tuple[StoredColumn, ...]:
        return (*self.partition_key, *self.clustering)

    @property
    def values(self) -> tuple[StoredColumn, ...]:
        return (*self.statics, *self.regulars)

    @cached_property
    def has_key_column(self) -> bool:
        return any(stored.column.type.name not in _EXACT for stored in self.partition_key)

    @cached_property
    def all_fields(self) -> tuple[pa.Field, ...]:
        """Every field that a file of this table may have, in file order."""
        fields = [pa.field(TOKEN, pa.int64(), False), pa.field(KIND, pa.int8(), False)]
        fields += [pa.field(stored.name, arrow_type(stored.column.type)) for stored in self.keys]
        if self.has_key_column:
            fields.append(pa.field(KEY, pa.binary(), False))
        if self.clustering:
            fields += [pa.field(CK, pa.binary()), pa.field(END, pa.binary())]
        fields += [pa.field(stored.name, arrow_type(stored.column.type.frozen())) for stored in self.values]
        fields += [pa.field(LIVE, pa.bool_(), False), pa.field(UNTIL, pa.int64(), False)]
        fields += [pa.field(TS, pa.int64()), pa.field(TTL, pa.int32()), pa.field(EXP, pa.int64())]
        fields += [pa.field(DEL_TS, pa.int64()), pa.field(DEL_AT, pa.int64())]
        for stored in self.values:
            if stored.is_multicell:
                fields.append(pa.field(stored.elements, pa.binary()))
            else:
                fields += [pa.field(stored.ts, pa.int64()), pa.field(stored.ttl, pa.int32())]
            fields.append(pa.field(stored.exp, pa.int64()))
        return tuple(fields)

    @cached_property
    def optional(self) -> frozenset[str]:
        """Fields left out of a file in which they would be null everywhere."""
        names = {END, TTL, EXP, DEL_TS, DEL_AT}
        for stored in self.values:
            names |= {stored.ts, stored.ttl, stored.exp}
        return frozenset(names)

    def schema(self, present: Iterable[str]) -> pa.Schema:
        """The schema of a file that has these optional fields."""
        wanted = frozenset(present)
        fields = [f for f in self.all_fields if f.name not in self.optional or f.name in wanted]
        return pa.schema(fields, metadata={METADATA_KEY: msgspec.json.encode(describe(self))})


def _stored(columns: Sequence[Column], names: dict[str, str]) -> tuple[StoredColumn, ...]:
    return tuple(StoredColumn(column, names[column.name]) for column in columns)


def _stored_names(columns: Sequence[Column]) -> dict[str, str]:
    """Users' own names, except where one could be mistaken for one of ours (readers may ignore case)."""
    plain = {column.name for column in columns if not _is_reserved(column.name)}
    names = {name: name for name in plain}
    for column in columns:
        if column.name in plain:
            continue
        name = "user" + column.name
        while name in plain or name in names.values():
            name += "_"
        names[column.name] = name
    return names


def _is_reserved(name: str) -> bool:
    folded = name.casefold()
    return folded in _RESERVED or folded.startswith(_RESERVED_PREFIXES)


class ColumnFacts(msgspec.Struct, frozen=True):
    """A column as the file's metadata tells of it."""

    name: str
    stored: str
    type: str
    kind: str
    position: int
    descending: bool = False


class FileDescription(msgspec.Struct, frozen=True):
    """The JSON document under `belvedere` in the Parquet key-value metadata."""

    format: int
    table_id: str
    keyspace: str
    table: str
    columns: tuple[ColumnFacts, ...]


def describe(layout: Layout) -> FileDescription:
    table = layout.table
    columns = tuple(
        ColumnFacts(
            c.column.name,
            c.name,
            c.column.type.name,
            c.column.kind.value,
            c.column.position,
            c.column.descending,
        )
        for c in (*layout.keys, *layout.values)
    )
    return FileDescription(FORMAT_VERSION, table.id.hex(), table.keyspace, table.name, columns)


def column_key(facts: ColumnFacts) -> tuple[ColumnKind, int]:
    """What stays the same when a column is renamed."""
    return ColumnKind(facts.kind), facts.position


#: Where a stored entry stands: (token, partition key, kind, clustering key). Files are sorted by it.
EntryPosition = tuple[int, bytes, int, bytes]


class GroupFacts(msgspec.Struct, frozen=True, array_like=True):
    """One row group: where its bytes are, and the position of its first entry."""

    rows: int
    offset: int
    length: int
    crc32c: int
    token: int
    last_token: int
    key: bytes
    kind: int
    ck: bytes

    @property
    def position(self) -> EntryPosition:
        return (self.token, self.key, self.kind, self.ck)


class SSTableFacts(msgspec.Struct, frozen=True):
    """What must be known of a file without opening it. Kept in the manifest and beside the file as JSON."""

    format: int
    rows: int
    partitions: int
    #: Entries of kinds 0, 1 and 2: without any, a point read needs no look at the partition's start.
    heads: int
    #: Entries that are, or have, tombstones, or expire: by `max_second` all of these are over.
    tombstones: int
    min_token: int
    max_token: int
    #: Bounds of all write times; never narrower than the truth.
    min_timestamp: int
    max_timestamp: int
    #: Bounds of the seconds at which something expires or was deleted; both 0 if nothing does or was.
    min_second: int
    max_second: int
    first_version: int
    last_version: int
    size: int
    crc32c: int
    #: Everything from here to the end: bloom filters and Parquet footer.
    tail_offset: int
    tail_crc32c: int
    groups: tuple[GroupFacts, ...]


class BuiltSSTable(msgspec.Struct, frozen=True):
    data: bytes
    facts: SSTableFacts


def encode_facts(facts: SSTableFacts) -> bytes:
    """The sidecar file's content."""
    return msgspec.json.encode(facts)


def decode_facts(data: bytes) -> SSTableFacts:
    return msgspec.json.decode(data, type=SSTableFacts)
