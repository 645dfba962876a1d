"""Adds `--rewrite`: write what the system answers into the transcripts, to be reviewed as a diff."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="rewrite the CQL transcripts' answers")
