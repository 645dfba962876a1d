"""Materialized views: what a view row is, how views are kept, built and proved."""
