"""SELECTs that one synchronous read answers: a row by its full key, or rows of one partition.

The point read is the hottest statement there is: its function is generated for the key columns at hand.
"""

from collections.abc import Callable
from typing import Any

from belvedere.model.ordering import join_partition_key
from belvedere.model.schema import Column, Table
from belvedere.model.token import token_of
from belvedere.query.access import Execution
from belvedere.query.results import Rows
from belvedere.query.select.extract import STATIC_ONLY, code_of, point_extract_for
from belvedere.query.select.limits import limit_value
from belvedere.query.select.ordering import Order
from belvedere.query.select.paging import PagingState
from belvedere.query.select.selection import Selection
from belvedere.query.terms.values import MarkerTerm, TermValue
from belvedere.query.where.restrictions import Restrictions, check_key
from belvedere.query.where.sources import require
from belvedere.storage.reads import EVERYTHING, PartitionRead

#: The result, or None if the read has to wait and the general way must be taken.
FastSelect = Callable[[Execution], Rows | None]

#: Rows read in one go: a page as drivers ask for by default, and the row behind it. More are read the general
#: way, which lets others run in between.
_MOST_ROWS = 5001


def fast_select(
    table: Table, selection: Selection, restrictions: Restrictions, order: Order, limit: TermValue | None
) -> FastSelect | None:
    keys = restrictions.key_terms
    if selection.extract is None or not keys or restrictions.filters or restrictions.tokens:
        return None
    rows = restrictions.row_terms
    if len(rows) == len(table.clustering) and (limit is None or limit.is_constant):
        return _compile_point(table, selection, keys, rows)
    return _partition_select(table, selection, restrictions, order, limit)


# -- one row -----------------------------------------------------------------------------------------


def _compile_point(
    table: Table, selection: Selection, keys: tuple[TermValue, ...], rows: tuple[TermValue, ...]
) -> FastSelect:
    selected = [table.by_name[selector.name] for selector in selection.selectors]
    namespace: dict[str, Any] = {
        "PartitionRead": PartitionRead,
        "Rows": Rows,
        "EVERYTHING": EVERYTHING,
        "token_of": token_of,
        "encode": table.clustering_order.encode,
        "table": table,
        "columns": selection.columns,
        "extract": point_extract_for(table, selected),
    }
    lines = ["if execution.paging_state is not None: return None", *_key_lines(table, keys, namespace)]
    for index, (column, term) in enumerate(zip(table.clustering, rows, strict=True)):
        lines += _value_lines(f"c{index}", column, term, namespace)
    lines += [
        f"values = ({''.join(f'c{index}, ' for index in range(len(rows)))})",
        f"row = {'encode(values)' if rows else repr(b'')}",
        "read = PartitionRead(token_of(key), key, EVERYTHING, False, 0, row)",
        "found = execution.access.read_now(table, read, execution.now)",
        "if found is None: return None",
        "return Rows(found.after, (), columns, extract(key, found.static, found.rows, values), None)",
    ]
    point: FastSelect = _compiled(lines, namespace)
    return point


def _compile_key(table: Table, keys: tuple[TermValue, ...]) -> Callable[[Execution], bytes]:
    """The bytes of a partition key given by value."""
    namespace: dict[str, Any] = {}
    key_of: Callable[[Execution], bytes] = _compiled(
        [*_key_lines(table, keys, namespace), "return key"], namespace
    )
    return key_of


def _compiled(lines: list[str], namespace: dict[str, Any]) -> Any:
    """A function of the execution with these lines as its body."""
    body = "\n".join(f"    {line}" for line in lines)
    exec(code_of(f"def compiled(execution):\n    bound = execution.values\n{body}\n"), namespace)
    # Taken out, the function and its globals are no cycle, and go with their plan.
    return namespace.pop("compiled")


def _key_lines(table: Table, keys: tuple[TermValue, ...], namespace: dict[str, Any]) -> list[str]:
    """Code that leaves the partition key's bytes in `key`."""
    namespace |= {"join": join_partition_key, "check_key": check_key, "value_of": _value_of}
    lines: list[str] = []
    for index, (column, term) in enumerate(zip(table.partition_key, keys, strict=True)):
        lines += _value_lines(f"k{index}", column, term, namespace)
    if len(keys) == 1:
        return [*lines, "key = k0", "if not 0 < len(key) < 65536: check_key(key)"]
    parts = ", ".join(f"k{index}" for index in range(len(keys)))
    return [*lines, f"key = join(({parts}))", "if len(key) > 65535: check_key(key)"]


def _value_lines(name: str, column: Column, term: TermValue, namespace: dict[str, Any]) -> list[str]:
    """Code that puts one key value into a variable, checked inline where a look at it suffices."""
    namespace[f"term_{name}"], namespace[f"column_{name}"] = term, column
    slow = f"value_of(term_{name}, column_{name}, execution)"
    test = _inline_test(name, column)
    if not isinstance(term, MarkerTerm) or test is None or term.type != column.type:
        return [f"{name} = {slow}"]
    return [f"{name} = bound[{term.index}]", f"if not ({test}): {name} = {slow}"]


def _inline_test(name: str, column: Column) -> str | None:
    """What makes bound bytes surely a valid key value; None if only the type itself can tell."""
    type_ = column.type
    is_bytes = f"{name}.__class__ is bytes and "
    if type_.name in ("int", "bigint", "smallint", "tinyint", "timestamp", "date", "uuid"):
        return is_bytes + f"len({name}) == {type_.fixed_width}"
    if type_.name in ("text", "ascii"):
        return is_bytes + f"{name}.isascii()"
    return f"{name}.__class__ is bytes" if type_.name == "blob" else None


def _value_of(term: TermValue, column: Column, execution: Execution) -> bytes:
    return require(term.evaluate(execution), column.name)


# -- rows of one partition ---------------------------------------------------------------------------


def _partition_select(
    table: Table,
    selection: Selection,
    restrictions: Restrictions,
    order: Order,
    limit: TermValue | None,
) -> FastSelect:
    columns, full, extract = selection.columns, restrictions.queries_full_partitions, selection.extract
    assert extract is not None
    key_of, slices_of, reverse = (
        _compile_key(table, restrictions.key_terms),
        restrictions.slices,
        order.reverse,
    )
    sliced = bool(restrictions.clustering.restricted)

    def select(execution: Execution) -> Rows | None:
        if execution.paging_state is not None:
            return None
        wanted = 0 if limit is None else limit_value(limit, execution)
        page_size = execution.page_size
        key = key_of(execution)
        slices = slices_of(execution) if sliced else EVERYTHING
        if not slices:
            return Rows(columns=columns)
        pages = page_size > 0 and not 0 < wanted <= page_size
        # One row more than the page holds tells whether there is another page.
        most = page_size + 1 if pages else wanted
        bound = most if 0 < most <= _MOST_ROWS else _MOST_ROWS
        read = PartitionRead(token_of(key), key, slices, reverse, bound)
        found = execution.access.read_now(table, read, execution.now)
        if found is None or (found.more and bound != most):
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
