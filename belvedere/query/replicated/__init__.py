"""Statements on tablets that are replicated: what is asked of their primaries, and what these do about it."""
