"""Which nodes keep a new table's tablets: what must hold whatever the nodes are, and single cases."""

from bisect import bisect_left
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.cluster.placement import NoPlace, Placement, default_tablets, place, renewed
from belvedere.cluster.ring import Ring, first_token
from belvedere.meta import records
from belvedere.meta.state import ClusterState, Tablet
from belvedere.model.token import MAX_TOKEN
from tests.cluster.places import node_entries, state_of


def simple(factor: int) -> dict[str, str]:
    return {"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": str(factor)}


def network(**factors: int) -> dict[str, str]:
    return {"class": "org.apache.cassandra.locator.NetworkTopologyStrategy"} | {
        name: str(factor) for name, factor in factors.items()
    }


def with_table(state: ClusterState, number: int, placements: list[Placement]) -> ClusterState:
    """What is placed, as if it covered some tokens."""
    entries = {}
    for index, placed in enumerate(placements):
        record = records.TabletRecord(str(index), str(index), 1, placed.primary, list(placed.replicas))
        entries[records.tablet_key(number.to_bytes(16), number * 1000 + index)] = records.encode(record)
    return state_of(entries, state)


def spread(counts: Counter[str], names: list[str]) -> int:
    found = [counts[name] for name in names]
    return max(found) - min(found)


names = st.integers(1, 9).map(lambda count: [f"n{number}" for number in range(count)])


@given(names, st.integers(1, 5), st.integers(1, 40), st.data())
def test_every_tablet_is_whole_and_no_table_weighs_on_few(
    nodes: list[str], factor: int, count: int, data: st.DataObject
) -> None:
    down = data.draw(st.sets(st.sampled_from(nodes)))
    state = state_of(node_entries(nodes, down))
    placed = place(state, simple(factor), count)
    living = [name for name in nodes if name not in down]
    assert len(placed) == count
    for one in placed:
        assert len(set(one.replicas)) == len(one.replicas) == min(factor, len(nodes))
        assert one.primary in one.in_sync
        # Those that are down only where the living are not enough, and never as those who have it all.
        assert len([name for name in one.replicas if name in living]) == min(factor, len(living))
        assert set(one.in_sync) == (set(one.replicas) & set(living) or set(one.replicas))
    able = living or nodes
    assert spread(Counter(one.primary for one in placed), able) <= 1
    assert spread(Counter(name for one in placed for name in one.replicas), able) <= 2
    assert place(state, simple(factor), count) == placed


@given(
    st.lists(st.tuples(st.sampled_from(["dc1", "dc2"]), st.integers(0, 3)), min_size=1, max_size=9),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(1, 12),
)
def test_each_datacenter_gets_its_own_number_in_as_many_racks_as_can_be(
    where: list[tuple[str, int]], one: int, two: int, count: int
) -> None:
    places = {f"n{number}": (dc, f"rack{rack}") for number, (dc, rack) in enumerate(where)}
    state, factors = state_of(node_entries(places)), {"dc1": one, "dc2": two}
    of = {dc: [name for name, (its, _) in places.items() if its == dc] for dc in factors}
    if not any(factors[dc] and of[dc] for dc in factors):
        with pytest.raises(NoPlace):
            place(state, network(**factors), count)
        return
    for placed in place(state, network(**factors), count):
        for dc, factor in factors.items():
            chosen = [name for name in placed.replicas if name in of[dc]]
            assert len(chosen) == min(factor, len(of[dc]))
            racks = {places[name] for name in chosen}
            assert len(racks) == min(len(chosen), len({places[name] for name in of[dc]}))


@given(names, st.integers(1, 3), st.lists(st.integers(1, 7), min_size=1, max_size=12))
def test_many_tables_together_are_even(nodes: list[str], factor: int, sizes: list[int]) -> None:
    state, primaries, replicas = state_of(node_entries(nodes)), Counter[str](), Counter[str]()
    for number, size in enumerate(sizes, 1):
        placed = place(state, simple(factor), size)
        state = with_table(state, number, placed)
        primaries.update(one.primary for one in placed)
        replicas.update(name for one in placed for name in one.replicas)
    assert spread(primaries, nodes) <= 2
    assert spread(replicas, nodes) <= 3


def test_tables_of_one_tablet_go_round() -> None:
    state = state_of(node_entries(["a", "b", "c"]))
    found = []
    for number in range(1, 7):
        placed = place(state, simple(1), 1)
        state = with_table(state, number, placed)
        found.append(placed[0].primary)
    assert Counter(found) == {"a": 2, "b": 2, "c": 2}


@given(names, st.integers(1, 3), st.integers(0, 3))
def test_drivers_that_go_by_tokens_find_the_primary(nodes: list[str], factor: int, others: int) -> None:
    """Whatever small tables there are besides."""
    state = state_of(node_entries(nodes))
    for number in range(1, others + 1):
        state = with_table(state, number, place(state, simple(1), number))
    count = default_tablets(state, simple(factor))
    ring = Ring(state.nodes)
    owners = {token: name for name in nodes for token in ring.tokens(name)}
    assert len(owners) == 2 * len(nodes)
    in_order = sorted(owners)
    for number, placed in enumerate(place(state, simple(factor), count)):
        for token in (first_token(number, count), first_token(number + 1, count) - 1):
            # A driver gives each token to the first one on the ring that is not smaller.
            assert owners[in_order[bisect_left(in_order, token)]] == placed.primary


@given(names)
def test_a_ring_covers_everything(nodes: list[str]) -> None:
    ring = Ring(nodes)
    tokens = [token for name in nodes for token in ring.tokens(name)]
    assert len(set(tokens)) == len(tokens)
    assert max(tokens) == MAX_TOKEN
    assert all(ring.distance(name, token) == 0 for name in nodes for token in ring.tokens(name))


def test_the_number_of_tablets_follows_the_nodes() -> None:
    def cut(count: int) -> int:
        return default_tablets(state_of(node_entries([f"n{number}" for number in range(count)])), simple(3))

    assert [cut(0), cut(1), cut(3), cut(16), cut(40)] == [1, 2, 6, 32, 32]
    two = state_of(node_entries({"a": ("dc1", "r"), "b": ("dc1", "r"), "c": ("dc2", "r")}))
    assert default_tablets(two, network(dc1=1, dc2=0)) == 4


def test_a_factor_of_nothing_has_no_place() -> None:
    with pytest.raises(NoPlace):
        place(state_of(node_entries(["a"])), simple(0), 1)


def test_what_is_renewed_is_led_by_somebody_who_lives() -> None:
    tablet = Tablet(7, b"t" * 16, 0, 1, 5, "a", ("a", "b", "c"), ("a",))
    assert renewed(state_of(node_entries("abc")), tablet) == Placement("a", ("a", "b", "c"), ("a", "b", "c"))
    assert renewed(state_of(node_entries("abc", "a")), tablet) == Placement("b", ("a", "b", "c"), ("b", "c"))
    gone = renewed(state_of(node_entries("abc", "abc")), tablet)
    assert gone == Placement("a", ("a", "b", "c"), ("a", "b", "c"))
