"""All 19,900 pairs of 200 binary attributes at ε = 1: error of a proportion, one release each."""

from __future__ import annotations

import time

import numpy as np

import noisewright as nw

ATTRIBUTES = 200


def people(kind: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of zeros and ones: latent factors, or rare attributes that are independent."""
    if kind == "rare attributes":
        shares = rng.uniform(0.005, 0.05, ATTRIBUTES)
        return (rng.random((count, ATTRIBUTES)) < shares).astype(float)
    factors = 3 if kind == "three latent factors" else 1
    loadings = rng.normal(size=(factors, ATTRIBUTES))
    ends = 0.5 * rng.normal(size=ATTRIBUTES)
    if factors == 1:
        loadings, ends = np.abs(loadings) + 1, np.zeros(ATTRIBUTES)
    noise = rng.normal(size=(count, ATTRIBUTES))
    return (rng.normal(size=(count, factors)) @ loadings + noise > ends).astype(float)


def main() -> None:
    rng = np.random.default_rng(3)
    upper = np.triu_indices(ATTRIBUTES, 1)
    print("people, population, budget, as measured, estimated, seconds")
    budgets = [
        nw.Privacy(1.0, neighbours="replace-one"),
        nw.Privacy(1.0),
        nw.Privacy(1.0, 1e-9, neighbours="replace-one"),
    ]
    for privacy in budgets:
        plan = nw.plan(nw.Pairs(ATTRIBUTES), privacy)
        for count in (10**4, 10**5):
            for kind in ("three latent factors", "strong factor", "rare attributes"):
                rows = people(kind, count, rng)
                truth = rows.T @ rows / count
                began = time.perf_counter()
                release = plan.release(rows)
                shares = release.measured_proportions, release.proportions
                seconds = time.perf_counter() - began
                errors = [np.sqrt(np.mean((own - truth)[upper] ** 2)) for own in shares]
                told = f"{count}, {kind}, {privacy.text()}"
                print(f"{told}, {errors[0]:.4f}, {errors[1]:.4f}, {seconds:.1f}")


if __name__ == "__main__":
    main()
