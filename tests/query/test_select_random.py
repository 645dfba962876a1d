"""Random SELECTs against a dumb filter over all rows, whole and in pages of every size."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from belvedere.model.token import token_of
from belvedere.query.results import Rows
from tests.query.fake_access import Session, decoded, make_table, run

COLUMNS = ("k", "a", "b", "s", "v")
DEFINITION = "k int, a int, b int, s int static, v int, key (k, a, b desc)"
small = st.integers(0, 3)
maybe = st.none() | small

Stored = tuple[int, int | None, int | None, int | None, int | None]
Test = Callable[[Stored], bool]


@dataclass
class Query:
    """A WHERE clause as text and as the tests that rows must pass."""

    texts: list[str] = field(default_factory=list)
    tests: list[Test] = field(default_factory=list)
    by_key: bool = False
    rows_only: bool = False

    def add(self, text: str, test: Test) -> None:
        self.texts.append(text)
        self.tests.append(test)


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda x, y: x == y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
    "IN": lambda x, y: x in y,
}
SLICES = ("<", "<=", ">", ">=")


def compare(column: int, operator: str, value: Any) -> Test:
    return lambda row: row[column] is not None and OPERATORS[operator](row[column], value)


def compare_pair(operator: str, value: Any) -> Test:
    return lambda row: row[1] is not None and OPERATORS[operator]((row[1], row[2]), value)


def token(k: int) -> int:
    return token_of(k.to_bytes(4, "big", signed=True))


def tuple_text(values: Any) -> str:
    return f"({', '.join(map(str, values))})"


@st.composite
def queries(draw: st.DrawFn) -> Query:
    query = Query()
    draw_partition(draw, query)
    draw_clustering(draw, query)
    for name in ("v", "s"):
        if draw(st.integers(0, 4)) == 0:
            operator, value = draw(st.sampled_from(("=", *SLICES))), draw(small)
            query.add(f"{name} {operator} {value}", compare(COLUMNS.index(name), operator, value))
            query.rows_only |= name == "v"
    return query


def draw_partition(draw: st.DrawFn, query: Query) -> None:
    kind = draw(st.sampled_from(("all", "=", "IN", "token", "slice", "both")))
    value = draw(small)
    if kind == "=":
        query.by_key = True
        query.add(f"k = {value}", compare(0, "=", value))
    if kind in ("IN", "both"):
        values = draw(st.lists(small, max_size=4))
        query.by_key = True
        query.add(f"k IN {tuple_text(values)}", compare(0, "IN", values))
    if kind == "slice":
        operator = draw(st.sampled_from(SLICES))
        query.add(f"k {operator} {value}", compare(0, operator, value))
    if kind in ("token", "both"):
        operator, other = draw(st.sampled_from((">", ">="))), draw(small)
        query.add(
            f"token(k) {operator} token({value})",
            lambda row: OPERATORS[operator](token(row[0]), token(value)),
        )
        if draw(st.booleans()):
            query.add(f"token(k) <= {token(other)}", lambda row: token(row[0]) <= token(other))


def draw_clustering(draw: st.DrawFn, query: Query) -> None:
    kind = draw(st.sampled_from(("none", "single", "pair", "pair slice", "pair in", "gap")))
    query.rows_only |= kind != "none"
    values = st.tuples(small, small)
    if kind == "single":
        draw_single(draw, query, 1)
        if draw(st.booleans()):
            draw_single(draw, query, 2)
    elif kind == "pair":
        pair = draw(values)
        query.add(f"(a, b) = {tuple_text(pair)}", compare_pair("=", pair))
    elif kind == "pair slice":
        low, high = draw(st.sampled_from((">", ">="))), draw(st.sampled_from(("<", "<=", "")))
        pair = draw(values)
        query.add(f"(a, b) {low} {tuple_text(pair)}", compare_pair(low, pair))
        if high and draw(st.booleans()):
            end = draw(small)
            query.add(f"a {high} {end}", compare(1, high, end))
        elif high:
            end_pair = draw(values)
            query.add(f"(a, b) {high} {tuple_text(end_pair)}", compare_pair(high, end_pair))
    elif kind == "pair in":
        pairs = draw(st.lists(values, max_size=3))
        query.add(f"(a, b) IN ({', '.join(map(tuple_text, pairs))})", compare_pair("IN", pairs))
    elif kind == "gap":
        draw_single(draw, query, 2)


def draw_single(draw: st.DrawFn, query: Query, column: int) -> None:
    name = COLUMNS[column]
    operator = draw(st.sampled_from(("=", "IN", *SLICES)))
    if operator == "IN":
        values = draw(st.lists(small, max_size=3))
        query.add(f"{name} IN {tuple_text(values)}", compare(column, "IN", values))
        return
    value = draw(small)
    query.add(f"{name} {operator} {value}", compare(column, operator, value))
    if operator in SLICES and draw(st.booleans()):
        other = draw(st.sampled_from((">", ">=") if operator[0] == "<" else ("<", "<=")))
        end = draw(small)
        query.add(f"{name} {other} {end}", compare(column, other, end))


Data = dict[int, tuple[int | None, dict[tuple[int, int], int | None]]]
data_sets: st.SearchStrategy[Data] = st.dictionaries(
    small, st.tuples(maybe, st.dictionaries(st.tuples(small, small), maybe, max_size=9)), max_size=4
)


def load(data: Data) -> Session:
    session = Session(make_table("t", DEFINITION))
    for k, (static, rows) in data.items():
        if static is not None:
            run(session, f"UPDATE t SET s = {static} WHERE k = {k}")
        for (a, b), v in rows.items():
            run(session, f"INSERT INTO t (k, a, b, v) VALUES ({k}, {a}, {b}, {'null' if v is None else v})")
    return session


def expected(data: Data, query: Query, *, reverse: bool, per_partition: int) -> list[Stored]:
    found: list[Stored] = []
    for k in sorted(data, key=(lambda k: k) if query.by_key else token):
        static, rows = data[k]
        here: list[Stored] = [
            (k, a, b, static, rows[a, b])
            for a, b in sorted(rows, key=lambda ab: (ab[0], -ab[1]), reverse=reverse)
        ]
        if not rows and static is not None and not query.rows_only:
            here = [(k, None, None, static, None)]
        here = [row for row in here if all(test(row) for test in query.tests)]
        found += here[:per_partition] if per_partition else here
    return found


def where(query: Query) -> str:
    return f" WHERE {' AND '.join(query.texts)}" if query.texts else ""


def pages(session: Session, text: str, size: int) -> Iterator[Rows]:
    state = None
    for _ in range(200):
        result = run(session, text, page_size=size, paging_state=state)
        assert isinstance(result, Rows)
        yield result
        state = result.paging_state
        if state is None:
            return
    raise AssertionError("paging does not end")


@given(data_sets, queries(), st.integers(0, 3), st.integers(0, 6), st.booleans(), st.booleans())
def test_any_select_equals_a_dumb_filter_in_pages_of_any_size(
    data: Data, query: Query, per_partition: int, limit: int, descending: bool, busy: bool
) -> None:
    session = load(data)
    session.access.busy = busy
    single = any(text.startswith("k = ") for text in query.texts)
    reverse = descending and single
    text = f"SELECT k, a, b, s, v FROM t{where(query)}"
    text += " ORDER BY a DESC, b ASC" if reverse else ""
    text += f" PER PARTITION LIMIT {per_partition}" if per_partition else ""
    text += f" LIMIT {limit}" if limit else ""
    text += " ALLOW FILTERING"
    wanted = expected(data, query, reverse=reverse, per_partition=per_partition)
    wanted = wanted[:limit] if limit else wanted
    assert [row for page in pages(session, text, 0) for row in decoded(page)] == wanted, text
    for size in (1, 2, 3, 5, 50):
        found = []
        for page in pages(session, text, size):
            assert len(page.rows) <= size
            found += decoded(page)
        assert found == wanted, (text, size)


@given(data_sets, queries(), st.integers(0, 4))
def test_distinct_gives_each_partition_once(data: Data, query: Query, limit: int) -> None:
    kept = [(text, test) for text, test in zip(query.texts, query.tests, strict=True) if text[0] in "kst"]
    query = Query([text for text, _ in kept], [test for _, test in kept], query.by_key)
    session = load(data)
    text = f"SELECT DISTINCT k, s FROM t{where(query)}{f' LIMIT {limit}' if limit else ''} ALLOW FILTERING"
    wanted = [(row[0], row[3]) for row in expected(data, query, reverse=False, per_partition=1)]
    wanted = wanted[:limit] if limit else wanted
    for size in (0, 1, 2):
        assert [row for page in pages(session, text, size) for row in decoded(page)] == wanted, (text, size)


@given(data_sets, queries(), st.integers(0, 2), st.integers(0, 5), st.integers(0, 2))
def test_groups_equal_a_dumb_grouping(
    data: Data, query: Query, depth: int, limit: int, per_partition: int
) -> None:
    session = load(data)
    names = ("k", "a", "b")[: depth + 1]
    keys = ", ".join(names)
    text = f"SELECT {keys}, count(*), sum(v), min(v), max(b) FROM t{where(query)} GROUP BY {keys}"
    text += f" PER PARTITION LIMIT {per_partition}" if per_partition else ""
    text += f"{f' LIMIT {limit}' if limit else ''} ALLOW FILTERING"
    groups: dict[tuple[Any, ...], list[Stored]] = {}
    for row in expected(data, query, reverse=False, per_partition=0):
        groups.setdefault(row[: depth + 1], []).append(row)
    wanted = []
    shown: dict[int, int] = {}
    for key, rows in groups.items():
        shown[key[0]] = shown.get(key[0], 0) + 1
        if per_partition and shown[key[0]] > per_partition:
            continue
        values = [row[4] for row in rows if row[4] is not None]
        last = [row[2] for row in rows if row[2] is not None]
        wanted.append((*key, len(rows), sum(values), min(values, default=None), max(last, default=None)))
    wanted = wanted[:limit] if limit else wanted
    for size in (0, 1, 2, 3):
        found = []
        for page in pages(session, text, size):
            assert not size or len(page.rows) <= size
            found += decoded(page)
        assert found == wanted, (text, size)


@given(data_sets, queries())
def test_aggregates_over_everything_ignore_the_page_size(data: Data, query: Query) -> None:
    session = load(data)
    rows = expected(data, query, reverse=False, per_partition=0)
    values = [row[4] for row in rows if row[4] is not None]
    for text, wanted in (
        ("count(*)", (len(rows),)),
        ("count(v), sum(v), max(v)", (len(values), sum(values), max(values, default=None))),
    ):
        for size in (0, 1):
            result = run(session, f"SELECT {text} FROM t{where(query)} ALLOW FILTERING", page_size=size)
            assert isinstance(result, Rows)
            assert decoded(result) == [wanted]
            assert result.paging_state is None
