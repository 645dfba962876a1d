"""Statements about the schema: begin at `plans`; `change` commits what the others decide."""
