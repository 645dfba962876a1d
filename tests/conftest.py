"""Settings every test shares.

The default suite is the same on every run: hypothesis draws its examples from the test's own name, and a
red test stays red. `BELVEDERE_LONG=1` explores instead: many more examples, new ones each time, and the tests
marked `long`.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

LONG = os.environ.get("BELVEDERE_LONG") == "1"

# A shared machine may stall for seconds: no test fails for being slow, only for hanging (pytest-timeout).
_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile(
    "default",
    max_examples=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=_QUIET,
)
settings.register_profile(
    "long",
    max_examples=2000,
    deadline=None,
    print_blob=True,
    suppress_health_check=_QUIET,
)
settings.load_profile("long" if LONG else "default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="transcripts: write down what they give now")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if LONG:
        return
    skip = pytest.mark.skip(reason="runs with BELVEDERE_LONG=1")
    for item in items:
        if item.get_closest_marker("long") is not None:
            item.add_marker(skip)
