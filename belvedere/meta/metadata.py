"""A node's view of the metadata store: follows revisions, swaps one ClusterState, commits changes."""

import asyncio
from collections.abc import Callable

from belvedere.meta import state as states
from belvedere.meta.state import ClusterState
from belvedere.meta.store import (
    Assertion,
    Committed,
    Compacted,
    MetadataStore,
    OutcomeUnknown,
    Refused,
    StoreUnavailable,
    Transaction,
    Update,
)
from belvedere.runtime.api import Runtime, TaskHandle

#: What a change to metadata is before it gets an id: preconditions and updates.
Proposal = tuple[tuple[Assertion, ...], tuple[Update, ...]]
Listener = Callable[[ClusterState, ClusterState], None]

_MAX_ATTEMPTS = 50
_STEP_BACK = 0.002


class Metadata:
    """`state` is always one whole revision. Listeners hear (before, after) for each swap, in order."""

    def __init__(self, runtime: Runtime, store: MetadataStore) -> None:
        self._runtime = runtime
        self._store = store
        self._listeners: list[Listener] = []
        self._follower: TaskHandle | None = None
        self._catching_up = asyncio.Lock()
        self._contended = asyncio.Lock()
        self._waiters: list[asyncio.Future[None]] = []
        #: Looks at the store: how many were begun, and the last one that went well.
        self._looks = 0
        self._looked = 0
        self.state: ClusterState = states.EMPTY

    async def start(self) -> None:
        self.state = states.from_loaded(await self._store.load())
        self._follower = self._runtime.spawn("metadata follower", self._follow())

    async def stop(self) -> None:
        if self._follower is not None:
            self._follower.cancel()
            await self._follower.wait()
        await self._store.close()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Returns a function that ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def commit(self, propose: Callable[[ClusterState], Proposal | None]) -> ClusterState:
        """Commit what `propose` makes of the newest state; proposed anew whenever the state had moved on.

        `propose` may raise to refuse, or return None when nothing is to do. Returns a state that includes
        the change.
        """
        committed, refused_by = await self._attempt(propose)
        if committed:
            return self.state
        # Under contention one at a time, so that each attempt has a fair chance.
        async with self._contended:
            for attempt in range(_MAX_ATTEMPTS):
                # Other nodes contend, too: whoever lost often steps back a little, each for another while.
                await self._runtime.clock.sleep(self._runtime.random.random() * attempt * _STEP_BACK)
                committed, refused_by = await self._attempt(propose)
                if committed:
                    return self.state
        raise StoreUnavailable(
            f"the metadata changed too often under this statement ({refused_by}); try again"
        )

    async def attempt(self, transaction: Transaction) -> Committed | Refused:
        """One try of a transaction whose id the caller keeps for the next one. Raises OutcomeUnknown or
        StoreUnavailable; the state need not include the outcome yet."""
        return await self._store.commit(transaction)

    async def _attempt(self, propose: Callable[[ClusterState], Proposal | None]) -> tuple[bool, object]:
        """Whether the proposal is done with, else what refused it."""
        proposal = await self._decide(propose)
        if proposal is None:
            return True, None
        asserts, updates = proposal
        transaction = Transaction(self._runtime.random.uuid_bytes(), asserts, updates)
        outcome = await self._commit_certainly(transaction)
        if isinstance(outcome, Refused):
            await self.catch_up(outcome.revision)
            return False, outcome.failed
        try:
            await self.catch_up(outcome.revision)
        except StoreUnavailable as error:
            raise OutcomeUnknown(
                f"the change was made, but this node does not see it yet: {error}"
            ) from error
        return True, None

    async def _decide(self, propose: Callable[[ClusterState], Proposal | None]) -> Proposal | None:
        """The store checks what a proposal assumed; nobody checks a refusal: that needs the newest state."""
        try:
            proposal = propose(self.state)
        except Exception:
            proposal = None
        if proposal is None:
            async with self._catching_up:
                await self._pull()
            proposal = propose(self.state)
        return proposal

    async def catch_up(self, revision: int) -> None:
        """Return once `state` is at least at this revision."""
        while self.state.revision < revision:
            async with self._catching_up:
                if self.state.revision < revision:
                    await self._pull()
            if self.state.revision < revision:
                await self._store.wait_beyond(self.state.revision)

    async def refresh(self) -> None:
        """Return once `state` is as new as the store was when this was called. However many wait, one look
        at the store after another is enough: what each of them needs is one that began after it came."""
        wanted = self._looks + 1
        async with self._catching_up:
            if self._looked < wanted:
                await self._pull()

    async def until(self, condition: Callable[[ClusterState], bool]) -> ClusterState:
        """Return the first state that is seen to fulfil the condition."""
        while not condition(self.state):
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        return self.state

    async def _commit_certainly(self, transaction: Transaction) -> Committed | Refused:
        unknown: OutcomeUnknown | None = None
        for attempt in range(5):
            try:
                return await self._store.commit(transaction)
            except OutcomeUnknown as error:
                unknown = error
            except StoreUnavailable:
                # Says nothing about the tries before this one.
                if unknown is None:
                    raise
            await self._runtime.clock.sleep(0.05 * 2**attempt)
        assert unknown is not None
        raise unknown

    async def _follow(self) -> None:
        while True:
            try:
                known = self.state.revision
                await self._store.wait_beyond(known)
                # Somebody else may have caught up meanwhile: waiting for one more would wait for the next.
                await self.catch_up(known + 1)
            except StoreUnavailable as error:
                self._runtime.log("warning", "metadata store away", error=str(error))
                await self._runtime.clock.sleep(0.5)

    async def _pull(self) -> None:
        self._looks += 1
        look = self._looks
        try:
            changes = await self._store.changes_since(self.state.revision)
        except Compacted:
            self._swap(states.from_loaded(await self._store.load()))
        else:
            for change in changes:
                if change.revision > self.state.revision:
                    self._swap(states.advance(self.state, change.revision, change.updates))
        self._looked = look

    def _swap(self, after: ClusterState) -> None:
        before, self.state = self.state, after
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        for listener in tuple(self._listeners):
            try:
                listener(before, after)
            except Exception as error:  # A listener's bug must not stop this node from following.
                self._runtime.log("error", "metadata.listener_failed", error=repr(error))
