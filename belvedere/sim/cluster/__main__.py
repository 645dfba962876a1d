"""Run many seeds of the cluster scenario; say what broke, and how fast it went.

python -m belvedere.sim.cluster --seeds 1000 --first 0
"""

import argparse
import collections
import sys
import time
import traceback

from belvedere.sim.cluster.plan import draw
from belvedere.sim.cluster.run import failure_of


def describe(seed: int, failure: BaseException) -> str:
    lines = [f"seed {seed}: {type(failure).__name__}: {failure}"]
    lines.append(f"  {draw(seed).describe()}")
    lines.append(f"  again: python -m belvedere.sim.cluster --first {seed} --seeds 1 --trace")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="belvedere.sim.cluster", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds (default 100)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument(
        "--stop-after", type=int, default=1, help="failing seeds before giving up (default 1)"
    )
    parser.add_argument("--trace", action="store_true", help="print traceback and log of a failure")
    parser.add_argument("--marks", action="store_true", help="print which states were reached how often")
    options = parser.parse_args(arguments)
    began, cpu = time.perf_counter(), time.process_time()
    failed, marks, seconds = 0, collections.Counter[str](), 0.0
    for seed in range(options.first, options.first + options.seeds):
        failure, world = failure_of(seed, keep_trace=options.trace)
        marks.update(world.marks)
        seconds += world.loop.time()
        if failure is None:
            continue
        failed += 1
        print(describe(seed, failure), flush=True)
        if options.trace:
            traceback.print_exception(failure)
            print("\n".join(world.log_lines[-60:]))
        if failed >= options.stop_after:
            break
    done = seed - options.first + 1
    used = time.process_time() - cpu
    print(
        f"{done} seed(s), {failed} failed; {60 * done / used:.0f} seeds a minute of CPU, "
        f"{1000 * used / done:.1f} ms a seed, {seconds / used:.0f} simulated seconds a second, "
        f"{time.perf_counter() - began:.1f} s"
    )
    if options.marks:
        for name, count in sorted(marks.items()):
            print(f"{count:8} {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
