"""Within how many seeds the scenario of replication misses each safeguard: `python -m …search_safeguards`.

What it prints is what `replication_bugs` states, rounded up.
"""

import argparse

from belvedere.sim.replication.run import failure_of
from tests.cluster.replication_bugs import ALL, Bug


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--most", type=int, default=400, help="seeds for each")
    parser.add_argument("--only", default="", help="names that hold this")
    arguments = parser.parse_args()
    for bug in ALL:
        if arguments.only in bug.name:
            found = found_after(bug, arguments.most)
            told = f"not in {arguments.most} seeds" if found is None else f"after {found} seeds"
            print(f"{bug.name}: {told}", flush=True)


def found_after(bug: Bug, most: int) -> int | None:
    with bug.plant():
        for seed in range(most):
            if failure_of(seed)[0] is not None:
                return seed + 1
    return None


if __name__ == "__main__":
    main()
