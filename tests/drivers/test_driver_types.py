"""Values of every type through the cassandra-driver's bound values, in every protocol version."""

import datetime
import decimal
import math
import uuid
from typing import Any

import pytest
from cassandra.cluster import Session
from cassandra.util import Date, Duration, OrderedMapSerializedKey, SortedSet, Time

from tests.drivers.conftest import Connect

pytestmark = pytest.mark.filterwarnings("ignore")

VERSIONS = [(3, None), (3, "lz4"), (4, None), (4, "lz4"), (5, None), (5, "lz4")]

#: Type → values; each is written and read back.
VALUES: dict[str, list[Any]] = {
    "ascii": ["", "plain"],
    "bigint": [-(2**63), 2**63 - 1, 0],
    "blob": [b"", b"\x00\xff" * 50],
    "boolean": [True, False],
    "date": [Date("1969-12-31"), Date(datetime.date(2024, 2, 29)), Date(0), Date(-(2**31)), Date(2**31 - 1)],
    "decimal": [decimal.Decimal("-12.340"), decimal.Decimal("1E+30"), decimal.Decimal(0)],
    "double": [math.pi, -0.0, math.inf, 5e-324],
    "duration": [Duration(1, 2, 3), Duration(-1, -2, -3), Duration(0, 0, 0)],
    "float": [0.5, -math.inf],
    "inet": ["127.0.0.1", "2001:db8::1"],
    "int": [-(2**31), 2**31 - 1],
    "smallint": [-(2**15), 2**15 - 1],
    "text": ["", "größer 🏛", "x" * 100_000],
    "time": [Time(0), Time(86_399_999_999_999)],
    "timestamp": [datetime.datetime(1969, 12, 31, 23, 59, 59, 999000), datetime.datetime(9999, 12, 31)],
    "timeuuid": [uuid.UUID("f2f9a2c0-5d0e-11ee-8c99-0242ac120002")],
    "tinyint": [-128, 127],
    "uuid": [uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)],
    "varchar": ["same as text"],
    "varint": [-(10**50), 0, 2**64],
    "list<int>": [[3, 1, 3], [0]],
    "set<text>": [SortedSet(["b", "a"])],
    "map<text, double>": [{"x": 1.5, "y": -2.0}],
    "frozen<list<int>>": [[], [1, 2]],
    "frozen<map<int, frozen<set<text>>>>": [{1: SortedSet(["a"]), 2: SortedSet(["b", "c"])}],
    "tuple<int, text, frozen<list<int>>>": [(1, "a", [1]), (None, None, None), (5, None, [])],
    "vector<float, 3>": [[1.0, 0.5, -2.0]],
    "vector<text, 2>": [["a", "bb"]],
}


def plain(value: Any) -> Any:
    """The driver gives maps as its own ordered map and sets sorted."""
    if isinstance(value, OrderedMapSerializedKey):
        return {key: plain(item) for key, item in value.items()}
    return value


def round_trip(session: Session, columns: dict[str, list[Any]], prepared: bool) -> None:
    names = {name: f"c{number}" for number, name in enumerate(columns)}
    for name, column in names.items():
        if prepared:
            insert = session.prepare(f"INSERT INTO everything (k, {column}) VALUES (?, ?)")
            select = session.prepare(f"SELECT {column} FROM everything WHERE k = ?")
        for k, value in enumerate([*columns[name], None]):
            if prepared:
                session.execute(insert, (k, value))
                got = session.execute(select, (k,)).one()[0]
            else:
                session.execute(f"INSERT INTO everything (k, {column}) VALUES (%s, %s)", (k, value))
                got = session.execute(f"SELECT {column} FROM everything WHERE k = %s", (k,)).one()[0]
            assert plain(got) == value, (name, value)
            assert not isinstance(value, float) or math.copysign(1, got) == math.copysign(1, value)


@pytest.mark.parametrize(("version", "compression"), VERSIONS)
def test_bound_values_of_every_type(connect: Connect, version: int, compression: str | None) -> None:
    session = connect(protocol_version=version, compression=compression or False)
    name = f"types_{version}_{compression or 'plain'}"
    session.execute(
        f"CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    )
    session.set_keyspace(name)
    columns = ", ".join(f"c{number} {cql}" for number, cql in enumerate(VALUES))
    session.execute(f"CREATE TABLE everything (k int PRIMARY KEY, {columns})")
    round_trip(session, VALUES, prepared=True)
    row = session.execute("SELECT * FROM everything WHERE k = 0").one()
    assert [plain(getattr(row, f"c{number}")) for number in range(len(VALUES))] == [
        values[0] for values in VALUES.values()
    ]


def test_literals_of_every_type(session: Session, keyspace: str) -> None:
    # The driver writes neither tuples with nulls nor infinities as CQL text.
    columns = {
        name: [value for value in values if value not in (math.inf, -math.inf)]
        for name, values in VALUES.items()
        if not name.startswith(("tuple", "blob", "time", "vector"))
    }
    listed = ", ".join(f"c{number} {cql}" for number, cql in enumerate(columns))
    session.execute(f"CREATE TABLE everything (k int PRIMARY KEY, {listed})")
    round_trip(session, columns, prepared=False)


def test_every_type_as_a_key(session: Session, keyspace: str) -> None:
    for number, (name, values) in enumerate(VALUES.items()):
        if name == "duration":
            continue
        key = name if "<" not in name or name.startswith(("frozen", "vector")) else f"frozen<{name}>"
        table = f"keyed_{number}"
        session.execute(f"CREATE TABLE {table} (k {key}, c {key}, v int, PRIMARY KEY (k, c))")
        insert = session.prepare(f"INSERT INTO {table} (k, c, v) VALUES (?, ?, ?)")
        select = session.prepare(f"SELECT v FROM {table} WHERE k = ? AND c = ?")
        usable = [value for value in values if value not in ("", b"") and len(str(value)) < 60_000]
        for v, value in enumerate(usable):
            session.execute(insert, (value, value, v))
        for v, value in enumerate(usable):
            assert session.execute(select, (value, value)).one().v == v, (name, value)
        assert len(session.execute(f"SELECT k FROM {table}").all()) == len(usable), name


def test_user_types_are_mapped_to_classes(connect: Connect, session: Session, keyspace: str) -> None:
    class Place:
        def __init__(self, street: str, number: int | None) -> None:
            self.street, self.number = street, number

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Place) and vars(self) == vars(other)

        __hash__ = None  # type: ignore[assignment]

    session.execute("CREATE TYPE place (street text, number int)")
    session.execute("CREATE TABLE t (k int PRIMARY KEY, p frozen<place>, many list<frozen<place>>, q place)")
    session.cluster.register_user_type(keyspace, "place", Place)
    insert = session.prepare("INSERT INTO t (k, p, many, q) VALUES (?, ?, ?, ?)")
    one, two = Place("Rua 1", 7), Place("Rua 2", None)
    session.execute(insert, (1, one, [one, two], two))
    row = session.execute("SELECT * FROM t").one()
    assert (row.p, row.many, row.q) == (one, [one, two], two)
    session.execute("UPDATE t SET q.number = 9 WHERE k = 1")
    assert session.execute("SELECT q.number FROM t").one()[0] == 9
    session.execute("ALTER TYPE place ADD floor int")
    other = connect()
    assert other.execute(f"SELECT p FROM {keyspace}.t").one().p._asdict() == {
        "street": "Rua 1",
        "number": 7,
        "floor": None,
    }
