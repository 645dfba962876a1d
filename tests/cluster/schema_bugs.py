"""Safeguards of schema changes between nodes, each switched off on purpose, and in how many seeds that must
be found."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from belvedere.cluster.barrier import KnownToAll
from belvedere.query.database import Database

Planted = AbstractContextManager[Any]


@dataclass(frozen=True)
class Bug:
    plant: Callable[[], Planted]
    #: Found within so many seeds from 0 on.
    seeds: int
    #: Part of what is said of it.
    told: str

    @property
    def name(self) -> str:
        return self.plant.__name__


async def _nothing(*_: Any) -> None:
    return None


def changes_answered_at_once() -> Planted:
    return patch.object(KnownToAll, "passed", _nothing)


def changes_answered_without_a_warning() -> Planted:
    original = KnownToAll.passed

    async def passed(self: KnownToAll, revision: int) -> None:
        await original(self, revision)

    return patch.object(KnownToAll, "passed", passed)


def unknown_without_a_look() -> Planted:
    return patch.object(Database, "knows_more", lambda *_: None)


def unknown_though_nobody_could_be_asked() -> Planted:
    original = Database._knows_more

    async def knows_more(self: Database, unknown: Any, than: int) -> bool:
        try:
            return await original(self, unknown, than)
        except Exception:
            return False

    return patch.object(Database, "_knows_more", knows_more)


BUGS = [
    Bug(changes_answered_at_once, 5, "not ["),
    Bug(changes_answered_without_a_warning, 40, ", not ["),
    Bug(unknown_without_a_look, 30, "does not know"),
    Bug(unknown_though_nobody_could_be_asked, 30, "does not know"),
]
