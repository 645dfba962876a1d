"""The worker alone: calls that begin, attach, are answered in part, refused and stopped."""

from belvedere.views.coordinator import Amount, Batch, Lane, Task
from belvedere.views.worker import (
    Answer,
    Begin,
    Called,
    Done,
    Ended,
    Gather,
    GatheringOver,
    HaltCalled,
    Outcome,
    Stop,
    TasksAlive,
    Worker,
)


def batch(*tablets: int, view: bytes = b"v", lane: Lane = Lane.JOB) -> Batch:
    return Batch(b"base", lane, tuple(Task(tablet, 1, view) for tablet in tablets))


ALL = batch(0, 1)
ZERO, ONE = ALL.tasks
READ = Amount(10, 100)


def test_a_call_is_answered_in_parts() -> None:
    worker = Worker()
    assert worker.handle(Called(1, 1, ALL)) == [Begin(ALL)]
    assert worker.handle(Done(Lane.JOB, (ZERO,), READ)) == [Gather(Lane.JOB)]
    assert worker.handle(GatheringOver(Lane.JOB)) == [Answer(1, Outcome.FINISHED, ((ZERO, READ),))]
    # The rest is asked for again, and attaches.
    assert worker.handle(Called(2, 1, batch(1))) == []
    assert worker.handle(Done(Lane.JOB, (ONE,), READ)) == [Gather(Lane.JOB)]
    assert worker.handle(Ended(Lane.JOB, Outcome.FINISHED)) == [Answer(2, Outcome.FINISHED, ((ONE, READ),))]
    assert worker.handle(GatheringOver(Lane.JOB)) == []


def test_a_later_coordinator_attaches_and_an_older_one_is_refused() -> None:
    worker = Worker()
    worker.handle(Called(1, 4, ALL))
    assert worker.handle(Called(2, 5, ALL)) == []
    assert worker.handle(Called(3, 4, ALL)) == [Answer(3, Outcome.STALE)]
    assert worker.handle(HaltCalled(4, ALL)) == []
    worker.handle(Done(Lane.JOB, ALL.tasks, READ))
    done = ((ZERO, READ), (ONE, READ))
    assert worker.handle(Ended(Lane.JOB, Outcome.FINISHED)) == [
        Answer(1, Outcome.FINISHED, done),
        Answer(2, Outcome.FINISHED, done),
    ]


def test_what_is_finished_is_not_done_again_until_the_store_has_forgotten_it() -> None:
    worker = Worker()
    worker.handle(Called(1, 1, ALL))
    worker.handle(Done(Lane.JOB, ALL.tasks, READ))
    worker.handle(Ended(Lane.JOB, Outcome.FINISHED))
    assert worker.handle(Called(2, 2, batch(1))) == [Answer(2, Outcome.FINISHED, ((ONE, READ),))]
    worker.handle(TasksAlive(frozenset((ZERO,))))
    assert worker.finished == {ZERO: READ}
    assert worker.handle(Called(3, 2, batch(1))) == [Begin(batch(1))]


def test_failure_is_told_to_all_who_wait_with_what_was_done_before_it() -> None:
    worker = Worker()
    worker.handle(Called(1, 1, ALL))
    worker.handle(Done(Lane.JOB, (ZERO,), READ))
    worker.handle(GatheringOver(Lane.JOB))
    worker.handle(Called(2, 1, batch(1)))
    assert worker.handle(Ended(Lane.JOB, Outcome.FAILED, "no")) == [Answer(2, Outcome.FAILED, (), "no")]
    # Part of the work came before the failure: that much is told, the rest is asked for again.
    worker.handle(Called(3, 1, batch(2, 3)))
    worker.handle(Done(Lane.JOB, batch(2).tasks, READ))
    done = ((batch(2).tasks[0], READ),)
    assert worker.handle(Ended(Lane.JOB, Outcome.FAILED, "no")) == [Answer(3, Outcome.FINISHED, done)]
    assert worker.handle(Called(4, 1, batch(3))) == [Begin(batch(3))]


def test_other_work_waits_until_what_runs_has_stopped() -> None:
    worker = Worker()
    worker.handle(Called(1, 1, ALL))
    other = batch(0, view=b"w")
    assert worker.handle(Called(2, 2, other)) == [Stop(Lane.JOB)]
    assert worker.handle(HaltCalled(2, ALL)) == []
    assert worker.handle(Ended(Lane.JOB, Outcome.INTERRUPTED)) == [
        Answer(1, Outcome.INTERRUPTED),
        Begin(other),
    ]


def test_lanes_do_not_disturb_each_other() -> None:
    worker = Worker()
    worker.handle(Called(1, 1, ALL))
    small = batch(7, lane=Lane.INLINE)
    assert worker.handle(Called(2, 1, small)) == [Begin(small)]
    assert worker.handle(HaltCalled(1, small)) == [Stop(Lane.INLINE)]
    assert worker.handle(Ended(Lane.INLINE, Outcome.INTERRUPTED)) == [Answer(2, Outcome.INTERRUPTED)]
    assert worker.running(Lane.JOB) == ALL


def test_a_halt_that_comes_before_its_call_is_remembered_for_that_call_alone() -> None:
    worker = Worker()
    assert worker.handle(HaltCalled(1, ALL)) == []
    assert worker.handle(Called(1, 1, ALL)) == [Answer(1, Outcome.INTERRUPTED)]
    assert worker.handle(Called(2, 1, ALL)) == [Begin(ALL)]
    worker.handle(Ended(Lane.JOB, Outcome.FAILED))
    # It is another call that comes, or a later coordinator's.
    worker.handle(HaltCalled(1, ALL))
    assert worker.handle(Called(3, 1, batch(2))) == [Begin(batch(2))]
    worker.handle(Ended(Lane.JOB, Outcome.FAILED))
    assert worker.handle(Called(4, 1, ALL)) == [Begin(ALL)]
    worker.handle(Ended(Lane.JOB, Outcome.FAILED))
    worker.handle(HaltCalled(1, ALL))
    assert worker.handle(Called(5, 2, ALL)) == [Begin(ALL)]


def test_a_call_that_waits_for_its_turn_can_be_halted() -> None:
    worker = Worker()
    worker.handle(Called(1, 1, ALL))
    other = batch(0, view=b"w")
    worker.handle(Called(2, 1, other))
    assert worker.handle(HaltCalled(1, other)) == [Answer(2, Outcome.INTERRUPTED)]
    assert worker.handle(Ended(Lane.JOB, Outcome.INTERRUPTED)) == [Answer(1, Outcome.INTERRUPTED)]
    assert worker.handle(Called(3, 1, other)) == [Begin(other)]
