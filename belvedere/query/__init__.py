"""Statements executed. Begin at `database`, then `statements`, which sends each to the package of its kind.

    select    SELECT                        where      which rows a WHERE clause names
    modify    INSERT, UPDATE, DELETE, BATCH  terms      values in statements
    schema    DDL, USE, TRUNCATE, DESCRIBE   functions  native functions and aggregates
    system    the tables that tell of the node

`access` is what statements need of storage, `local_access` how one node gives it.
"""
