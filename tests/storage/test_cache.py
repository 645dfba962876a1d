"""The cache of row groups stays within its bound and forgets what was used longest ago."""

import random
from collections import OrderedDict
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from belvedere.storage.cache import GroupCache


@dataclass
class Group:
    cost: int


@given(st.integers(0, 2**32))
def test_against_an_ordered_dict(seed: int) -> None:
    rnd = random.Random(seed)
    cache: GroupCache[Group] = GroupCache(100)
    model: OrderedDict[tuple[int, int], Group] = OrderedDict()
    for _ in range(200):
        key = (rnd.randrange(3), rnd.randrange(6))
        action = rnd.random()
        if action < 0.5:
            group = Group(rnd.choice([1, 10, 40, 101]))
            cache.put(key, group)
            model.pop(key, None)
            if group.cost <= 100:
                model[key] = group
            while sum(g.cost for g in model.values()) > 100:
                model.popitem(last=False)
        elif action < 0.9:
            assert cache.get(key) is model.get(key)
            if key in model:
                model.move_to_end(key)
        else:
            cache.drop_file(key[0], 6)
            for other in [k for k in model if k[0] == key[0]]:
                del model[other]
        assert len(cache) == len(model)
        assert cache.used == sum(g.cost for g in model.values()) <= 100


def test_files_never_share_a_number() -> None:
    cache: GroupCache[Group] = GroupCache(10)
    assert cache.new_file() != cache.new_file()
