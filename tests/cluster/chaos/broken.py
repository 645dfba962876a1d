"""A server without one of its safeguards: `python -m tests.cluster.chaos.broken BUG start …`.

Bugs are those of tests/cluster/replication_bugs.py. They show that what is said of whole processes would be
noticed, too, if it were not so.
"""

import sys

from belvedere.cli.main import main
from tests.cluster import replication_bugs


def command(bug: str) -> list[str]:
    """In place of `belvedere`."""
    return [sys.executable, "-m", "tests.cluster.chaos.broken", bug]


if __name__ == "__main__":
    with getattr(replication_bugs, sys.argv[1])():
        sys.exit(main(sys.argv[2:]))
