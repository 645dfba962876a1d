"""Nodes together: messages between them, who belongs and lives, barriers, offices."""
