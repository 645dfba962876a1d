"""Tables made up from state: every kind of SELECT works on them, nothing can be written."""

from typing import Any

import pytest

from belvedere.model.schema import Table
from belvedere.query.errors import InvalidRequest
from belvedere.query.results import Rows
from belvedere.query.system.virtual import VirtualTable
from tests.query.fake_access import Session, decoded, make_table, rows, run

LOCAL = {"key": "local", "tokens": {"5", "-3"}, "port": 9042, "order_": [3, 1, 2], "m": {"a": 1}}


def virtual(table: Table, source: Any) -> VirtualTable:
    return VirtualTable(
        table.id, table.keyspace, table.name, table.columns, table.options, table.regular_ordinals,
        table.static_ordinals, source=source,
    )  # fmt: skip


@pytest.fixture
def session() -> Session:
    local = make_table(
        "local", "key text, tokens set<text>, port int, order_ list<int>, m map<text, int>, key (key)"
    )
    columns = make_table(
        "columns", "ks text, tab text, col text, position int, note text static, key (ks, tab, col)"
    )
    return Session(
        virtual(local, lambda: [LOCAL]),
        virtual(
            columns,
            lambda: (
                {"ks": ks, "tab": tab, "col": col, "position": position, "note": f"about {ks}"}
                for ks in ("s1", "s2")
                for tab in ("t1", "t2")
                for position, col in enumerate(("b", "a", "c"))
            ),
        ),
    )  # fmt: skip


def test_collections_and_scalars(session: Session) -> None:
    assert rows(session, "SELECT * FROM local WHERE key = 'local'") == [
        ("local", {"a": 1}, [3, 1, 2], 9042, {"5", "-3"})
    ]
    assert rows(session, "SELECT * FROM local WHERE key = 'other'") == []


def test_keys_slices_and_order(session: Session) -> None:
    assert rows(session, "SELECT col FROM columns WHERE ks = 's1' AND tab = 't2'") == [("a",), ("b",), ("c",)]
    assert rows(session, "SELECT col, note FROM columns WHERE ks = 's1' AND tab = 't2' AND col >= 'b'") == [
        ("b", "about s1"),
        ("c", "about s1"),
    ]
    assert rows(
        session, "SELECT position FROM columns WHERE ks = ? AND tab = ? AND col = ?", ("s2", "t1", "c")
    ) == [(2,)]
    assert rows(session, "SELECT tab FROM columns WHERE ks = 's1' ORDER BY tab DESC LIMIT 1") == [("t2",)]


def test_filters_need_no_permission(session: Session) -> None:
    assert len(rows(session, "SELECT * FROM columns WHERE position = 1")) == 4
    assert rows(session, "SELECT DISTINCT ks FROM columns WHERE ks IN ('s2', 's1')") == [("s1",), ("s2",)]
    assert rows(session, "SELECT count(*) FROM columns WHERE tab = 't1'") == [(6,)]


def test_pages(session: Session) -> None:
    found, state = [], None
    while True:
        page = run(session, "SELECT ks, tab, col FROM columns", page_size=5, paging_state=state)
        assert isinstance(page, Rows)
        assert len(page.rows) <= 5
        found += decoded(page)
        state = page.paging_state
        if state is None:
            break
    assert len(found) == len(set(found)) == 12


def test_the_rows_are_those_of_the_moment() -> None:
    state = {"n": 1}
    table = virtual(make_table("now", "k int, n int, key (k)"), lambda: [{"k": 0, **state}])
    session = Session(table)
    plan = session.plan("SELECT n FROM now")
    for n in (1, 2):
        state["n"] = n
        result = session.run_plan(plan)
        assert isinstance(result, Rows)
        assert decoded(result) == [(n,)]


def test_a_missing_key_is_a_mistake_of_the_source() -> None:
    session = Session(virtual(make_table("bad", "k int, key (k)"), lambda: [{}]))
    with pytest.raises(ValueError, match="needs a value for k"):
        run(session, "SELECT * FROM bad")


def test_writes_are_refused() -> None:
    from belvedere.query.system.virtual import VirtualAccess

    table = virtual(make_table("t", "k int, key (k)"), list)
    access = VirtualAccess(table)
    with pytest.raises(InvalidRequest, match=r"Modification is not supported by table ks\.t"):
        access.lock([(table, b"k")])
