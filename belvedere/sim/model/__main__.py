"""Run many seeds; print the smallest failing script of each that fails, and how to run it again.

python -m belvedere.sim.model --seeds 1000 --first 0
"""

import argparse
import sys
import traceback

from belvedere.sim.model.plans import make_plan
from belvedere.sim.model.run import Failure, carry_out
from belvedere.sim.model.shrink import shrunk


def describe(failure: Failure) -> str:
    seed = failure.plan.seed
    lines = [f"seed {seed}: {failure.reason}", "", "script:"]
    lines += [f"  {line}" for line in failure.transcript]
    lines += ["", "log:"] + [f"  {line}" for line in failure.log]
    lines += ["", f"again: python -m belvedere.sim.model --first {seed} --seeds 1"]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="belvedere.sim.model", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds (default 100)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument(
        "--stop-after", type=int, default=1, help="failing seeds before giving up (default 1)"
    )
    parser.add_argument("--no-shrink", action="store_true", help="print the script as it was drawn")
    options = parser.parse_args(arguments)
    failed = 0
    for seed in range(options.first, options.first + options.seeds):
        failure = carry_out(make_plan(seed))
        if failure is None:
            continue
        failed += 1
        print(describe(failure if options.no_shrink else shrunk(failure)), flush=True)
        if failed >= options.stop_after:
            break
    done = seed - options.first + 1
    print(f"{done} seed(s), {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        traceback.print_exc(limit=1)
        sys.exit(130)
