"""How far plans are from what any non-interactive protocol needs, and whether hard pairs are hard.

First the people that mechanisms need for a largest error of 0.05 over the certified bound, which
holds for biased protocols too: of the best of six mechanisms, for the six workloads of [003] over
32 cells. Then, on one hard instance, true less false alarms of mechanisms that are told v only
after the reports, at the certified N and at 40 times as many: telling the families apart at
β = 0.05 means 0.9.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import noisewright as nw
from noisewright.local.mechanism import EFFORT_VARIABLE

# Said for all mechanisms: those that search nothing refuse an effort of their own.
os.environ.setdefault(EFFORT_VARIABLE, "low")

MECHANISMS = (
    "approximate",
    "fourier",
    "local-hashing",
    "hierarchical",
    "rappor",
    "optimised",
)
ERROR, BETA, TRIALS = 0.05, 0.05, 400
WORKLOADS = (
    "identity:32",
    "prefix:32",
    "ranges:32",
    "marginals:2^5:3",
    "allmarginals:2^5",
    "parity:5:<=3",
)


def ratios() -> None:
    """People of the plan that needs the fewest over the bound, both for all answers within 0.05."""
    for text in [name for name in sys.argv[1:] if ":" in name] or WORKLOADS:
        shown = []
        hard = nw.local.hard_instance(text, ERROR, beta=BETA)
        for epsilon in (0.5, 1.0, 2.0):
            needed, name = min(needs(text, epsilon))
            # of the pairs themselves ε is no part
            bound = replace(hard, epsilon=epsilon).people
            shown.append(f"{needed:,} {name} / {bound:,} = {needed / bound:.0f}")
        print(f"{text:18}", " | ".join(shown), flush=True)


def needs(text: str, epsilon: float) -> Iterator[tuple[int, str]]:
    """People of every mechanism that applies."""
    for name in MECHANISMS:
        try:
            plan = nw.plan(
                text,
                nw.Privacy(epsilon=epsilon),
                nw.Local(mechanism=name, max_error=ERROR, beta=BETA),
            )
        except nw.NoisewrightError:
            continue
        yield plan.people_for_max_error(), plan.mechanism.name


def simulated(text: str = "prefix:16") -> None:
    matrix, rng = nw.workload(text).dense(), np.random.default_rng(0)
    instance = nw.local.hard_instance(text, ERROR, beta=BETA)
    for name in ("approximate", "hierarchical", "privunit"):
        plan = nw.plan(text, nw.Privacy(epsilon=1.0), nw.Local(mechanism=name))
        for times in (1, 40):
            people, alarms = times * instance.people, np.zeros(2)
            for trial in range(TRIALS):
                v, second, cells = instance.draw(people, rng, second=bool(trial % 2))
                row = matrix[instance.rows[v]]
                one, other = row @ instance.first[v], row @ instance.second[v]
                tally = plan.aggregate(plan.randomize(cells))
                answer = row @ plan.strategy.estimate(tally.total, people) / people
                alarms[int(second)] += abs(answer - other) < abs(answer - one)
            told = (alarms[1] - alarms[0]) / (TRIALS / 2)
            print(
                f"{text} {name}: N = {people:,}, true less false alarms {told:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    if "ratios" not in sys.argv[1:]:
        simulated()
    if "simulated" not in sys.argv[1:]:
        ratios()
