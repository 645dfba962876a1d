"""A simulated world: product code run under virtual time, seeded scheduling and injected faults."""
