"""Whole nodes of a cluster, with clients that speak CQL, under every fault that the protocol promises to bear."""
