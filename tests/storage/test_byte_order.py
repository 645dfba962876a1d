"""Numbers in place of byte strings keep their order, whatever the strings are."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from belvedere.storage.byte_order import RANK_BITS, ranks_of

#: Of one length, of any lengths, and long ones that differ in few bytes.
STRINGS = st.one_of(
    st.integers(0, 20).flatmap(lambda size: st.lists(st.binary(min_size=size, max_size=size), max_size=40)),
    st.lists(st.binary(max_size=12), max_size=40),
    st.lists(st.sampled_from([b"a" * 30 + bytes([n]) + b"z" * 9 for n in range(6)]), max_size=40),
)


@given(STRINGS, st.integers(0, 5))
def test_ranks_order_like_the_strings(strings: list[bytes], skipped: int) -> None:
    column = pa.array([b"before"] * skipped + strings, pa.binary()).slice(skipped)
    ranks = ranks_of(column)
    assert ranks.dtype == np.int64
    assert all(0 <= rank < 1 << RANK_BITS for rank in ranks.tolist())
    for one, rank in zip(strings, ranks.tolist(), strict=True):
        for other, beside in zip(strings, ranks.tolist(), strict=True):
            assert (one < other) == (rank < beside)
