"""What drivers are told of who is where: a ring of tokens, as Cassandra has one for all tables. Pure.

Each table has its own tablets, so no ring is true of all of them. This one is cut into two equal ranges for
each node, given out in the order of their names. Tables that are cut in the same way are placed along it as
far as everything else is equal (`placement`): then a driver that goes by tokens asks a table's primary at
once. Where it is wrong the node that is asked asks the right one.
"""

from collections.abc import Iterable

from belvedere.model.token import MAX_TOKEN, MIN_TOKEN

#: Also into how many tablets per node a table is cut about which nobody said anything.
RANGES_PER_NODE = 2


class Ring:
    """Of all nodes that are registered: it stays as it is while some are down."""

    def __init__(self, nodes: Iterable[str]) -> None:
        self._places = {name: place for place, name in enumerate(sorted(nodes))}
        self._ranges = RANGES_PER_NODE * len(self._places)

    def tokens(self, node: str) -> list[int]:
        """The last token of each range that is the node's."""
        place, count = self._places[node], len(self._places)
        return [self._last_token(number) for number in range(place, self._ranges, count)]

    def distance(self, node: str, token: int) -> int:
        """0 for the node whose range the token is in; 1 for the one whose range is next, and so on."""
        count = len(self._places)
        owner = ((token - MIN_TOKEN) * self._ranges >> 64) % count
        return (self._places[node] - owner) % count

    def _last_token(self, number: int) -> int:
        if number + 1 == self._ranges:
            return MAX_TOKEN
        return first_token(number + 1, self._ranges) - 1


def first_token(number: int, count: int) -> int:
    """Of one of so many equal ranges."""
    return MIN_TOKEN + (number << 64) // count
