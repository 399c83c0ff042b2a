"""What holds for every test."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from browser import CHROMIUM, chromium_browser
from long_tests import Measure, listed, without_case
from noisewright.privacy.noise.source import SystemSource
from postgres_server import AVAILABLE, PostgresServer, postgres_server

# Strategies found by tests are not kept in the user's cache.
os.environ["NOISEWRIGHT_CACHE"] = tempfile.mkdtemp(prefix="noisewright-tests-")

# Plans are quick; tests of how good they can get say so.
os.environ["NOISEWRIGHT_EFFORT"] = "low"

# The same examples in every run: a failure can be looked at again. Tests never assert timings: on a
# busy machine a deadline fails for no fault of the code.
settings.register_profile("noisewright", deadline=None, derandomize=True)
settings.load_profile("noisewright")

# Noise in this process comes from the name of the test that draws it: a test that fails once in
# fifty draws fails in every run or in none. Another number here draws everything anew.
DRAWS = os.environ.get("NOISEWRIGHT_TEST_DRAWS", "0")
_system_bytes, _fresh_generator = SystemSource.bytes, np.random.default_rng


# What a test needs is seen in the fixtures it takes and the names it calls.
BROWSER_FIXTURES = {"chromium"}
SERVER_FIXTURES = {"postgres", "served", "collector"}
SERVER_CALLS = {"running", "started", "serving", "spark"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--measure`: write down which tests take long."""
    parser.addoption("--measure", action="store_true", help="write tests/long.txt")


def pytest_configure(config: pytest.Config) -> None:
    """Measure where that was asked for."""
    if config.getoption("--measure"):
        config.pluginmanager.register(Measure())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test by what it needs; `make quick` takes those that need nothing."""
    long = listed()
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        code = getattr(getattr(item, "function", None), "__code__", None)
        calls = set(code.co_names) if code is not None else set()
        if fixtures & BROWSER_FIXTURES:
            item.add_marker("browser")
        if fixtures & SERVER_FIXTURES or calls & SERVER_CALLS:
            item.add_marker("server")
        if without_case(item.nodeid) in long:
            item.add_marker("long")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed what the test and the fixtures it is the first to need will draw."""
    if item.get_closest_marker("system_noise"):
        SystemSource.bytes = _system_bytes  # type: ignore[method-assign]
        np.random.default_rng = _fresh_generator
        return
    seeds = np.random.SeedSequence(
        int.from_bytes(hashlib.sha256(f"{DRAWS} {item.nodeid}".encode()).digest())
    )
    draws = _fresh_generator(seeds)

    def generator(seed: Any = None) -> np.random.Generator:
        return _fresh_generator(seeds.spawn(1)[0] if seed is None else seed)

    SystemSource.bytes = lambda self, count: draws.bytes(count)  # type: ignore[method-assign]
    np.random.default_rng = generator


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
