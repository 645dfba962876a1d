"""Native functions and aggregates: begin at `registry`."""
