"""The generated function for all views against the makers, one by one: the same updates to the byte."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.model.ordering import join_partition_key
from belvedere.model.rows import AnyCell, Complex, Row
from belvedere.model.schema import WRITE_TIMES, Column, ColumnKind, Keyspace, Table, ViewDefinition
from belvedere.model.token import token_of
from belvedere.model.types import parse_type
from belvedere.query.schema_view import KeyspacesView
from belvedere.storage.tablet_changes import RowChange
from belvedere.views.fast_images import compile_updates
from belvedere.views.images import ImageMaker

#: Columns of the base, and of its views by their names.
TYPES = {
    "k": "text",
    "k2": "bigint",
    "c": "int",
    "d": "text",
    "v": "text",
    "w": "bigint",
    "x": "int",
    "y": "blob",
}
REGULARS = ("v", "w", "x", "y")


def _table(name: str, key: str, inner: str, others: str, where: str = "") -> Table:
    """Names in `inner` are followed by - where they descend."""
    columns = [
        Column(part, parse_type(TYPES[part], {}), ColumnKind.PARTITION_KEY, index)
        for index, part in enumerate(key.split())
    ]
    for index, part in enumerate(inner.split()):
        column = part.rstrip("-")
        columns.append(
            Column(column, parse_type(TYPES[column], {}), ColumnKind.CLUSTERING, index, part != column)
        )
    shown = others.split()
    for index, part in enumerate(shown):
        columns.append(Column(part, parse_type(TYPES[part], {}), ColumnKind.REGULAR, index))
    view = None
    if where:
        hidden = Column(WRITE_TIMES, parse_type("blob", {}), ColumnKind.REGULAR, len(shown), hidden=True)
        columns.append(hidden)
        view = ViewDefinition("t", b"base".ljust(16, b"\0"), where)
    identity = name.encode().ljust(16, b"\0")
    return Table(identity, "ks", name, tuple(columns), regular_ordinals=len(shown) + bool(where), view=view)


PRESENT = "k IS NOT NULL AND k2 IS NOT NULL AND c IS NOT NULL AND d IS NOT NULL"
BASE = _table("base", "k k2", "c d-", "v w x y")
VIEWS = (
    _table("by_v", "v", "k k2 c d-", "w x y", f"{PRESENT} AND v IS NOT NULL"),
    _table("by_w", "w", "d k- k2- c-", "v", f"{PRESENT} AND w IS NOT NULL AND v IS NOT NULL"),
    _table("same", "k k2", "x- c d", "y v", f"{PRESENT} AND x >= 1"),
    _table("two", "v c", "k2 k d", "x", f"{PRESENT} AND v IS NOT NULL AND c > 0 AND k2 < 9"),
    _table("turned", "d", "c k k2", "", PRESENT),
)
SCHEMA = KeyspacesView({"ks": Keyspace("ks", {}, tables={table.name: table for table in (BASE, *VIEWS)})})
MAKERS = [ImageMaker(BASE, view, SCHEMA) for view in VIEWS]
FAST = compile_updates(MAKERS)

texts = st.sampled_from([b"", b"a", b"\0", b"a\0b", "äöü-longer than sixteen bytes".encode()])
ints = st.sampled_from([-1, 0, 1, 2]).map(lambda number: number.to_bytes(4, "big", signed=True))
longs = st.sampled_from([-1, 0, 9, 2**40 + 200]).map(lambda number: number.to_bytes(8, "big", signed=True))
times = st.integers(1, 3)
values = {"v": texts, "w": longs, "x": ints, "y": texts}


@st.composite
def cells(draw: st.DrawFn, name: str) -> AnyCell:
    kind = draw(st.sampled_from(["bare", "bare", "own time", "none"]))
    if kind == "none":
        return None
    value = draw(values[name])
    return value if kind == "bare" else (value, draw(times), 0, 0)


@st.composite
def plain_rows(draw: st.DrawFn) -> Row:
    """Some are from when the table had fewer columns."""
    found = [draw(cells(name)) for name in REGULARS][: draw(st.sampled_from([4, 4, 4, 2]))]
    exists = any(cell is not None for cell in found)
    return Row(draw(times), 0, 0, not exists or draw(st.booleans()), None, found)


@st.composite
def other_rows(draw: st.DrawFn) -> Row:
    row = draw(plain_rows())
    kind = draw(st.sampled_from(["row ends", "cell ends", "collection"]))
    if kind == "row ends":
        return Row(row.timestamp, 5, 10, row.live, None, row.cells)
    odd: AnyCell = (b"abcd", 2, 5, 10) if kind == "cell ends" else Complex(None, {b"abcd": (b"", 2, 0, 0)})
    return Row(row.timestamp, 0, 0, row.live, None, [*row.cells[:-1], odd])


@st.composite
def keys(draw: st.DrawFn) -> tuple[bytes, bytes]:
    clustering = BASE.clustering_order.encode([draw(ints), draw(texts)])
    return join_partition_key([draw(texts), draw(longs)]), clustering


def encoded(updates: object) -> bytes:
    return msgspec.msgpack.encode(updates)


@settings(max_examples=1500, deadline=None)
@given(
    keys(), st.none() | plain_rows(), st.none() | plain_rows(), st.sampled_from([7, 1_700_000_000_123_456])
)
def test_says_what_the_makers_say(
    place: tuple[bytes, bytes], before: Row | None, after: Row | None, version: int
) -> None:
    key, clustering = place
    token = token_of(key)
    change = RowChange(clustering, before, after)
    expected = [update for maker in MAKERS for update in maker.updates(token, key, change, version)]
    assert FAST is not None
    found = FAST(token, key, clustering, before, after, version)
    assert found == expected
    assert encoded(found) == encoded(expected)


@given(keys(), st.none() | plain_rows(), other_rows(), st.booleans())
def test_leaves_what_is_not_plain_to_the_makers(
    place: tuple[bytes, bytes], plain: Row | None, other: Row, arrives: bool
) -> None:
    key, clustering = place
    before, after = (plain, other) if arrives else (other, plain)
    assert FAST is not None
    assert FAST(token_of(key), key, clustering, before, after, 7) is None
