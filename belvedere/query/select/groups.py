"""SELECT with GROUP BY or aggregates: groups are finished one by one as the rows go by."""

from typing import TYPE_CHECKING

from belvedere.query.functions.registry import Aggregate
from belvedere.query.results import Rows
from belvedere.query.select.grouping import Grouping, GroupKey
from belvedere.query.select.paging import PagingState
from belvedere.query.select.row_views import RowView
from belvedere.query.select.selectors import AggregateSelector, GroupState
from belvedere.query.select.source import ROWS_PER_TURN, Batch

if TYPE_CHECKING:
    from belvedere.query.select.run import Found, SelectRun

Wire = bytes | None


class GroupedRows:
    """Limits and page sizes count groups; a page always ends between two groups."""

    def __init__(self, run: "SelectRun", grouping: Grouping) -> None:
        self.run_ = run
        self.grouping = grouping
        self.selection = run.selection
        self.execution = run.execution
        self.key_of = grouping.key_of(run.execution)
        self.found: list[list[Wire]] = []
        #: The first row of each group, when the groups are to be sorted.
        self.first_views: list[RowView] = []
        self.states: list[GroupState] | None = None
        self.key: GroupKey | None = None
        self.last: RowView | None = None
        state = run.state
        #: With DISTINCT the limit is on rows, and `_rows` sees to it.
        self.per_partition = 0 if run.plan.distinct else run.per_partition
        self.partition_left = self.per_partition
        if state is not None and state.clustering_key is not None and self.per_partition:
            self.partition_left = state.partition_remaining
        limit = 0 if grouping.everything or run.plan.order.sort_by else run.limit
        page = 0 if grouping.everything else run.page_size
        self.limit_left = limit or -1
        self.page_left = page or -1

    async def run(self) -> Rows:
        if self.grouping.everything and self._only_counts():
            return await self._count()
        while (batch := await self.run_.source.next(ROWS_PER_TURN)) is not None:
            rows = self._rows(batch)
            if batch.fresh and self.per_partition:
                self._finish()
                self.partition_left = self.per_partition
            state = self._add_batch(batch, rows)
            if state is not None:
                return self._result(state)
            if self.limit_left == 0:
                return self._result(None)
        self._finish()
        if self.grouping.everything and not self.found:
            self._start()
            self._finish()
        return self._result(None)

    def _rows(self, batch: Batch) -> "Found":
        rows = self.run_.matching(batch)
        if not self.run_.plan.distinct:
            return rows
        # One row stands for the partition; filters can only look at what all its rows share.
        self.run_.source.skip_partition()
        return rows[:1] if batch.fresh else ()

    def _result(self, state: PagingState | None) -> Rows:
        if self.run_.plan.order.sort_by and not self.grouping.everything:
            self._sort()
        return self.run_.result(self.found, state)

    def _sort(self) -> None:
        rows = {id(view): row for view, row in zip(self.first_views, self.found, strict=True)}
        ordered = self.run_.plan.order.sorted(self.first_views)
        limit = self.run_.limit or len(ordered)
        self.found = [rows[id(view)] for view in ordered[:limit]]

    def _add_batch(self, batch: Batch, rows: "Found") -> PagingState | None:
        """Returns where to go on if the page is full; also stops when LIMIT is reached."""
        for view in self.run_.views(batch, rows):
            key = self.key_of(view)
            if self.states is None or key != self.key:
                previous = self.last
                self._finish()
                if self.limit_left == 0:
                    return None
                if self.page_left == 0:
                    assert previous is not None
                    return self._state_after(previous, batch)
                if self.per_partition and self.partition_left == 0:
                    self.run_.source.skip_partition()
                    return None
                self._start()
                self.first_views.append(view)
                self.partition_left -= 1
            self.key, self.last = key, view
            assert self.states is not None
            for state in self.states:
                state.add(view)
        return None

    def _state_after(self, view: RowView, batch: Batch) -> PagingState:
        done = view.key != batch.key
        remaining = max(self.limit_left, 0)
        if not done and self.per_partition and self.partition_left == 0:
            done = True
        return PagingState(
            view.token,
            view.key,
            None if done else view.clustering_key,
            remaining,
            max(self.partition_left, 0) if self.per_partition else 0,
        )

    def _start(self) -> None:
        self.states = [selector.group(self.execution) for selector in self.selection.selectors]

    def _finish(self) -> None:
        if self.states is None:
            return
        self.found.append(self.selection.finish([state.result() for state in self.states]))
        self.states = self.key = None
        self.limit_left -= self.limit_left > 0
        self.page_left -= self.page_left > 0

    # -- counting alone ----------------------------------------------------------------------------

    def _only_counts(self) -> bool:
        return all(
            isinstance(selector, AggregateSelector)
            and isinstance(selector.aggregate, Aggregate)
            and selector.aggregate.name == "count"
            and not selector.arguments
            for selector in self.selection.selectors
        )

    async def _count(self) -> Rows:
        """Rows need not be looked at to be counted."""
        count = 0
        while (batch := await self.run_.source.next(ROWS_PER_TURN)) is not None:
            count += len(self._rows(batch))
        row: list[Wire] = [count.to_bytes(8, "big")] * len(self.selection.selectors)
        return self.run_.result([self.selection.finish(row)])
