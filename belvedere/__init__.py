"""Belvedere: a table store whose materialized views never drift."""

__version__ = "0.1.0"
