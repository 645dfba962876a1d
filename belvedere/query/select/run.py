"""SELECT: one execution of a plan, in the general way: any source, filters, groups, limits, pages."""

from collections.abc import Awaitable, Iterator, Sequence
from typing import TYPE_CHECKING

from belvedere.model.rows import Row
from belvedere.query.access import DataAccess, Execution
from belvedere.query.errors import InvalidRequest
from belvedere.query.results import Rows
from belvedere.query.select.extract import STATIC_ONLY
from belvedere.query.select.groups import GroupedRows
from belvedere.query.select.limits import limit_value
from belvedere.query.select.paging import PagingState, decode_paging_state
from belvedere.query.select.row_views import RowView
from belvedere.query.select.selection import Selection
from belvedere.query.select.source import ROWS_PER_TURN, Batch, KeysSource, RangeSource, Source
from belvedere.query.system.virtual import VirtualAccess, VirtualTable
from belvedere.query.where.filters import Predicate
from belvedere.storage.reads import MAX_TOKEN, MIN_TOKEN

if TYPE_CHECKING:
    from belvedere.query.select.plan import SelectPlan

Wire = bytes | None
Found = Sequence[tuple[bytes | None, Row]]


class SelectRun:
    """The state of one execution."""

    def __init__(self, plan: "SelectPlan", execution: Execution) -> None:
        self.plan = plan
        self.execution = execution
        self.selection: Selection = plan.selection
        self.state = None if execution.paging_state is None else decode_paging_state(execution.paging_state)
        self.limit = limit_value(plan.limit, execution)
        if self.limit and self.state is not None:
            # A state that another statement's page ended with may say nothing of a limit.
            self.limit = min(self.limit, self.state.remaining or self.limit)
        self.per_partition = 1 if plan.distinct else limit_value(plan.partition_limit, execution)
        self.page_size = max(execution.page_size, 0)
        self.predicate: Predicate | None = plan.restrictions.predicate(execution)
        self.full_partitions = plan.restrictions.queries_full_partitions
        self.source = self._open_source()

    def run(self) -> Awaitable[Rows]:
        plan = self.plan
        if plan.order.sort_by and self.page_size and not (plan.grouping and plan.grouping.everything):
            raise InvalidRequest(
                "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must "
                "either remove the ORDER BY or the IN and sort client side, or disable paging for this query"
            )
        if plan.grouping is not None:
            return GroupedRows(self, plan.grouping).run()
        return self._sorted() if plan.order.sort_by else self._plain()

    # -- reading -----------------------------------------------------------------------------------

    def _open_source(self) -> Source:
        plan, execution, table = self.plan, self.execution, self.plan.table
        access: DataAccess = execution.access
        if isinstance(table, VirtualTable):
            access = VirtualAccess(table)
        slices = plan.restrictions.slices(execution)
        reverse, now = plan.order.reverse, execution.now
        if plan.restrictions.has_keys:
            keys = plan.restrictions.partition_keys(execution)
            return KeysSource(access, table, keys, slices, reverse=reverse, now=now, state=self.state)
        tokens = plan.restrictions.token_range(execution) or (MIN_TOKEN, MAX_TOKEN)
        plain = self.predicate is None and plan.grouping is None
        return RangeSource(
            access, table, tokens, slices, reverse=reverse, now=now,
            partition_limit=self.per_partition if plain else 0, state=self.state,
        )  # fmt: skip

    def matching(self, batch: Batch) -> Found:
        """The rows of a batch that the filters let through; a partition of static cells alone may be one."""
        rows: Found = batch.rows
        if not rows and batch.fresh and not batch.partial and self.full_partitions:
            rows = STATIC_ONLY if batch.static is not None else ()
        predicate = self.predicate
        if predicate is None:
            return rows
        return [
            (clustering_key, row)
            for clustering_key, row in rows
            if predicate(self.view(batch, clustering_key, row))
        ]

    def view(self, batch: Batch, clustering_key: bytes | None, row: Row) -> RowView:
        return RowView(self.plan.table, batch.token, batch.key, batch.static, clustering_key, row)

    def views(self, batch: Batch, rows: Found) -> Iterator[RowView]:
        return (self.view(batch, clustering_key, row) for clustering_key, row in rows)

    def values(self, batch: Batch, rows: Found) -> list[list[Wire]]:
        """Result rows, for selections without aggregates."""
        extract = self.selection.extract
        if extract is not None:
            return extract(batch.key, batch.static, rows)
        return [self.selection.row(view, self.execution) for view in self.views(batch, rows)]

    def result(self, rows: list[list[Wire]], state: PagingState | None = None) -> Rows:
        encoded = None if state is None else state.encode()
        return Rows(self.source.after, self._warnings(), self.selection.columns, rows, encoded)

    def _warnings(self) -> tuple[str, ...]:
        if self.plan.grouping is None:
            return ()
        restrictions = self.plan.restrictions
        if restrictions.partition_has_in:
            return ("Aggregation query used on multiple partition keys (IN restriction)",)
        names = {column.name for column in self.plan.table.partition_key}
        if restrictions.tokens or names & restrictions.columns:
            return ()
        return ("Aggregation query used without partition key",)

    # -- row by row --------------------------------------------------------------------------------

    async def _plain(self) -> Rows:
        found: list[list[Wire]] = []
        count = Countdown(self.limit, self.page_size, self.per_partition, self.state)
        while True:
            if await self._take_whole(found, count):
                continue
            batch = await self.source.next(self._wanted(count))
            if batch is None:
                return self.result(found)
            rows = self.matching(batch)
            if batch.fresh:
                count.begin_partition()
            allowed = count.allowed(len(rows))
            if allowed:
                taken = rows[:allowed]
                found.extend(self.values(batch, taken))
                count.take(allowed)
                if count.limit_reached:
                    return self.result(found)
                last = taken[-1][0]
                finished = count.partition_reached or (allowed == len(rows) and not batch.partial)
                if count.partition_reached:
                    self.source.skip_partition()
                if count.page_reached:
                    if finished and self.source.exhausted:
                        return self.result(found)
                    state = count.state(batch.token, batch.key, None if finished else last)
                    return self.result(found, state)

    async def _take_whole(self, found: list[list[Wire]], count: "Countdown") -> bool:
        """Whole partitions of a plain scan at once, short of the end of the page; False when a closer look
        is needed."""
        extract, source, full = self.selection.extract, self.source, self.full_partitions
        if extract is None or self.predicate is not None or self.per_partition:
            return False
        if not isinstance(source, RangeSource):
            return False
        stop = count.next_stop
        # The last row of a page is left to the closer look, which knows how to end a page.
        partitions = await source.whole_partitions(self._wanted(count), stop - 1 if stop else ROWS_PER_TURN)
        before = len(found)
        for partition in partitions:
            if partition.rows:
                found += extract(partition.key, partition.static, partition.rows)
            elif full and partition.static is not None:
                found += extract(partition.key, partition.static, STATIC_ONLY)
        count.take(len(found) - before)
        return bool(partitions)

    def _wanted(self, count: "Countdown") -> int:
        if self.predicate is not None:
            return ROWS_PER_TURN
        wanted = count.next_stop
        if self.plan.restrictions.has_keys and self.per_partition:
            wanted = min(wanted, self.per_partition) if wanted else self.per_partition
        return min(wanted + 1, ROWS_PER_TURN) if wanted else ROWS_PER_TURN

    async def _sorted(self) -> Rows:
        """Partitions named by IN, all rows in the order of their clustering columns."""
        views: list[RowView] = []
        # What comes behind the limit in its own partition comes behind it in the end, too.
        most = left = min(filter(None, (self.per_partition, self.limit)), default=0)
        while (batch := await self.source.next(ROWS_PER_TURN)) is not None:
            rows = self.matching(batch)
            if batch.fresh:
                left = most
            if most:
                rows = rows[:left]
                left -= len(rows)
                if not left:
                    self.source.skip_partition()
            views.extend(self.views(batch, rows))
        views = self.plan.order.sorted(views)
        views = views[: self.limit] if self.limit else views
        return self.result([self.selection.row(view, self.execution) for view in views])


class Countdown:
    """How many rows (or groups) the limits and the page still allow; 0 in the arguments means no limit."""

    def __init__(self, limit: int, page: int, per_partition: int, state: PagingState | None) -> None:
        self._limit, self._page, self._per_partition = limit, page, per_partition
        self._limited, self._paged = bool(limit), bool(page)
        self._partition = per_partition
        if state is not None and state.clustering_key is not None and per_partition:
            self._partition = state.partition_remaining

    def begin_partition(self) -> None:
        self._partition = self._per_partition

    def allowed(self, count: int) -> int:
        if self._limited:
            count = min(count, self._limit)
        if self._paged:
            count = min(count, self._page)
        return min(count, self._partition) if self._per_partition else count

    def take(self, count: int) -> None:
        self._limit -= count
        self._page -= count
        self._partition -= count

    @property
    def limit_reached(self) -> bool:
        return self._limited and self._limit <= 0

    @property
    def page_reached(self) -> bool:
        return self._paged and self._page <= 0

    @property
    def partition_reached(self) -> bool:
        return bool(self._per_partition) and self._partition <= 0

    @property
    def next_stop(self) -> int:
        """After how many rows one of the bounds is certainly met; 0 if there is none."""
        bounds = []
        if self._limited:
            bounds.append(self._limit)
        if self._paged:
            bounds.append(self._page)
        return min(bounds, default=0)

    def state(self, token: int, key: bytes, clustering_key: bytes | None) -> PagingState:
        remaining = self._limit if self._limited else 0
        left = max(self._partition, 0) if self._per_partition else 0
        return PagingState(token, key, clustering_key, remaining, left)
