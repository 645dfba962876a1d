"""Names in CQL text: when an identifier needs quotes, and how types are split into their parts."""

import re

# The words that Cassandra's grammar does not accept as a bare identifier.
RESERVED_WORDS = frozenset(
    """add allow alter and apply asc authorize batch begin by columnfamily create default delete desc describe
    drop entries execute false from full grant if in index infinity insert into is keyspace limit materialized
    mbean mbeans modify nan norecursive not null of on or order password primary rename replace revoke schema
    select set table to token true truncate unlogged unset update use using view where with""".split()
)

_BARE_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


def quote_name(name: str) -> str:
    """An identifier as CQL text: bare when that reads back as the same name, else in double quotes."""
    if _BARE_NAME.match(name) and name not in RESERVED_WORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """A CQL string literal."""
    return "'" + text.replace("'", "''") + "'"
