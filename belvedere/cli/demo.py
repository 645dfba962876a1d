"""`belvedere demo`: a million rows from Spark, two views that are built, kept, damaged on purpose, put right.

It starts a real server process and Spark in this machine, writes through the ordinary Cassandra driver, kills
the server with SIGKILL in the middle of the builds, and lets `belvedere verify` and `repair` say what they
see.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

from belvedere.cli import damage as damages
from belvedere.cli.demo_clerk import CITIES, CUSTOMERS, Clerk
from belvedere.cli.demo_stage import DemoFailed, Server, connect, console, good, note, quietly, step

CREATE_KEYSPACE = (
    "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
)
CREATE_TABLE = (
    "CREATE TABLE shop.orders (customer int, id bigint, city text, total double, PRIMARY KEY (customer, id))"
)
VIEWS = {
    "shop.by_city": "SELECT * FROM shop.orders WHERE city IS NOT NULL AND customer IS NOT NULL"
    " AND id IS NOT NULL PRIMARY KEY (city, customer, id)",
    "shop.large": "SELECT * FROM shop.orders WHERE total >= 400 AND customer IS NOT NULL"
    " AND id IS NOT NULL PRIMARY KEY (customer, total, id)",
}
#: What `verify` gives back to the shell.
EQUAL, DIFFERS = 0, 1
#: An order's value that no order has.
WRONG_TOTAL = -1.0


def run_demo(rows: int) -> int:
    """0 when all went as told, 1 when not."""
    started = time.monotonic()
    console.print(
        f"\n{rows:,} orders come from Spark. Two views show them under other keys: built while\n"
        "clients write and the server is killed, then damaged on purpose, and put right.",
        soft_wrap=True,
    )
    failure = None
    with tempfile.TemporaryDirectory(prefix="belvedere-demo-") as folder:
        data = Path(folder) / "data"
        server = None
        try:
            step("1. A server", "A process of its own, with an empty data directory.")
            server = Server(data)
            _story(server, data, rows)
        except DemoFailed as error:
            failure = error
        finally:
            if server is not None and server.process.poll() is None:
                server.kill()
    seconds = time.monotonic() - started
    if failure is not None:
        console.print(f"  [bold red]✗ {failure}[/bold red]", soft_wrap=True)
        console.print(f"\n[bold red]The demo failed[/bold red] after {seconds:.0f} s.\n")
        return 1
    console.print(
        f"\n[bold green]Both views equal their table.[/bold green] The demo took {seconds:.0f} s.\n"
    )
    return 0


def _story(server: Server, data: Path, rows: int) -> None:
    _load(server, rows)
    _build(server, rows)
    _read(server)
    _prove(server)
    _damage_and_repair(server, data)


def _load(server: Server, rows: int) -> None:
    step("2. Rows from Spark", "A DataFrame becomes sorted Parquet files of the table, all at once.")
    cluster, session = connect(server.port)
    session.execute(CREATE_KEYSPACE)
    session.execute(CREATE_TABLE)
    cluster.shutdown()
    note(CREATE_TABLE[: CREATE_TABLE.index("(")].strip())
    note(f"  {CREATE_TABLE[CREATE_TABLE.index('(') :]}")
    note('orders.write.format("belvedere").option("table", "shop.orders").mode("append").save()')
    seconds = 0.0

    def write() -> None:
        nonlocal seconds
        seconds = _write_from_spark(server.port, rows)

    quietly(write)
    good(f"{rows:,} rows in {seconds:.1f} s, Spark's start not counted")


def _write_from_spark(port: int, rows: int) -> float:
    from belvedere.pipeline.spark_session import SparkUnavailable, make_session

    try:
        spark = make_session({}, "belvedere demo")
    except SparkUnavailable as error:
        raise DemoFailed(str(error)) from None
    try:
        cities = ", ".join(f"'{city}'" for city in CITIES)
        orders = spark.range(rows).selectExpr(
            f"CAST(id % {CUSTOMERS} AS int) AS customer",
            "id",
            f"ELEMENT_AT(ARRAY({cities}), CAST(id * 7 % {len(CITIES)} AS int) + 1) AS city",
            "CAST(ROUND(id * 0.37246 % 500, 2) AS double) AS total",
        )
        started = time.monotonic()
        to_table = orders.write.format("belvedere").option("table", "shop.orders").option("port", str(port))
        to_table.mode("append").save()
        return time.monotonic() - started
    finally:
        spark.stop()


def _build(server: Server, rows: int) -> None:
    step(
        "3. Two views, while clients write",
        "Both are built from one reading of the table. Meanwhile orders are written, moved and deleted",
        "through the Cassandra driver, and in the middle the server is killed.",
    )
    cluster, session = connect(server.port)
    clerk = Clerk(rows)
    for name, query in VIEWS.items():
        note(f"CREATE MATERIALIZED VIEW {name} AS")
        note(f"  {query}")
        session.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    clerk.work(session)
    done = _until_under_way(session, clerk)
    server.kill()
    clerk.rest()
    cluster.shutdown()
    note(f"kill -9: {clerk.acknowledged:,} writes were acknowledged, {done} of the views' parts were built")
    server.restart()
    cluster, session = connect(server.port)
    clerk.work(session)
    status = server.watch("views", "--wait")
    clerk.rest()
    missing = clerk.missing(session)
    cluster.shutdown()
    if status != 0 or missing:
        raise DemoFailed(f"the builds ended with status {status}; {len(missing):,} writes are missing")
    good(f"the builds went on and are done; all {clerk.acknowledged:,} acknowledged writes are there")


def _until_under_way(session: Any, clerk: Clerk) -> int:
    """Until something was written, and some of the views is built; or all of them, if they are small."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        done = _ranges_done(session)
        if done and clerk.acknowledged:
            return done
        time.sleep(0.1)
    raise DemoFailed("nothing was built in two minutes; belvedere views tells more")


def _ranges_done(session: Any) -> int:
    builds = session.execute("SELECT ranges_done, last_failure FROM system_views.view_builds")
    done = 0
    for build in builds:
        if build.last_failure:
            raise DemoFailed(f"a build failed: {build.last_failure}")
        done += build.ranges_done
    return done


def _read(server: Server) -> None:
    step("4. One table, three keys")
    cluster, session = connect(server.port)
    for query in (
        "SELECT id, city, total FROM shop.orders WHERE customer = 7 LIMIT 2",
        "SELECT customer, id, total FROM shop.by_city WHERE city = 'Riga' LIMIT 2",
        "SELECT total, id, city FROM shop.large WHERE customer = 7 ORDER BY total DESC LIMIT 2",
    ):
        note(query)
        for row in session.execute(query):
            console.print("    " + ", ".join(f"{name} {value}" for name, value in row._asdict().items()))
    cluster.shutdown()


def _prove(server: Server) -> None:
    step("5. Are they right?", "Each is compared with its table, row by row, on Spark.")
    for name in VIEWS:
        if server.command("verify", name) != EQUAL:
            raise DemoFailed(f"{name} differs from its table")


def _damage_and_repair(server: Server, data: Path) -> None:
    step(
        "6. Damage",
        "The server stops, and a file of shop.by_city is written anew, with its checksum:",
        "one row taken out, one changed, one put in that no order stands for.",
    )
    server.stop()
    done = damages.damage(str(data), "shop.by_city", "total", WRONG_TOTAL)
    for what, row in (("taken out", done.removed), ("changed", done.changed), ("put in", done.invented)):
        note(f"{what:<9}  " + ", ".join(f"{name} {value}" for name, value in row.items()))
    server.restart()
    if server.command("verify", "shop.by_city") != DIFFERS:
        raise DemoFailed("the damage was not found")
    step("7. Repair", "The table is right, always. Exactly those rows of the view are put right.")
    server.command("repair", "shop.by_city", shown=False)
    if server.command("verify", "shop.by_city") != EQUAL:
        raise DemoFailed("shop.by_city still differs from its table")
    server.stop()
