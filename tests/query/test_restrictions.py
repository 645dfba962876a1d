"""WHERE clauses: what they name, and Cassandra's words for what they may not say."""
# ruff: noqa: E501 - tables of clauses and messages read best with one case a line

import pytest

from belvedere.cql.parser import parse_where
from belvedere.model.types import parse_type
from belvedere.query.access import UNSET, BoundValue
from belvedere.query.errors import InvalidRequest
from belvedere.query.terms.values import BindCollector
from belvedere.query.where.restrictions import NEEDS_FILTERING, Purpose, Restrictions, analyse
from belvedere.storage.reads import EVERYTHING, MAX_TOKEN
from tests.query.fake_access import Session, make_table

TABLE = make_table(
    "t",
    "k int, a int, b int, c int, s int static, v int, d duration, l list<int>, m map<text, int>, fm frozen<map<text, int>>, n frozen<list<int>>, key (k, a, b desc, c)",
)
WIDE = make_table("wide", "x int, y text, v int, key ((x, y))")
SESSION = Session(TABLE, WIDE)


def restrict(where: str, table: object = TABLE, **options: object) -> tuple[Restrictions, BindCollector]:
    collector = BindCollector(SESSION.schema, "ks")
    return analyse(table, parse_where(where), collector, **options), collector  # type: ignore[arg-type]


def i(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def clustering(restrictions: Restrictions, *values: BoundValue) -> list[tuple[int, ...]]:
    keys = restrictions.row_keys(SESSION.execution(values))
    assert keys is not None
    return [
        tuple(int.from_bytes(v, "big", signed=True) for v in TABLE.clustering_order.decode(key))
        for key in keys
    ]


def test_partition_keys_are_sorted_by_value_without_duplicates() -> None:
    found, _ = restrict("k IN (3, -1, 2, 3)")
    assert found.partition_keys(SESSION.execution()) == [i(-1), i(2), i(3)]


def test_composite_keys_are_all_combinations() -> None:
    found, _ = restrict("y IN ('b', 'a') AND x IN (1, 2)", WIDE)
    keys = found.partition_keys(SESSION.execution())
    assert keys == [b"\0\4" + i(x) + b"\0\0\1" + y + b"\0" for x in (1, 2) for y in (b"a", b"b")]


def test_bind_variables_are_named_after_what_they_stand_for() -> None:
    found, collector = restrict("k = ? AND (a, b) = ? AND c IN ?")
    assert [(b.name, b.type.name) for b in collector.bindings] == [
        ("k", "int"), ("(a,b)", "frozen<tuple<int, int>>"), ("in(c)", "frozen<list<int>>"),
    ]  # fmt: skip
    listed = parse_type("list<int>").encode([7, 6])
    pair = parse_type("tuple<int, int>").encode((1, 2))
    assert clustering(found, i(1), pair, listed) == [(1, 2, 6), (1, 2, 7)]
    _, collector = restrict("token(k) > ? AND (a, b) IN ?", allow_filtering=True)
    assert [(b.name, b.type.name) for b in collector.bindings] == [
        ("partition key token", "bigint"), ("in(a,b)", "frozen<list<frozen<tuple<int, int>>>>"),
    ]  # fmt: skip


def test_bind_variables_of_filters() -> None:
    _, collector = restrict("k = 1 AND l CONTAINS ? AND m CONTAINS KEY ? AND m[?] = ?", allow_filtering=True)
    assert [(b.name, b.type.name) for b in collector.bindings] == [
        ("value(l)", "int"), ("key(m)", "text"), ("key(m)", "text"), ("value(m)", "int"),
    ]  # fmt: skip


def test_no_clustering_restriction_selects_everything() -> None:
    assert restrict("k = 1")[0].slices(SESSION.execution()) == EVERYTHING


def test_an_empty_in_selects_nothing() -> None:
    found, _ = restrict("k = 1 AND a IN ()")
    assert found.slices(SESSION.execution()) == ()
    assert restrict("k IN ()")[0].partition_keys(SESSION.execution()) == []


def test_ranges_in_mixed_order_are_contiguous_pieces() -> None:
    # b runs downwards: after (1, 2) come, in a = 1, the smaller b and then the larger a.
    (first, second) = restrict("k = 1 AND (a, b) >= (1, 2)")[0].slices(SESSION.execution())
    order = TABLE.clustering_order
    inside = [(1, 9, 0), (1, 2, 5), (2, -7, 0), (2, 7, 0)]
    outside = [(1, 1, 0), (0, 9, 9)]
    for values in inside + outside:
        key = order.encode([i(v) for v in values])
        assert (first.holds(key) or second.holds(key)) is (values in inside), values


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("token(k) > 5", (6, MAX_TOKEN)),
        ("token(k) >= 5 AND token(k) < 10", (5, 9)),
        ("token(k) = 7", (7, 7)),
        ("token(k) BETWEEN 3 AND 4", (3, 4)),
        ("token(k) > 9 AND token(k) <= 3", (10, 3)),
        ("token(k) > 9 AND token(k) <= -9223372036854775808", (10, MAX_TOKEN)),
        ("token(k) > token(1)", (-4069959284402364209 + 1, MAX_TOKEN)),
    ],
)
def test_token_ranges(where: str, wanted: tuple[int, int]) -> None:
    assert restrict(where)[0].token_range(SESSION.execution()) == wanted


def test_facts_for_planning() -> None:
    full, _ = restrict("k = ? AND a = 1 AND b = ? AND c = 3")
    assert full.is_full_row
    assert len(full.key_terms) == 1
    assert len(full.row_terms) == 3
    assert full.equals(TABLE.by_name["a"])
    listed, _ = restrict("k IN (1) AND a IN (1, 2)")
    assert listed.partition_has_in
    assert listed.clustering_has_in
    assert not listed.is_full_row
    assert listed.key_terms == ()
    sliced, _ = restrict("k = 1 AND a > 1")
    assert sliced.clustering.slice is not None
    assert not sliced.queries_full_partitions
    assert restrict("k = 1")[0].queries_full_partitions


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("zz = 1", "Undefined column name zz in table ks.t"),
        ("k != 1", 'Unsupported "!=" relation: k != 1'),
        ("k = 1 AND a LIKE 'x%'", "LIKE restriction is only supported on properly indexed columns. a LIKE 'x%' is not valid."),
        ("k = 1 AND a IS NOT NULL", "Unsupported restriction: a IS NOT NULL"),
        ("k = 1 AND k = 2", "k cannot be restricted by more than one relation if it includes an Equal"),
        ("k IN (1) AND k = 2", "k cannot be restricted by more than one relation if it includes a IN"),
        ("k = 1 AND a > 1 AND a >= 2", "More than one restriction was found for the start bound on a"),
        ("k = 1 AND a < 1 AND a <= 2", "More than one restriction was found for the end bound on a"),
        ("k = 1 AND a > 1 AND a = 2", 'Column "a" cannot be restricted by both an equality and an inequality relation'),
        ("k = 1 AND (a, b) > (1, 2) AND (b) < (3)", 'Column "b" cannot be restricted by two inequalities not starting with the same column'),
        ("k = 1 AND b = 1", 'PRIMARY KEY column "b" cannot be restricted as preceding column "a" is not restricted'),
        ("k = 1 AND a > 1 AND b = 1", 'Clustering column "b" cannot be restricted (preceding column "a" is restricted by a non-EQ relation)'),
        ("k = 1 AND v = 1", NEEDS_FILTERING),
        ("a = 1", NEEDS_FILTERING),
        ("k > 1", NEEDS_FILTERING),
        ("l = [1]", "Collection column 'l' (list<int>) cannot be restricted by a '=' relation"),
        ("k = 1 AND v CONTAINS 1", "Cannot use CONTAINS on non-collection column v"),
        ("k = 1 AND l CONTAINS KEY 1", "Cannot use CONTAINS KEY on non-map column l"),
        ("k = 1 AND l[0] = 1", "Indexes on list entries (l[index] = value) are not supported."),
        ("k = 1 AND fm['a'] = 1", "Map-entry equality predicates on frozen map column fm are not supported"),
        ("k = 1 AND m['a'] > 1", "Only EQ relations are supported on map entries"),
        ("k = 1 AND d > 1h", "Slice restrictions are not supported on duration columns"),
        ("(k, a) = (1, 2)", "Multi-column relations can only be applied to clustering columns but was applied to: k"),
        ("k = 1 AND (a, a) = (1, 2)", 'Column "a" appeared twice in a relation: (a, a) = (1, 2)'),
        ("k = 1 AND (b, a) = (1, 2)", "Clustering columns must appear in the PRIMARY KEY order in multi-column relations: (b, a) = (1, 2)"),
        ("k = 1 AND (a, b) = (1, 2, 3)", "Expected 2 elements in value tuple, but got 3: (1, 2, 3)"),
        ("token(a) > 1", "The token() function must contains only partition key components"),
        ("token(k) IN (1)", "IN cannot be used with the token function"),
        ("k = 'x'", 'Invalid STRING constant (x) for "k" of type int'),
    ],
)  # fmt: skip
def test_errors_of_selects(where: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        restrict(where)
    assert error.value.message == message


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (
            "token(x) > 1",
            "The token() function must be applied to all partition key components or none of them",
        ),
        ("token(y, x) > 1", "The token function arguments must be in the partition key order: x, y"),
        ("x = 1", NEEDS_FILTERING),
    ],
)
def test_errors_of_composite_keys(where: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        restrict(where, WIDE)
    assert error.value.message == message


@pytest.mark.parametrize(
    ("where", "purpose", "message"),
    [
        ("a = 1", Purpose.DELETE, "Some partition key parts are missing: k"),
        ("k > 1", Purpose.DELETE, "Only EQ and IN relation are supported on the partition key (unless you use the token() function) for DELETE statements"),
        ("token(k) > 1", Purpose.UPDATE, "The token function cannot be used in WHERE clauses for UPDATE statements"),
        ("k = 1 AND a = 1", Purpose.UPDATE, "Some clustering keys are missing: b, c"),
        ("k = 1 AND a > 1", Purpose.UPDATE, "Slice restrictions are not supported on the clustering columns in UPDATE statements"),
        ("k = 1 AND a = 1 AND v = 2", Purpose.DELETE, "Non PRIMARY KEY columns found in where clause: v "),
        ("k = 1 AND b = 1", Purpose.DELETE, 'PRIMARY KEY column "b" cannot be restricted as preceding column "a" is not restricted'),
    ],
)  # fmt: skip
def test_errors_of_modifications(where: str, purpose: Purpose, message: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        restrict(where, purpose=purpose)
    assert error.value.message == message


def test_static_updates_must_not_name_rows() -> None:
    restrict("k = 1", purpose=Purpose.UPDATE, only_static=True)
    with pytest.raises(InvalidRequest, match="modifies only static columns"):
        restrict("k = 1 AND a = 1", purpose=Purpose.UPDATE, only_static=True)


@pytest.mark.parametrize(
    ("where", "values", "message"),
    [
        ("k = ?", (None,), "Invalid null value in condition for column k"),
        ("k = ?", (UNSET,), "Invalid unset value for column k"),
        ("k = 1 AND a > ?", (None,), "Invalid null value in condition for column a"),
        ("k = 1 AND a IN ?", (None,), "Invalid null value for IN restriction"),
        ("k = ?", (b"\0\0\0\0\0",), "Expected 4 or 0 byte int (5)"),
    ],
)
def test_errors_of_bound_values(where: str, values: tuple[BoundValue, ...], message: str) -> None:
    found, _ = restrict(where)
    with pytest.raises(InvalidRequest) as error:
        _evaluate(found, values)
    assert error.value.message == message


def _evaluate(found: Restrictions, values: tuple[BoundValue, ...]) -> None:
    execution = SESSION.execution(values)
    found.partition_keys(execution)
    found.slices(execution)


@pytest.mark.parametrize(
    ("key", "message"),
    [(b"", "Key may not be empty"), (b"x" * 65536, "Key length of 65536 is longer than maximum of 65535")],
)
def test_keys_have_a_length(key: bytes, message: str) -> None:
    found, _ = restrict("k = ?", make_table("text", "k text, v int, key (k)"))
    with pytest.raises(InvalidRequest) as error:
        found.partition_keys(SESSION.execution((key,)))
    assert error.value.message == message


def test_null_in_a_filter() -> None:
    found, _ = restrict("k = 1 AND v = ? AND m[?] = 1", allow_filtering=True)
    with pytest.raises(InvalidRequest, match="Unsupported null value for column v"):
        found.predicate(SESSION.execution((None, b"a")))
    with pytest.raises(InvalidRequest, match="Unsupported null map key for column m"):
        found.predicate(SESSION.execution((i(1), None)))


def test_views_keep_is_not_null_and_need_no_permission() -> None:
    found, _ = restrict("k IS NOT NULL AND v > 3 AND c = 4", for_view=True)
    assert [column.name for column in found.not_null] == ["k"]
    assert found.filters
