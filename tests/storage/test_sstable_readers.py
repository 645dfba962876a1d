"""Users' own tools see the table in its files: DuckDB, pyarrow, pandas and Polars, without our code."""

import json
import random
import re
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from belvedere.model.rows import Complex, Row
from belvedere.model.schema import Column, ColumnKind, Table
from belvedere.model.token import token_of
from belvedere.model.types import BIGINT, INT, TEXT, parse_type
from belvedere.storage.partitions import StoredPartition
from belvedere.storage.sstable_format import FORMAT_VERSION, Layout, SSTableFacts
from belvedere.storage.sstable_write import build_sstable
from tests.storage.sstable_samples import random_partitions, random_table

NOW = 2_000_000_000

PAGE = (Path(__file__).parents[2] / "docs" / "file-format.md").read_text(encoding="utf-8")


def queries_of_the_page() -> list[str]:
    """The SQL of docs/file-format.md: one for a single file, one for several."""
    return re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


def people() -> Table:
    columns = (
        Column("id", BIGINT, ColumnKind.PARTITION_KEY, 0),
        Column("seq", INT, ColumnKind.CLUSTERING, 0, True),
        Column("team", TEXT, ColumnKind.STATIC, 0),
        Column("name", TEXT, ColumnKind.REGULAR, 0),
        Column("age", INT, ColumnKind.REGULAR, 1),
        Column("tags", parse_type("set<text>"), ColumnKind.REGULAR, 2),
    )
    return Table(b"\x02" * 16, "ks", "people", columns, {}, 3, 1)


def row_of(seq: int, row: Row) -> tuple[bytes, Row]:
    return people().clustering_order.encode([INT.encode(seq)]), row


def tags(expiry: int, *names: str) -> Complex:
    ttl = 60 if expiry else 0
    return Complex(None, {name.encode(): (b"", 10, ttl, expiry) for name in names})


def written(tmp_path: Path) -> str:
    def row(name: str, *, ttl: int = 0, expiry: int = 0, live: bool = True) -> Row:
        return Row(10, ttl, expiry, live, None, [name.encode(), INT.encode(len(name)), None])

    key = BIGINT.encode(7)
    rows = [
        row_of(9, row("plain")),
        row_of(8, row("expired", ttl=60, expiry=NOW - 1)),
        row_of(7, row("expires later", ttl=60, expiry=NOW + 1)),
        row_of(6, Row(10, 0, 0, False, (9, 9), [])),
        row_of(5, Row(10, 0, 0, False, None, [(None, 10, 0, 9), (INT.encode(5), 11, 0, 0), None])),
        row_of(4, Row(10, 0, 0, True, None, [None, None, None])),
        row_of(3, Row(10, 0, 0, False, None, [(None, 10, 0, 9), None, None])),
        row_of(2, Row(10, 0, 0, False, None, [None, None, tags(0, "b", "a")])),
        row_of(1, Row(10, 0, 0, False, None, [None, None, tags(NOW - 5, "old")])),
        row_of(0, Row(10, 60, NOW - 1, True, None, [None, (INT.encode(1), 11, 60, NOW + 3), None])),
    ]
    static = Row(10, 0, 0, False, None, [b"blue"])
    partition = StoredPartition(token_of(key), key, None, [], static, rows)
    path = tmp_path / "people.parquet"
    path.write_bytes(build_sstable(people(), [partition]).data)
    return str(path)


EXPECTED: list[tuple[int, int, str | None, int | None, list[str] | None]] = [
    (7, 9, "plain", 5, None),
    (7, 7, "expires later", 13, None),
    (7, 5, None, 5, None),
    (7, 4, None, None, None),
    (7, 2, None, None, ["a", "b"]),
    (7, 0, None, 1, None),
]
NAMES = ["id", "seq", "name", "age", "tags"]


def tuples(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in NAMES) for row in rows]


def test_duckdb(tmp_path: Path) -> None:
    query = queries_of_the_page()[0]
    query = query.replace("sst-00000001.parquet", written(tmp_path)).replace("epoch(now())", str(NOW))
    assert str(NOW) in query
    found = duckdb.sql(query).to_arrow_table().to_pylist()
    assert tuples(found) == EXPECTED


def test_duckdb_over_several_files(tmp_path: Path) -> None:
    """Rows written whole: the newest of each key, unless it has expired."""
    names = {1: ["one", "two", "three", "four"], 2: ["two again", "four again"], 3: ["two at last"]}
    keys = {1: [1, 2, 3, 4], 2: [2, 4], 3: [2]}
    for version, numbers in keys.items():
        rows = []
        for number, name in zip(numbers, names[version], strict=True):
            ttl = 60 if name == "four again" else 0
            row = Row(version, ttl, NOW - 1 if ttl else 0, True, None, [name.encode(), None, None])
            rows.append(row_of(-number, row))
        key = BIGINT.encode(7)
        rows.sort()
        built = build_sstable(people(), [StoredPartition(token_of(key), key, rows=rows)])
        (tmp_path / f"sst-{version}.parquet").write_bytes(built.data)
    query = queries_of_the_page()[1].replace("k, c", "id, seq").replace("epoch(now())", str(NOW))
    query = query.replace("data/node/tables/shop.orders-*/*/sst-*.parquet", f"{tmp_path}/sst-*.parquet")
    found = duckdb.sql(query).to_arrow_table().to_pylist()
    assert {(row["seq"], row["name"]) for row in found} == {(-1, "one"), (-2, "two at last"), (-3, "three")}


def test_the_page_names_every_column() -> None:
    table = people()
    described = set(re.findall(r"^\| `(\S+)` \|", PAGE, re.MULTILINE))
    ours = {f.name for f in Layout(table).all_fields} - {column.name for column in table.columns}
    named = {re.sub(r"^(_\w+)\.\w+$", r"\1.c", name) for name in ours}
    assert named | {"_key"} <= described
    assert f"**format version {FORMAT_VERSION}**" in PAGE
    for field in SSTableFacts.__struct_fields__:
        assert f"`{field}`" in PAGE


def test_pyarrow_and_pandas(tmp_path: Path) -> None:
    path = written(tmp_path)
    table = pq.read_table(path, filters=(pc.field("_kind") == 3) & (pc.field("_until") > NOW))
    assert tuples(table.to_pylist()) == EXPECTED
    frame = pd.read_parquet(path, columns=["_kind", "_until", "name"])
    names = frame[(frame["_kind"] == 3) & (frame["_until"] > NOW)]["name"]
    assert [None if pd.isna(name) else name for name in names] == [row[2] for row in EXPECTED]


def test_polars(tmp_path: Path) -> None:
    frame = pl.scan_parquet(written(tmp_path)).filter((pl.col("_kind") == 3) & (pl.col("_until") > NOW))
    assert tuples(frame.collect().to_dicts()) == EXPECTED


def test_static_cells_and_the_description_of_the_table(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert duckdb.sql(f"SELECT team FROM '{path}' WHERE _kind = 2").fetchall() == [("blue",)]
    described = json.loads(pq.read_schema(path).metadata[b"belvedere"])
    assert described["format"] == 1
    assert (described["keyspace"], described["table"]) == ("ks", "people")
    assert described["columns"][1] == {
        "name": "seq",
        "stored": "seq",
        "type": "int",
        "kind": "clustering",
        "position": 0,
        "descending": True,
    }


def test_names_that_clash_with_ours(tmp_path: Path) -> None:
    names = ["_TS", "_ts.a", "user_TS", "a", "_el.x", "_mine"]
    columns = [Column("_token", BIGINT, ColumnKind.PARTITION_KEY, 0)]
    columns += [Column(name, INT, ColumnKind.REGULAR, i) for i, name in enumerate(names)]
    table = Table(b"\x02" * 16, "ks", "t", tuple(columns), {}, len(names), 0)
    key = BIGINT.encode(1)
    row = Row(10, 0, 0, True, None, [(INT.encode(i), 11, 0, 0) for i in range(len(names))])
    path = tmp_path / "clash.parquet"
    path.write_bytes(build_sstable(table, [StoredPartition(token_of(key), key, rows=[(b"", row)])]).data)
    described = json.loads(pq.read_schema(path).metadata[b"belvedere"])
    stored = {c["name"]: c["stored"] for c in described["columns"]}
    assert stored["a"] == "a"
    assert stored["_mine"] == "_mine"
    found = duckdb.sql(f"SELECT * FROM '{path}'").to_arrow_table().to_pylist()[0]
    assert len({name.casefold() for name in found}) == len(found)
    assert [found[stored[name]] for name in names] == list(range(len(names)))
    assert found[stored["_token"]] == 1
    assert found["_token"] == token_of(key)


@pytest.mark.parametrize("seed", range(12))
def test_files_of_all_kinds_open_everywhere(tmp_path: Path, seed: int) -> None:
    rnd = random.Random(seed)
    table = random_table(rnd)
    partitions = random_partitions(rnd, table, 30, 20)
    built = build_sstable(table, partitions)
    path = tmp_path / "any.parquet"
    path.write_bytes(built.data)
    counted = duckdb.sql(f"SELECT count(*) FROM '{path}'").fetchall()
    assert counted == [(built.facts.rows,)]
    assert duckdb.sql(f"SELECT * FROM '{path}'").to_arrow_table().num_rows == built.facts.rows
    assert pl.read_parquet(path).height == built.facts.rows
    # Python's own time, pandas' default for `time` columns, has no nanoseconds.
    assert len(pd.read_parquet(path, dtype_backend="pyarrow")) == built.facts.rows
