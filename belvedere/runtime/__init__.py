"""The seam to the world: clock, network, disk, randomness. Real here, simulated in belvedere.sim."""
