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

from noisewright.central.stream import StreamPlan, sensitivity
from noisewright.domain import Domain
from noisewright.errors import InvalidParameter
from noisewright.planning.central import CentralPlan
from noisewright.planning.local import LocalPlan
from noisewright.planning.make import plan
from noisewright.planning.sums import SumsPlan
from noisewright.privacy.budget import Privacy
from noisewright.privacy.calibration import calibrate
from noisewright.privacy.composition import compose_gaussians, loss_distribution_epsilon
from noisewright.privacy.conversion import gaussian_rho, pure_to_zcdp, zcdp_epsilon
from noisewright.privacy.gaussian import gaussian_epsilon
from noisewright.privacy.rounding import float_above, float_below, sum_above
from noisewright.privacy.rules import probability
from noisewright.workload import Workload

_LEAST_SHARE = 1e-24  # of the squared errors to weigh: every release gets some budget


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
        top, power = max(weights), 1 / 3 if pure else 1 / 2
        totals = [(w / top) ** 2 * p.variances.sum() for w, p in zip(weights, alone, strict=True)]
        largest = max(totals) or 1.0  # nothing to weigh where no noise is left
        raw = [float(max(total / largest, _LEAST_SHARE)) ** power for total in totals]
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
    plans: Sequence[CentralPlan | SumsPlan | StreamPlan | LocalPlan],
    delta: float,
    accounting: Literal["loss", "zcdp"] = "loss",
) -> float:
    """The ε at `delta` of releasing every one of these plans once, about the same people.

    Counts, sums, streams and reports without a curator add up. The least of all bounds that hold is
    returned, rounded up: exact for Gaussian releases alone, zCDP, and ε added up. Mixtures are also
    read by privacy loss distributions (extra `accounting`), unless "zcdp" asks for no extra.
    """
    probability("delta", delta)
    if accounting not in ("loss", "zcdp"):
        raise InvalidParameter("accounting", accounting, "must be loss or zcdp")
    relations = sorted({_privacy(made).neighbours for made in plans})
    if len(relations) != 1:
        raise InvalidParameter(
            "plans", relations, "must be for one relation of neighbours", "give at least one plan"
        )
    ratios: list[float] = []
    others: list[Privacy] = []
    for made in plans:
        gaussian, promised = _spent(made)
        ratios += gaussian
        others += promised
    pure = [release for release in others if release.kind == "pure"]
    approximate = [release for release in others if release.kind != "pure"]
    left = Fraction(delta) - sum((Fraction(release.delta or 0) for release in others), Fraction(0))
    if left <= 0:
        raise InvalidParameter(
            "delta", delta, "is below what the plans themselves spend", "give a larger one"
        )
    bounds = _bounds(ratios, pure, approximate, float_below(left))
    if accounting == "loss" and len(others) + bool(ratios) > 1 and others:
        bounds.append(loss_distribution_epsilon(delta, ratios=ratios, releases=others))
    return min(bounds)


def _bounds(
    ratios: list[float], pure: list[Privacy], approximate: list[Privacy], delta: float
) -> list[float]:
    """Every ε that follows without an extra; `delta` is what approximate guarantees leave of it."""
    added = [release.epsilon or 0.0 for release in (*pure, *approximate)]
    if not ratios:
        exact = [sum_above(added)]
    else:
        exact = [sum_above([gaussian_epsilon(delta, compose_gaussians(ratios)), *added])]
    rhos = [gaussian_rho(ratio) for ratio in ratios]
    rhos += [pure_to_zcdp(release.epsilon or 0.0) for release in pure]
    if not rhos:
        return exact
    beside = [release.epsilon or 0.0 for release in approximate]
    return [*exact, sum_above([zcdp_epsilon(sum_above(rhos), delta), *beside])]


def _privacy(made: CentralPlan | SumsPlan | StreamPlan | LocalPlan) -> Privacy:
    return made.groups.privacy if isinstance(made, SumsPlan) else made.privacy


def _spent(
    made: CentralPlan | SumsPlan | StreamPlan | LocalPlan,
) -> tuple[list[float], list[Privacy]]:
    """Ratios of Gaussian measurements, and other guarantees, told by the noise itself."""
    privacy = _privacy(made)
    if isinstance(made, LocalPlan):
        return [], [privacy]
    if isinstance(made, StreamPlan):
        moved = sensitivity(made.factorization, made.grid_bits, privacy.neighbours)
        parts = [(moved, made.law)]
    elif isinstance(made, SumsPlan):
        parts = list(zip(made.sensitivities, made.laws, strict=True))
    else:
        parts = [(made.sensitivity, made.law)]
    shares = [float_above(Fraction(moved) / Fraction(law.scale)) for moved, law in parts if moved]
    if privacy.kind != "pure":
        return shares, []
    return [], [Privacy(epsilon=share, neighbours=privacy.neighbours) for share in shares]


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
