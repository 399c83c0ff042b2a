"""Work on one core or on all of them.

A linear-algebra library that spreads small products over threads lets them wait for each other:
the search for prefix:64 without a curator took 36 s of two cores where one needs 8 s.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

SMALL = 1024
"""Rows below which a matrix gains nothing from a second thread."""


@contextmanager
def one_thread_if_small(rows: int) -> Iterator[None]:
    """Leave the library one thread while matrices have fewer rows than `SMALL`."""
    if rows >= SMALL:
        yield
        return
    with _libraries().limit(limits=1, user_api="blas"):
        yield


@cache  # looking through all that is loaded takes as long as many a small product
def _libraries() -> Any:
    import scipy.linalg  # noqa: F401  only libraries that are loaded can be limited
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def run_blocks(
    work: Callable[[int], None], starts: Sequence[int], together: bool = True
) -> None:
    """Call `work` for every start; the first alone, so that what all blocks share is made once."""
    if not together or len(starts) < 3 or (os.cpu_count() or 1) < 2:
        for start in starts:
            work(start)
        return

    work(starts[0])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(work, starts[1:]):
            pass  # raises what a block raised
