"""Which files are merged, and that choosing comes to an end."""

import random

from hypothesis import given
from hypothesis import strategies as st

from belvedere.storage.compaction import choose
from belvedere.storage.sstable_format import SSTableFacts

MIB = 1 << 20


def file(
    size: int,
    version: int,
    *,
    tokens: tuple[int, int] = (-100, 100),
    rows: int = 100,
    tombstones: int = 0,
    times: tuple[int, int] = (0, 10),
    second: int = 0,
    versions: tuple[int, int] | None = None,
) -> SSTableFacts:
    first, last = versions or (version, version)
    return SSTableFacts(
        1, rows, rows, 0, tombstones, *tokens, *times, second, second, first, last, size, 0, 0, 0, ()
    )


def test_four_of_a_size() -> None:
    files = [file(10 * MIB, 1), file(11 * MIB, 2), file(9 * MIB, 3)]
    assert choose(files) is None
    assert choose([*files, file(10 * MIB, 4)]) == [0, 1, 2, 3]
    assert choose([*files, file(100 * MIB, 4)]) is None
    assert choose([file(100 * MIB, 9), *files, file(10 * MIB, 4)]) == [1, 2, 3, 4]


def test_small_files_are_all_of_a_size() -> None:
    assert choose([file(1000, 1), file(90_000, 2), file(10, 3), file(500_000, 4)]) == [0, 1, 2, 3]


def test_outputs_of_one_compaction_are_one_run() -> None:
    run = [file(64 * MIB, 0, tokens=(n * 10, n * 10 + 9), versions=(1, 8)) for n in range(5)]
    assert choose(run) is None
    others = [file(320 * MIB, 0, versions=(n, n)) for n in (11, 12, 13)]
    assert choose([*run, *others]) == list(range(8))


def test_tombstones_whose_time_is_over() -> None:
    dead = file(10 * MIB, 1, tombstones=60, second=500, times=(5, 9))
    older = file(100 * MIB, 2, times=(0, 3))
    newer = file(300 * MIB, 3, times=(50, 60))
    elsewhere = file(900 * MIB, 4, tokens=(101, 200), times=(0, 3))
    files = [dead, older, newer, elsewhere]
    assert choose(files) is None
    assert choose(files, gc_before=500) is None
    assert choose(files, gc_before=501) == [0, 1, 3]
    assert choose([dead, newer], gc_before=501) == [0]
    assert choose(files, gc_before=501, oldest_elsewhere=9) is None


@given(st.integers(0, 2**32))
def test_it_comes_to_an_end(seed: int) -> None:
    """Merging what is chosen, whatever the merge leaves, ends with few runs of similar size."""
    rnd = random.Random(seed)
    files = [file(int(rnd.paretovariate(0.5) * 10_000), n + 1) for n in range(rnd.randrange(40))]
    for _ in range(1000):
        chosen = choose(files)
        if chosen is None:
            break
        assert len(chosen) >= 4
        assert chosen == sorted(set(chosen))
        inputs = [files[index] for index in chosen]
        total = int(sum(f.size for f in inputs) * rnd.uniform(0.3, 1))
        span = (min(f.first_version for f in inputs), max(f.last_version for f in inputs))
        pieces = rnd.choice([1, 1, 3])
        outputs = [
            file(total // pieces, 0, versions=span, tokens=(n * 10, n * 10 + 9)) for n in range(pieces)
        ]
        files = [f for index, f in enumerate(files) if index not in chosen] + outputs
    else:
        raise AssertionError("compaction never ends")
