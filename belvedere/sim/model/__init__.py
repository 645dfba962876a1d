"""Random CQL against a node in a simulated world, compared with a dumb model of what CQL means."""
