"""How far views are, as everybody is told: readers, system tables, the coordinator."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from belvedere.meta import load_records, view_records
from belvedere.meta.state import ClusterState
from belvedere.meta.view_records import BUILT
from belvedere.model.schema import Table
from belvedere.query.system.virtual import VirtualRow
from belvedere.views.coordinator import Amount, Coordinator, OpenLoads, OpenView, Task, Trouble
from belvedere.views.workplace import Progress

NOTHING = Amount()


@dataclass(frozen=True, slots=True)
class BuildStatus:
    view: Table
    #: BUILT, BUILDING, HELD, FAILING or UNKNOWN.
    state: str
    ranges: int = 0
    ranges_done: int = 0
    read: Amount = NOTHING
    #: By estimate.
    total: Amount = NOTHING
    rows_per_second: float | None = None
    runs_on: str | None = None
    #: Loads into the base that the view does not show yet.
    loads: int = 0
    trouble: Trouble | None = None

    @property
    def is_built(self) -> bool:
        return self.state == BUILT

    @property
    def seconds_left(self) -> float | None:
        if self.is_built or not self.rows_per_second:
            return None
        return max(0, self.total.rows - self.read.rows) / self.rows_per_second

    def explanation(self) -> str:
        text = f"Materialized view {self.view.full_name} is not built yet"
        text += (
            f": {self.ranges_done} of {self.ranges} ranges are done, {self.read.rows} rows of the base read"
        )
        if self.total.rows > self.read.rows:
            text += f", of about {self.total.rows}"
        if self.seconds_left is not None:
            text += f", about {self.seconds_left:.0f} s left"
        if self.state == "HELD":
            text += "; the build is held"
        if self.trouble is not None:
            text += f"; the last of {self.trouble.attempts} attempts failed: {self.trouble.cause}"
        return text

    def as_row(self) -> VirtualRow:
        assert self.view.view is not None
        return {
            "keyspace_name": self.view.keyspace,
            "view_name": self.view.name,
            "base_table_name": self.view.view.base,
            "state": self.state,
            "ranges": self.ranges,
            "ranges_done": self.ranges_done,
            "rows_read": self.read.rows,
            "rows_total": max(self.total.rows, self.read.rows),
            "bytes_read": self.read.bytes,
            "bytes_total": max(self.total.bytes, self.read.bytes),
            "rows_per_second": self.rows_per_second,
            "seconds_left": self.seconds_left,
            "runs_on": self.runs_on,
            "loads_pending": self.loads,
            "failed_attempts": 0 if self.trouble is None else self.trouble.attempts,
            "last_failure": None if self.trouble is None else self.trouble.cause,
        }


def of_view(
    state: ClusterState,
    view: Table,
    coordinator: Coordinator,
    progress: Callable[[bytes, Iterable[Task]], Progress],
    estimate: Callable[[bytes], Amount],
) -> BuildStatus:
    known = view_records.status_of(state, view.id)
    if known is None or view.view is None:
        return BuildStatus(view, "UNKNOWN")
    base = view.view.base_id
    loads = len({load for _, load, _ in view_records.open_staging(state, base)})
    trouble = coordinator.troubles.get(view.id)
    if loads and trouble is None:
        trouble = coordinator.troubles.get(base)
    read = Amount(known.rows, known.bytes)
    if known.state == BUILT:
        return BuildStatus(view, BUILT, known.ranges, known.ranges, read, read, loads=loads, trouble=trouble)
    tasks = _tasks(state, view)
    now = progress(view.id, tasks)
    name = "HELD" if is_held(view) else "FAILING" if trouble is not None else known.state
    return BuildStatus(
        view,
        name,
        known.ranges,
        known.ranges - len(tasks),
        read.plus(now.read),
        estimate(base),
        now.rows_per_second,
        None if now.lane is None else now.lane.value,
        loads,
        trouble,
    )


def open_views(state: ClusterState) -> tuple[OpenView, ...]:
    """What is not built, for the coordinator."""
    return tuple(
        found
        for table in state.tables_by_id.values()
        if table.view is not None and (found := _open_view(state, table)) is not None
    )


def _open_view(state: ClusterState, view: Table) -> OpenView | None:
    known = view_records.status_of(state, view.id)
    if known is None or known.state == BUILT or view.view is None:
        return None
    priority = int(build_options(view).get("priority", "0"))
    tasks = _tasks(state, view)
    return OpenView(view.id, view.view.base_id, tasks, known.empty_first, is_held(view), priority)


def _tasks(state: ClusterState, view: Table) -> tuple[Task, ...]:
    return tuple(
        Task(tablet, entry.revision, view.id) for tablet, entry in view_records.open_tasks(state, view.id)
    )


def open_loads(state: ClusterState) -> tuple[OpenLoads, ...]:
    """Loads that views do not show yet, for the coordinator."""
    return tuple(
        OpenLoads(
            base,
            tuple(
                Task(tablet, entry.revision, load=load)
                for tablet, load, entry in view_records.open_staging(state, base)
                # Until then the files may not be there.
                if load_records.load_key(base, load) not in state.entries
            ),
        )
        for base in view_records.bases_with_staging(state)
    )


def is_held(view: Table) -> bool:
    return build_options(view).get("hold") == "true"


def build_options(view: Table) -> Mapping[str, str]:
    found = view.options.get("build")
    return found if isinstance(found, dict) else {}
