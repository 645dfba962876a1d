"""SELECTs that one synchronous read answers: a row by its full key, or rows of one partition.

The point read is the hottest statement there is: its function is generated for the key columns at hand.
"""

from collections.abc import Callable
from typing import Any

from belvedere.model.ordering import join_partition_key
from belvedere.model.schema import Column, Table
from belvedere.model.token import token_of
from belvedere.query.access import Execution
from belvedere.query.paging import PagingState
from belvedere.query.restrictions import Restrictions, check_key
from belvedere.query.restrictions_values import require
from belvedere.query.results import Rows
from belvedere.query.select_limits import limit_value
from belvedere.query.select_ordering import Order
from belvedere.query.selection import STATIC_ONLY, Extract, Selection
from belvedere.query.terms import MarkerTerm, TermValue
from belvedere.storage.reads import EVERYTHING, PartitionRead

#: The result, or None if the read has to wait and the general way must be taken.
FastSelect = Callable[[Execution], Rows | None]


def fast_select(
    table: Table, selection: Selection, restrictions: Restrictions, order: Order, limit: TermValue | None
) -> FastSelect | None:
    extract, keys = selection.extract, restrictions.key_terms
    if extract is None or not keys or restrictions.filters or restrictions.tokens:
        return None
    rows = restrictions.row_terms
    if len(rows) == len(table.clustering) and (limit is None or limit.is_constant):
        return _compile_point(table, selection, keys, rows, extract)
    return _partition_select(table, selection, restrictions, order, limit, extract)


# -- one row -----------------------------------------------------------------------------------------


def _compile_point(
    table: Table,
    selection: Selection,
    keys: tuple[TermValue, ...],
    rows: tuple[TermValue, ...],
    extract: Extract,
) -> FastSelect:
    namespace: dict[str, Any] = {
        "PartitionRead": PartitionRead, "Rows": Rows, "EVERYTHING": EVERYTHING, "token_of": token_of,
        "join": join_partition_key, "check_key": check_key, "encode": table.clustering_order.encode,
        "table": table, "columns": selection.columns, "extract": extract, "value_of": _value_of,
    }  # fmt: skip
    lines = ["def point(execution):", "    values = execution.values"]
    for prefix, columns, terms in (("k", table.partition_key, keys), ("c", table.clustering, rows)):
        for index, (column, term) in enumerate(zip(columns, terms, strict=True)):
            name = f"{prefix}{index}"
            namespace[f"term_{name}"], namespace[f"column_{name}"] = term, column
            lines += [f"    {line}" for line in _value_lines(name, column, term, alone=len(keys) == 1)]
    if len(keys) == 1:
        lines.append("    key = k0")
    else:
        lines.append(f"    key = join(({', '.join(f'k{i}' for i in range(len(keys)))}))")
        lines.append("    if len(key) > 65535: check_key(key)")
    row = f"encode(({', '.join(f'c{i}' for i in range(len(rows)))},))" if rows else "b''"
    lines += [
        f"    read = PartitionRead(token_of(key), key, EVERYTHING, False, 0, {row})",
        "    found = execution.access.read_now(table, read, execution.now)",
        "    if found is None: return None",
        "    return Rows(found.after, (), columns, extract(key, found.static, found.rows), None)",
    ]
    exec("\n".join(lines), namespace)
    point: FastSelect = namespace["point"]
    return point


def _value_lines(name: str, column: Column, term: TermValue, *, alone: bool) -> list[str]:
    """Code that puts one key value into a variable, checked inline where a look at it suffices."""
    slow = f"value_of(term_{name}, column_{name}, execution, {name[0] == 'k' and alone})"
    test = _inline_test(name, column)
    if not isinstance(term, MarkerTerm) or test is None or term.type != column.type:
        return [f"{name} = {slow}"]
    return [f"{name} = values[{term.index}]", f"if not ({test}): {name} = {slow}"]


def _inline_test(name: str, column: Column) -> str | None:
    """What makes bound bytes surely a valid key value; None if only the type itself can tell."""
    type_ = column.type
    is_bytes = f"{name}.__class__ is bytes and "
    if type_.name in ("int", "bigint", "smallint", "tinyint", "timestamp", "date", "uuid"):
        return is_bytes + f"len({name}) == {type_.fixed_width}"
    if type_.name in ("text", "ascii"):
        return is_bytes + f"0 < len({name}) < 65536 and {name}.isascii()"
    if type_.name == "blob":
        return is_bytes + f"0 < len({name}) < 65536"
    return None


def _value_of(term: TermValue, column: Column, execution: Execution, is_key: bool) -> bytes:
    value = require(term.evaluate(execution), column.name)
    if is_key:
        check_key(value)
    return value


# -- rows of one partition ---------------------------------------------------------------------------


def _partition_select(
    table: Table,
    selection: Selection,
    restrictions: Restrictions,
    order: Order,
    limit: TermValue | None,
    extract: Extract,
) -> FastSelect:
    columns, full = selection.columns, restrictions.queries_full_partitions
    slices_of, keys_of, reverse = restrictions.slices, restrictions.partition_keys, order.reverse

    def select(execution: Execution) -> Rows | None:
        if execution.paging_state is not None:
            return None
        wanted = limit_value(limit, execution)
        page_size = execution.page_size
        (key,) = keys_of(execution)
        slices = slices_of(execution)
        if not slices:
            return Rows(columns=columns)
        pages = page_size > 0 and not 0 < wanted <= page_size
        # One row more than the page holds tells whether there is another page.
        read = PartitionRead(token_of(key), key, slices, reverse, page_size + 1 if pages else wanted)
        found = execution.access.read_now(table, read, execution.now)
        if found is None:
            return None
        rows, state = found.rows, None
        if pages and len(rows) > page_size:
            rows = rows[:page_size]
            left = wanted - page_size if wanted else 0
            state = PagingState(read.token, key, rows[-1][0], left, 0).encode()
        if not rows and full and found.static is not None:
            return Rows(found.after, (), columns, extract(key, found.static, STATIC_ONLY))
        return Rows(found.after, (), columns, extract(key, found.static, rows), state)

    return select
