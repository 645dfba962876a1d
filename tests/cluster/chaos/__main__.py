"""Hunt: whole runs on three server processes, each with its own seed, until the time is over.

python -m tests.cluster.chaos --seed 7 --minutes 30
python -m tests.cluster.chaos --judge FOLDER     what a run left behind, judged again
"""

import argparse
import collections
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.cluster.chaos import broken
from tests.cluster.chaos.judging import Verdict, judged
from tests.cluster.chaos.nemesis import drawn
from tests.cluster.chaos.nodes import Nodes
from tests.cluster.chaos.recording import Record
from tests.cluster.chaos.run import Load, described, whole_run
from tests.drivers.server_process import BELVEDERE
from tests.meta.etcd_server import EtcdServer, etcd_program


def hunt_once(seed: int, seconds: float, arguments: argparse.Namespace, folder: Path) -> Verdict:
    etcd = EtcdServer() if arguments.metadata == "etcd" else None
    try:
        if etcd is not None:
            etcd.wait_until_healthy()
        metadata = f"sqlite:{folder}/meta.sqlite" if etcd is None else f"etcd:{etcd.endpoint}"
        folder.mkdir(parents=True)
        with Nodes(
            folder,
            metadata,
            count=arguments.nodes,
            lease_seconds=arguments.lease_seconds,
            options=("--memtable-mb", "1"),
            program=broken.command(arguments.bug) if arguments.bug else BELVEDERE,
        ) as nodes:
            lease = arguments.lease_seconds
            faults = drawn(seed, seconds, arguments.nodes, lease, with_store=etcd is not None)
            load = Load(seed, arguments.threads, arguments.faithful)
            (folder / "run.json").write_text(described(load, faults, nodes))
            record = whole_run(
                nodes,
                load,
                faults,
                folder / "clients",
                lambda text: print(f"  {text}", flush=True),
                store=etcd,
                each_alone=arguments.nodes == 3,
            )
    finally:
        if etcd is not None:
            etcd.close()
    record.save(folder)
    return told(record, folder)


def told(record: Record, folder: Path) -> Verdict:
    verdict = judged(record)
    errors = collections.Counter(trouble.error for trouble in record.troubles)
    print("  " + ", ".join(f"{count} {error}" for error, count in errors.most_common()))
    print(
        f"  {verdict.acknowledged} operations answered, {verdict.unknown} unknown, "
        f"{verdict.undecided} registers undecided, {len(verdict.findings)} findings"
    )
    for finding in verdict.findings:
        print(f"\n{finding}")
    if verdict.findings:
        (folder / "findings.txt").write_text("\n\n".join(verdict.findings) + "\n")
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to hunt (default: %(default)s)")
    parser.add_argument("--run-seconds", type=float, default=40.0, help="of faults, in one run")
    parser.add_argument(
        "--metadata", choices=("sqlite", "etcd"), default="etcd" if etcd_program() else "sqlite"
    )
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--lease-seconds", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=4, help="clients of any node")
    parser.add_argument("--faithful", type=int, default=2, help="clients of one node only, for each")
    parser.add_argument("--bug", help="a safeguard to do without, by its name in replication_bugs.py")
    parser.add_argument(
        "--folder", type=Path, help="where runs that failed are kept (default: a temporary folder)"
    )
    parser.add_argument("--judge", type=Path, metavar="FOLDER", help="judge the record of a run that is over")
    arguments = parser.parse_args()
    if arguments.judge is not None:
        return bool(told(Record.load(arguments.judge), arguments.judge).findings)
    home = arguments.folder or Path(tempfile.mkdtemp(prefix="belvedere-chaos-"))
    until = time.monotonic() + arguments.minutes * 60
    seed, failed = arguments.seed, 0
    while seed == arguments.seed or time.monotonic() < until:
        folder = home / f"seed-{seed}"
        print(f"seed {seed}", flush=True)
        seconds = min(arguments.run_seconds, arguments.minutes * 60)
        if hunt_once(seed, seconds, arguments, folder).findings:
            failed += 1
            print(f"\nseed {seed} failed; all of it is in {folder}\n", flush=True)
        else:
            shutil.rmtree(folder)
        seed += 1
    print(f"{seed - arguments.seed} runs, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
