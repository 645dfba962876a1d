"""CQL text to statements: lexer, parser, syntax tree, and the way back from tree to text."""
