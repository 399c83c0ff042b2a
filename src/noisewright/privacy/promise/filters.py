"""Budgets for releases that are chosen one after another, each after seeing the last answers.

A filter fixes its limits beforehand and admits a release only while what is used stays within them;
the promise then holds whatever the choices (proofs: docs/concepts/adaptive.md). Every limit counts
one kind of amount, and amounts add up exactly:

- `most`: Gaussian noise, as the sum of μ² up to the square of `most` (rule "gaussian"), or all
  noise, as the sum of ρ up to `most` (rule "zcdp"); the rule "sum" has none;
- `pure`: ε of pure releases, added up plainly;
- `delta`: δ of releases of which nothing but a promise (ε, δ) is known, added up plainly.

A pure release takes from `pure` while it fits there, and from `most` otherwise: as the Gaussian
noise that protects no more at any error rates, or as the ρ that it keeps.

An **odometer** says what may be said of a budget at any time one stops, though plans followed
earlier answers. A filter promises its whole budget. For less, eleven filters are run side by side,
each with half the limit of the one before and an eleventh of δ: what is used lies within one of
them, and the answers given while it does are answers of that filter. So for every set S of
transcripts, whatever the rule of stopping, P(S) <= E_Q[e^ε 1_S] + δ with the ε that was shown when
it stopped (docs/concepts/adaptive.md).
"""

from __future__ import annotations

from fractions import Fraction
from math import exp, pi, sqrt
from statistics import NormalDist
from typing import Literal, NamedTuple, get_args

import msgspec

from noisewright.errors import InvalidParameter, require
from noisewright.privacy.exact.rounding import (
    bracket,
    float_above,
    float_below,
    number,
    positive,
    root_above,
    root_below,
)
from noisewright.privacy.noise.gaussian import (
    gaussian_delta_enclosure,
    gaussian_epsilon,
    gaussian_ratio,
    pure_to_zcdp,
    zcdp_epsilon,
)
from noisewright.privacy.promise.budget import SMALLEST_EPSILON, Privacy
from noisewright.privacy.promise.spend import Loss, Spend

RuleName = Literal["gaussian", "zcdp", "sum"]
RULES: tuple[str, ...] = get_args(RuleName)

STATEMENTS: dict[RuleName, str] = {
    "gaussian": "Gaussian filter: Σ (sensitivity/σ)² within a limit fixed beforehand",
    "zcdp": "zCDP filter: Σ ρ within a limit fixed beforehand",
    "sum": "plain sums: Σ ε within a limit fixed beforehand",
}
_NONE = Fraction(0)
_SMALL = 1e-6  # below, the normal law is a straight line in floats
# of the odometer: the smallest filter has 2^-10 of the budget, and each its δ
_LEVELS = 11
_MARGIN = 1 + 1e-9  # far above the rounding of floats in the quantile of a normal law


class Amounts(NamedTuple):
    """What is used of each limit, exactly."""

    most: Fraction = _NONE
    pure: Fraction = _NONE
    delta: Fraction = _NONE

    def plus(self, other: Amounts) -> Amounts:
        """Both together."""
        return Amounts(*(a + b for a, b in zip(self, other, strict=True)))


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may be used in total, fixed before anything is."""

    rule: RuleName
    most: float
    pure: float = 0.0
    delta: float = 0.0

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise InvalidParameter(
                "rule", self.rule, f"must be one of {', '.join(RULES)}"
            )
        for name in ("most", "pure", "delta"):
            if number(name, getattr(self, name)) < 0:
                raise InvalidParameter(
                    name, getattr(self, name), "must not be negative"
                )

    @property
    def amounts(self) -> Amounts:
        """The limits as amounts."""
        most = Fraction(self.most) ** (2 if self.rule == "gaussian" else 1)
        return Amounts(most, Fraction(self.pure), Fraction(self.delta))

    def keep(self, budget: Privacy) -> bool:
        """Whether whatever stays within the limits keeps the budget."""
        if self.delta > (budget.delta or 0.0):
            return False
        if budget.rho is not None:
            return self.rule == "zcdp" and not self.pure and self.most <= budget.rho

        epsilon = Fraction(budget.epsilon or 0) - Fraction(self.pure)
        delta = budget.delta or 0.0
        if self.rule == "sum" or not self.most:
            return not self.most and epsilon >= 0

        left = Fraction(delta) - Fraction(self.delta)
        if epsilon <= 0 or left <= 0:
            return False
        if self.rule == "gaussian":
            return gaussian_delta_enclosure(epsilon, Fraction(self.most))[1] <= left

        return Fraction(zcdp_epsilon(self.most, float_below(left))) <= epsilon

    def used_by(self, spend: Spend, used: Amounts) -> Amounts | None:
        """What is used after a further release, or None where it does not fit."""
        for loss in spend.losses:
            after = self._after(loss, used)
            if after is None:
                return None
            used = after
        return used

    def _after(self, loss: Loss, used: Amounts) -> Amounts | None:
        if loss.mu:
            if self.rule == "sum":
                return None
            square = Fraction(loss.mu) ** 2
            whole = square if self.rule == "gaussian" else square / 2
            return self._within(used.plus(Amounts(most=whole)))

        delta = Fraction(loss.delta)
        pure = Amounts(pure=Fraction(loss.epsilon), delta=delta)
        plain = self._within(used.plus(pure))
        if plain is not None or self.rule == "sum":
            return plain

        converted = Amounts(most=self._converted(loss.epsilon), delta=delta)
        return self._within(used.plus(converted))

    def _converted(self, epsilon: float) -> Fraction:
        if self.rule == "zcdp":
            return Fraction(pure_to_zcdp(epsilon))
        return Fraction(pure_to_gaussian(epsilon)) ** 2

    def _within(self, used: Amounts) -> Amounts | None:
        fits = all(u <= most for u, most in zip(used, self.amounts, strict=True))
        return used if fits else None

    def share(self, used: Amounts) -> float:
        """The part of the budget that is used, of whichever limit is used most."""
        pairs = zip(used, self.amounts, strict=True)
        return max((float(u / most) for u, most in pairs if most > 0), default=0.0)

    def left(self, used: Amounts) -> Amounts:
        """What may still be used."""
        return Amounts(*(m - u for m, u in zip(self.amounts, used, strict=True)))

    def largest_ratio(self, used: Amounts) -> float:
        """The largest sensitivity/σ of Gaussian noise that still fits; 0 for none."""
        left = self.left(used).most
        return root_below(left if self.rule == "gaussian" else 2 * left)

    def largest_pure(self, used: Amounts) -> float:
        """The largest ε of a pure release that still fits; 0 for none."""
        left = self.left(used)
        plain = float_below(left.pure)
        if left.most <= 0:
            return plain

        def fits(epsilon: float) -> bool:
            return self._converted(epsilon) <= left.most

        return max(plain, bracket(fits, sqrt(left.most))[0])


def limits_of(
    budget: Privacy, rule: RuleName | None = None, pure: float = 0.0, aside: float = 0.0
) -> Limits:
    """The limits that use a budget up, under the rule that suits it unless another is named.

    `pure` of the ε is kept for pure releases, `aside` of the δ for promises (ε, δ).
    """
    rule = rule or _rule_for(budget)
    for name, value in (("pure", pure), ("aside", aside)):
        require(number(name, value) >= 0, name, value, "must not be negative")

    _check_rule(rule, budget, pure, aside)
    if rule == "sum":
        return Limits(rule, 0.0, budget.epsilon or 0.0, budget.delta or 0.0)
    if budget.rho is not None:
        return Limits(rule, budget.rho, 0.0, aside)

    epsilon = float_below(Fraction(budget.epsilon or 0) - Fraction(pure))
    delta = float_below(Fraction(budget.delta or 0) - Fraction(aside))
    if rule == "gaussian":
        return Limits(rule, gaussian_ratio(epsilon, delta), pure, aside)

    def kept(rho: float) -> bool:
        return zcdp_epsilon(rho, delta) <= epsilon

    most, _ = bracket(kept, min(epsilon, 1.0))
    return Limits(rule, most, pure, aside)


def _rule_for(budget: Privacy) -> RuleName:
    return {"pure": "sum", "zcdp": "zcdp", "approximate": "gaussian"}[budget.kind]  # type: ignore[return-value]


def _check_rule(rule: str, budget: Privacy, pure: float, aside: float) -> None:
    if rule not in RULES:
        raise InvalidParameter("rule", rule, f"must be one of {', '.join(RULES)}")

    suits = {"pure": ("sum",), "zcdp": ("zcdp",), "approximate": RULES}[budget.kind]
    if rule not in suits:
        raise InvalidParameter(
            "rule", rule, f"cannot keep a budget of this kind; {', '.join(suits)} can"
        )
    if pure and (
        rule == "sum" or budget.rho is not None or pure >= (budget.epsilon or 0.0)
    ):
        raise InvalidParameter(
            "pure",
            pure,
            "must be less than the ε of a budget (ε, δ)",
            "use rule=sum for all of it",
        )
    if aside and (rule == "sum" or aside >= (budget.delta or 0.0)):
        raise InvalidParameter("aside", aside, "must be less than the δ of the budget")


def pure_to_gaussian(epsilon: float) -> float:
    """A μ for which Gaussian noise of ratio μ protects no more than pure ε, rounded up.

    The least is -2Φ⁻¹(1/(1 + e^ε)): the trade-off curve of any pure mechanism lies above two
    straight lines, and that of Gaussian noise is convex and meets both at their corner.
    """
    positive("epsilon", epsilon)
    if epsilon < _SMALL:
        return sqrt(pi / 2) * epsilon * _MARGIN

    tail = exp(-epsilon) / (1 + exp(-epsilon))
    require(
        tail >= 1e-300,
        "epsilon",
        epsilon,
        "is no protection to speak of",
        "at most 600",
    )

    return -2 * NormalDist().inv_cdf(tail) * _MARGIN


def odometer(
    limits: Limits, used: Amounts, budget: Privacy, delta: float | None
) -> Privacy:
    """What holds for all that was used so far; ρ where no δ is named, in its own sense."""
    relation = budget.neighbours
    if not used.most:
        epsilon = max(float_above(used.pure), SMALLEST_EPSILON)
        failing = float_above(used.delta)
        return Privacy(epsilon, failing or None, neighbours=relation)

    if delta is None:
        return Privacy(rho=float_above(used.most), neighbours=relation)

    left = Fraction(delta) - Fraction(limits.delta)
    if left <= 0:
        return budget

    cap = limits.amounts.most
    for _ in range(_LEVELS - 1):
        if used.most > cap / 2:
            break
        cap /= 2

    epsilon = _epsilon_of(limits, cap, float_below(left / _LEVELS))
    total = float_above(Fraction(epsilon) + used.pure)
    return Privacy(max(total, SMALLEST_EPSILON), delta, neighbours=relation)


def _epsilon_of(limits: Limits, cap: Fraction, delta: float) -> float:
    if limits.rule == "gaussian":
        return gaussian_epsilon(delta, root_above(cap))
    return zcdp_epsilon(float_above(cap), delta)
