"""How far views are, as everybody is told: readers, system tables, the coordinator."""

from collections.abc import Mapping
from dataclasses import dataclass

from belvedere.meta import view_records
from belvedere.meta.state import ClusterState
from belvedere.meta.view_records import BUILT
from belvedere.model.schema import Table
from belvedere.query.system.virtual import VirtualRow
from belvedere.views.coordinator import Coordinator, OpenView, Task, Trouble


@dataclass(frozen=True, slots=True)
class Progress:
    view: Table
    #: BUILT, BUILDING, HELD, FAILING or UNKNOWN.
    state: str
    ranges: int
    ranges_done: int
    rows: int
    trouble: Trouble | None

    @property
    def is_built(self) -> bool:
        return self.state == BUILT

    def explanation(self) -> str:
        text = f"Materialized view {self.view.full_name} is not built yet"
        text += f": {self.ranges_done} of {self.ranges} ranges are done, {self.rows} rows of the base read"
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
            "rows_read": self.rows,
            "failed_attempts": 0 if self.trouble is None else self.trouble.attempts,
            "last_failure": None if self.trouble is None else self.trouble.cause,
        }


def of_view(state: ClusterState, view: Table, coordinator: Coordinator, rows_underway: int) -> Progress:
    known = view_records.status_of(state, view.id)
    if known is None:
        return Progress(view, "UNKNOWN", 0, 0, 0, None)
    if known.state == BUILT:
        return Progress(view, BUILT, known.ranges, known.ranges, known.rows, None)
    left = sum(1 for _ in view_records.open_tasks(state, view.id))
    running = coordinator.running
    underway = running is not None and any(task.view == view.id for task in running.tasks)
    trouble = coordinator.troubles.get(view.id)
    name = "HELD" if is_held(view) else "FAILING" if trouble is not None else known.state
    rows = known.rows + (rows_underway if underway else 0)
    return Progress(view, name, known.ranges, known.ranges - left, rows, trouble)


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
    tasks = tuple(
        Task(view.id, tablet, entry.revision) for tablet, entry in view_records.open_tasks(state, view.id)
    )
    priority = int(build_options(view).get("priority", "0"))
    return OpenView(view.id, view.view.base_id, tasks, known.empty_first, is_held(view), priority)


def is_held(view: Table) -> bool:
    return build_options(view).get("hold") == "true"


def build_options(view: Table) -> Mapping[str, str]:
    found = view.options.get("build")
    return found if isinstance(found, dict) else {}
