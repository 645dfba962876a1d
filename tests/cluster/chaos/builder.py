"""Somebody who creates and drops views of the base, and gives it columns, while everything else goes on."""

import random
import threading
import time

from cassandra import AlreadyExists
from cassandra.cluster import Session

from tests.cluster.chaos import schema
from tests.cluster.chaos.recording import Trouble
from tests.cluster.chaos.work import LOST, REFUSALS

_PAUSE_SECONDS = 4.0


class Builder(threading.Thread):
    def __init__(self, session: Session, seed: int) -> None:
        super().__init__(name="builder", daemon=True)
        self._session = session
        self._draw = random.Random(f"{seed}/builder")
        self._stopping = threading.Event()
        self.count = self.columns = 0
        #: Which there must be, and which there may be.
        self.made: set[str] = set()
        self.unsure: set[str] = set()
        self.troubles: list[Trouble] = []
        self.start()

    def finish(self) -> None:
        self._stopping.set()
        self.join(120)
        assert not self.is_alive(), "a change of the schema hangs"

    def run(self) -> None:
        while not self._stopping.wait(self._draw.uniform(0.2, 1.0) * _PAUSE_SECONDS):
            share = self._draw.random()
            if share < 0.15:
                self.columns += 1
                self._changed(f"ALTER TABLE {schema.KEYSPACE}.{schema.ITEMS} ADD extra_{self.columns} int")
            elif self.made and share < 0.5:
                view = self._draw.choice(sorted(self.made))
                self.made.discard(view)
                if not self._changed(f"DROP MATERIALIZED VIEW {schema.KEYSPACE}.{view}"):
                    self.unsure.add(view)
            else:
                self.count += 1
                column = self._draw.choice(sorted(schema.VIEWS.values()))
                view = f"late_{self.count}_by_{column}"
                if self._changed(schema.create_view(view, column)):
                    self.made.add(view)
                else:
                    self.unsure.add(view)

    def _changed(self, text: str) -> bool:
        try:
            self._session.execute(text, timeout=30)
        except Exception as error:
            allowed = isinstance(error, (*REFUSALS, *LOST, AlreadyExists))
            told = Trouble(
                "builder", time.monotonic_ns(), type(error).__name__, f"{text}: {error}"[:500], allowed
            )
            self.troubles.append(told)
            return False
        return True

    def wrong(self, found: set[str]) -> list[str]:
        """Of the views that are there at the end, besides those of the beginning."""
        wrong = [f"the view {view} was created, and is not there" for view in sorted(self.made - found)]
        beyond = found - self.made - self.unsure
        return wrong + [f"the view {view} was dropped, and is there" for view in sorted(beyond)]
