"""How good privately found bounds are: people clipped, and errors of a mean over the least.

Every run draws people of a shape, finds bounds under ε = 0.1 with the real noise, and compares the
error of a mean at ε = 0.1 (noise in proportion to the width, and what clipping shifts) with that
under the sample's own smallest and largest value, which nobody could know.
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa

import noisewright as nw

SHAPES = {
    "normal, 45 ± 15": lambda rng, n: rng.normal(45, 15, n),
    "lognormal, σ = 0.6": lambda rng, n: rng.lognormal(10, 0.6, n),
    "exponential": lambda rng, n: rng.exponential(300, n),
    "40 % zeros, else gamma": lambda rng, n: np.where(
        rng.random(n) < 0.4, 0, rng.gamma(2, 20, n)
    ),
    "lognormal, σ = 1": lambda rng, n: rng.lognormal(10, 1, n),
    "uniform": lambda rng, n: rng.uniform(0, 100, n),
    "uniform around zero": lambda rng, n: rng.uniform(-1, 1, n),
    "normal around zero": lambda rng, n: rng.normal(0, 1, n),
    "two humps": lambda rng, n: np.where(
        rng.random(n) < 0.5, rng.normal(20, 3, n), rng.normal(60, 5, n)
    ),
    "years 1930 to 2010": lambda rng, n: rng.integers(1930, 2011, n).astype(float),
    "Student's t, 3 degrees": lambda rng, n: rng.standard_t(3, n),
}
BOUNDS, MEAN = 0.1, 0.1


def mean_error(low: float, high: float, values: np.ndarray) -> float:
    """Noise of a centred sum over the number of people, and the shift by clipping."""
    noise = (high - low) / 2 * np.sqrt(2) / MEAN / len(values)
    return float(np.hypot(noise, np.clip(values, low, high).mean() - values.mean()))


def main(runs: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(1)
    print(
        f"{'shape':24} {'people':>7} {'clipped < 1 %':>14} {'error, rms ratio':>17} {'median':>7}"
    )
    for people in sizes:
        for name, draw in SHAPES.items():
            kept, ours, best = 0, [], []
            for _ in range(runs):
                values = draw(rng, people)
                table = pa.table({"x": values})
                (found,) = nw.find_bounds(
                    table, ["x"], nw.Privacy(epsilon=BOUNDS)
                ).columns
                if found.lower is None:
                    continue
                kept += ((values < found.lower) | (values > found.upper)).mean() < 0.01
                ours.append(mean_error(found.lower, found.upper, values))
                best.append(mean_error(values.min(), values.max(), values))
            ratio = np.sqrt(np.mean(np.square(ours)) / np.mean(np.square(best)))
            median = np.median(np.array(ours) / np.array(best))
            print(
                f"{name:24} {people:7,} {kept / runs:14.1%} {ratio:17.2f} {median:7.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200, [2000, 10_000])
