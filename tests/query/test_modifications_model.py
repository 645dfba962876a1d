"""Random modifications with random client timestamps against a model that keeps every fact.

The model is written from CQL's rules alone: it knows neither rows nor merging. A reader sees of a cell
the fact with the largest (timestamp, kind, expiry, value) that no deletion covers.
"""

import random
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.query.fake_access import FakeAccess, Session, contents, make_table, run

TABLE = make_table(
    "t", "k int, c int, v int, w text, s int static, st set<int>, m map<int, int>, l list<int>, key (k, c)"
)


@dataclass
class Fact:
    timestamp: int
    value: Any
    expiry: int = 0
    ttl: int = 0

    @property
    def rank(self) -> tuple[Any, ...]:
        if self.value is None:
            return (self.timestamp, 2)
        return (self.timestamp, 1 if self.ttl else 0, self.expiry, self.value)

    def alive(self, deleted: int, now: int) -> bool:
        return self.timestamp > deleted and self.value is not None and (not self.ttl or self.expiry > now)


@dataclass
class Model:
    """Facts by where they are: cells by (k, c, column, element), deletions by what they cover."""

    cells: dict[tuple[Any, ...], list[Fact]] = field(default_factory=dict)
    #: (k, low, high, timestamp): rows with low <= c < high; static cells only go with whole partitions.
    ranges: list[tuple[int, float, float, int]] = field(default_factory=list)
    collections: dict[tuple[Any, ...], list[int]] = field(default_factory=dict)

    def put(self, place: tuple[Any, ...], fact: Fact) -> None:
        self.cells.setdefault(place, []).append(fact)

    def deleted(self, k: int, c: int | None) -> int:
        covering = [
            timestamp
            for key, low, high, timestamp in self.ranges
            if key == k
            and (low <= c < high if c is not None else (low, high) == (float("-inf"), float("inf")))
        ]
        return max(covering, default=-1)

    def value(self, k: int, c: int | None, column: str, element: Any, now: int) -> Any:
        facts = self.cells.get((k, c, column, element), [])
        if not facts:
            return None
        deleted = max([self.deleted(k, c), *self.collections.get((k, c, column), [])])
        best = max((fact for fact in facts), key=lambda fact: fact.rank)
        return best.value if best.alive(deleted, now) else None

    def contents(self, now: int) -> list[dict[str, Any]]:
        found = []
        for k in (0, 1):
            static = self.value(k, None, "s", None, now)
            shown = {} if static is None else {"s": static}
            rows = [self.row(k, c, now) for c in range(3)]
            alive = [{"k": k, **row, **shown} for row in rows if row]
            if not alive and shown:
                alive = [{"k": k, **shown}]
            found.extend(alive)
        return sorted((dict(sorted(row.items(), key=lambda i: ORDER.index(i[0]))) for row in found), key=repr)

    def row(self, k: int, c: int, now: int) -> dict[str, Any]:
        seen = {name: self.value(k, c, name, None, now) for name in ("v", "w")}
        for name in ("st", "m", "l"):
            elements = {
                place[3]: value
                for place in self.cells
                if place[:3] == (k, c, name) and (value := self.value(*place, now)) is not None
            }
            if elements:
                ordered = [elements[position] for position in sorted(elements)]
                seen[name] = {"st": set(elements), "m": elements, "l": ordered}[name]
        row = {name: value for name, value in seen.items() if value is not None}
        if not row and self.value(k, c, "", None, now) is None:
            return {}
        return {"c": c, **row}


ORDER = ["k", "c", "v", "w", "s", "st", "m", "l"]
INFINITY = float("inf")


class Player:
    """Does everything twice: as CQL to the session, and by its meaning to the model."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.session = Session(TABLE)
        self.model = Model()
        #: Positions of list elements: appends count up, prepends down.
        self.position = 0

    def step(self) -> None:
        kinds = [self.insert, self.update, self.update, self.delete_columns, self.delete_range, self.wait]
        self.random.choice(kinds)()

    def wait(self) -> None:
        self.session.now += self.random.randrange(3)

    def stamp(self) -> tuple[int, int, str]:
        timestamp, ttl = self.random.randrange(10, 16), self.random.choice([0, 0, 2])
        return timestamp, ttl, f"USING TIMESTAMP {timestamp}" + (f" AND TTL {ttl}" if ttl else "")

    def fact(self, value: Any, timestamp: int, ttl: int) -> Fact:
        if value is None:
            return Fact(timestamp, None)
        return Fact(timestamp, value, self.session.now + ttl if ttl else 0, ttl)

    def insert(self) -> None:
        timestamp, ttl, using = self.stamp()
        k, c = self.random.randrange(2), self.random.randrange(3)
        v, w, s = (self.random.choice([None, 1, 2, 3]) for _ in range(3))
        text = None if w is None else str(w)
        run(self.session, f"INSERT INTO t (k, c, v, w, s) VALUES (?, ?, ?, ?, ?) {using}", [k, c, v, text, s])
        self.model.put((k, c, "", None), self.fact(True, timestamp, ttl))
        for place, value in (((k, c, "v"), v), ((k, c, "w"), text), ((k, None, "s"), s)):
            self.model.put((*place, None), self.fact(value, timestamp, ttl))

    def update(self) -> None:
        timestamp, ttl, using = self.stamp()
        k, c = self.random.randrange(2), self.random.randrange(3)
        parts = self.random.sample(["v", "st", "m", "l"], self.random.randrange(1, 4))
        assignments = ", ".join(getattr(self, f"set_{part}")(k, c, timestamp, ttl) for part in parts)
        run(self.session, f"UPDATE t {using} SET {assignments} WHERE k = {k} AND c = {c}")

    def set_v(self, k: int, c: int, timestamp: int, ttl: int) -> str:
        value = self.random.choice([None, 4, 5])
        self.model.put((k, c, "v", None), self.fact(value, timestamp, ttl))
        return f"v = {'null' if value is None else value}"

    def overwrite(self, place: tuple[Any, ...], timestamp: int) -> None:
        self.model.collections.setdefault(place, []).append(timestamp - 1)

    def set_st(self, k: int, c: int, timestamp: int, ttl: int) -> str:
        elements = self.random.sample(range(4), self.random.randrange(3))
        literal = "{" + ", ".join(map(str, elements)) + "}"
        how = self.random.choice(["st = {0}", "st = st + {0}", "st = st - {0}"])
        if how == "st = {0}":
            self.overwrite((k, c, "st"), timestamp)
        for element in elements:
            value = None if "-" in how else True
            self.model.put((k, c, "st", element), self.fact(value, timestamp, ttl))
        return how.format(literal)

    def set_m(self, k: int, c: int, timestamp: int, ttl: int) -> str:
        key, value = self.random.randrange(3), self.random.choice([None, 7, 8])
        if self.random.random() < 0.5:
            self.model.put((k, c, "m", key), self.fact(value, timestamp, ttl))
            return f"m[{key}] = {'null' if value is None else value}"
        self.overwrite((k, c, "m"), timestamp)
        if value is None:
            return "m = null"
        self.model.put((k, c, "m", key), self.fact(value, timestamp, ttl))
        return f"m = {{{key}: {value}}}"

    def set_l(self, k: int, c: int, timestamp: int, ttl: int) -> str:
        values = [self.random.randrange(5) for _ in range(self.random.randrange(1, 3))]
        how = self.random.choice(["l = {0}", "l = l + {0}", "l = {0} + l"])
        if how == "l = {0}":
            self.overwrite((k, c, "l"), timestamp)
        self.position += 10
        first = self.position if how != "l = {0} + l" else -self.position
        for index, value in enumerate(values):
            self.model.put((k, c, "l", first + index), self.fact(value, timestamp, ttl))
        return how.format(values)

    def delete_columns(self) -> None:
        timestamp, k, c = self.random.randrange(10, 16), self.random.randrange(2), self.random.randrange(3)
        if self.random.random() < 0.3:
            run(self.session, f"DELETE s FROM t USING TIMESTAMP {timestamp} WHERE k = {k}")
            self.model.put((k, None, "s", None), Fact(timestamp, None))
            return
        run(self.session, f"DELETE v, m[1], l FROM t USING TIMESTAMP {timestamp} WHERE k = {k} AND c = {c}")
        self.model.put((k, c, "v", None), Fact(timestamp, None))
        self.model.put((k, c, "m", 1), Fact(timestamp, None))
        self.model.collections.setdefault((k, c, "l"), []).append(timestamp)

    def delete_range(self) -> None:
        timestamp, k, c = self.random.randrange(9, 14), self.random.randrange(2), self.random.randrange(3)
        where, low, high = self.random.choice(
            [
                (f"c = {c}", c, c + 1),
                (f"c > {c}", c + 1, INFINITY),
                (f"c < {c}", -INFINITY, c),
                (f"c >= {c} AND c <= 1", c, 2),
                ("", -INFINITY, INFINITY),
            ]
        )
        clause = f"k = {k}" + (f" AND {where}" if where else "")
        run(self.session, f"DELETE FROM t USING TIMESTAMP {timestamp} WHERE {clause}")
        self.model.ranges.append((k, low, high, timestamp))


@given(st.integers(0, 2**32), st.integers(1, 25))
def test_modifications_mean_what_the_model_says(seed: int, steps: int) -> None:
    player = Player(seed)
    for _ in range(steps):
        player.step()
    for later in range(3):
        player.session.now += later
        assert contents(player.session, "t") == player.model.contents(player.session.now)


@given(st.integers(0, 2**32), st.integers(1, 25))
def test_the_order_of_arrival_does_not_matter(seed: int, steps: int) -> None:
    player = Player(seed)
    for _ in range(steps):
        player.step()
    expected = contents(player.session, "t")
    log = player.session.access.log
    player.session.access = FakeAccess()
    player.random.shuffle(log)
    for mutations in log:
        player.session.access._apply(mutations)
        player.session.access._apply(mutations)
    assert contents(player.session, "t") == expected
