"""Scenarios as text: commands, each followed by everything that it must give.

pytest tests/cluster/test_transcripts.py --rewrite      writes down what they give now: review the diff
"""

from pathlib import Path

import pytest

from tests.cluster.stage import Stage

FOLDER = Path(__file__).parent / "transcripts"


def played(text: str) -> str:
    """The same transcript with what its commands give."""
    stage, lines = Stage(), []
    skipping = False
    for line in text.splitlines():
        if line.startswith("> "):
            lines += [line, stage.do(line[2:]), ""]
            skipping = True
        elif line.startswith("#"):
            lines.append(line)
            skipping = False
        elif not skipping:
            lines.append(line)
    return "\n".join(lines).rstrip("\n") + "\n"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text(encoding="utf-8")
    found = played(text)
    if request.config.getoption("--rewrite"):
        path.write_text(found, encoding="utf-8")
    assert found == text or request.config.getoption("--rewrite")


def test_there_are_transcripts() -> None:
    assert len(list(FOLDER.glob("*.txt"))) >= 8
