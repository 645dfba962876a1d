"""What the topology leader does about the dead."""

from hypothesis import given
from hypothesis import strategies as st

from belvedere.cluster.configuration import Configuration
from belvedere.cluster.failover import Elected, Ended, Failover, GraceOver, Placed, Reconfigure, Seen

NODES = ("n1", "n2", "n3", "n4", "n5")


def elected(seen: Seen) -> list[Reconfigure]:
    leader = Failover()
    leader.handle(Seen(seen.tablets, frozenset(NODES)))
    leader.handle(Elected())
    return leader.handle(seen)


def placed(tablet: int, primary: str, in_sync: tuple[str, ...], replicas: tuple[str, ...]) -> Placed:
    return Placed(tablet, Configuration(7, primary, in_sync, replicas, 70 + tablet))


@st.composite
def placements(draw: st.DrawFn) -> Placed:
    replicas = draw(st.permutations(NODES).map(lambda all_nodes: all_nodes[:3]))
    count = draw(st.integers(1, 3))
    return placed(draw(st.integers(1, 5)), replicas[0], tuple(replicas[:count]), tuple(replicas))


@given(
    st.lists(placements(), max_size=5, unique_by=lambda one: one.tablet),
    st.frozensets(st.sampled_from(NODES)),
)
def test_only_survivors_that_are_in_sync_go_on(tablets: list[Placed], alive: frozenset[str]) -> None:
    effects = {one.tablet: one for one in elected(Seen(tuple(tablets), alive))}
    for one in tablets:
        before = one.configuration
        survivors = [node for node in before.in_sync if node in alive]
        wanted = effects.get(one.tablet)
        if not survivors or len(survivors) == len(before.in_sync):
            assert wanted is None
            continue
        assert wanted is not None
        after = wanted.configuration
        assert after.epoch == before.epoch + 1
        assert list(after.in_sync) == survivors
        assert after.replicas == before.replicas
        assert after.revision == before.revision
        assert after.primary in survivors
        assert before.primary not in alive or after.primary == before.primary
        assert set(wanted.gone) == set(before.in_sync) - alive


def test_new_primaries_are_spread() -> None:
    tablets = tuple(placed(number, "n1", ("n1", "n2", "n3"), ("n1", "n2", "n3")) for number in range(4))
    effects = elected(Seen(tablets, frozenset(("n2", "n3"))))
    assert sorted(one.configuration.primary for one in effects) == ["n2", "n2", "n3", "n3"]


def test_one_attempt_at_a_time_for_each_tablet() -> None:
    leader = Failover()
    tablets = (placed(1, "n1", ("n1", "n2"), ("n1", "n2")),)
    leader.handle(Seen(tablets, frozenset(NODES)))
    leader.handle(Elected())
    seen = Seen(tablets, frozenset(("n2",)))
    assert len(leader.handle(seen)) == 1
    assert leader.handle(seen) == []
    assert len(leader.handle(Ended(1))) == 1


def test_whoever_is_not_elected_only_looks() -> None:
    leader = Failover()
    leader.handle(GraceOver())
    assert leader.handle(Seen((placed(1, "n1", ("n1", "n2"), ("n1", "n2")),), frozenset(("n2",)))) == []


def test_who_was_never_seen_alive_has_some_time_to_start() -> None:
    leader = Failover()
    tablets = (placed(1, "n1", ("n1", "n2", "n3"), ("n1", "n2", "n3")),)
    leader.handle(Elected())
    assert leader.handle(Seen(tablets, frozenset(("n2",)))) == []
    assert leader.handle(Seen(tablets, frozenset(("n2", "n3")))) == []
    # n3 was there, and is gone: no grace for it.
    (wanted,) = leader.handle(Seen(tablets, frozenset(("n2",))))
    assert wanted.gone == ("n3",)
    assert leader.handle(GraceOver()) == []
    (wanted,) = leader.handle(Ended(1))
    assert set(wanted.gone) == {"n1", "n3"}
