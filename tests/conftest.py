"""What holds for every test."""

import os
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from browser import CHROMIUM, chromium_browser
from postgres_server import AVAILABLE, PostgresServer, postgres_server

# Strategies found by tests are not kept in the user's cache.
os.environ["NOISEWRIGHT_CACHE"] = tempfile.mkdtemp(prefix="noisewright-tests-")

# Plans are quick; tests of how good they can get say so.
os.environ["NOISEWRIGHT_EFFORT"] = "low"

# The same examples in every run: a failure can be looked at again. Tests never assert timings: on a
# busy machine a deadline fails for no fault of the code.
settings.register_profile("noisewright", deadline=None, derandomize=True)
settings.load_profile("noisewright")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A throwaway PostgreSQL server; tests that share it use tables or schemas of their own."""
    if not AVAILABLE:
        pytest.skip("PostgreSQL is not installed")
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A real browser, where one is installed."""
    if CHROMIUM is None:
        pytest.skip("Debian's chromium is not installed")
    with chromium_browser() as browser:
        yield browser
