"""Statements executed. Begin at `database`, then `statements`, which sends each to the package of its kind.

    select     SELECT
    modify     INSERT, UPDATE, DELETE, BATCH
    schema     DDL, USE, TRUNCATE, DESCRIBE
    where      which rows a WHERE clause names
    terms      values in statements
    functions  native functions and aggregates
    system     the tables that tell of the node

`access` is what statements need of storage, `local_access` how one node gives it.
"""
