"""Exact composition of a thousand spends: our integral against dp-accounting, in one run.

    python benchmarks/composition.py

Prints both times, their ratio and how far the two ε are apart.
"""

from __future__ import annotations

import time

import numpy as np
from dp_accounting.pld import PLDAccountant

from noisewright.privacy.promise.composition import composed_epsilon
from noisewright.privacy.promise.spend import Gaussian, Laplace, Spend

GRID = 2.0**-13


def main() -> None:
    print(
        f"{'spends':>7} {'pure ε':>7} {'ours s':>8} {'theirs s':>9} {'ratio':>7} {'apart':>9}"
    )
    for size, kinds in ((100, 50), (1000, 50), (1000, 1000)):
        rng = np.random.default_rng(size + kinds)
        pure = GRID * rng.integers(8, 200, kinds)[rng.integers(0, kinds, size)]
        ratios = rng.uniform(0.001, 0.03, size)
        losses = [
            Gaussian(float(r)) if k % 2 else Laplace(float(e))
            for k, (r, e) in enumerate(zip(ratios, pure, strict=True))
        ]
        spend = Spend("add-remove", tuple(losses))
        start = time.perf_counter()
        ours = composed_epsilon(spend, 1e-6)
        middle = time.perf_counter()
        accountant = PLDAccountant(value_discretization_interval=GRID)
        theirs = accountant.compose(spend.to_dp_accounting()).get_epsilon(1e-6)
        end = time.perf_counter()
        seconds = middle - start, end - middle
        ratio = seconds[1] / seconds[0]
        figures = f"{seconds[0]:8.3f} {seconds[1]:9.2f} {ratio:7.1f} {abs(ours - theirs):9.1e}"
        print(f"{size:7} {len(set(pure)):7} {figures}")


if __name__ == "__main__":
    main()
