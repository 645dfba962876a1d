"""A node put together: the CQL protocol server, the embedded face, wiring and shutdown order."""
