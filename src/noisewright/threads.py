"""Small matrices on one core.

A linear-algebra library that spreads small products over threads lets them wait for each other:
the search for prefix:64 without a curator took 36 s of two cores where one needs 8 s.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

SMALL = 1024
"""Rows below which a matrix gains nothing from a second thread."""


@contextmanager
def one_thread_if_small(rows: int) -> Iterator[None]:
    """Leave the library one thread while matrices have fewer rows than `SMALL`."""
    if rows >= SMALL:
        yield
        return
    import scipy.linalg  # noqa: F401  only libraries that are loaded can be limited
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield
