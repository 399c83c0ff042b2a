"""All parities of at most 3 of 10 bits (1,024 cells, ε = 1, replace-one): what few people allow.

The mechanism with the best forecast beside the best in simulation, at three kinds of histograms;
forecasts are made at that kind, simulations at other draws of people and noise.
"""

from __future__ import annotations

import time

import numpy as np

import noisewright as nw
from noisewright.central.geometry.fitted import FittedMechanism
from noisewright.central.mechanism import Given
from noisewright.central.registry import CENTRAL
from noisewright.planning.choice import central_problem
from noisewright.workload.structure import terms

TEXT = "parity:10:<=3"
PRIVACY = nw.Privacy(1.0, neighbours="replace-one")


def mwem(workload: nw.Workload, people: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Multiplicative weights with exponential mechanism, 20 rounds: in floats, a yardstick only."""
    count, rounds = people.sum(), 20
    truth = workload.matvec(people)
    guess = np.full(len(people), count / len(people))
    seen = []
    for _ in range(rounds):
        scores = np.abs(workload.matvec(guess) - truth) / 4 / rounds
        chosen = int(np.argmax(scores + rng.gumbel(size=len(scores))))
        row = workload.rows(chosen, chosen + 1)[0]
        seen.append((row, truth[chosen] + rng.laplace(0, 4 * rounds)))
        for own, value in seen:
            guess = guess * np.exp(own * (value - own @ guess) / (2 * count))
            guess *= count / guess.sum()
    return np.asarray(workload.matvec(guess) - truth)


def main() -> None:
    workload = nw.workload(TEXT)
    sizes = workload.structure.sizes
    asked = terms(workload, sizes)
    kinds = dict(zip(("even", "ranked", "few cells"), Given(1).shares(workload.size), strict=True))
    rng = np.random.default_rng(1)
    print("people, kind, forecast/simulated by mechanism, seconds")
    for count in (100, 1000, 10_000):
        for kind, shares in kinds.items():
            began = time.perf_counter()
            given = Given(count, (shares,))
            problem = central_problem(workload, PRIVACY, 2.0, None, given)
            inner = CENTRAL["laplace-cells"].plan(problem).mechanism
            people = rng.multinomial(count, shares).astype(float)
            plain = inner.accuracy(asked)
            errors = {"laplace-cells": (plain.error, plain.draw(2, rng))}
            for space in ("cells", "answers"):
                fitted = FittedMechanism(inner, workload, sizes, space, given)
                noise = fitted._fit_accuracy.draw(2, rng)
                exact = fitted._answers(people[None], fitted._fitted_to)
                missed = fitted._answers(fitted._fit(exact + noise, count) - people, asked)
                errors[f"projection in {space}"] = fitted.accuracy(asked).error, missed
            even = count * workload.matvec(shares - 1 / workload.size)
            errors["no-data"] = even, workload.matvec(people - count / workload.size)
            errors["mwem (yardstick)"] = np.full(1, np.nan), mwem(workload, people, rng)
            told = {
                name: [float(np.sqrt(np.mean(np.square(own)))) for own in pair]
                for name, pair in errors.items()
            }
            known = {n: pair for n, pair in told.items() if not np.isnan(pair[0])}
            chosen = min(known, key=lambda name: known[name][0])
            least = min(pair[1] for pair in known.values())
            text = "; ".join(f"{name} {a:.1f}/{b:.1f}" for name, (a, b) in told.items())
            seconds = time.perf_counter() - began
            ratio = known[chosen][1] / least
            print(
                f"{count}, {kind}, {text}; chosen {chosen}: {ratio:.2f} of the best, {seconds:.0f}"
            )


if __name__ == "__main__":
    main()
