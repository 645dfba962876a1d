"""The SELECT clause as a whole: its result columns, and rows of result values from rows of storage."""

from dataclasses import dataclass

from belvedere.cql.syntax import ColumnRef, Select
from belvedere.model.schema import Column, Table
from belvedere.model.types import TEXT, json_name
from belvedere.query.access import Execution
from belvedere.query.results import ResultColumn
from belvedere.query.select.extract import Extract, extract_for
from belvedere.query.select.row_views import RowView
from belvedere.query.select.selectors import Selector
from belvedere.query.select.selectors_build import SelectorBuilder
from belvedere.query.terms.values import BindCollector

Wire = bytes | None


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
        extract = extract_for(table, [table.by_name[selector.name] for selector in selectors])
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
