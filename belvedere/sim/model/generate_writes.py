"""Random INSERT, UPDATE, DELETE and BATCH."""

import random
from typing import Any

from belvedere.sim.model.conditions import Condition, Conditions, Existence
from belvedere.sim.model.effects import Assign
from belvedere.sim.model.kinds import COUNTER, Kind, ListKind, MapKind, SetKind, UserKind
from belvedere.sim.model.pools import Pool
from belvedere.sim.model.restrictions import UNSET
from belvedere.sim.model.schema import Column
from belvedere.sim.model.writes import Batch, Modification


def draw_modification(
    rng: random.Random, pool: Pool, *, conditional: float = 0.15, in_batch: bool = False
) -> Modification:
    table = pool.table
    if table.is_counter:
        return _counter(rng, pool, in_batch=in_batch)
    if_it = rng.random() < conditional
    share = rng.random()
    if share < 0.45:
        made = _insert(rng, pool, if_it)
    elif share < 0.75 and table.values:
        made = _update(rng, pool, if_it)
    else:
        made = _delete(rng, pool, if_it)
    if not if_it:
        made.timestamp = pool.timestamp()
    if made.verb != "DELETE" and rng.random() < 0.2:
        made.ttl = rng.choice((1, 2, 3, 5, 60, 0))
    return made


def _modification(rng: random.Random, pool: Pool, verb: str, **rest: Any) -> Modification:
    table = pool.table
    return Modification(verb, table.name, table.life, bound=rng.random() < 0.5, **rest)


def _some(rng: random.Random, columns: list[Column], least: int) -> list[Column]:
    if len(columns) < least:
        return []
    return rng.sample(columns, rng.randint(least, len(columns)))


def _value(rng: random.Random, kind: Kind, bound: bool) -> Any:
    share = rng.random()
    if share < 0.12:
        return None
    if share < 0.17 and bound:
        return UNSET
    return kind.draw(rng)


def _insert(rng: random.Random, pool: Pool, if_it: bool) -> Modification:
    table = pool.table
    static_only = bool(table.statics) and rng.random() < 0.15
    columns = _some(rng, table.statics if static_only else list(table.values), 1 if static_only else 0)
    made = _modification(
        rng, pool, "INSERT", keys=(pool.key(),), where=() if static_only else pool.full_row()
    )
    made.assigns = tuple(Assign(c.name, "set", _value(rng, c.kind, made.bound)) for c in columns)
    if if_it:
        made.conditions = Conditions(Existence.NOT_EXISTS)
    return made


def _update(rng: random.Random, pool: Pool, if_it: bool) -> Modification:
    table = pool.table
    columns = _some(rng, list(table.values), 1)
    static_only = all(column.static for column in columns) and bool(table.clustering)
    several = 0.0 if if_it else 0.15
    made = _modification(rng, pool, "UPDATE", keys=pool.keys(several=several))
    made.where = () if static_only else pool.full_row(several=several)
    made.assigns = tuple(_assign(rng, column, made.bound) for column in columns)
    if if_it:
        made.conditions = _conditions(rng, pool, table.statics if static_only else list(table.values))
    return made


def _assign(rng: random.Random, column: Column, bound: bool) -> Assign:
    kind, name = column.kind, column.name
    if not kind.multicell or rng.random() < 0.4:
        return Assign(name, "set", _value(rng, kind, bound))
    if isinstance(kind, UserKind):
        index = rng.randrange(len(kind.fields))
        return Assign(name, "field", _value(rng, kind.parts[index], False), kind.fields[index])
    value = kind.draw(rng)
    if isinstance(kind, MapKind):
        op = rng.choice(("add", "put", "put", "discard_keys"))
        if op == "put":
            return Assign(name, op, _value(rng, kind.value, False), kind.key.draw(rng))
        return Assign(name, op, tuple(key for key, _ in value) if op == "discard_keys" else value)
    if isinstance(kind, SetKind):
        return Assign(name, rng.choice(("add", "add", "discard_keys")), value)
    assert isinstance(kind, ListKind)
    op = rng.choice(("add", "add", "prepend", "discard", "put_index"))
    if op == "put_index":
        return Assign(name, op, _value(rng, kind.element, False), rng.choice((0, 0, 0, 1, 2)))
    return Assign(name, op, value)


def _delete(rng: random.Random, pool: Pool, if_it: bool) -> Modification:
    table = pool.table
    several = 0.0 if if_it else 0.15
    made = _modification(rng, pool, "DELETE", keys=pool.keys(several=several))
    if table.values and rng.random() < 0.35:
        columns = _some(rng, list(table.values), 1)
        static_only = all(column.static for column in columns) and bool(table.clustering)
        made.where = () if static_only else pool.full_row(several=several)
        made.assigns = tuple(_drop(rng, column) for column in columns)
        conditioned = table.statics if static_only else list(table.values)
    else:
        conditioned = list(table.values)
        share = rng.random()
        if if_it or share < 0.5:
            made.where = pool.full_row(several=several)
        elif share < 0.85:
            made.where = pool.range(lists=False)
    if if_it:
        made.conditions = _conditions(rng, pool, conditioned)
        names = [condition.column for condition in made.conditions.columns]
        if not made.assigns and names and all(table.column(name).static for name in names):
            # Then it would be about static cells alone, and may not name a row.
            made.conditions = Conditions(Existence.EXISTS)
    return made


def _drop(rng: random.Random, column: Column) -> Assign:
    kind, name = column.kind, column.name
    if kind.multicell and rng.random() < 0.6:
        if isinstance(kind, UserKind):
            return Assign(name, "drop_field", path=rng.choice(kind.fields))
        if isinstance(kind, MapKind):
            return Assign(name, "drop_key", path=kind.key.draw(rng))
        if isinstance(kind, SetKind):
            return Assign(name, "drop_key", path=kind.element.draw(rng))
        return Assign(name, "drop_index", path=rng.choice((0, 0, 1)))
    return Assign(name, "drop")


def _conditions(rng: random.Random, pool: Pool, columns: list[Column]) -> Conditions:
    if not columns or rng.random() < 0.35:
        return Conditions(Existence.EXISTS)
    return Conditions(None, tuple(_condition(rng, column) for column in _some(rng, columns, 1)[:2]))


def _condition(rng: random.Random, column: Column) -> Condition:
    kind = column.kind
    if kind.multicell or not hasattr(kind, "domain"):
        value = kind.draw(rng)
        empty = not isinstance(kind, UserKind) and kind.multicell and not value
        return Condition(column.name, rng.choice(("=", "!=")), None if empty else value)
    op = rng.choice(("=", "=", "!=", "<", ">", "<=", ">=", "IN", "null"))
    if op == "IN":
        return Condition(column.name, op, tuple(kind.draw(rng) for _ in range(rng.randint(1, 3))))
    if op == "null":
        return Condition(column.name, rng.choice(("=", "!=")), None)
    return Condition(column.name, op, kind.draw(rng))


def _counter(rng: random.Random, pool: Pool, *, in_batch: bool) -> Modification:
    table = pool.table
    if rng.random() < 0.12 and not in_batch:
        made = _modification(rng, pool, "DELETE", keys=pool.keys(several=0.1))
        if rng.random() < 0.7:
            made.where = pool.full_row()
        return made
    columns = _some(rng, list(table.values), 1)
    made = _modification(rng, pool, "UPDATE", keys=pool.keys(several=0.1))
    static_only = all(column.static for column in columns) and bool(table.clustering)
    made.where = () if static_only else pool.full_row(several=0.1)
    made.assigns = tuple(
        Assign(c.name, rng.choice(("add", "add", "subtract")), COUNTER.draw(rng)) for c in columns
    )
    return made


def draw_batch(rng: random.Random, pools: list[Pool]) -> Batch:
    bound = rng.random() < 0.5
    counters = [pool for pool in pools if pool.table.is_counter]
    others = [pool for pool in pools if not pool.table.is_counter]
    count = rng.randint(1, 4)
    if counters and (not others or rng.random() < 0.3):
        made = [draw_modification(rng, rng.choice(counters), in_batch=True) for _ in range(count)]
        return _marked(Batch("COUNTER", made, bound=bound))
    if rng.random() < 0.2:
        return _marked(_conditional_batch(rng, rng.choice(others), count, bound))
    made = [draw_modification(rng, rng.choice(others), conditional=0.0, in_batch=True) for _ in range(count)]
    batch = Batch(rng.choice(("LOGGED", "UNLOGGED")), made, bound=bound, message=rng.random() < 0.3)
    if rng.random() < 0.4 and not any(pool.table.prompt_purge for pool in pools) and not batch.message:
        batch.timestamp = others[0].timestamp()
    if batch.timestamp is not None:
        for child in made:
            child.timestamp = None
    return _marked(batch)


def _conditional_batch(rng: random.Random, pool: Pool, count: int, bound: bool) -> Batch:
    """One partition; one condition decides over all."""
    made = [draw_modification(rng, pool, conditional=1.0)]
    for _ in range(count - 1):
        child = draw_modification(rng, pool, conditional=0.0, in_batch=True)
        child.timestamp = None
        if any(restriction.op == "IN" for restriction in child.where):
            continue
        made.append(child)
    for child in made:
        child.keys = made[0].keys
    return Batch("LOGGED", made, bound=bound)


def _marked(batch: Batch) -> Batch:
    """Markers are all or none within a batch of text; UNSET needs them."""
    if not batch.message:
        for child in batch.children:
            child.bound = batch.bound
            if not batch.bound:
                child.assigns = tuple(
                    Assign(a.column, a.op, None, a.path) if a.value is UNSET else a for a in child.assigns
                )
    return batch
