"""Three readouts of the same reports: how far the distribution of people is from the truth.

Distances are W1 over the unit interval: the mean distance between the distribution functions of the
estimate and of the people themselves. `clipped` are the unbiased shares up to every cell, cut at 0
and 1; `isotonic` is the nearest function to these that never falls; `distribution` is that of the
plan. Plain `projection` of the cells on the simplex is what plans gave before. Means of runs.

    python benchmarks/local_distribution.py [cells] [epsilon] [runs] [people ...]
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.stats import beta, norm

import noisewright as nw
from noisewright.estimate.nearest import project_to_total
from noisewright.planning.local.plan import LocalPlan

READOUTS = "projection", "clipped", "isotonic", "distribution"
_SPIKES = ((0.1, 0.1), (0.33, 0.15), (0.5, 0.1), (0.8, 0.05))


def densities(cells: int) -> dict[str, np.ndarray]:
    """Shares of people in every cell."""
    edges = np.linspace(0, 1, cells + 1)
    bimodal = np.diff(norm.cdf(edges, 0.3, 0.06) + norm.cdf(edges, 0.75, 0.09))
    spiky = 0.6 * np.diff(beta.cdf(edges, 2, 3))
    for place, share in _SPIKES:
        spiky[int(place * cells)] += share
    return {
        "Beta(5, 2)": np.diff(beta.cdf(edges, 5, 2)),
        "spiky": spiky / spiky.sum(),
        "bimodal": bimodal / bimodal.sum(),
        "uniform": np.full(cells, 1.0 / cells),
    }


def readouts(plan: LocalPlan, people: np.ndarray) -> dict[str, np.ndarray]:
    """The distribution function by every readout of one round of reports."""
    collected = plan.aggregate(plan.randomize(people))
    up_to = plan.estimate(collected).answers / len(people)
    cells = np.diff(up_to, prepend=0.0)
    return {
        "projection": np.cumsum(project_to_total(cells, 1.0)),
        "clipped": np.clip(up_to, 0, 1),
        "isotonic": np.clip(isotonic_regression(up_to).x, 0, 1),
        "distribution": np.cumsum(plan.distribution(collected)),
    }


def distances(
    plan: LocalPlan, shares: np.ndarray, number: int, runs: int
) -> dict[str, np.ndarray]:
    """W1 of every readout in every run."""
    found: dict[str, list[float]] = {name: [] for name in READOUTS}
    for seed in range(runs):
        people = np.random.default_rng(seed).choice(len(shares), size=number, p=shares)
        truth = np.cumsum(np.bincount(people, minlength=len(shares))) / number
        for name, function in readouts(plan, people).items():
            found[name].append(float(np.abs(function - truth).mean()))
    return {name: np.array(each) for name, each in found.items()}


def main(cells: int = 64, epsilon: float = 1.0, runs: int = 10, *people: int) -> None:
    """Print the mean distances, and the last one over the better of the two before it."""
    plan = nw.plan(f"prefix:{cells}", nw.Privacy(epsilon=epsilon), nw.Local())
    print(f"prefix:{cells}, ε = {epsilon:g}, {runs} runs; W1 of", ", ".join(READOUTS))
    for number in people or (10_000, 20_000, 100_000):
        for name, shares in densities(cells).items():
            means = {
                k: v.mean() for k, v in distances(plan, shares, number, runs).items()
            }
            ratio = means["distribution"] / min(means["clipped"], means["isotonic"])
            told = "  ".join(f"{means[readout]:.4f}" for readout in READOUTS)
            print(f"{number:>9,}  {name:<10}  {told}   {ratio:.2f}", flush=True)


if __name__ == "__main__":
    cells, epsilon, runs, *people = [*sys.argv[1:], "64", "1", "10"][
        : max(3, len(sys.argv) - 1)
    ]
    main(int(cells), float(epsilon), int(runs), *map(int, people))
