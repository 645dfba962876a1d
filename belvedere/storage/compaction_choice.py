"""Which files to merge: size-tiered, and files that are mostly tombstones whose time is over.

Outputs of one compaction may be split into several files that do not overlap; together they are one run
and count as one file here, or they would be merged with each other for ever.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from belvedere.storage.sstable_format import SSTableFacts

#: So many runs of similar size are merged.
_FEWEST: Final = 4
#: At most so many at once.
_MOST: Final = 16
#: Runs are similar while their sizes are between these multiples of the average of their tier.
_LOWEST, _HIGHEST = 0.5, 1.5
#: All smaller runs are one tier.
_SMALL: Final = 1 << 20


@dataclass(slots=True)
class _Run:
    files: list[int]
    size: int
    rows: int
    tombstones: int
    min_timestamp: int
    max_timestamp: int
    max_second: int


def choose(
    facts: Sequence[SSTableFacts],
    runs_of: Sequence[int] = (),
    *,
    gc_before: int = 0,
    oldest_elsewhere: int = 2**63 - 1,
) -> list[int] | None:
    """Indices of the files to merge, or None. `runs_of` says for each file which outputs of one compaction
    it belongs to; where it says 0, versions tell.

    With `gc_before` (tombstones written before that second may go) also files that are mostly such
    tombstones are chosen, together with all files that hold anything as old, overlapping or not: what is
    older than everything outside is purged for certain, so the same files are not chosen again and again.
    For the same reason they are left alone while memtables, or files that are not to choose from, hold
    something as old.
    """
    runs = _runs(facts, runs_of or [0] * len(facts))
    tier = _fullest_tier(runs)
    if tier is not None:
        return sorted(file for run in tier for file in run.files)
    for run in runs:
        if run.tombstones * 2 > run.rows and run.max_second < gc_before:
            if run.max_timestamp < oldest_elsewhere:
                chosen = [one for one in runs if one is run or one.min_timestamp <= run.max_timestamp]
                return sorted(file for one in chosen for file in one.files)
    return None


def _runs(facts: Sequence[SSTableFacts], runs_of: Sequence[int]) -> list[_Run]:
    """Files that came from one compaction count as one."""
    order = sorted(
        range(len(facts)),
        key=lambda i: (runs_of[i], facts[i].first_version, facts[i].last_version, facts[i].min_token),
    )
    runs: list[_Run] = []
    previous = -1
    for index in order:
        file = facts[index]
        if previous >= 0 and _continues(facts[previous], runs_of[previous], file, runs_of[index]):
            run = runs[-1]
            run.files.append(index)
            run.size += file.size
            run.rows += file.rows
            run.tombstones += file.tombstones
            run.min_timestamp = min(run.min_timestamp, file.min_timestamp)
            run.max_timestamp = max(run.max_timestamp, file.max_timestamp)
            run.max_second = max(run.max_second, file.max_second)
        else:
            runs.append(_run_of(index, file))
        previous = index
    return runs


def _run_of(index: int, file: SSTableFacts) -> _Run:
    return _Run(
        [index],
        file.size,
        file.rows,
        file.tombstones,
        file.min_timestamp,
        file.max_timestamp,
        file.max_second,
    )


def _continues(previous: SSTableFacts, previous_run: int, file: SSTableFacts, run: int) -> bool:
    if run or previous_run:
        return run == previous_run
    # Written when files did not say it: equal commit versions, and token ranges that are disjoint.
    same = (previous.first_version, previous.last_version) == (file.first_version, file.last_version)
    # One partition may end in one file and go on in the next.
    return same and previous.last_version > 0 and previous.max_token <= file.min_token


def _fullest_tier(runs: Sequence[_Run]) -> list[_Run] | None:
    tiers: list[list[_Run]] = []
    for run in sorted(runs, key=lambda one: one.size):
        for tier in tiers:
            average = sum(one.size for one in tier) / len(tier)
            if run.size < _SMALL or _LOWEST * average <= run.size <= _HIGHEST * average:
                tier.append(run)
                break
        else:
            tiers.append([run])
    full = [tier for tier in tiers if len(tier) >= _FEWEST]
    return max(full, key=len)[:_MOST] if full else None
