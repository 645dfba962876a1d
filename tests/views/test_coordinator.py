"""The coordinator alone: what it decides, event by event."""

from belvedere.views.coordinator import (
    FIRST_PAUSE,
    LAST_PAUSE,
    TABLETS_AT_ONCE,
    Amount,
    Batch,
    Call,
    Complete,
    Coordinator,
    DoneTasks,
    Emptied,
    Empty,
    Failed,
    Finished,
    Halt,
    Interrupted,
    Lane,
    NotWrittenDown,
    OpenLoads,
    OpenView,
    RetryAfter,
    RetryDue,
    Seen,
    Task,
    TruncationBegan,
    TruncationEnded,
)


def view(name: str, base: str = "base", tablets: int = 2, revision: int = 1, **options: object) -> OpenView:
    tasks = tuple(Task(tablet, revision, name.encode()) for tablet in range(tablets))
    return OpenView(name.encode(), base.encode(), tasks, **options)  # type: ignore[arg-type]


def batch(
    *views: str, base: str = "base", tablets: object = (0, 1), revision: int = 1, lane: Lane = Lane.INLINE
) -> Batch:
    tasks = [Task(tablet, revision, name.encode()) for tablet in tablets for name in views]  # type: ignore[attr-defined]
    return Batch(base.encode(), lane, tuple(tasks))


def load(name: str, base: str = "base", tablets: int = 2) -> OpenLoads:
    return OpenLoads(base.encode(), tuple(Task(tablet, 1, load=name) for tablet in range(tablets)))


def all_of(found: Batch, rows: int = 7) -> DoneTasks:
    return tuple((task, Amount(rows)) for task in found.tasks)


def test_all_views_of_a_base_share_one_reading() -> None:
    coordinator = Coordinator()
    both = batch("a", "b")
    assert coordinator.handle(Seen((view("a"), view("b")))) == [Call(both)]
    assert coordinator.handle(Seen((view("a"), view("b")))) == []
    assert coordinator.handle(Finished(both, all_of(both))) == [Complete(b"base", all_of(both))]
    # The store does not yet say so, but what is done is not done again.
    assert coordinator.handle(Seen((view("a"), view("b")))) == []
    assert coordinator.handle(Seen(())) == []


def test_what_is_finished_is_written_down_and_the_call_made_again_for_the_rest() -> None:
    coordinator = Coordinator()
    (call,) = coordinator.handle(Seen((view("a", tablets=3),)))
    assert isinstance(call, Call)
    done = ((call.batch.tasks[1], Amount(5)),)
    rest = Batch(b"base", Lane.INLINE, (call.batch.tasks[0], call.batch.tasks[2]))
    assert coordinator.handle(Finished(call.batch, done)) == [Complete(b"base", done), Call(rest)]
    assert coordinator.handle(Finished(rest, all_of(rest))) == [Complete(b"base", all_of(rest))]


def test_a_task_written_again_is_another_one() -> None:
    coordinator = Coordinator()
    coordinator.handle(Seen((view("a"),)))
    coordinator.handle(Finished(batch("a"), all_of(batch("a"))))
    assert coordinator.handle(Seen((view("a", revision=2),))) == [Call(batch("a", revision=2))]


def test_bases_take_turns_and_priority_comes_first() -> None:
    coordinator = Coordinator()
    small, huge = view("s", "small", 2), view("h", "huge", 2 * TABLETS_AT_ONCE)
    first = batch("h", base="huge", tablets=range(TABLETS_AT_ONCE))
    second = batch("h", base="huge", tablets=range(TABLETS_AT_ONCE, 2 * TABLETS_AT_ONCE))
    of_small = batch("s", base="small")
    assert coordinator.handle(Seen((small, huge))) == [Call(first)]
    assert coordinator.handle(Finished(first, all_of(first)))[1] == Call(of_small)
    coordinator.handle(Seen((small, huge, view("u", "urgent", 1, priority=5))))
    urgent = batch("u", base="urgent", tablets=(0,))
    assert coordinator.handle(Finished(of_small, all_of(of_small)))[1] == Call(urgent)
    assert coordinator.handle(Finished(urgent, all_of(urgent)))[1] == Call(second)


def test_small_work_does_not_wait_for_large_work() -> None:
    coordinator = Coordinator()
    views = (view("s", "small"), view("h", "huge"), view("o", "other"))
    assert coordinator.handle(Seen(views, (), frozenset((b"huge", b"other")))) == [
        Call(batch("s", base="small")),
        Call(batch("h", base="huge", lane=Lane.JOB)),
    ]
    done = batch("h", base="huge", lane=Lane.JOB)
    assert coordinator.handle(Finished(done, all_of(done)))[1] == Call(
        batch("o", base="other", lane=Lane.JOB)
    )


def test_a_base_that_grew_is_not_worked_on_in_two_lanes() -> None:
    coordinator = Coordinator()
    coordinator.handle(Seen((view("a"),)))
    assert coordinator.handle(Seen((view("a"), view("b")), (), frozenset((b"base",)))) == []


def test_loads_come_first_and_never_in_one_batch_with_ranges() -> None:
    coordinator = Coordinator()
    loads = Batch(b"base", Lane.INLINE, load("l").tasks)
    assert coordinator.handle(Seen((view("a"),), (load("l"),))) == [Call(loads)]
    assert loads.stages
    assert coordinator.handle(Finished(loads, all_of(loads)))[1] == Call(batch("a"))


def test_failures_pause_only_what_failed_and_longer_each_time() -> None:
    coordinator = Coordinator()
    first = batch("a", tablets=(0,))
    (call,) = coordinator.handle(Seen((view("a"),)))
    assert isinstance(call, Call)
    coordinator.handle(Finished(call.batch, ((call.batch.tasks[1], Amount(1)),)))
    (retry,) = coordinator.handle(Failed(first, "no"))
    assert retry == RetryAfter(FIRST_PAUSE, (b"base", 0))
    assert coordinator.troubles[b"a"].cause == "no"
    pauses = []
    for _ in range(12):
        assert coordinator.handle(RetryDue((b"base", 0))) == [Call(first)]
        (again,) = coordinator.handle(Failed(first, "no"))
        assert isinstance(again, RetryAfter)
        pauses.append(again.seconds)
    assert pauses == sorted(pauses)
    assert pauses[-1] == LAST_PAUSE
    assert coordinator.troubles[b"a"].attempts == 13
    coordinator.handle(RetryDue((b"base", 0)))
    coordinator.handle(Finished(first, all_of(first)))
    assert b"a" not in coordinator.troubles


def test_work_that_could_not_be_written_down_is_done_again() -> None:
    coordinator = Coordinator()
    coordinator.handle(Seen((view("a"),)))
    coordinator.handle(Finished(batch("a"), all_of(batch("a"))))
    retries = coordinator.handle(NotWrittenDown(b"base", batch("a").tasks, "the store is away"))
    assert [retry.what for retry in retries if isinstance(retry, RetryAfter)] == [(b"base", 0), (b"base", 1)]
    assert coordinator.handle(RetryDue((b"base", 0))) == [Call(batch("a", tablets=(0,)))]


def test_held_views_wait_and_what_runs_for_them_alone_is_stopped() -> None:
    coordinator = Coordinator()
    assert coordinator.handle(Seen((view("a", held=True), view("b")))) == [Call(batch("b"))]
    assert coordinator.handle(Seen((view("a"), view("b", held=True)))) == [Halt(batch("b"))]
    assert coordinator.handle(Seen((view("a"), view("b", held=True)))) == []
    assert coordinator.handle(Interrupted(batch("b"))) == [Call(batch("a"))]


def test_what_one_of_several_views_still_wants_goes_on() -> None:
    coordinator = Coordinator()
    assert coordinator.handle(Seen((view("a"), view("b")))) == [Call(batch("a", "b"))]
    assert coordinator.handle(Seen((view("a", held=True), view("b")))) == []


def test_a_view_is_emptied_first_and_never_while_its_base_is() -> None:
    coordinator = Coordinator()
    assert coordinator.handle(TruncationBegan(b"base")) == []
    assert coordinator.handle(Seen((view("a", empty_first=True),))) == []
    assert coordinator.handle(TruncationEnded(b"base")) == [Empty(b"a")]
    assert coordinator.handle(Seen((view("a", empty_first=True),))) == []
    (retry,) = coordinator.handle(Emptied(b"a", "no"))
    assert isinstance(retry, RetryAfter)
    assert coordinator.handle(RetryDue(b"a")) == [Empty(b"a")]
    assert coordinator.handle(Seen((view("a"),))) == [Call(batch("a"))]
    assert coordinator.handle(Emptied(b"a")) == []


def test_what_runs_on_a_base_that_is_truncated_is_stopped() -> None:
    coordinator = Coordinator()
    coordinator.handle(Seen((view("a"),)))
    assert coordinator.handle(TruncationBegan(b"base")) == [Halt(batch("a"))]
    assert coordinator.handle(Interrupted(batch("a"))) == []
    assert coordinator.handle(TruncationEnded(b"base")) == [Call(batch("a"))]
