"""Nodes together: messages, who belongs and lives, barriers, offices; tablets replicated and failing over."""
