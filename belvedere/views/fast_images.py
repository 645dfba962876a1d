"""The hot path: what the change of one plain row does to all views of its table, as one generated function.

A row is plain if nothing in it expires and it holds no collection; its cells may have been written at
different times. For such rows the function does what `ImageMaker.updates` does for each view, with everything
that the definitions tell written out: which cell goes where, how keys are put together, what the filters ask.
All other changes it leaves to the makers, which stay the truth: whatever they say, it says.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xxhash import xxh3_128_digest

from belvedere.model.mutations import Mutation, ViewUpdate
from belvedere.model.ordering import reversed_component, split_partition_key
from belvedere.model.rows import Row
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.model.token import token_of
from belvedere.query.select.row_views import RowView
from belvedere.query.view_rows import Times, encode_times
from belvedere.views.images import ImageMaker, Restriction, encode_image

#: (token, partition key, clustering key, row before, row after, commit version) to the updates of all views;
#: None: ask the makers.
FastUpdates = Callable[[int, bytes, bytes, Row | None, Row | None, int], list[ViewUpdate] | None]

_PLAIN = frozenset((bytes, type(None)))

#: Types whose clustering components are a marker and as many bytes as their values have.
_FIXED = frozenset(("tinyint", "smallint", "int", "bigint", "timestamp"))

#: `images.digest_of` for an image whose cells are values only.
_DIGEST = "digest(encode_image((view_key, view_clustering, 0, old)))"

_OPERATORS = {"=": "==", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def compile_updates(makers: Sequence[ImageMaker]) -> FastUpdates | None:
    """None if nobody needs it."""
    return _Writer(makers).compile() if makers else None


# --- what the generated code calls ---------------------------------------------------------------------


def _spelled(row: Row, width: int) -> tuple[list[bytes | None], list[int | None], list[Times | None]] | None:
    """Of a row's cells the values, when each was written, and that as views tell it; None if the row is not
    plain."""
    if row.ttl or len(row.cells) > width:
        return None
    values: list[bytes | None] = [None] * width
    stamps: list[int | None] = [None] * width
    times: list[Times | None] = [None] * width
    stamp = row.timestamp
    own = (stamp, 0, 0)
    for index, cell in enumerate(row.cells):
        if type(cell) is bytes:
            values[index], stamps[index], times[index] = cell, stamp, own
        elif type(cell) is tuple:
            value, at, ttl, _ = cell
            if ttl:
                return None
            if value is not None:
                values[index], stamps[index], times[index] = value, at, (at, 0, 0)
        elif cell is not None:
            return None
    return values, stamps, times


def _one_time(stamps: set[int | None]) -> bytes:
    """The encoded write time of cells of which no two that have a value have different ones."""
    for stamp in stamps:
        if stamp is not None:
            return encode_times(stamp)
    return encode_times(0)


# --- the function's source -----------------------------------------------------------------------------


class _Writer:
    """Names in the source: of the row after the change a0, a1, … are the values by the base's ordinals.
    `a_time` is the encoded time at which all were written, or else None and of each value as0, as1, … the
    time and at0, at1, … that as views tell it. Of the row before the same with b. k0, c0, … are values of key
    columns."""

    def __init__(self, makers: Sequence[ImageMaker]) -> None:
        self._base = makers[0].base
        self._width = self._base.regular_ordinals
        self._names: dict[str, Any] = {
            "Mutation": Mutation,
            "Row": Row,
            "RowView": RowView,
            "ViewUpdate": ViewUpdate,
            "PLAIN": _PLAIN,
            "NO_TIME": encode_times(0),
            "base": self._base,
            "decode": self._base.clustering_order.decode,
            "encode_times": encode_times,
            "digest": xxh3_128_digest,
            "encode_image": encode_image,
            "one_time": _one_time,
            "reverse": reversed_component,
            "spelled": _spelled,
            "split": split_partition_key,
            "token_of": token_of,
        }
        self._keys = _Keys(self._base, self._names)
        self._views = [_View(maker, index, self._names, self._keys) for index, maker in enumerate(makers)]

    def compile(self) -> FastUpdates:
        views = [line for view in self._views for line in view.lines()]
        body = [
            *self._taken_apart("after", "a"),
            *self._taken_apart("before", "b"),
            "found = []",
            "second = version // 1_000_000",
            "stamp, older, left = 2 * version + 1, (2 * version, second), (2 * version + 1, second)",
            *self._keys.lines(),
            *views,
            "return found",
        ]
        source = "\n".join(["def run(token, key, clustering, before, after, version):", *_indented(body)])
        exec(source, self._names)
        # Taken out, the function and its globals are no cycle.
        compiled: FastUpdates = self._names.pop("run")
        return compiled

    def _taken_apart(self, row: str, letter: str) -> list[str]:
        values, stamps, times = (
            "".join(f"{letter}{kind}{index}, " for index in range(self._width)) or "_"
            for kind in ("", "s", "t")
        )
        return [
            f"if {row} is not None:",
            f"    cells = {row}.cells",
            f"    if {row}.ttl or len(cells) != {self._width} or not PLAIN.issuperset(map(type, cells)):",
            f"        parts = spelled({row}, {self._width})",
            "        if parts is None: return None",
            "        cells, stamps, times = parts",
            f"        {letter}_time = None",
            f"        {stamps} = stamps",
            f"        {times} = times",
            f"    else: {letter}_time = encode_times({row}.timestamp)",
            f"    {values} = cells",
        ]


class _Keys:
    """Values of the base's key columns and their components in clustering keys of views, each worked out once
    for all views."""

    def __init__(self, base: Table, names: dict[str, Any]) -> None:
        self._base = base
        self._names = names
        self._lines: list[str] = []
        self._known: set[str] = set()

    def lines(self) -> list[str]:
        return self._lines

    def value(self, column: Column) -> str:
        """The name of a key column's value."""
        if column.kind is ColumnKind.PARTITION_KEY:
            if len(self._base.partition_key) == 1:
                return "key"
            self._all("k", len(self._base.partition_key), f"split(key, {len(self._base.partition_key)})")
            return f"k{column.position}"
        self._all("c", len(self._base.clustering), "decode(clustering)")
        return f"c{column.position}"

    def component(self, column: Column, target: Column, encoder: Callable[[bytes], bytes]) -> str:
        """The name of a key column's component in the clustering key of a view, where it is `target`."""
        name = f"p_{column.kind.value}_{column.position}_{'down' if target.descending else 'up'}"
        if name not in self._known:
            line = f"{name} = {self._component(column, target, encoder)}"
            self._known.add(name)
            self._lines.append(line)
        return name

    def _component(self, column: Column, target: Column, encoder: Callable[[bytes], bytes]) -> str:
        own = self._stretch(column)
        if own is not None:
            return own if column.descending == target.descending else f"reverse({own})"
        name = f"encode_{len(self._names)}"
        self._names[name] = encoder
        return f"{name}({self.value(column)})"

    def _stretch(self, column: Column) -> str | None:
        """Where a clustering column's component stands in the base's clustering key, if that is known."""
        if column.kind is not ColumnKind.CLUSTERING:
            return None
        start = 0
        for earlier in self._base.clustering[: column.position]:
            if earlier.type.name not in _FIXED:
                return None
            start += 1 + (earlier.type.fixed_width or 0)
        if column.position == len(self._base.clustering) - 1:
            return f"clustering[{start}:]" if start else "clustering"
        if column.type.name not in _FIXED:
            return None
        return f"clustering[{start}:{start + 1 + (column.type.fixed_width or 0)}]"

    def _all(self, letter: str, count: int, source: str) -> None:
        if letter not in self._known:
            self._known.add(letter)
            self._lines.append(f"{''.join(f'{letter}{index}, ' for index in range(count))} = {source}")


class _View:
    """The lines for one view."""

    def __init__(self, maker: ImageMaker, index: int, names: dict[str, Any], keys: _Keys) -> None:
        self._maker = maker
        self._base, self._view = maker.base, maker.view
        self._index = index
        self._names = names
        self._keys = keys
        self._id = f"view_{index}"
        names[self._id] = self._view.id
        #: Ordinals of the base that a row's place in the view follows from.
        self._moving = [
            self._base.by_name[column.name].position
            for column in (*self._view.partition_key, *self._view.clustering)
            if not self._base.by_name[column.name].is_key
        ]

    def lines(self) -> list[str]:
        arrival = self._arrival()
        stays = " and ".join(["stood", "stands", *(f"a{ordinal} == b{ordinal}" for ordinal in self._moving)])
        return [
            f"stood = {self._stands('b', 'before')}",
            f"stands = {self._stands('a', 'after')}",
            f"stays = {stays}",
            "if stood and not stays:",
            *_indented(self._removal()),
            "if stands:",
            *_indented(self._image("a")),
            "    if not stays:",
            *_indented(arrival("b''"), 2),
            "    else:",
            *_indented(self._image_cells("b", "old"), 2),
            "        if cells != old:",
            *_indented(arrival(_DIGEST), 3),
        ]

    def _stands(self, letter: str, row: str) -> str:
        """Whether a row is in the view."""
        tests = [f"{row} is not None", *(f"{letter}{ordinal} is not None" for ordinal in self._moving)]
        others: list[str] = []
        for number, restriction in enumerate(self._maker.restrictions):
            test, inline = self._test(restriction, letter, row, number)
            if test not in tests:
                (tests if inline else others).append(test)
        return " and ".join([*tests, *others])

    def _test(self, restriction: Restriction, letter: str, row: str, number: int) -> tuple[str, bool]:
        """A test in source, and whether it is one that costs next to nothing."""
        column = restriction.columns[0]
        name = f"restriction_{self._index}_{number}"
        inlined = len(restriction.columns) == 1 and column.kind is ColumnKind.REGULAR
        value = f"{letter}{column.position}"
        if inlined and restriction.present:
            return f"{value} is not None", True
        if inlined and restriction.wanted is not None and restriction.operator in _OPERATORS:
            self._names[f"{name}_key"], self._names[f"{name}_wanted"] = restriction.key, restriction.wanted
            operator = _OPERATORS[restriction.operator]
            return f"{value} is not None and {name}_key({value}) {operator} {name}_wanted", True
        if restriction.present:
            return "True", True  # Key columns are there.
        self._names[name] = restriction.test
        return f"{name}(RowView(base, token, key, None, clustering, {row}))", False

    def _place(self, letter: str) -> list[str]:
        """Leaves a row's place in `view_key` and `view_clustering`."""
        view, order = self._view, self._view.clustering_order
        if [column.name for column in view.partition_key] == [c.name for c in self._base.partition_key]:
            lines = ["view_key, view_token = key, token"]
        else:
            parts = [self._value(column, letter) for column in view.partition_key]
            joined = parts[0] if len(parts) == 1 else " + ".join(_composite(part) for part in parts)
            lines = [f"view_key = {joined}", "view_token = token_of(view_key)"]
        inner = []
        for index, column in enumerate(view.clustering):
            source = self._base.by_name[column.name]
            encoder = order.encoders[index]
            if source.is_key:
                inner.append(self._keys.component(source, column, encoder))
            else:
                self._names[f"encode_{self._index}_{index}"] = encoder
                inner.append(f"encode_{self._index}_{index}({letter}{source.position})")
        return [*lines, f"view_clustering = {' + '.join(inner) or repr(b'')}"]

    def _value(self, column: Column, letter: str) -> str:
        source = self._base.by_name[column.name]
        return self._keys.value(source) if source.is_key else f"{letter}{source.position}"

    def _image(self, letter: str) -> list[str]:
        return [*self._place(letter), *self._image_cells(letter, "cells")]

    def _image_cells(self, letter: str, name: str) -> list[str]:
        """Leaves the cells of a row's image in a variable."""
        cells = ["None"] * self._view.regular_ordinals
        times = ["None"] * self._view.regular_ordinals
        values, stamps = [], []
        for source, target in self._maker.cells:
            cells[target], times[target] = f"{letter}{source}", f"{letter}t{source}"
            values.append(f"{letter}{source}")
            stamps.append(f"{letter}s{source}")
        cells[self._maker.hidden] = "times"
        if not values:
            return ["times = NO_TIME", f"{name} = [{', '.join(cells)}]"]
        absent = " and ".join(f"{value} is None" for value in values)
        return [
            f"if {letter}_time is None:",
            f"    stamps = {{{', '.join(stamps)}}}",
            "    if len(stamps) > 2 or len(stamps) == 2 and None not in stamps:",
            f"        times = encode_times([{', '.join(times)}])",
            "    else: times = one_time(stamps)",
            f"elif {absent}: times = NO_TIME",
            f"else: times = {letter}_time",
            f"{name} = [{', '.join(cells)}]",
        ]

    def _arrival(self) -> Callable[[str], list[str]]:
        def lines(gone: str) -> list[str]:
            row = "(view_clustering, Row(stamp, 0, 0, True, older, cells))"
            mutation = f"Mutation({self._id}, view_token, view_key, [{row}])"
            return [f"found.append(ViewUpdate({self._id}, {mutation}, {gone}))"]

        return lines

    def _removal(self) -> list[str]:
        row = "(view_clustering, Row(0, 0, 0, False, left, []))"
        mutation = f"Mutation({self._id}, view_token, view_key, [{row}])"
        return [
            *self._place("b"),
            *self._image_cells("b", "old"),
            f"found.append(ViewUpdate({self._id}, {mutation}, {_DIGEST}))",
        ]


def _composite(value: str) -> str:
    """A part of a composite key: length, bytes, zero. If it is too long, the length overflows."""
    return f"len({value}).to_bytes(2, 'big') + {value} + b'\\0'"


def _indented(lines: Iterable[str], levels: int = 1) -> list[str]:
    return [f"{'    ' * levels}{line}" for line in lines]
