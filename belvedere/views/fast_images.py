"""The hot path: what the change of one plain row does to all views of its table, as one generated function.

A row is plain if nothing in it expires and it holds no collection; its cells may have been written at
different times. For such rows the function does what `ImageMaker.updates` does for each view, with everything
that the definitions tell written out: which cell goes where, how keys are put together, what the filters ask.
All other changes it leaves to the makers, which stay the truth: whatever they say, it says.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from belvedere.model.mutations import Mutation, ViewUpdate
from belvedere.model.ordering import reversed_component, split_partition_key
from belvedere.model.rows import Complex, Row
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.model.token import token_of
from belvedere.query.select.row_views import RowView
from belvedere.query.view_rows import encode_times
from belvedere.views.images import ImageMaker, Restriction, digest_of

#: (token, partition key, clustering key, row before, row after, commit version) to the updates of all views;
#: None: ask the makers.
FastUpdates = Callable[[int, bytes, bytes, Row | None, Row | None, int], list[ViewUpdate] | None]

_PLAIN = frozenset((bytes, type(None)))

#: Types whose clustering components are a marker and as many bytes as their values have.
_FIXED = frozenset(("tinyint", "smallint", "int", "bigint", "timestamp"))

_OPERATORS = {"=": "==", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def compile_updates(makers: Sequence[ImageMaker]) -> FastUpdates | None:
    """None if nobody needs it."""
    return _Writer(makers).compile() if makers else None


# --- what the generated code calls ---------------------------------------------------------------------


def _spelled(row: Row, width: int) -> tuple[list[bytes | None], list[int]] | None:
    """Values and write times of a row's cells; None if it is not plain."""
    if row.ttl or len(row.cells) > width:
        return None
    values: list[bytes | None] = []
    stamps: list[int] = []
    own = row.timestamp
    for cell in row.cells:
        if type(cell) is tuple:
            if cell[2]:
                return None
            values.append(cell[0])
            stamps.append(cell[1])
        elif isinstance(cell, Complex):
            return None
        else:
            values.append(cell)  # type: ignore[arg-type]
            stamps.append(own)
    missing = width - len(values)
    return values + [None] * missing, stamps + [own] * missing


def _times(values: Sequence[bytes | None], stamps: Sequence[int], places: Sequence[int], width: int) -> bytes:
    """The encoded write times of cells that stand at some ordinals of a view."""
    given = {stamp for value, stamp in zip(values, stamps, strict=True) if value is not None}
    if len(given) < 2:
        return encode_times(given.pop() if given else 0)
    times: list[Any] = [None] * width
    for value, stamp, place in zip(values, stamps, places, strict=True):
        if value is not None:
            times[place] = (stamp, 0, 0)
    return encode_times(times)


# --- the function's source -----------------------------------------------------------------------------


class _Writer:
    """Names in the source: of the row after the change a0, a1, … are the values by the base's ordinals,
    `a_at` the time at which all were written or else `a_stamps` the time of each; of the row before the same
    with b. k0, c0, … are values of key columns."""

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
            "digest_of": digest_of,
            "encode_times": encode_times,
            "reverse": reversed_component,
            "spelled": _spelled,
            "split": split_partition_key,
            "times_of": _times,
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
            "stamp, older = 2 * version + 1, (2 * version, version // 1_000_000)",
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
        values = ", ".join(f"{letter}{index}" for index in range(self._width))
        return [
            f"if {row} is not None:",
            f"    cells, {letter}_at, {letter}_stamps = {row}.cells, {row}.timestamp, None",
            f"    if {row}.ttl or len(cells) != {self._width} or not PLAIN.issuperset(map(type, cells)):",
            f"        parts = spelled({row}, {self._width})",
            "        if parts is None: return None",
            f"        cells, {letter}_stamps = parts",
            f"    else: {letter}_time = encode_times({letter}_at)",
            *([f"    {values}, = cells"] if values else []),
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
        removal, arrival = self._removal(), self._arrival()
        stays = " and ".join(f"a{ordinal} == b{ordinal}" for ordinal in self._moving) or "True"
        return [
            f"stood = {self._stands('b', 'before')}",
            f"if {self._stands('a', 'after')}:",
            *_indented(self._image("a")),
            "    if not stood:",
            *_indented(arrival("b''"), 2),
            f"    elif {stays}:",
            *_indented(self._image_cells("b", "old"), 2),
            "        if cells != old:",
            *_indented(arrival("digest_of(view_key, view_clustering, 0, old)"), 3),
            "    else:",
            *_indented(removal, 2),
            *_indented(self._place("a"), 2),
            *_indented(arrival("b''"), 2),
            "elif stood:",
            *_indented(removal),
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
        values, stamps, places = [], [], []
        for source, target in self._maker.cells:
            cells[target] = f"{letter}{source}"
            values.append(f"{letter}{source}")
            stamps.append(f"{letter}_stamps[{source}]")
            places.append(str(target))
        cells[self._maker.hidden] = "times"
        if not values:
            return ["times = NO_TIME", f"{name} = [{', '.join(cells)}]"]
        given = ", ".join(f"({', '.join(part)},)" for part in (values, stamps, places))
        absent = " and ".join(f"{value} is None" for value in values)
        return [
            f"if {letter}_stamps is not None: times = times_of({given}, {self._view.regular_ordinals})",
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
        row = "(view_clustering, Row(0, 0, 0, False, (stamp, older[1]), []))"
        mutation = f"Mutation({self._id}, view_token, view_key, [{row}])"
        gone = "digest_of(view_key, view_clustering, 0, old)"
        return [
            *self._place("b"),
            *self._image_cells("b", "old"),
            f"found.append(ViewUpdate({self._id}, {mutation}, {gone}))",
        ]


def _composite(value: str) -> str:
    """A part of a composite key: length, bytes, zero. If it is too long, the length overflows."""
    return f"len({value}).to_bytes(2, 'big') + {value} + b'\\0'"


def _indented(lines: Iterable[str], levels: int = 1) -> list[str]:
    return [f"{'    ' * levels}{line}" for line in lines]
