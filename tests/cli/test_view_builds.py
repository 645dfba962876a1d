"""How the command line tells of builds: words, fractions, when waiting ends. No server."""

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from belvedere.cli.view_builds import ViewBuild, Watch
from belvedere.cli.views import build_options, changed
from belvedere.cli.views_wait import Bars

#: What a server tells before it builds on Spark, and what it tells then.
OLD = {
    "keyspace_name": "shop",
    "view_name": "by_city",
    "base_table_name": "orders",
    "state": "BUILDING",
    "ranges": 4,
    "ranges_done": 1,
    "rows_read": 24_500,
    "failed_attempts": 0,
    "last_failure": None,
}
NEW = {key: value for key, value in OLD.items() if not key.startswith("ranges")} | {
    "tablets": 4,
    "tablets_done": 1,
    "rows_total": 98_000,
    "bytes_read": 1_000,
    "bytes_total": 4_000,
    "rows_per_second": 12_250.4,
    "seconds_left": 6.2,
    "runs_on": "spark",
}


def build(**changes: Any) -> ViewBuild:
    return replace(ViewBuild.of(NEW), **changes)


def test_columns_that_a_server_lacks_are_left_out() -> None:
    assert ViewBuild.of(OLD).summary == "BUILDING, 1 of 4 tablets, 24,500 rows"
    assert ViewBuild.of(OLD).fraction == 0.25
    assert (
        ViewBuild.of(NEW).summary == "BUILDING, 1 of 4 tablets, 24,500 of about 98,000 rows, "
        "12,250 rows/s, about 6 s left, on spark"
    )
    assert ViewBuild.of(NEW | {"seconds_left": None}).beside_bar == (
        "12,250 rows/s, 24,500 of about 98,000 rows"
    )
    assert ViewBuild.of(NEW).beside_bar.startswith("about 6 s left, 12,250 rows/s, ")
    assert ViewBuild.of({**OLD, "view_name": "byCity"}).name == 'shop."byCity"'


@pytest.mark.parametrize(
    ("changes", "fraction"),
    [
        ({}, 0.25),
        ({"rows_total": 49_000}, 0.5),
        ({"rows_total": None, "bytes_read": 3_000}, 0.75),
        ({"bytes_total": None, "rows_total": 0, "tablets_done": 3}, 0.75),
        ({"rows": 99_000}, 0.99),
        ({"bytes_total": None, "rows_total": None, "tablets": 0, "tablets_done": 0}, 0.0),
        ({"state": "BUILT", "bytes_read": 0}, 1.0),
    ],
)
def test_how_much_is_done(changes: dict[str, Any], fraction: float) -> None:
    """Totals are estimates: nothing is complete that is not built."""
    assert build(**changes).fraction == fraction


def test_more_rows_than_estimated() -> None:
    assert build(rows=100_000).amount == "100,000 of about 100,000 rows"
    assert build(state="BUILT", rows=98_123).amount == "98,123 rows"


def test_what_somebody_should_do() -> None:
    assert build().remark is None
    assert build(state="HELD").remark == "held; let it go on with: belvedere views resume shop.by_city"
    assert (build(state="HELD", name='shop."X"').remark or "").endswith("resume 'shop.\"X\"'")
    failing = build(state="FAILING", attempts=3, failure="disk full")
    assert failing.remark == "attempt 3 failed and is tried again: disk full"
    assert failing.beside_bar == "FAILING, 24,500 of about 98,000 rows"
    assert build(state="FAILED", failure="no Java").remark == "failed for good: no Java"
    assert "drop it and create it again" in (build(state="UNKNOWN").remark or "")


def test_waiting_ends_when_all_are_built() -> None:
    watch = Watch()
    first, second = build(name="ks.a"), build(name="ks.b", state="BUILT")
    assert watch.look([first, second]) == []
    assert watch.status is None
    # Failing is not the end, and told once for each attempt.
    failing = replace(first, state="FAILING", attempts=1, failure="no luck")
    assert watch.look([failing, second]) == ["ks.a: attempt 1 failed and is tried again: no luck"]
    assert watch.look([failing, second]) == []
    assert len(watch.look([replace(failing, attempts=2), second])) == 1
    assert watch.status is None
    assert watch.look([replace(first, state="BUILT", rows=98_000), second]) == [
        "ks.a is built, 98,000 rows of shop.orders read"
    ]
    assert watch.status == 0


def test_nothing_to_wait_for() -> None:
    watch = Watch()
    assert watch.look([build(state="BUILT")]) == ["shop.by_city is built"]
    assert watch.status == 0
    watch = Watch()
    assert watch.look([build(state="BUILT"), build(name="ks.b", state="BUILT")]) == ["all views are built"]
    assert watch.status == 0


def test_waiting_ends_when_a_view_cannot_be_built() -> None:
    watch = Watch()
    watch.look([build(name="ks.a"), build(name="ks.b")])
    assert watch.look([build(name="ks.b")]) == ["ks.a was dropped"]
    assert watch.status == 1
    for state in ("FAILED", "UNKNOWN"):
        watch = Watch()
        assert (
            len(watch.look([build(state=state, failure="no Java"), build(name="ks.b", state="BUILT")])) == 1
        )
        assert watch.status == 1
    # A view that comes meanwhile is waited for, too.
    watch = Watch()
    watch.look([build(name="ks.a")])
    watch.look([build(name="ks.a", state="BUILT"), build(name="ks.b")])
    assert watch.status is None


def test_bars_on_a_terminal() -> None:
    out = io.StringIO()
    bars = Bars(Console(file=out, force_terminal=True, width=140, color_system=None))
    bars.show([build(), build(name="ks.done", state="BUILT")], 0.0)
    bars.say("[red]not markup[/red]")
    bars.show([build(state="BUILT"), build(name="ks.done", state="BUILT")], 1.0)
    bars.close()
    text = out.getvalue()
    assert "shop.by_city" in text
    assert " 25% about 6 s left, 12,250 rows/s" in text
    assert "100% BUILT, 24,500 rows" in text
    assert "[red]not markup[/red]" in text
    assert "ks.done" not in text, "there is nothing to wait for"


CREATE = (
    "CREATE MATERIALIZED VIEW ks.mv AS SELECT * FROM ks.t WHERE v IS NOT NULL AND k IS NOT NULL "
    "PRIMARY KEY (v, k) WITH comment = 'x' AND build = {}"
)


@pytest.mark.parametrize(
    ("before", "action", "rate", "after"),
    [
        ({}, "pause", None, {"hold": "true"}),
        ({"max_rate": "5", "wait": "true"}, "pause", None, {"max_rate": "5", "hold": "true"}),
        ({"max_rate": "5", "hold": "true"}, "resume", None, {"max_rate": "5"}),
        ({"wait": "false", "priority": "3"}, "resume", None, {"wait": "false", "priority": "3"}),
        ({"max_rate": "5", "hold": "true"}, "throttle", 7, {"max_rate": "7", "hold": "true"}),
        ({"max_rate": "5", "hold": "true"}, "throttle", 0, {"hold": "true"}),
        ({}, "throttle", 0, {}),
    ],
)
def test_a_command_changes_its_own_option_alone(
    before: dict[str, str], action: str, rate: int | None, after: dict[str, str]
) -> None:
    assert changed(build_options(CREATE.format(before)), action, rate) == after


def test_a_view_without_the_option() -> None:
    assert build_options(CREATE.partition(" WITH")[0]) == {}
