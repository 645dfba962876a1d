"""WHERE clauses: which partitions, ranges and rows they name, and what is left to filter."""
