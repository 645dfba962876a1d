"""A simulated cluster that replicates tablets of a trivial key-value store, and what must hold of it."""
