"""A process that stands for an office again and again, and writes down each moment at which it may act.

    python candidate.py (sqlite PATH | etcd ENDPOINT) NAME DIARY

A line of the diary is "moment term name", the moment by the machine's clock, read before asking whether the
office is held: whoever holds it afterwards held it then.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from belvedere.meta.election import Tenure, campaign
from belvedere.meta.etcd import EtcdStore
from belvedere.meta.leases import Lease
from belvedere.meta.metadata import Metadata
from belvedere.meta.sqlite import SqliteStore
from belvedere.meta.store import LeaseGone, StoreUnavailable
from belvedere.runtime.api import Runtime
from belvedere.runtime.etcd_client import EtcdClient
from belvedere.runtime.machine_clock import machine_seconds
from belvedere.runtime.real import run

LEASE_SECONDS = 1.5


async def act(runtime: Runtime, tenure: Tenure, lease: Lease, name: str, diary: Path) -> None:
    with diary.open("a", buffering=1) as lines:
        while True:
            now = machine_seconds()
            if tenure.holds:
                lines.write(f"{now} {tenure.term} {name}\n")
            elif lease._lost.done():
                return
            await runtime.clock.sleep(0.005)


async def main(runtime: Runtime) -> None:
    kind, where, name, diary = sys.argv[1:]
    store = SqliteStore(where) if kind == "sqlite" else EtcdStore(runtime, EtcdClient([where]), "candidates")
    await store.open()
    metadata = Metadata(runtime, store)
    await metadata.start()
    while True:
        try:
            lease = await Lease.take(runtime, store, LEASE_SECONDS)
            tenure = await campaign(runtime, metadata, "building", name, lease)
            await act(runtime, tenure, lease, name, Path(diary))
        except (LeaseGone, StoreUnavailable):
            await runtime.clock.sleep(0.1)


if __name__ == "__main__":
    run(main, log_level="error")
