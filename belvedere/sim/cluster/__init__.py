"""Whole nodes of a cluster, and clients that speak CQL, under every fault that the protocol can bear."""
