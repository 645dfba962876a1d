"""The coordinator alone: what it decides, event by event."""

from belvedere.views.coordinator import (
    FIRST_PAUSE,
    LAST_PAUSE,
    Batch,
    Build,
    Complete,
    Coordinator,
    Emptied,
    Empty,
    Failed,
    Finished,
    Interrupted,
    OpenView,
    RetryAfter,
    RetryDue,
    Seen,
    Task,
    TruncationBegan,
    TruncationEnded,
)


def view(name: str, base: str = "base", tablets: int = 2, revision: int = 1, **options: object) -> OpenView:
    tasks = tuple(Task(name.encode(), tablet, revision) for tablet in range(tablets))
    return OpenView(name.encode(), base.encode(), tasks, **options)  # type: ignore[arg-type]


def batch(tablet: int, *views: str, base: str = "base", revision: int = 1) -> Batch:
    return Batch(base.encode(), tablet, tuple(Task(name.encode(), tablet, revision) for name in views))


def test_all_views_of_a_base_share_one_reading_and_ranges_come_one_by_one() -> None:
    coordinator = Coordinator()
    assert coordinator.handle(Seen((view("a"), view("b")))) == [Build(batch(0, "a", "b"))]
    assert coordinator.handle(Seen((view("a"), view("b")))) == []
    assert coordinator.handle(Finished(batch(0, "a", "b"), 7)) == [
        Complete(batch(0, "a", "b"), 7),
        Build(batch(1, "a", "b")),
    ]
    # The store does not yet say so, but what is done is not done again.
    assert coordinator.handle(Finished(batch(1, "a", "b"), 7)) == [Complete(batch(1, "a", "b"), 7)]
    assert coordinator.handle(Seen(())) == []


def test_a_task_written_again_is_another_one() -> None:
    coordinator = Coordinator()
    coordinator.handle(Seen((view("a", tablets=1),)))
    coordinator.handle(Finished(batch(0, "a"), 1))
    assert coordinator.handle(Seen((view("a", tablets=1, revision=2),))) == [Build(batch(0, "a", revision=2))]


def test_bases_take_turns_and_priority_comes_first() -> None:
    coordinator = Coordinator()
    small, huge = view("s", "small", 2), view("h", "huge", 3)
    (first,) = coordinator.handle(Seen((small, huge)))
    assert first == Build(batch(0, "h", base="huge"))
    assert coordinator.handle(Finished(batch(0, "h", base="huge"), 1))[1] == Build(
        batch(0, "s", base="small")
    )
    assert coordinator.handle(Finished(batch(0, "s", base="small"), 1))[1] == Build(
        batch(1, "h", base="huge")
    )
    coordinator.handle(Seen((small, huge, view("u", "urgent", 1, priority=5))))
    assert coordinator.handle(Finished(batch(1, "h", base="huge"), 1))[1] == Build(
        batch(0, "u", base="urgent")
    )


def test_failures_pause_only_what_failed_and_longer_each_time() -> None:
    coordinator = Coordinator()
    coordinator.handle(Seen((view("a"),)))
    retry, following = coordinator.handle(Failed(batch(0, "a"), "no"))
    assert retry == RetryAfter(FIRST_PAUSE, (b"base", 0))
    assert following == Build(batch(1, "a"))
    assert coordinator.troubles[b"a"].cause == "no"
    coordinator.handle(Finished(batch(1, "a"), 1))
    assert b"a" not in coordinator.troubles
    pauses = []
    for _ in range(12):
        assert coordinator.handle(RetryDue((b"base", 0))) == [Build(batch(0, "a"))]
        (again,) = coordinator.handle(Failed(batch(0, "a"), "no"))
        assert isinstance(again, RetryAfter)
        pauses.append(again.seconds)
    assert pauses == sorted(pauses)
    assert pauses[-1] == LAST_PAUSE
    assert coordinator.troubles[b"a"].attempts == 13


def test_work_that_could_not_be_written_down_is_done_again() -> None:
    coordinator = Coordinator()
    coordinator.handle(Seen((view("a", tablets=1),)))
    coordinator.handle(Finished(batch(0, "a"), 1))
    coordinator.handle(Failed(batch(0, "a"), "the store is away"))
    assert coordinator.handle(RetryDue((b"base", 0))) == [Build(batch(0, "a"))]


def test_held_views_wait() -> None:
    coordinator = Coordinator()
    assert coordinator.handle(Seen((view("a", held=True), view("b")))) == [Build(batch(0, "b"))]
    coordinator.handle(Interrupted(batch(0, "b")))
    assert coordinator.handle(Seen((view("a", held=True),))) == []


def test_a_view_is_emptied_first_and_never_while_its_base_is() -> None:
    coordinator = Coordinator()
    assert coordinator.handle(TruncationBegan(b"base")) == []
    assert coordinator.handle(Seen((view("a", empty_first=True),))) == []
    assert coordinator.handle(TruncationEnded(b"base")) == [Empty(b"a")]
    assert coordinator.handle(Seen((view("a", empty_first=True),))) == []
    (retry,) = coordinator.handle(Emptied(b"a", "no"))
    assert isinstance(retry, RetryAfter)
    assert coordinator.handle(RetryDue(b"a")) == [Empty(b"a")]
    assert coordinator.handle(Seen((view("a"),))) == [Build(batch(0, "a"))]
    assert coordinator.handle(Emptied(b"a")) == []
