"""How far views are, as the command line tells it: rows of system_views.view_builds, and words for them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from belvedere.cli.texts import duration, rows
from belvedere.model.types_names import quote_name

#: No try will follow: FAILED says so, UNKNOWN is a view that nothing is recorded of.
HOPELESS = ("FAILED", "UNKNOWN")


@dataclass(frozen=True, slots=True)
class ViewBuild:
    """None is what the server does not tell, or cannot know yet."""

    name: str
    base: str
    state: str
    tablets: int
    tablets_done: int
    rows: int
    rows_total: int | None = None
    bytes_read: int | None = None
    bytes_total: int | None = None
    rows_per_second: float | None = None
    seconds_left: float | None = None
    runs_on: str | None = None
    attempts: int = 0
    failure: str | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "ViewBuild":
        """Servers of other versions may lack some columns."""
        keyspace = quote_name(row["keyspace_name"])
        return cls(
            f"{keyspace}.{quote_name(row['view_name'])}",
            f"{keyspace}.{quote_name(row['base_table_name'])}",
            row["state"],
            row.get("tablets", row.get("ranges")) or 0,
            row.get("tablets_done", row.get("ranges_done")) or 0,
            row.get("rows_read") or 0,
            row.get("rows_total"),
            row.get("bytes_read"),
            row.get("bytes_total"),
            row.get("rows_per_second"),
            row.get("seconds_left"),
            row.get("runs_on"),
            row.get("failed_attempts") or 0,
            row.get("last_failure"),
        )

    @property
    def is_built(self) -> bool:
        return self.state == "BUILT"

    @property
    def fraction(self) -> float:
        """Done, by the best measure there is. Totals are estimates: only a view that is built is complete."""
        if self.is_built:
            return 1.0
        measures = (
            # Bytes say less: what a row takes in memory and in a file is not the same.
            (self.rows, self.rows_total),
            (self.bytes_read, self.bytes_total),
            (self.tablets_done, self.tablets),
        )
        for done, total in measures:
            if done is not None and total:
                return min(done / total, 0.99)
        return 0.0

    @property
    def amount(self) -> str:
        if self.is_built or not self.rows_total:
            return rows(self.rows)
        return f"{self.rows:,} of about {rows(max(self.rows, self.rows_total))}"

    @property
    def rate(self) -> str:
        return f"{self.rows_per_second:,.0f} rows/s" if self.rows_per_second and self._runs else ""

    @property
    def left(self) -> str:
        known = self.seconds_left is not None and self._runs
        return f"about {duration(max(1, round(self.seconds_left or 0)))} left" if known else ""

    @property
    def _runs(self) -> bool:
        return self.state == "BUILDING"

    @property
    def summary(self) -> str:
        """One line without the name."""
        tablets = f"{self.tablets_done} of {self.tablets} tablets"
        where = f"on {self.runs_on}" if self.runs_on and self._runs else ""
        return _joined(self.state, tablets, self.amount, self.rate, self.left, where)

    @property
    def beside_bar(self) -> str:
        """What matters first: a narrow terminal cuts the rest off."""
        return _joined("" if self._runs else self.state, self.left, self.rate, self.amount)

    @property
    def remark(self) -> str | None:
        """What somebody should know or do."""
        if self.state == "HELD":
            return f"held; let it go on with: belvedere views resume {shell(self.name)}"
        if self.state == "UNKNOWN":
            return "nothing is recorded of its build; drop it and create it again"
        if self.failure is None:
            return None
        if self.state == "FAILED":
            return f"failed for good: {self.failure}"
        return f"attempt {self.attempts} failed and is tried again: {self.failure}"


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def shell(name: str) -> str:
    """A name that can be pasted into a shell."""
    return f"'{name}'" if '"' in name else name


class Watch:
    """Until all views are built, or one cannot be: told how they are, again and again, gives what is new."""

    def __init__(self) -> None:
        self._last: dict[str, ViewBuild] = {}
        self._remarks: dict[str, str | None] = {}
        self._built_meanwhile = False
        #: The exit status, once nothing is left to wait for.
        self.status: int | None = None

    def look(self, builds: list[ViewBuild]) -> list[str]:
        now = {build.name: build for build in builds}
        news = [f"{name} was dropped" for name in self._last if name not in now]
        hopeless = any(build.state in HOPELESS for build in builds)
        for name, build in now.items():
            before = self._last.get(name)
            if build.is_built and before is not None and not before.is_built:
                news.append(f"{name} is built, {build.amount} of {build.base} read")
                self._built_meanwhile = True
            if build.remark is not None and build.remark != self._remarks.get(name):
                news.append(f"{name}: {build.remark}")
            self._remarks[name] = build.remark
        if hopeless or self._last.keys() - now.keys():
            self.status = 1
        elif all(build.is_built for build in builds):
            self.status = 0
            if not self._built_meanwhile:
                news.append(f"{builds[0].name} is built" if len(builds) == 1 else "all views are built")
        self._last = now
        return news
