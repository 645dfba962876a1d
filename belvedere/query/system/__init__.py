"""The tables that tell of the node and its schema: begin at `tables`."""
