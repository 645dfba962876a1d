"""Views' states as transactions: what several of them, decided on one state, come to together."""

from itertools import permutations

import pytest

import belvedere
from belvedere.meta import view_records
from belvedere.meta.state import ClusterState, from_loaded
from belvedere.meta.store import Loaded, first_failure, fold
from belvedere.views import status
from belvedere.views.coordinator import Amount
from belvedere.views.proposals import completing
from tests.drivers.server_process import KEYSPACE


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> ClusterState:
    """A view of a table with four tablets, of which nothing is built."""
    with belvedere.open(tmp_path_factory.mktemp("proposals") / "data") as db:
        db.execute(KEYSPACE.format("ks"))
        db.execute("CREATE TABLE ks.t (k int PRIMARY KEY, n int)")
        db.execute(
            "CREATE MATERIALIZED VIEW ks.v AS SELECT * FROM ks.t WHERE n IS NOT NULL AND k IS NOT NULL "
            "PRIMARY KEY (n, k) WITH build = {'hold': 'true'}"
        )
        return db._node.database.state


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
@pytest.mark.parametrize("rows", [0, 5])
def test_whoever_deletes_the_last_task_says_that_the_view_is_built(
    begun: ClusterState, rows: int, order: tuple[int, ...]
) -> None:
    """All are decided on before the first is committed. Of a table without rows there is nothing to count."""
    (view,) = status.open_views(begun)
    parts = [view.tasks[:1], view.tasks[1:3], view.tasks[3:]]
    done = [tuple((task, Amount(rows, rows)) for task in part) for part in parts]
    proposals = [completing(begun, view.base, one) for one in done]
    state = begun
    for number in order:
        proposal = proposals[number]
        assert proposal is not None
        if first_failure(proposal[0], dict(state.entries)) is not None:
            proposal = completing(state, view.base, done[number])
            assert proposal is not None
            assert first_failure(proposal[0], dict(state.entries)) is None
        revision = state.revision + 1
        state = from_loaded(Loaded(revision, fold(dict(state.entries), revision, proposal[1])))
    found = view_records.status_of(state, view.id)
    assert found is not None
    assert (found.state, found.rows) == (view_records.BUILT, 4 * rows)
    assert completing(state, view.base, done[0]) is None
