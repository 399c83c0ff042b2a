"""One plan for every question against separate plans at the same budget, and a rehearsal, on adult.

Two tables, a CDF by group, a mean by group and three quantiles, planned together without weights
and apart, each at an equal share of ρ.
Needs NOISEWRIGHT_SHARED with data/adult/adult.csv.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

import noisewright as nw

RHO = 0.05
QUERIES = [
    {"marginal": ["sex", "marital-status"]},
    {"marginal": ["workclass", "sex"]},
    {"cdf": "age", "by": ["sex"]},
    {"mean": "hours-per-week", "by": ["workclass"]},
    {"quantiles": "age", "at": [0.25, 0.5, 0.75]},
]


def domain() -> nw.Domain:
    """Codes of the file as it is published: ages and hours count from their lowest value."""
    return nw.Domain(
        [
            nw.Numeric.integers("age", 0, 99, 5, outside="clip"),
            nw.Numeric.integers("hours-per-week", 0, 99, 10, outside="clip"),
            nw.Categorical("sex", (0, 1)),
            nw.Categorical("marital-status", tuple(range(7))),
            nw.Categorical("workclass", tuple(range(9))),
        ]
    )


def main() -> None:
    folder = Path(os.environ.get("NOISEWRIGHT_SHARED", "../shared"))
    table = folder / "data" / "adult" / "adult.csv"
    schema, runs = domain(), 200
    together = nw.plan(
        nw.Workload.from_spec({"queries": QUERIES}, schema), nw.Privacy(rho=RHO)
    )
    joint = together.simulate(table, seed=1, runs=runs)
    print(
        f"{'table':40} {'together':>9} {'apart':>9} {'ratio':>6}   predicted/realised together"
    )
    for query, told in zip(QUERIES, joint.tables, strict=True):
        share = nw.Privacy(rho=RHO / len(QUERIES))
        alone = nw.plan(nw.Workload.from_spec({"queries": [query]}, schema), share)
        apart = alone.simulate(table, seed=2, runs=runs).tables[0]
        predicted = (
            "–" if told.predicted is None else f"{told.predicted / told.realised:.3f}"
        )
        print(
            f"{told.name:40} {told.realised:9.3f} {apart.realised:9.3f} "
            f"{told.realised / apart.realised:6.2f}   {predicted}",
            flush=True,
        )
    off = [
        abs(t.predicted / t.realised - 1)
        for t in joint.tables
        if t.predicted is not None
    ]
    print(
        f"largest difference between predicted and realised: {np.max(off):.1%} over {runs} runs"
    )


if __name__ == "__main__":
    main()
