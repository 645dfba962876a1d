"""What a table is: types, values, keys, tokens, schema, rows, mutations. Pure."""
