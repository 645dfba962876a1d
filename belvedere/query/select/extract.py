"""Result rows from stored rows for SELECTs of plain columns, by functions made for just these columns."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from belvedere.model.ordering import ClusteringOrder, split_partition_key
from belvedere.model.rows import Row
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.query.select.collections_out import assemble

Wire = bytes | None
StoredRows = Sequence[tuple[bytes | None, Row]]
#: (partition key, static cells, rows) to result rows.
Extract = Callable[[bytes, Row | None, StoredRows], list[list[Wire]]]
#: Like Extract, with the clustering values that the rows are known to have.
PointExtract = Callable[[bytes, Row | None, StoredRows, Sequence[Wire]], list[list[Wire]]]

NO_CELLS = Row(0, 0, 0, False, None, [])
#: What stands for the row in a partition of static cells alone.
STATIC_ONLY: StoredRows = ((None, NO_CELLS),)

#: Types whose keys hold the very bytes of their values; those of a decimal lose its scale.
_KEPT_BY_KEYS = frozenset(
    "ascii bigint blob boolean date inet int smallint text time timestamp".split()
    + "timeuuid tinyint uuid varint".split()
)


def extract_for(table: Table, columns: Sequence[Column]) -> Extract:
    """Runs for every row that plain SELECTs return."""
    extract: Extract = _compile(len(table.partition_key), table.clustering, tuple(columns), False)
    return extract


def point_extract_for(table: Table, columns: Sequence[Column]) -> PointExtract:
    """For reads by full key: clustering values come from the request instead of out of the stored key."""
    if all(column.type.name in _KEPT_BY_KEYS for column in table.clustering):
        point: PointExtract = _compile(len(table.partition_key), table.clustering, tuple(columns), True)
        return point
    extract = extract_for(table, columns)
    return lambda key, static, rows, values: extract(key, static, rows)


@lru_cache(maxsize=1024)
def _compile(
    key_columns: int, clustering: tuple[Column, ...], columns: tuple[Column, ...], known_clustering: bool
) -> Any:
    """Cached, so that statements that are not prepared pay for their shape only once."""
    order = ClusteringOrder([column.type for column in clustering], [c.descending for c in clustering])
    namespace: dict[str, Any] = {
        "split": split_partition_key,
        "decode": order.decode,
        "assemble": assemble,
        "NULLS": [None] * len(clustering),
    }
    of_kind = {kind: [c for c in columns if c.kind is kind] for kind in ColumnKind}
    head: list[str] = []
    body: list[str] = []
    if of_kind[ColumnKind.PARTITION_KEY] and key_columns > 1:
        head.append(f"parts = split(key, {key_columns})")
    if of_kind[ColumnKind.STATIC]:
        head.append("cells = [] if static is None else static.cells")
        head += _cell_lines(of_kind[ColumnKind.STATIC], "s", namespace)
    if of_kind[ColumnKind.CLUSTERING] and not known_clustering:
        decode = "decode(clustering)"
        if len(clustering) == 1 and not clustering[0].descending:
            # The one component follows its marker byte: no loop needed.
            namespace["from_key"] = clustering[0].type.from_key
            decode = "from_key(clustering, 1)"
        body.append(f"values = NULLS if clustering is None else {decode}")
    if of_kind[ColumnKind.REGULAR]:
        body.append("cells = row.cells")
        body += _cell_lines(of_kind[ColumnKind.REGULAR], "r", namespace)
    result = ", ".join(_source_of(key_columns, column) for column in columns)
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


@lru_cache(maxsize=2048)
def code_of(source: str) -> CodeType:
    """Compiling costs far more than defining: statements of one shape share their code."""
    return compile(source, "<made for a statement>", "exec")


def _source_of(key_columns: int, column: Column) -> str:
    if column.kind is ColumnKind.PARTITION_KEY:
        return f"parts[{column.position}]" if key_columns > 1 else "key"
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
