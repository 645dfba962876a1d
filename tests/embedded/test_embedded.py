"""`belvedere.open`: the API of a database inside the process."""

import asyncio
import contextlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import belvedere
from belvedere import UNSET, EmbeddedDatabase
from belvedere.runtime.errors import DiskError
from belvedere.server.settings import INLINE_ROWS, PipelineSettings
from belvedere.views.service import Views

KEYSPACE = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[EmbeddedDatabase]:
    with belvedere.open(tmp_path / "data") as opened:
        opened.execute(KEYSPACE)
        opened.execute("USE ks")
        opened.execute("CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))")
        yield opened


def fill(db: EmbeddedDatabase, rows: int) -> None:
    insert = db.prepare("INSERT INTO t (k, c, v) VALUES (?, ?, ?)")
    db.execute_batch([(insert, (1, c, f"v{c}")) for c in range(rows)])


# --- statements ----------------------------------------------------------------------------------------


def test_values_by_place_and_by_name(db: EmbeddedDatabase) -> None:
    db.execute("INSERT INTO t (k, c, v) VALUES (?, ?, ?)", [1, 1, "a"])
    db.execute("INSERT INTO t (k, c, v) VALUES (:k, :c, :v)", {"v": "b", "k": 1, "c": 2, "more": "ignored"})
    insert = db.prepare("INSERT INTO t (k, c, v) VALUES (?, ?, ?)")
    db.execute(insert, (1, 3, "c"))
    db.execute(insert, {"k": 1, "c": 4, "v": "d"})
    assert [tuple(row) for row in db.execute("SELECT * FROM t WHERE k = 1")] == [
        (1, 1, "a"),
        (1, 2, "b"),
        (1, 3, "c"),
        (1, 4, "d"),
    ]
    assert [(binding.name, binding.type.name) for binding in insert.bindings] == [
        ("k", "int"),
        ("c", "int"),
        ("v", "text"),
    ]
    assert repr(insert) == "<Statement 'INSERT INTO t (k, c, v) VALUES (?, ?, ?)'>"


def test_unset_leaves_and_none_deletes(db: EmbeddedDatabase) -> None:
    insert = db.prepare("INSERT INTO t (k, c, v) VALUES (?, ?, ?)")
    db.execute(insert, [1, 1, "kept"])
    db.execute(insert, [1, 1, UNSET])
    assert db.execute("SELECT v FROM t").one().v == "kept"
    db.execute(insert, [1, 1, None])
    assert db.execute("SELECT v FROM t").one().v is None


def test_a_result_is_read_once_in_pages(db: EmbeddedDatabase) -> None:
    fill(db, 25)
    result = db.execute("SELECT c FROM t", page_size=10)
    assert result.column_names == ["c"]
    assert result.one().c == 0
    assert next(iter(result)).c == 0
    assert result.one().c == 1
    assert [row.c for row in result] == list(range(1, 25))
    assert (result.one(), result.all()) == (None, [])
    partly = db.execute("SELECT c FROM t", page_size=10)
    for row in partly:
        if row.c == 11:
            break
    assert partly.to_arrow()["c"].to_pylist() == list(range(12, 25))
    assert [row.c for row in db.execute("SELECT c FROM t", page_size=0)] == list(range(25))


def test_pages_go_on_with_the_statements_own_values(db: EmbeddedDatabase) -> None:
    fill(db, 25)
    select = db.prepare("SELECT c FROM t WHERE k = ? AND c >= ?")
    results = [db.execute(select, [1, low], page_size=3) for low in (0, 10, 20)]
    assert [[row.c for row in result] for result in results] == [
        list(range(25)),
        list(range(10, 25)),
        list(range(20, 25)),
    ]


def test_rows_are_named_tuples_that_can_be_pickled(db: EmbeddedDatabase) -> None:
    fill(db, 3)
    row = db.execute("SELECT k, count(*), sum(c) AS total, max(c) FROM t").one()
    assert row._asdict() == {"k": 1, "count": 3, "total": 3, "system_max_c": 2}
    again = pickle.loads(pickle.dumps(row))
    assert again == row
    assert again.total == 3


def test_conditions_say_whether_they_held(db: EmbeddedDatabase) -> None:
    insert = "INSERT INTO t (k, c, v) VALUES (1, 1, ?) IF NOT EXISTS"
    first = db.execute(insert, ["a"])
    assert first.was_applied
    assert first.one().applied
    second = db.execute(insert, ["b"])
    assert not second.was_applied
    assert second.one()._asdict() == {"applied": False, "k": 1, "c": 1, "v": "a"}
    assert second.all()
    assert not second.was_applied, "also after the row was read"
    assert db.execute("UPDATE t SET v = 'x' WHERE k = 1 AND c = 1").was_applied
    assert not db.execute_batch(["UPDATE t SET v = 'z' WHERE k = 1 AND c = 1 IF v = 'other'"]).was_applied


def test_batches(db: EmbeddedDatabase) -> None:
    insert = db.prepare("INSERT INTO t (k, c, v) VALUES (?, ?, ?)")
    named = "INSERT INTO t (k, c, v) VALUES (:k, :c, :v)"
    db.execute_batch(
        [
            (insert, [1, 1, "a"]),
            (named, {"k": 2, "c": 2, "v": "b"}),
            "INSERT INTO t (k, c, v) VALUES (3, 3, 'c')",
        ],
        timestamp=1234,
    )
    written = db.execute("SELECT k, writetime(v) AS at FROM t").all()
    assert sorted((row.k, row.at) for row in written) == [(1, 1234), (2, 1234), (3, 1234)]
    with pytest.raises(belvedere.InvalidRequest, match="only UPDATE, INSERT and DELETE"):
        db.execute_batch(["SELECT * FROM t"])
    with pytest.raises(belvedere.InvalidRequest, match="Invalid amount of bind variables"):
        db.execute_batch([(insert, [1, 2])])
    with pytest.raises(ValueError, match="LOGGED, UNLOGGED or COUNTER"):
        db.execute_batch([], kind="logged")  # type: ignore[arg-type]
    assert not db.execute_batch([]).all()
    db.execute("CREATE TABLE counts (k int PRIMARY KEY, n counter)")
    add = db.prepare("UPDATE counts SET n = n + ? WHERE k = ?")
    db.execute_batch([(add, [2, 1]), (add, [3, 1])], kind="COUNTER")
    assert db.execute("SELECT n FROM counts").one().n == 5


def test_a_write_time_can_be_given(db: EmbeddedDatabase) -> None:
    db.execute("INSERT INTO t (k, c, v) VALUES (1, 1, 'new')", timestamp=2000)
    db.execute("INSERT INTO t (k, c, v) VALUES (1, 1, 'old')", timestamp=1000)
    assert db.execute("SELECT v FROM t").one().v == "new"


def test_prepared_statements_outlive_schema_changes(db: EmbeddedDatabase) -> None:
    select = db.prepare("SELECT * FROM t WHERE k = ?")
    fill(db, 1)
    db.execute("ALTER TABLE t ADD extra int")
    assert db.execute(select, [1]).one()._asdict() == {"k": 1, "c": 0, "extra": None, "v": "v0"}
    db.execute("DROP TABLE t")
    with pytest.raises(belvedere.InvalidRequest):
        db.execute(select, [1])


def test_warnings_reach_the_result(db: EmbeddedDatabase) -> None:
    fill(db, 2)
    assert db.execute("SELECT * FROM t").warnings == ()
    counted = db.execute("SELECT count(*) FROM t")
    assert counted.warnings == ("Aggregation query used without partition key",)


# --- errors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "parameters", "kind", "code", "text"),
    [
        ("SELEC 1", (), "SyntaxException", 0x2000, "SELEC"),
        ("SELECT * FROM missing", (), "InvalidRequest", 0x2200, "missing"),
        ("SELECT * FROM nowhere.t", (), "InvalidRequest", 0x2200, "nowhere"),
        (KEYSPACE, (), "AlreadyExists", 0x2400, "ks"),
        ("SELECT * FROM t WHERE k = ?", ["one"], "InvalidRequest", 0x2200, r"Invalid value for k \(int\)"),
        ("SELECT * FROM t WHERE k = ?", [2**40], "InvalidRequest", 0x2200, r"Invalid value for k \(int\)"),
        ("SELECT * FROM t WHERE k = ?", [], "InvalidRequest", 0x2200, "0 given, 1 expected"),
        ("SELECT * FROM t WHERE k = :k", {"K": 1}, "InvalidRequest", 0x2200, "No value given .* k"),
        ("DROP TABLE missing", (), "InvalidRequest", 0x2200, "missing"),
        ("USE nowhere", (), "InvalidRequest", 0x2200, "nowhere"),
    ],
)
def test_errors_have_cqls_codes_and_cross_processes(
    db: EmbeddedDatabase, statement: str, parameters: Any, kind: str, code: int, text: str
) -> None:
    with pytest.raises(getattr(belvedere, kind), match=text) as caught:
        db.execute(statement, parameters)
    assert isinstance(caught.value, belvedere.CQLError)
    assert caught.value.code == code
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), vars(again)) == (
        type(caught.value),
        str(caught.value),
        vars(caught.value),
    )


def test_misuse_is_a_type_error(db: EmbeddedDatabase) -> None:
    for wrong in ("abc", b"abc", 7, {1, 2}, None):
        with pytest.raises(TypeError, match="parameters are a list, a tuple or a mapping"):
            db.execute("SELECT * FROM t WHERE k = ?", wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a statement is text"):
        db.execute(7)  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = belvedere.nothing
    assert {"UNSET", "open", "CQLError", "__version__"} <= set(dir(belvedere))
    assert all(hasattr(belvedere, name) for name in belvedere.__all__)


# --- threads and loops ---------------------------------------------------------------------------------


def test_many_threads_share_one_database(db: EmbeddedDatabase) -> None:
    insert = db.prepare("INSERT INTO t (k, c, v) VALUES (?, ?, ?)")
    failures: list[BaseException] = []

    def work(k: int) -> None:
        try:
            for c in range(25):
                db.execute(insert, [k, c, "x"])
                assert db.execute("SELECT v FROM t WHERE k = ? AND c = ?", [k, c]).one().v == "x"
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert db.execute("SELECT count(*) FROM t").one().count == 200


def test_async_forms(tmp_path: Path) -> None:
    async def main() -> None:
        async with await belvedere.open_async(tmp_path) as db:
            await db.execute_async(KEYSPACE)
            await db.execute_async("CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
            insert = await db.prepare_async("INSERT INTO ks.t (k, v) VALUES (?, ?)")
            await asyncio.gather(*(db.execute_async(insert, [k, f"v{k}"]) for k in range(50)))
            await db.execute_batch_async([(insert, [50, "b"]), (insert, [51, "b"])])
            result = await db.execute_async("SELECT k FROM ks.t", page_size=7)
            assert (await result.one_async()).k is not None
            assert sorted([row.k async for row in result]) == list(range(52))
            paged = await db.execute_async("SELECT k FROM ks.t", page_size=7)
            assert sorted((await paged.to_arrow_async())["k"].to_pylist()) == list(range(52))
            again = await db.execute_async("SELECT k FROM ks.t WHERE k IN (1, 2)")
            assert len(await again.all_async()) == 2
            with pytest.raises(belvedere.InvalidRequest):
                await db.execute_async("SELECT * FROM ks.missing")
        with pytest.raises(belvedere.DatabaseClosed):
            await db.execute_async("SELECT * FROM ks.t")
        await db.close_async()

    asyncio.run(main())


# --- life ----------------------------------------------------------------------------------------------


def test_data_survives_and_the_keyspace_can_be_given(tmp_path: Path) -> None:
    with belvedere.open(str(tmp_path)) as db:
        db.execute(KEYSPACE)
        db.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
        db.execute("INSERT INTO ks.t (k, v) VALUES (1, 'kept')")
    with belvedere.open(str(tmp_path), keyspace="ks", fsync="periodic") as db:
        assert db.keyspace == "ks"
        assert db.execute("SELECT v FROM t").one().v == "kept"
    with pytest.raises(belvedere.InvalidRequest, match="Keyspace 'other' does not exist"):
        belvedere.open(str(tmp_path), keyspace="other")
    with belvedere.open(str(tmp_path)) as db:
        assert db.keyspace is None
        assert db.path == str(tmp_path)


def test_only_one_may_have_a_directory_open(tmp_path: Path) -> None:
    with belvedere.open(tmp_path), pytest.raises(belvedere.DataDirectoryInUse, match="is in use"):
        belvedere.open(tmp_path)
    belvedere.open(tmp_path).close()


def test_a_directory_can_be_opened_after_it_could_not(tmp_path: Path) -> None:
    with belvedere.open(tmp_path / "data") as db:
        db.execute(KEYSPACE)
        db.execute("CREATE TABLE ks.t (k int PRIMARY KEY)")
    (tmp_path / "file").touch()
    files = open_files()
    for _ in range(3):
        # The database is open already when it turns out that the exchange cannot be made.
        with pytest.raises(DiskError):
            belvedere.open(tmp_path / "data", exchange=str(tmp_path / "file"))
        assert open_files() == files
    with belvedere.open(tmp_path / "data") as db:
        assert db.execute("SELECT * FROM ks.t").all() == []


def test_a_directory_is_let_go_whatever_fails_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(views: Views) -> None:
        await stop(views)
        raise RuntimeError("no end of views")

    stop = Views.stop
    monkeypatch.setattr(Views, "stop", fail)
    db = belvedere.open(tmp_path / "data")
    db.execute(KEYSPACE)
    with pytest.raises(RuntimeError, match="no end of views"):
        db.close()
    monkeypatch.undo()
    with belvedere.open(tmp_path / "data") as db:
        db.execute("USE ks")


def open_files() -> list[str]:
    names = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            names.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return sorted(name for name in names if name.startswith("/") and not name.startswith("/proc"))


def test_closed_is_closed(tmp_path: Path) -> None:
    db = belvedere.open(tmp_path)
    db.execute(KEYSPACE)
    db.execute("CREATE TABLE ks.t (k int PRIMARY KEY)")
    for k in range(5):
        db.execute("INSERT INTO ks.t (k) VALUES (?)", [k])
    halfway = db.execute("SELECT k FROM ks.t", page_size=2)
    db.close()
    db.close()
    assert repr(db) == f"<EmbeddedDatabase {str(tmp_path)!r}, closed>"
    for use in (lambda: db.execute("SELECT * FROM ks.t"), lambda: db.prepare("x"), halfway.all):
        with pytest.raises(belvedere.DatabaseClosed, match="is closed"):
            use()


def test_close_waits_for_what_runs(tmp_path: Path) -> None:
    db = belvedere.open(tmp_path)
    db.execute(KEYSPACE)
    db.execute("CREATE TABLE ks.t (k int PRIMARY KEY)")
    written: list[int] = []
    odd: list[BaseException] = []
    started = threading.Barrier(5)

    def work(first: int) -> None:
        started.wait()
        try:
            for k in range(first, first + 100_000):
                db.execute("INSERT INTO ks.t (k) VALUES (?)", [k])
                written.append(k)
        except belvedere.DatabaseClosed:
            pass
        except BaseException as error:
            odd.append(error)

    threads = [threading.Thread(target=work, args=(n * 100_000,)) for n in range(4)]
    for thread in threads:
        thread.start()
    started.wait()
    while len(written) < 20:
        threads[0].join(0.01)
    db.close()
    for thread in threads:
        thread.join()
    assert odd == []
    with belvedere.open(tmp_path) as db:
        assert set(written) <= {row.k for row in db.execute("SELECT k FROM ks.t")}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"fsync": "always"}, "fsync is"),
        ({"memtable_mb": 0}, "memtable_mb"),
        ({"cache_mb": -1}, "cache_mb"),
        ({"inline_rows": -1}, "inline_rows"),
        ({"spark": {"master": "local[2]"}}, "settings of Spark"),
        ({"spark": {"spark.executor.cores": 2}}, "settings of Spark"),
        ({"spark": {"spark.master": "local", "spark.remote": "sc://x"}}, "exclude each other"),
    ],
)
def test_options_are_checked(tmp_path: Path, options: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        belvedere.open(tmp_path, **options)
    with pytest.raises(ValueError, match="path of a database"):
        belvedere.open("")


def run_python(script: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True)


def test_settings_of_spark_reach_the_node(tmp_path: Path) -> None:
    with belvedere.open(tmp_path / "data") as opened:
        assert opened._node.settings == PipelineSettings({}, INLINE_ROWS)
    given = {"spark.master": "local[1]"}
    with belvedere.open(tmp_path / "data", spark=given, inline_rows=5) as opened:
        assert opened._node.settings == PipelineSettings(given, 5)

    async def use() -> None:
        async with await belvedere.open_async(tmp_path / "data", spark=given, inline_rows=6) as opened:
            assert opened._node.settings == PipelineSettings(given, 6)

    asyncio.run(use())


def test_importing_is_cheap() -> None:
    script = "import belvedere, sys; print(sorted(m for m in sys.modules if m.split('.')[0] in %r))"
    loaded = run_python(script % {"belvedere", "numpy", "pyarrow", "asyncio", "uvloop", "msgspec"})
    assert loaded.stdout.strip() == "['belvedere', 'belvedere.runtime', 'belvedere.runtime.version']"


def test_forgetting_to_close_loses_nothing_and_says_nothing(tmp_path: Path) -> None:
    script = f"""if 1:
        import belvedere, sys
        db = belvedere.open(sys.argv[1])
        db.execute({KEYSPACE!r})
        db.execute("CREATE TABLE ks.t (k int PRIMARY KEY)")
        for k in range(10):
            db.execute("INSERT INTO ks.t (k) VALUES (?)", [k])
    """
    done = run_python(script, str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with belvedere.open(tmp_path) as db:
        assert db.execute("SELECT count(*) FROM ks.t").one().count == 10
