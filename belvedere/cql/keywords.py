"""CQL's words: which are reserved, which name native types."""

RESERVED = frozenset(
    """
    ADD ALLOW ALTER AND APPLY ASC AUTHORIZE BATCH BEGIN BY COLUMNFAMILY CREATE DELETE DESC DESCRIBE DROP
    ENTRIES EXECUTE FROM FULL GRANT IF IN INDEX INFINITY INSERT INTO IS KEYSPACE LIMIT MATERIALIZED MODIFY
    NAN NORECURSIVE NOT NULL OF ON OR ORDER PRIMARY RENAME REVOKE SCHEMA SELECT SET TABLE TO TOKEN TRUNCATE
    UNLOGGED UPDATE USE USING VIEW WHERE WITH
    """.split()
)

NOT_IDENTIFIERS = RESERVED | {"TRUE", "FALSE"}
"""Words that must be quoted to be a name: the reserved ones, and the boolean literals, which the lexer of
Cassandra recognises before it thinks of names."""

NATIVE_TYPES = frozenset(
    """
    ascii bigint blob boolean counter date decimal double duration float inet int smallint text time
    timestamp timeuuid tinyint uuid varchar varint
    """.split()
)

PARAMETRIC_TYPES = frozenset({"list", "set", "map", "tuple", "frozen", "vector"})
