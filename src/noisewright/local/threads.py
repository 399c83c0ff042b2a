"""Blocks of work on all cores: array operations and the system's randomness run side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor


def run_blocks(work: Callable[[int], None], starts: Sequence[int], together: bool = True) -> None:
    """Call `work` for every start; the first alone, so that what all blocks share is made once."""
    if not together or len(starts) < 3 or (os.cpu_count() or 1) < 2:
        for start in starts:
            work(start)
        return
    work(starts[0])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(work, starts[1:]):
            pass  # raises what a block raised
