"""Several releases about the same people under one budget.

Gaussian releases compose exactly: ratios μ = sensitivity/σ add in squares, which is what ρ = μ²/2
adds up. So a budget (ε, δ) is split as the ρ of the one Gaussian release it allows, and no
conversion loses anything. Pure budgets are split in ε.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from noisewright.domain import Domain
from noisewright.errors import InvalidParameter
from noisewright.planning.central import CentralPlan
from noisewright.planning.make import plan
from noisewright.privacy.budget import Privacy
from noisewright.privacy.calibration import calibrate
from noisewright.privacy.composition import compose, loss_distribution_epsilon
from noisewright.privacy.conversion import pure_to_zcdp, zcdp_epsilon
from noisewright.privacy.rounding import float_above, float_below
from noisewright.workload import Workload


@dataclass(frozen=True, eq=False)
class Together:
    """Plans that may all be released, each once, under `privacy` in total."""

    privacy: Privacy
    plans: tuple[CentralPlan, ...]
    shares: tuple[float, ...]


def plan_together(
    queries: Sequence[Workload | str | Any],
    privacy: Privacy,
    *,
    shares: Sequence[float] | None = None,
    importance: Sequence[float] | None = None,
    error: str | float = "rmse",
    domain: Domain | None = None,
) -> Together:
    """Plan several releases, each with its share of one budget.

    Without `shares`, they are chosen to make the total squared error least, each release's errors
    counting `importance` times (once, by default).
    """
    if not queries:
        raise InvalidParameter("queries", [], "must not be empty", "ask something")
    whole = _splittable(privacy)
    alone = [plan(asked, whole, error=error, domain=domain) for asked in queries]
    weights = _positive("importance", importance or [1.0] * len(alone), len(alone))
    pure = privacy.kind == "pure"
    if shares is None:
        totals = [w**2 * float(p.variances.sum()) for w, p in zip(weights, alone, strict=True)]
        raw = [total ** (1 / 3 if pure else 1 / 2) for total in totals]
    else:
        raw = _positive("shares", shares, len(alone))
        if sum(raw) > 1 + 1e-9:
            raise InvalidParameter("shares", list(shares), "must not add up to more than one")
    scale = sum(raw) if shares is None else max(1.0, sum(raw))
    portions = [float_below(Fraction(value / scale) * (1 - Fraction(1, 2**45))) for value in raw]
    assert sum(map(Fraction, portions)) <= 1  # the margin is far above rounding
    plans = tuple(
        _with_share(made, whole, portion) for made, portion in zip(alone, portions, strict=True)
    )
    return Together(privacy, plans, tuple(portions))


def epsilon_of(
    plans: Sequence[CentralPlan], delta: float, accounting: Literal["loss", "zcdp"] = "loss"
) -> float:
    """The ε at `delta` of releasing every one of these plans once, about the same people.

    By privacy loss distributions (extra `accounting`), which add up Gaussian and Laplace releases
    most tightly, or by zCDP, which needs nothing else.
    """
    relations = sorted({made.privacy.neighbours for made in plans})
    if len(relations) != 1:
        raise InvalidParameter(
            "plans", relations, "must be for one relation of neighbours", "give at least one plan"
        )
    ratios = [
        float_above(Fraction(made.sensitivity) / Fraction(made.law.scale))
        for made in plans
        if made.privacy.kind != "pure"
    ]
    pure = [made.privacy for made in plans if made.privacy.kind == "pure"]
    if accounting == "loss":
        return loss_distribution_epsilon(delta, ratios=ratios, releases=pure)
    spent = [float_above(Fraction(ratio) ** 2 / 2) for ratio in ratios]
    rhos = [Privacy(rho=rho, neighbours=plans[0].privacy.neighbours) for rho in spent]
    whole = compose([*rhos, *pure])
    rho = whole.rho if whole.rho is not None else pure_to_zcdp(whole.epsilon or 0.0)
    return min(zcdp_epsilon(rho, delta), whole.epsilon or float("inf"))


def _splittable(privacy: Privacy) -> Privacy:
    """The same budget in the unit in which shares of it add up exactly."""
    if privacy.kind != "approximate":
        return privacy
    sigma = Fraction(calibrate(privacy, l2=1.0).scale)
    return Privacy(rho=float_below(1 / (2 * sigma**2)), neighbours=privacy.neighbours)


def _with_share(made: CentralPlan, whole: Privacy, portion: float) -> CentralPlan:
    if whole.rho is not None:
        budget: dict[str, Any] = {"rho": float_below(Fraction(whole.rho) * Fraction(portion))}
    else:
        assert whole.epsilon is not None
        budget = {"epsilon": float_below(Fraction(whole.epsilon) * Fraction(portion))}
    return replace(made, privacy=Privacy(neighbours=whole.neighbours, **budget))


def _positive(name: str, values: Sequence[float], count: int) -> list[float]:
    found = [float(value) for value in values]
    if len(found) != count or not all(np.isfinite(v) and v > 0 for v in found):
        raise InvalidParameter(
            name, list(values), f"must be {count} positive numbers", "one per release"
        )
    return found
