"""The SELECT clause as a whole: its result columns, and rows of result values from rows of storage."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from belvedere.cql.syntax import ColumnRef, Select
from belvedere.model.ordering import split_partition_key
from belvedere.model.rows import Row
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.model.types import TEXT, json_name
from belvedere.query.access import Execution
from belvedere.query.collections_out import assemble
from belvedere.query.results import ResultColumn
from belvedere.query.selection_rows import RowView
from belvedere.query.selectors import Selector
from belvedere.query.selectors_build import SelectorBuilder
from belvedere.query.terms import BindCollector

Wire = bytes | None
StoredRows = Sequence[tuple[bytes | None, Row]]
#: (partition key, static cells, rows) to result rows.
Extract = Callable[[bytes, Row | None, StoredRows], list[list[Wire]]]

NO_CELLS = Row(0, 0, 0, False, None, [])
#: What stands for the row in a partition of static cells alone.
STATIC_ONLY: StoredRows = ((None, NO_CELLS),)


@dataclass(frozen=True, slots=True)
class Selection:
    table: Table
    #: What the client sees.
    columns: tuple[ResultColumn, ...]
    selectors: tuple[Selector, ...]
    #: The result names of the selectors, when they differ from `columns`: for JSON.
    json_names: tuple[str, ...] | None
    has_aggregate: bool
    #: Columns read, in the order of first use.
    used: tuple[Column, ...]
    #: Set when only plain columns are selected: the fast way.
    extract: Extract | None

    def row(self, view: RowView, execution: Execution) -> list[Wire]:
        return self.finish([selector.read(view, execution) for selector in self.selectors])

    def finish(self, values: list[Wire]) -> list[Wire]:
        """The result row of the selectors' values."""
        if self.json_names is None:
            return values
        parts = []
        for name, selector, value in zip(self.json_names, self.selectors, values, strict=True):
            text = "null" if value is None else selector.type.to_json_text(value)
            parts.append(f"{json_name(name)}: {text}")
        return [("{" + ", ".join(parts) + "}").encode()]


def prepare_selection(table: Table, node: Select, collector: BindCollector) -> Selection:
    builder = SelectorBuilder(table, collector)
    selectors: list[Selector] = []
    names: list[str] = []
    if not node.items:
        for column in table.select_order:
            selectors.append(builder.column(column.name))
            names.append(column.name)
    for item in node.items:
        selector = builder.build(item.expression)
        selectors.append(selector)
        names.append(selector.name if item.alias is None else item.alias)
    plain = all(isinstance(item.expression, ColumnRef) for item in node.items)
    columns = tuple(
        ResultColumn(table.keyspace, table.name, name, selector.type)
        for name, selector in zip(names, selectors, strict=True)
    )
    extract = None
    if plain and not node.json:
        extract = compile_extract(table, [table.by_name[selector.name] for selector in selectors])
    if node.json:
        columns = (ResultColumn(table.keyspace, table.name, "[json]", TEXT),)
    return Selection(
        table,
        columns,
        tuple(selectors),
        tuple(names) if node.json else None,
        any(selector.has_aggregate for selector in selectors),
        tuple(table.by_name[name] for name in builder.columns),
        extract,
    )


def compile_extract(table: Table, columns: Sequence[Column]) -> Extract:
    """A function made for these columns: this runs for every row that plain SELECTs return."""
    extract: Extract = _compile(table, columns, known_clustering=False)
    return extract


#: Like Extract, with the clustering values that the rows are known to have.
PointExtract = Callable[[bytes, Row | None, StoredRows, Sequence[Wire]], list[list[Wire]]]
#: Types whose keys hold the very bytes of their values; those of a decimal lose its scale.
_KEPT_BY_KEYS = frozenset(
    "ascii bigint blob boolean date inet int smallint text time timestamp".split()
    + "timeuuid tinyint uuid varint".split()
)


def compile_point_extract(table: Table, columns: Sequence[Column]) -> PointExtract:
    """For reads by full key: clustering values come from the request instead of out of the stored key."""
    known = all(column.type.name in _KEPT_BY_KEYS for column in table.clustering)
    extract: PointExtract = _compile(table, columns, known_clustering=known)
    return extract if known else lambda key, static, rows, values: extract(key, static, rows)  # type: ignore[call-arg]


def _compile(table: Table, columns: Sequence[Column], *, known_clustering: bool) -> Any:
    namespace: dict[str, Any] = {
        "split": split_partition_key,
        "decode": table.clustering_order.decode,
        "assemble": assemble,
        "NULLS": [None] * len(table.clustering),
    }
    of_kind = {kind: [c for c in columns if c.kind is kind] for kind in ColumnKind}
    head: list[str] = []
    body: list[str] = []
    if of_kind[ColumnKind.PARTITION_KEY] and len(table.partition_key) > 1:
        head.append(f"parts = split(key, {len(table.partition_key)})")
    if of_kind[ColumnKind.STATIC]:
        head.append("cells = [] if static is None else static.cells")
        head += _cell_lines(of_kind[ColumnKind.STATIC], "s", namespace)
    if of_kind[ColumnKind.CLUSTERING] and not known_clustering:
        decode = "decode(clustering)"
        if len(table.clustering) == 1 and not table.clustering[0].descending:
            # The one component follows its marker byte: no loop needed.
            namespace["from_key"] = table.clustering[0].type.from_key
            decode = "from_key(clustering, 1)"
        body.append(f"values = NULLS if clustering is None else {decode}")
    if of_kind[ColumnKind.REGULAR]:
        body.append("cells = row.cells")
        body += _cell_lines(of_kind[ColumnKind.REGULAR], "r", namespace)
    result = ", ".join(_source_of(table, column) for column in columns)
    lines = [
        f"def extract(key, static, rows{', values' if known_clustering else ''}):",
        *(f"    {line}" for line in head),
        "    found = []",
        "    for clustering, row in rows:",
        *(f"        {line}" for line in body),
        f"        found.append([{result}])",
        "    return found",
    ]
    exec("\n".join(lines), namespace)
    return namespace["extract"]


def _source_of(table: Table, column: Column) -> str:
    if column.kind is ColumnKind.PARTITION_KEY:
        return f"parts[{column.position}]" if len(table.partition_key) > 1 else "key"
    if column.kind is ColumnKind.CLUSTERING:
        return f"values[{column.position}]"
    return f"{'s' if column.kind is ColumnKind.STATIC else 'r'}{column.position}"


def _cell_lines(columns: Sequence[Column], prefix: str, namespace: dict[str, Any]) -> list[str]:
    """Code that puts the wire values of cells into variables; rows may be shorter than the table is wide."""
    width = max(column.position for column in columns) + 1
    lines = [f"if len(cells) < {width}:", f"    cells = cells + [None] * ({width} - len(cells))"]
    for column in {column.position: column for column in columns}.values():
        name = f"{prefix}{column.position}"
        lines.append(f"{name} = cells[{column.position}]")
        if column.type.is_multicell:
            namespace[f"type_{name}"] = column.type
            lines += [f"if {name} is not None:", f"    {name} = assemble(type_{name}, {name})"]
        else:
            lines += [
                f"if {name}.__class__ is not bytes and {name} is not None:",
                f"    {name} = {name}[0]",
            ]
    return lines
