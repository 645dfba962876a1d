"""Statements executed: plan, read path, write path, conditions, paging, functions."""
