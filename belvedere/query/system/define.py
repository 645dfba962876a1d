"""Definitions of system tables, written as name and type pairs."""

import hashlib
import ipaddress
from types import MappingProxyType

from belvedere.model.schema import Column, ColumnKind, Keyspace
from belvedere.model.types import parse_type
from belvedere.query.system.virtual import Source, VirtualTable

LOCAL_REPLICATION = MappingProxyType({"class": "org.apache.cassandra.locator.LocalStrategy"})


def define(
    full_name: str, key: str, clustering: str, others: str, source: Source, comment: str = ""
) -> VirtualTable:
    """A virtual table. Columns are given as `name type; name type`, in the order of their positions."""
    keyspace, _, name = full_name.partition(".")
    columns = [
        *_columns(key, ColumnKind.PARTITION_KEY),
        *_columns(clustering, ColumnKind.CLUSTERING),
        *_columns(others, ColumnKind.REGULAR),
    ]
    regulars = sum(column.kind is ColumnKind.REGULAR for column in columns)
    return VirtualTable(
        stable_uuid(f"table {full_name}"),
        keyspace,
        name,
        tuple(columns),
        MappingProxyType({"comment": comment}),
        regulars,
        0,
        source=source,
    )


def _columns(text: str, kind: ColumnKind) -> list[Column]:
    pairs = [part.strip().split(" ", 1) for part in text.split(";") if part.strip()]
    return [
        Column(name, parse_type(type_text, {}), kind, position)
        for position, (name, type_text) in enumerate(pairs)
    ]


def system_keyspace(name: str, tables: list[VirtualTable]) -> Keyspace:
    by_name = {table.name: table for table in sorted(tables, key=lambda table: table.name)}
    return Keyspace(name, LOCAL_REPLICATION, True, MappingProxyType({}), MappingProxyType(by_name))


def stable_uuid(text: str) -> bytes:
    """The same UUID for the same text, on every node and in every run."""
    return as_uuid(hashlib.md5(text.encode(), usedforsecurity=False).digest())


def as_uuid(digest: bytes) -> bytes:
    """Sixteen bytes with the marks of a UUID that was made from a name."""
    raw = bytearray(digest)
    raw[6] = raw[6] & 0x0F | 0x30
    raw[8] = raw[8] & 0x3F | 0x80
    return bytes(raw)


def as_address(host: str) -> str:
    """An address for an inet column; a host's name cannot be given there and becomes the loopback address."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return "127.0.0.1"
