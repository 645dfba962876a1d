"""The metadata store: small, linearizable, with transactions and a way to follow changes.

A transaction is data: what must hold, then what changes. It carries an id fixed before the first try, so
that a retry after an unknown outcome learns whether the first try had landed. Following is a bell and a
pull: `wait_beyond` wakes when something newer exists, `changes_since` fetches it in order; a follower that
is too far behind gets `Compacted` and loads afresh. A key can be put under a lease: it is gone once the
lease has run out, and everybody sees that as a revision. Every implementation passes one contract suite.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Absent:
    """Precondition: the key does not exist."""

    key: str


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Precondition: the key exists and was last written at this revision."""

    key: str
    revision: int


@dataclass(frozen=True, slots=True)
class Put:
    """Under a lease, the key is deleted when the lease ends; a later Put without it sets the key free."""

    key: str
    value: bytes
    lease: int | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    key: str


Assertion = Absent | Unchanged
Update = Put | Delete


@dataclass(frozen=True, slots=True)
class Transaction:
    id: bytes
    asserts: tuple[Assertion, ...]
    updates: tuple[Update, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    value: bytes
    #: The revision that last wrote this key.
    revision: int


@dataclass(frozen=True, slots=True)
class Committed:
    """Revisions grow with every commit, not always by one: a store may count what others do in it."""

    revision: int


@dataclass(frozen=True, slots=True)
class Refused:
    """An assertion did not hold; nothing changed. `revision` is how new the refusing store was."""

    failed: Assertion
    revision: int


@dataclass(frozen=True, slots=True)
class Change:
    """All updates of one revision."""

    revision: int
    updates: tuple[Update, ...]


@dataclass(frozen=True, slots=True)
class Loaded:
    revision: int
    entries: Mapping[str, Entry]


@dataclass(frozen=True, slots=True)
class Granted:
    """The store will not end the lease earlier than `seconds` after it was asked; it may have chosen more
    than was asked for."""

    lease: int
    seconds: float


class MetadataError(Exception):
    pass


class OutcomeUnknown(MetadataError):
    """The transaction may or may not have landed. Retry with the same id to find out."""


class StoreUnavailable(MetadataError):
    """The store could not be reached; nothing was changed by this call."""


class Compacted(MetadataError):
    """The changes asked for are no longer kept: load the whole store again."""


class LeaseGone(MetadataError):
    """The lease has run out or was revoked; nothing was changed by this call."""


class MetadataStore(Protocol):
    async def load(self) -> Loaded: ...
    async def commit(self, transaction: Transaction) -> Committed | Refused:
        """Raises OutcomeUnknown, StoreUnavailable or LeaseGone. A transaction that was seen to be refused
        never lands later, not even by a try whose outcome was unknown before."""

    async def changes_since(self, revision: int) -> list[Change]:
        """In order, up to the newest commit at the time of the call."""

    async def wait_beyond(self, revision: int) -> None:
        """Return when the store's revision is greater; may wake early."""

    async def grant(self, seconds: float) -> Granted:
        """A new lease. One whose answer is lost runs out by itself: simply ask again."""

    async def keep_alive(self, lease: int) -> float:
        """The lease lasts at least the returned seconds from when this was asked. Raises LeaseGone."""

    async def revoke(self, lease: int) -> None:
        """End the lease and delete its keys; fine if it is gone already."""

    async def close(self) -> None: ...


def first_failure(asserts: tuple[Assertion, ...], entries: Mapping[str, Entry]) -> Assertion | None:
    """The first assertion that does not hold."""
    for assertion in asserts:
        entry = entries.get(assertion.key)
        if isinstance(assertion, Absent):
            if entry is not None:
                return assertion
        elif entry is None or entry.revision != assertion.revision:
            return assertion
    return None


def fold(entries: Mapping[str, Entry], revision: int, updates: tuple[Update, ...]) -> dict[str, Entry]:
    """The entries after one revision's updates."""
    after = dict(entries)
    for update in updates:
        if isinstance(update, Put):
            after[update.key] = Entry(update.value, revision)
        else:
            after.pop(update.key, None)
    return after
