"""How often the test of fit sees liars, how often it cries wolf, and what robust answers save.

Liars send copies of one report, the one that raises the estimate of a rare cell most. Among 20,000
reports over 64 cells at ε = 1; the level is one false alarm in a thousand.

    python benchmarks/poisoning.py --trials 200
"""

from __future__ import annotations

import argparse

import numpy as np

import noisewright as nw
from noisewright.local.analysis.analysis import influence
from noisewright.local.analysis.goodness import LEVEL, goodness_of_fit
from noisewright.local.analysis.robust import least_liars, robust_answers
from noisewright.planning.local.plan import LocalPlan

MECHANISMS = ["randomized-response", "hadamard", "subset-selection", "rappor"]
SHARES = [0.0, 0.01, 0.05, 0.10]


def lie(plan: LocalPlan, cell: int, rng: np.random.Generator) -> np.ndarray:
    """Among a hundred honest reports of the cell, the one that raises its estimate most."""
    reports = plan.randomize(np.full(100, cell))
    raised = [plan.aggregate(reports[i : i + 1]) for i in range(len(reports))]
    scores = [plan.strategy.estimate(a.total, 1)[cell] for a in raised]
    return reports[int(np.argmax(scores))]


def alarms(
    plan: LocalPlan, share: float, people: int, trials: int, rng: np.random.Generator
) -> float:
    weights = 1.0 / np.arange(1, plan.strategy.size + 1)
    liars, seen = round(share * people), 0
    for _ in range(trials):
        cells = rng.choice(
            plan.strategy.size, people - liars, p=weights / weights.sum()
        )
        reports = plan.randomize(cells)
        if liars:
            copies = np.repeat(
                lie(plan, plan.strategy.size - 1, rng)[None], liars, axis=0
            )
            reports = np.concatenate([reports, copies])
        seen += goodness_of_fit(plan.aggregate(reports)).status == "alarm"
    return seen / trials


def attacked(
    plan: LocalPlan, share: float, people: int, trials: int, rng: np.random.Generator
):
    """Mean errors of the answer under attack: unbiased, and robust with twice as many allowed for.

    Then the width of its limits over that of the influence of as many reports, and how many liars
    are proved.
    """
    size, liars = plan.strategy.size, round(share * people)
    weights = 1.0 / np.arange(1, size + 1)
    moved = 2 * 2 * liars * influence(plan.strategy, plan.plain_workload)[-1]
    figures = []
    for _ in range(trials):
        cells = rng.choice(size, people - liars, p=weights / weights.sum())
        copies = np.repeat(lie(plan, size - 1, rng)[None], liars, axis=0)
        crowd = plan.aggregate(np.concatenate([plan.randomize(cells), copies]))
        truth = np.count_nonzero(cells == size - 1)
        plain = plan.strategy.estimate(crowd.total, people)[-1]
        robust = robust_answers(plan.plain_workload, crowd, 2 * share)
        width = (robust.upper[-1] - robust.lower[-1]) / moved
        least = least_liars(crowd, 1 - LEVEL) or 0
        figures.append(
            (abs(plain - truth), abs(robust.answers[-1] - truth), width, least)
        )
    return np.mean(figures, axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--robust-trials", type=int, default=20)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    print(
        f"alarms in {options.trials} trials of {options.people:,} reports, level {LEVEL:g}"
    )
    print(f"{'mechanism':>22}" + "".join(f"{share:>12.0%} liars" for share in SHARES))
    for name in MECHANISMS:
        plan = nw.plan("identity:64", nw.Privacy(epsilon=1), nw.Local(mechanism=name))
        rates = [
            alarms(plan, share, options.people, options.trials, rng) for share in SHARES
        ]
        print(f"{name:>22}" + "".join(f"{rate:>18.1%}" for rate in rates))
    print(
        "over 16 cells, 5 % of liars: error of the attacked answer, unbiased and robust;"
    )
    print("width of its limits over that from the influence of a report; liars proved")
    for name in MECHANISMS:
        plan = nw.plan("identity:16", nw.Privacy(epsilon=1), nw.Local(mechanism=name))
        plain, robust, width, least = attacked(
            plan, 0.05, options.people, options.robust_trials, rng
        )
        print(f"{name:>22}{plain:>12,.0f}{robust:>12,.0f}{width:>12.2f}{least:>12,.0f}")


if __name__ == "__main__":
    main()
