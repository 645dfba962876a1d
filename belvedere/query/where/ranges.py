"""Ranges of order-preserving key bytes: what an inequality over one or more clustering columns selects.

A range is (start, end), start included, end not. Mixed ASC and DESC order makes `(a, b) > (1, 2)` several
ranges: those with a > 1, and within a = 1 those with b > 2; each is contiguous in key bytes.
"""

from collections.abc import Sequence

from belvedere.model.ordering import ClusteringOrder

Range = tuple[bytes, bytes]


def beyond(
    order: ClusteringOrder,
    prefix: Sequence[bytes],
    values: Sequence[bytes],
    *,
    greater: bool,
    inclusive: bool,
) -> list[Range]:
    """Keys that begin with `prefix` and whose next components compare greater (or less) than `values`."""
    found: list[Range] = []
    head = list(prefix)
    for value in values:
        descending = order.descending[len(head)]
        outer = order.encode_prefix(head)
        head.append(value)
        inner = order.encode_prefix(head)
        if greater is not descending:
            found.append((order.after_prefix(inner), order.after_prefix(outer)))
        else:
            found.append((outer, inner))
    if inclusive:
        inner = order.encode_prefix(head)
        found.append((inner, order.after_prefix(inner)))
    return union(found)


def union(ranges: Sequence[Range]) -> list[Range]:
    """The same keys as ascending, disjoint ranges that do not touch."""
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def intersect(left: Sequence[Range], right: Sequence[Range]) -> list[Range]:
    """Keys in both of two unions."""
    common: list[Range] = []
    i = j = 0
    while i < len(left) and j < len(right):
        start, end = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if start < end:
            common.append((start, end))
        if left[i][1] <= right[j][1]:
            i += 1
        else:
            j += 1
    return common
