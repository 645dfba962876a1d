"""Images and ordinary merging against a model that works out every row from all writes, at any time."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from belvedere.model.rows import Row
from belvedere.views import images
from belvedere.views.images import ImageMaker
from tests.views.image_world import VIEWS, M, Model, Op, Product, V, W, X

small = st.integers(0, 2)
ttls = st.sampled_from([(0, 0)] * 3 + [(5, 10), (5, 11), (5, 12), (7, 13)])
stamps = st.builds(lambda timestamp, ttl: (timestamp, *ttl), st.integers(1, 6), ttls)
numbers = st.one_of(st.integers(0, 3), st.none())
maps = st.tuples(st.sampled_from(["replace", "put"]), st.dictionaries(st.integers(0, 2), numbers, max_size=2))


@st.composite
def _values(draw: st.DrawFn, least: int) -> tuple[tuple[int, Any], ...]:
    chosen = draw(st.lists(st.sampled_from([V, V, W, X, M]), min_size=least, max_size=4, unique=True))
    return tuple((ordinal, draw(maps if ordinal == M else numbers)) for ordinal in sorted(chosen))


inserts = st.builds(Op, st.just("insert"), small, small, stamps, _values(0))
updates = st.builds(Op, st.just("update"), small, small, stamps, _values(1))
deletions = st.builds(
    Op,
    st.sampled_from(["delete_row", "delete_range", "delete_partition"]),
    small,
    small,
    st.tuples(st.integers(1, 6), st.just(0), st.just(0)),
    st.just(()),
    st.integers(0, 9),
)
builds = st.just(Op("build"))
histories = st.lists(st.one_of(inserts, inserts, updates, updates, deletions, builds), max_size=14)

#: Before anything expires, at each expiry, and long after.
MOMENTS = (0, 9, 10, 11, 12, 13, 1000)


def wrong(history: Sequence[Op], seed: int) -> str | None:
    """What the views show that they should not, or the other way round."""
    product, model = Product(), Model()
    for op in history:
        product.apply(op)
        model.apply(op)
    tables = product.delivered(seed)
    for view in VIEWS:
        for now in MOMENTS:
            found, expected = product.shown(view, tables[view.id], now), model.view(view, now)
            if found != expected:
                return f"{view.name} at {now}: shows {found}, should show {expected}"
    return None


@settings(max_examples=400, deadline=None)
@given(histories, st.integers(0, 2**32))
def test_views_show_their_base(history: list[Op], seed: int) -> None:
    assert wrong(history, seed) is None


# --- planted bugs ------------------------------------------------------------------------------------


def _old_place_stays() -> Any:
    original = ImageMaker.place

    def updates(self: ImageMaker, token: int, key: bytes, change: Any, version: int) -> Any:
        image = self.image(token, key, change.clustering, change.after, version)
        return [] if image is None else [self.arrival(image)]

    assert original
    return patch.object(ImageMaker, "updates", updates)


def _version_ignored() -> Any:
    original = ImageMaker._image_row

    def image_row(self: ImageMaker, row: Row, version: int) -> Row:
        return original(self, row, 100_000_000)

    return patch.object(ImageMaker, "_image_row", image_row)


def _expiry_not_capped() -> Any:
    return patch.object(ImageMaker, "_until", lambda self, row: images.NEVER)


def _cells_outlive_their_row() -> Any:
    return patch.object(images, "_capped", lambda cell, stamp, until: (cell[0], stamp, *cell[2:]))


def _build_too_new() -> Any:
    original = Product._build

    def build(self: Product) -> None:
        self.version += 5
        original(self)
        self.version -= 5

    return patch.object(Product, "_build", build)


def _nothing_older_is_covered() -> Any:
    original = ImageMaker._image_row

    def image_row(self: ImageMaker, row: Row, version: int) -> Row:
        found = original(self, row, version)
        return Row(found.timestamp, found.ttl, found.expiry, found.live, None, found.cells)

    return patch.object(ImageMaker, "_image_row", image_row)


BUGS = [
    _old_place_stays,
    _version_ignored,
    _expiry_not_capped,
    _cells_outlive_their_row,
    _build_too_new,
    _nothing_older_is_covered,
]


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_finds_a_planted_bug(plant: Any) -> None:
    with plant():
        try:
            find(
                st.tuples(histories, st.integers(0, 2**32)),
                lambda example: wrong(*example) is not None,
                settings=settings(max_examples=3000, deadline=None, phases=[Phase.generate], database=None),
            )
        except NoSuchExample:
            pytest.fail("not found")
