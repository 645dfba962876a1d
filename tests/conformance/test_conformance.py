"""Every transcript answers as it says, from memory as well as from files."""

from pathlib import Path

import pytest

from tests.conformance.transcript import Step, parse, play, written

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.cql"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text()
    played = play(text)
    if request.config.getoption("--rewrite", default=False):
        path.write_text(written([Step(step.lines, answer) for step, answer in played]))
        return
    _compare(played)


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript_with_every_write_flushed(path: Path) -> None:
    _compare(play(path.read_text(), flush_always=True))


def _compare(played: list[tuple[Step, list[str]]]) -> None:
    differences = []
    for step, answer in played:
        if [line.rstrip() for line in answer] != [line.rstrip() for line in step.expected]:
            differences.append("\n".join([*step.lines, "  expected:", *step.expected, "  got:", *answer]))
    assert not differences, "\n\n".join(["", *differences])


def test_there_is_something_to_check() -> None:
    statements = [step for path in TRANSCRIPTS for step in parse(path.read_text()) if step.statement]
    assert len(statements) > 1000
