"""Who writes in the demo: orders that are new, move to another city, or go; knows what was acknowledged."""

import threading
from typing import Any

CITIES = ("Lisbon", "Nairobi", "Osaka", "Quito", "Riga", "Tunis", "Uppsala", "Wellington")
CUSTOMERS = 50_021
IN_FLIGHT = 64
#: The builds are what this is about: so many writes, ten times a second, are enough.
AT_A_TIME = 60
#: New orders have numbers from here on.
NEW = 1_000_000_000

INSERT = "INSERT INTO shop.orders (customer, id, city, total) VALUES (?, ?, ?, ?)"
MOVE = "UPDATE shop.orders SET city = ? WHERE customer = ? AND id = ?"
DELETE = "DELETE FROM shop.orders WHERE customer = ? AND id = ?"
FIND = "SELECT city FROM shop.orders WHERE customer = ? AND id = ?"

Key = tuple[int, int]


class Clerk:
    """Touches each order once, so that what must be there afterwards is known."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._next = 0
        self._lock = threading.Lock()
        #: Acknowledged: the city where an order must be, None if it must be gone.
        self._known: dict[Key, str | None] = {}
        self._window = threading.Semaphore(IN_FLIGHT)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def acknowledged(self) -> int:
        return len(self._known)

    def work(self, session: Any) -> None:
        """In the background, until `rest`."""
        self._session = session
        self._insert, self._move, self._delete = map(session.prepare, (INSERT, MOVE, DELETE))
        self._stopping.clear()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while not self._stopping.wait(0.1):
            for _ in range(AT_A_TIME):
                self._write()

    def rest(self) -> None:
        """Nothing is under way on return."""
        if self._thread is not None:
            self._stopping.set()
            self._thread.join()
            self._thread = None
        for _ in range(IN_FLIGHT):
            self._window.acquire()
        for _ in range(IN_FLIGHT):
            self._window.release()

    def _write(self) -> None:
        number, kind = self._next, self._next % 4
        self._next += 1
        # Old orders in an order that comes by everywhere.
        old = number * 7919 % self._rows
        key = (old % CUSTOMERS, old) if kind else (number % CUSTOMERS, NEW + number)
        city: str | None = CITIES[number % len(CITIES)]
        if key in self._known:
            return
        values: tuple[Any, ...]
        if kind == 0:
            statement, values = self._insert, (*key, city, number % 500 + 0.5)
        elif kind < 3:
            statement, values = self._move, (city, *key)
        else:
            statement, values, city = self._delete, key, None
        self._window.acquire()
        try:
            future = self._session.execute_async(statement, values)
        except BaseException:
            self._window.release()  # It was not sent.
            raise
        future.add_callbacks(self._acknowledge, self._fail, callback_args=(key, city))

    def _acknowledge(self, _: Any, key: Key, city: str | None) -> None:
        with self._lock:
            self._known[key] = city
        self._window.release()

    def _fail(self, _: Exception) -> None:
        self._window.release()

    def missing(self, session: Any) -> list[Key]:
        """Orders that are not as they were acknowledged to be."""
        from cassandra.concurrent import execute_concurrent_with_args

        known = list(self._known.items())
        statement = session.prepare(FIND)
        results = execute_concurrent_with_args(session, statement, [key for key, _ in known])
        found = [row.city if (row := result.one()) else None for _, result in results]
        return [key for (key, city), there in zip(known, found, strict=True) if there != city]
