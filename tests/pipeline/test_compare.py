"""Comparing finds exactly what was damaged, and nothing where nothing was."""

import random
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.model.rows import Complex, Row, visible
from belvedere.model.schema import WRITE_TIMES, Table
from belvedere.pipeline import inputs
from belvedere.pipeline.build import build
from belvedere.pipeline.compare import compare
from belvedere.pipeline.tasks import BuildTask, CompareReport, CompareTask, InputFile, OutputFile, Suspect
from belvedere.storage import sstable_write
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.tablet_changes import RowChange
from belvedere.views.verify import _told
from tests.pipeline.kernel_world import MIXES, VERSION, Position, World, random_world
from tests.storage.sstable_samples import START, random_partitions

SEEDS = st.integers(0, 2**32)
SECOND = START // 10**6

Rows = dict[Position, Row]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sstable_write, "GROUP_ROWS", 8)
    monkeypatch.setattr(inputs, "WINDOW_ROWS", 40)


def stored(rows: Rows, tablet: range) -> list[StoredPartition]:
    found: dict[tuple[int, bytes], StoredPartition] = {}
    for (token, key, ck), row in sorted(rows.items(), key=lambda item: item[0]):
        if token in tablet:
            found.setdefault((token, key), StoredPartition(token, key)).rows.append((ck, row))
    return list(found.values())


def updates(world: World, view: Table, was: Rows, now: Rows, version: int) -> Rows:
    maker, found = world.maker(view), {}
    for position in {**was, **now}:
        token, key, ck = position
        change = RowChange(ck, was.get(position), now.get(position))
        for update in maker.updates(token, key, change, version):
            ((clustering, row),) = update.mutation.rows
            found[update.mutation.token, update.mutation.key, clustering] = row
    return found


def images_of(world: World, view: Table, rows: Rows, version: int) -> Rows:
    made = (world.maker(view).image(*position, row, version) for position, row in rows.items())
    return {(i.token, i.key, i.clustering): i.row for i in made if i is not None}


def damaged(rnd: random.Random, view: Table, row: Row) -> Row:
    """The image with something else in it."""
    hidden = view.by_name[WRITE_TIMES].position
    choices = [o for o, cell in enumerate(row.cells) if cell is not None and o != hidden]
    cells = list(row.cells)
    match rnd.randrange(3):
        case 0 if choices:
            ordinal = rnd.choice(choices)
            cells[ordinal] = None
        case 1 if not row.ttl:
            return Row(row.timestamp, 1, SECOND + 5000, row.live, row.deletion, cells)
        case _:
            cells[hidden] = msgspec.msgpack.encode(START + 77_777)
    return Row(row.timestamp, row.ttl, row.expiry, row.live, row.deletion, cells)


def differ(view: Table, wanted: Row | None, there: Row | None, now: int) -> bool:
    seen = [None if row is None else visible(row, now) for row in (wanted, there)]
    if seen[0] is None or seen[1] is None:
        return seen[0] is not seen[1]
    return _told(seen[0], view.by_name[WRITE_TIMES].position) != _told(
        seen[1], view.by_name[WRITE_TIMES].position
    )


def compared(
    world: World, view: Table, outputs: Iterable[OutputFile], files: list[Rows], now: int, most: int = 10**6
) -> tuple[set[Position], CompareReport]:
    """All tablets' suspects."""
    found: set[Position] = set()
    total = CompareReport(0, 0, [])
    for tablet in world.tablets(view).tablets:
        expected = [
            InputFile(o.path, o.facts.size, o.facts.crc32c)
            for o in outputs
            if (o.table, o.tablet) == (view.id.hex(), tablet.id)
        ]
        tokens = range(tablet.first_token, tablet.last_token + 1)
        actual = [
            world.files.add_source(f"actual{n}", view, stored(rows, tokens)) for n, rows in enumerate(files)
        ]
        task = CompareTask(world.schema, view.id.hex(), tablet.id, now, expected, actual, most)
        report = msgspec.json.decode(compare(task, world.files).report, type=CompareReport)
        assert [type(one) for one in report.suspects] == [Suspect] * len(report.suspects)
        found |= {(one.token, one.key, one.clustering) for one in report.suspects}
        total = CompareReport(
            total.expected_rows + report.expected_rows,
            total.actual_rows + report.actual_rows,
            [*total.suspects, *report.suspects],
            total.untold + report.untold,
        )
    return found, total


@settings(max_examples=40)
@given(SEEDS)
def test_suspects_are_what_was_damaged(seed: int) -> None:
    rnd = random.Random(seed)
    world = random_world(rnd, views=1)
    mix, keys = rnd.choice(MIXES), rnd.choice([6, 20])
    sources = [random_partitions(rnd, world.base, 9, rnd.choice([2, 9]), mix, keys) for _ in range(2)]
    given_files = [world.files.add_source(f"{n}", world.base, source) for n, source in enumerate(sources)]
    now = SECOND + rnd.choice([0, 500, 2000])
    for view in world.views:
        task = BuildTask(world.schema, world.base.id.hex(), [view.id.hex()], VERSION, given_files)
        outputs = build(task, world.files).outputs
        was, rows = world.rows(sources[:1]), world.rows(sources)
        # As a view comes to be: older images, removals and newer images in files of their own.
        old = images_of(world, view, was, 1000)
        new = updates(world, view, was, rows, VERSION + 5)
        assert compared(world, view, outputs, [old, new], now)[0] == set()
        right = images_of(world, view, rows, VERSION + 5)
        wrong = dict(right)
        for place in rnd.sample(sorted(right), min(len(right), rnd.randrange(5))):
            match rnd.randrange(3):
                case 0:
                    del wrong[place]
                case 1:
                    wrong[place] = damaged(rnd, view, right[place])
                case 2:
                    token, key, ck = place
                    if view.clustering:
                        other = (token, key, ck[:-1] + bytes([ck[-1] ^ 1]))
                    else:
                        other = place
                    if view.clustering and view.clustering[-1].type.name in ("int", "bigint", "smallint"):
                        wrong.setdefault(other, right[place])
        places = {**right, **wrong}
        must = {p for p in places if differ(view, right.get(p), wrong.get(p), now)}
        found, report = compared(world, view, outputs, [wrong], now)
        assert must <= found
        assert found <= {p for p in places if right.get(p) != wrong.get(p)}
        alive = [sum(visible(row, now) is not None for row in side.values()) for side in (right, wrong)]
        assert [report.expected_rows, report.actual_rows] == alive


def test_beyond_a_limit_suspects_are_counted() -> None:
    rnd = random.Random(1)
    world = random_world(rnd, ["int", "text"], views=1)
    (view,) = world.views
    source = random_partitions(rnd, world.base, 30, 3, MIXES[1])
    rows = world.rows([source])
    right = images_of(world, view, rows, VERSION)
    _, report = compared(world, view, [], [right], SECOND, most=2)
    assert len(report.suspects) <= 2 * 4
    assert len(report.suspects) + report.untold == report.actual_rows > 10


def test_collections_differ_by_what_is_in_them() -> None:
    rnd = random.Random(2)
    world = random_world(rnd, ["map<int, int>", "int"], views=1)
    world.book.run(
        "CREATE MATERIALIZED VIEW whole AS SELECT * FROM t WHERE "
        + " AND ".join(f"{c.name} IS NOT NULL" for c in (*world.base.partition_key, *world.base.clustering))
        + f" PRIMARY KEY ({', '.join(c.name for c in (*world.base.partition_key, *world.base.clustering))})"
    )
    view = world.book.table("whole")
    world.views = [view]
    source = random_partitions(rnd, world.base, 40, 3, MIXES[0])
    files = [world.files.add_source("0", world.base, source)]
    task = BuildTask(world.schema, world.base.id.hex(), [view.id.hex()], VERSION, files)
    outputs = build(task, world.files).outputs
    right = images_of(world, view, world.rows([source]), VERSION + 1)
    place, row = next((p, r) for p, r in right.items() if any(isinstance(c, Complex) for c in r.cells))
    assert compared(world, view, outputs, [right], 0)[0] == set()
    cells = [
        Complex(None, {path: (b"\0\0\0\7", *cell[1:]) for path, cell in c.items.items()})
        if isinstance(c, Complex)
        else c
        for c in row.cells
    ]
    wrong = {**right, place: Row(row.timestamp, row.ttl, row.expiry, row.live, row.deletion, cells)}
    assert compared(world, view, outputs, [wrong], 0)[0] == {place}
