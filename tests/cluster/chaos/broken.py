"""A server without one of its safeguards: `python -m tests.cluster.chaos.broken BUG start …`.

Bugs are those of tests/cluster/replication_bugs.py, and those here. They show that what is said of whole
processes would be noticed, too, if it were not so.
"""

import sys
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from belvedere.cli.main import main
from belvedere.meta import leases
from tests.cluster import replication_bugs


def lease_held_for_ever() -> AbstractContextManager[Any]:
    """By its holder's word, until the store says otherwise."""
    return patch.object(leases, "_MARGIN", -1000.0)


def command(bug: str) -> list[str]:
    """In place of `belvedere`."""
    return [sys.executable, "-m", "tests.cluster.chaos.broken", bug]


if __name__ == "__main__":
    with (globals().get(sys.argv[1]) or getattr(replication_bugs, sys.argv[1]))():
        sys.exit(main(sys.argv[2:]))
