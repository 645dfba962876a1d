"""Nodes together: messages between them, who belongs and lives, how tablets are replicated and fail over."""
