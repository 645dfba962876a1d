"""Values written in statements: checked while planning, evaluated at execution; begin at `values`."""
