"""Which tests take long: as measured (`make measure`), kept in `long.txt` beside this file.

Most of them search for strategies or draw until a law shows. `make quick` leaves them out, so it
stays quick without anybody keeping lists by hand.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import pytest

LISTED = Path(__file__).with_name("long.txt")

LONG = 0.02
"""Seconds that the cases of a long test take in the mean: the others, seven in ten, are a sixteenth
of all work, and most grids of cheap cases that hold mechanisms to one contract are among them."""

PATIENCE = 5
"""Seconds of waiting that count as one of work: on a busy machine every test waits."""


def without_case(identity: str) -> str:
    """The name of a test without the case it is run for."""
    return identity.partition("[")[0]


def listed() -> frozenset[str]:
    """The tests that take long."""
    return frozenset(LISTED.read_text("utf-8").split())


class Measure:
    """A plugin that measures every test that is run, and writes down which take long."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        worked = sum(os.times()[:4])  # of this process and of those that it waited for
        began = time.perf_counter()
        result = yield
        worked = sum(os.times()[:4]) - worked
        waited = (time.perf_counter() - began) / PATIENCE
        self.seconds[without_case(item.nodeid)].append(max(worked, waited))
        return result

    def pytest_sessionfinish(self) -> None:
        """Write the list: of tests that were not run nothing is known, so they stay."""
        here = {name for name, seconds in self.seconds.items() if mean(seconds) > LONG}
        names = here | (listed() - set(self.seconds))
        LISTED.write_text("".join(f"{name}\n" for name in sorted(names)), "utf-8")
