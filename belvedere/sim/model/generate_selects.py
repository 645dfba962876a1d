"""Random SELECTs."""

import random

from belvedere.sim.model.kinds import ListKind, MapKind, Scalar
from belvedere.sim.model.pools import Pool
from belvedere.sim.model.schema import Column
from belvedere.sim.model.selects import Filter, Item, Select, TokenBound


def draw_select(rng: random.Random, pool: Pool) -> Select:
    table = pool.table
    made: dict[str, object] = {"bound": rng.random() < 0.5}
    share = rng.random()
    if share < 0.12:
        return _distinct(rng, pool)
    if share < 0.62:
        made["keys"] = pool.keys(several=0.2)
        made["where"] = pool.range(lists=True) if rng.random() < 0.6 else ()
        _order(rng, pool, made)
    else:
        made["tokens"] = _tokens(rng, pool)
        if rng.random() < 0.25:
            made["where"] = pool.range(lists=False)
    if rng.random() < 0.25:
        made["filters"] = _filters(rng, pool)
    grouped = "order_by" not in made and rng.random() < 0.2
    if grouped:
        _aggregate(rng, pool, made)
    else:
        made["items"] = _items(rng, pool)
    if rng.random() < 0.3:
        made["limit"] = rng.randint(1, 6)
    if rng.random() < 0.2 and (not grouped or made.get("group_by")):
        made["partition_limit"] = rng.randint(1, 3)
    if rng.random() < 0.4 and not _sorts_in_memory(made):
        made["page_size"] = rng.choice((1, 1, 2, 3, 7, 100))
    return Select(table.name, table.life, **made)  # type: ignore[arg-type]


def _sorts_in_memory(made: dict[str, object]) -> bool:
    keys = made.get("keys")
    return bool(made.get("order_by")) and isinstance(keys, tuple)


def _distinct(rng: random.Random, pool: Pool) -> Select:
    table = pool.table
    columns = [*table.partition]
    columns += [column for column in table.statics if rng.random() < 0.5]
    tokens = _tokens(rng, pool)
    return Select(
        table.name,
        table.life,
        items=tuple(Item("column", column.name) for column in columns),
        distinct=True,
        keys=None if tokens or rng.random() < 0.5 else pool.keys(several=0.5),
        tokens=tokens,
        limit=rng.choice((None, None, 1, 2)),
        page_size=rng.choice((0, 0, 1, 2)),
        bound=rng.random() < 0.5,
    )


def _order(rng: random.Random, pool: Pool, made: dict[str, object]) -> None:
    if pool.table.clustering and rng.random() < 0.35:
        made["order_by"] = rng.randint(1, len(pool.table.clustering))
        made["reverse"] = rng.random() < 0.6


def _tokens(rng: random.Random, pool: Pool) -> tuple[TokenBound, ...]:
    share = rng.random()
    low = TokenBound(rng.choice((">", ">=")), pool.key(), rng.random() < 0.5)
    high = TokenBound(rng.choice(("<", "<=")), pool.key(), rng.random() < 0.5)
    if share < 0.6:
        return ()
    if share < 0.75:
        return (low,)
    if share < 0.9:
        return (high,)
    return (low, high)


def _filters(rng: random.Random, pool: Pool) -> tuple[Filter, ...]:
    made: list[Filter] = []
    for column in pool.table.values:
        kind = column.kind
        if rng.random() < 0.5 or len(made) == 2 or pool.table.is_counter:
            continue
        if isinstance(kind, Scalar):
            op = rng.choice(("=", "=", "<", ">=", ">", "<="))
            op = "=" if kind.cql == "boolean" else op
            made.append(Filter(column.name, op, kind.draw(rng)))
        elif isinstance(kind, ListKind):
            made.append(Filter(column.name, "CONTAINS", kind.element.draw(rng)))
        elif isinstance(kind, MapKind):
            if rng.random() < 0.5:
                made.append(Filter(column.name, "CONTAINS", kind.value.draw(rng)))
            else:
                made.append(Filter(column.name, "CONTAINS KEY", kind.key.draw(rng)))
    return tuple(made)


def _items(rng: random.Random, pool: Pool) -> tuple[Item, ...] | None:
    if rng.random() < 0.5:
        return None
    table = pool.table
    columns: list[Column] = [*table.partition, *table.clustering, *table.values]
    items = [Item("column", column.name) for column in rng.sample(columns, rng.randint(1, len(columns)))]
    for column in table.values:
        if not column.kind.multicell and not table.is_counter and rng.random() < 0.4:
            items.append(Item(rng.choice(("writetime", "ttl")), column.name))
    return tuple(items)


def _aggregate(rng: random.Random, pool: Pool, made: dict[str, object]) -> None:
    table = pool.table
    items = [Item("count", "*")]
    for column in table.values:
        if isinstance(column.kind, Scalar) and not table.is_counter and rng.random() < 0.6:
            items.append(Item(rng.choice(("min", "max", "count")), column.name))
    if rng.random() < 0.6:
        width = rng.randint(len(table.partition), len(table.partition) + len(table.clustering))
        made["group_by"] = width
        names = [column.name for column in (*table.partition, *table.clustering)][:width]
        items = [Item("column", name) for name in names] + items
    made["items"] = tuple(items)
