"""The tables of a run, and which register of a history is where in them."""

KEYSPACE = "chaos"

#: Plain writes and reads.
REGISTERS = "registers"
#: Conditional writes, and nothing else.
CONDITIONAL = "conditional"
#: Written by logged batches that write both.
LEFT, RIGHT = "left", "right"
#: A base with views.
ITEMS = "items"
COUNTERS = "counters"

#: Read at ONE: such reads may be a little old, so they are kept apart from the others of the same register.
WEAK = "one:"

VIEWS = {"by_place": "place", "by_size": "size"}
SHELVES, PLACES = 3, 7


def statements(replication_factor: int) -> list[str]:
    replication = f"{{'class': 'SimpleStrategy', 'replication_factor': {replication_factor}}}"
    made = [f"CREATE KEYSPACE {KEYSPACE} WITH replication = {replication}"]
    made.append(f"CREATE TABLE {KEYSPACE}.{REGISTERS} (k text PRIMARY KEY, v bigint, filler blob)")
    for table in (CONDITIONAL, LEFT, RIGHT):
        made.append(f"CREATE TABLE {KEYSPACE}.{table} (k text PRIMARY KEY, v bigint)")
    made.append(f"CREATE TABLE {KEYSPACE}.{COUNTERS} (k text PRIMARY KEY, n counter)")
    made.append(
        f"CREATE TABLE {KEYSPACE}.{ITEMS} "
        "(shelf int, id int, place text, size bigint, filler blob, PRIMARY KEY (shelf, id))"
    )
    return made + [create_view(view, column) for view, column in VIEWS.items()]


def create_view(view: str, column: str) -> str:
    return (
        f"CREATE MATERIALIZED VIEW {KEYSPACE}.{view} AS SELECT * FROM {KEYSPACE}.{ITEMS} "
        f"WHERE {column} IS NOT NULL AND shelf IS NOT NULL AND id IS NOT NULL "
        f"PRIMARY KEY ({column}, shelf, id)"
    )


def keyed_by(view: str) -> str:
    """The column of the base by which a view is keyed, as its name says."""
    return view.rpartition("by_")[2]


def register(table: str, key: str) -> str:
    """Its name in the history."""
    return f"{table}/{key}"


def item(shelf: int, number: int) -> str:
    return register(ITEMS, f"{shelf}.{number}")


def place_of(size: int) -> str | None:
    """An item of this size is written with this place, so its row tells whether it is whole. Some have none,
    and are in one view only."""
    return f"p{size % PLACES}" if size % PLACES else None
