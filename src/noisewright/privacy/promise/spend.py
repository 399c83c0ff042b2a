"""What a release costs: losses that add, and the promise that follows from them at any δ.

A loss says what was drawn, not what was promised: the ratio μ = sensitivity/σ of Gaussian noise,
the ratio sensitivity/scale of Laplace noise, or, where only a promise is known, the promise itself.
Gaussian ratios add in squares, exactly; the others in ε. A `Privacy` is always derived from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from math import exp, tanh
from typing import Any

import msgspec

from noisewright.errors import InvalidParameter, NoisewrightError, require
from noisewright.privacy.exact.rounding import (
    float_above,
    float_below,
    positive,
    probability,
    root_above,
    sum_above,
)
from noisewright.privacy.noise.gaussian import (
    gaussian_epsilon,
    pure_to_zcdp,
    zcdp_epsilon,
)
from noisewright.privacy.promise.budget import (
    NEIGHBOURS,
    SMALLEST_EPSILON,
    Contribution,
    Neighbours,
    Privacy,
)


class _Loss(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="loss"):
    """A cost as the amounts that compose: mu in squares, epsilon and delta plainly.

    An amount is zero where the loss has none of it.
    """

    @property
    def mu(self) -> float:
        """The ratio of Gaussian noise; ratios add in squares."""
        return 0.0

    @property
    def epsilon(self) -> float:
        """What is lost of pure privacy, or where a promise does not fail; it adds plainly."""
        return 0.0

    @property
    def delta(self) -> float:
        """How likely a promise fails."""
        return 0.0


class Gaussian(_Loss, frozen=True, tag="gaussian"):
    """Gaussian noise of deviation σ on what a neighbour moves by at most mu·σ in L2."""

    mu: float

    def __post_init__(self) -> None:
        positive("mu", self.mu)

    def of_rows(self, contribution: Contribution) -> Gaussian:
        """What it costs a person of whom several rows count."""
        return Gaussian(float_above(Fraction(self.mu) * contribution.multiple))


class Laplace(_Loss, frozen=True, tag="laplace"):
    """Laplace noise of scale b on what a neighbour moves by at most ratio·b in L1."""

    ratio: float

    def __post_init__(self) -> None:
        positive("ratio", self.ratio)

    @property
    def epsilon(self) -> float:
        return self.ratio

    def of_rows(self, contribution: Contribution) -> Laplace:
        """What it costs a person of whom several rows count."""
        return Laplace(float_above(Fraction(self.ratio) * contribution.rows))


class Promise(_Loss, frozen=True, tag="promise"):
    """A mechanism of which nothing but its promise (ε, δ) is used."""

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        if self.delta != 0:
            probability("delta", self.delta)

    def of_rows(self, contribution: Contribution) -> Promise:
        """What it costs a person of whom several rows count: neighbours, so many steps apart."""
        rows = contribution.rows
        epsilon = float_above(Fraction(self.epsilon) * rows)
        if not self.delta:
            return Promise(epsilon)

        # δ(1 + e^ε + … + e^((k−1)ε)) <= δ·k·e^(kε), and 9/8 is far above the rounding of e^(kε)
        worst = Fraction(self.delta) * rows * Fraction(exp(epsilon))
        return Promise(epsilon, float_above(worst * Fraction(9, 8)))


Loss = Gaussian | Laplace | Promise


class Spend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The losses of one or several releases about the same people, for one neighbour relation."""

    neighbours: Neighbours
    losses: tuple[Loss, ...]

    def __post_init__(self) -> None:
        if self.neighbours not in NEIGHBOURS:
            raise InvalidParameter(
                "neighbours", self.neighbours, f"must be one of {', '.join(NEIGHBOURS)}"
            )

    def __add__(self, other: Spend) -> Spend:
        if other.neighbours != self.neighbours:
            raise InvalidParameter(
                "neighbours",
                [self.neighbours, other.neighbours],
                "must be one relation",
                "state every release for the same one",
            )
        return Spend(self.neighbours, self.losses + other.losses)

    @property
    def mu(self) -> float:
        """The one Gaussian ratio that all Gaussian losses amount to, rounded up; 0 for none."""
        ratios = [loss.mu for loss in self.losses if loss.mu]
        if len(ratios) <= 1:  # exactly what was stated, not the next float
            return sum(ratios, 0.0)
        return root_above(sum((Fraction(mu) ** 2 for mu in ratios), Fraction(0)))

    def of_rows(self, contribution: Contribution) -> Spend:
        """What it costs a person of whom several rows count, if this is the cost of one row.

        Rows may all move the same way, so that ratios grow with their number, never with its root,
        unless groups keep them apart.
        """
        if contribution.rows == 1:
            return self
        losses = tuple(loss.of_rows(contribution) for loss in self.losses)
        return Spend(self.neighbours, losses)

    def promise(self, delta: float | None = None) -> Privacy:
        """The least guarantee known to follow, rounded to the safe side.

        Without `delta` it is pure where all losses are, ρ-zCDP where Gaussian noise joins, and the
        plain sum of (ε, δ) where approximate promises do. With `delta` it is the least of the valid
        conversions to an ε at that δ: the exact curve of the Gaussians, zCDP, and plain sums.
        """
        if not self.losses:
            raise InvalidParameter("losses", (), "are none: nothing was spent")
        if delta is None:
            return self._unconverted()

        probability("delta", delta)
        allowed = float_below(
            Fraction(delta) - sum(map(Fraction, self._deltas), Fraction(0))
        )
        if allowed < 0 or (self.mu and allowed <= 0):
            raise InvalidParameter(
                "delta",
                delta,
                f"must exceed the {sum_above(self._deltas):g} already promised",
            )

        epsilon = sum_above([*self._approximate, min(self._conversions(allowed))])
        return Privacy(
            epsilon=max(epsilon, SMALLEST_EPSILON),
            delta=delta,
            neighbours=self.neighbours,
        )

    def currencies(self, delta: float | None = None) -> dict[str, float]:
        """The same loss in every currency in which budgets are counted, each rounded up.

        `epsilon` comes with its `delta`, zero where all of it is pure, and `rho` is what zCDP adds
        up. A currency in which it has no known price is left out.
        """
        if not self.losses:
            return {}

        told: dict[str, float] = {}
        if not self.mu:
            plain = self._unconverted()
            told = {"epsilon": plain.epsilon or 0.0, "delta": plain.delta or 0.0}
        elif delta is not None:
            told = {"epsilon": self.promise(delta).epsilon or 0.0, "delta": delta}

        return told if self._deltas else {**told, "rho": self._rho}

    def _conversions(self, delta: float) -> Iterator[float]:
        """Values of ε at δ for everything but approximate promises, each valid by itself."""
        if not self.mu:
            yield sum_above(self._pure)
        else:
            yield sum_above([gaussian_epsilon(delta, self.mu), *self._pure])
        if delta > 0 and (self.mu or self._pure):
            yield zcdp_epsilon(self._rho, delta)

    def _unconverted(self) -> Privacy:
        """The guarantee that follows without a choice of δ: ρ with Gaussians, else plain sums."""
        require(
            not self.mu or not self._deltas,
            "delta",
            None,
            "must be given to add Gaussian noise to approximate promises",
            "1e-9",
        )
        if self.mu:
            return Privacy(rho=self._rho, neighbours=self.neighbours)

        epsilon = sum_above([*self._pure, *self._approximate])
        delta = sum_above(self._deltas) if self._deltas else None
        return Privacy(epsilon=epsilon, delta=delta, neighbours=self.neighbours)

    @property
    def _rho(self) -> float:
        """What zCDP adds up: μ²/2 of the Gaussians and what pure losses imply."""
        pure = sum(map(Fraction, map(pure_to_zcdp, self._pure)))
        return float_above(Fraction(self.mu) ** 2 / 2 + pure)

    @property
    def _pure(self) -> list[float]:
        """The ε of every loss that is pure."""
        return [loss.epsilon for loss in self.losses if loss.epsilon and not loss.delta]

    @property
    def _approximate(self) -> list[float]:
        """The ε of every promise that comes with a δ."""
        return [loss.epsilon for loss in self.losses if loss.delta]

    @property
    def _deltas(self) -> list[float]:
        """The δ of every promise that has one."""
        return [loss.delta for loss in self.losses if loss.delta]

    def to_dp_accounting(self) -> Any:
        """The losses as an event of dp-accounting (extra `accounting`).

        Gaussian losses are one event, since their composition is exact. A pure loss is discrete
        Laplace noise at sensitivity one, whose loss is that of randomized response. Compose it with
        the accountant's default relation, whatever ours is: ratios are already those of what our
        neighbours change.
        """
        try:
            from dp_accounting import dp_event
        except ImportError:
            raise NoisewrightError(
                "events of dp-accounting need it; install noisewright[accounting]"
            ) from None

        require(
            not self._deltas,
            "losses",
            "promise",
            "of (ε, δ) alone is no event of dp-accounting",
            "use promise()",
        )

        events: list[Any] = []
        if self.mu:
            deviation = float_below(1 / Fraction(self.mu))
            events.append(dp_event.GaussianDpEvent(deviation))
        for epsilon, times in Counter(self._pure).items():
            event = dp_event.DiscreteLaplaceDpEvent(epsilon, 1)
            events.append(dp_event.SelfComposedDpEvent(event, times))

        return dp_event.ComposedDpEvent(events)

    def to_dict(self) -> dict[str, object]:
        """The losses, ready for JSON."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        return plain


def best_guess(spend: Spend) -> float:
    """The largest chance to guess right, from an even start, which of two neighbours it was.

    Whoever guesses knows everything but that one bit. For one Gaussian loss it is exact, for pure
    ones attained by randomized response; several kinds together are bounded by what is left of the
    overlap of each, since the overlap of a product is at least the product of the overlaps.
    """
    from scipy.special import ndtr

    if not spend.losses:
        return 0.5

    # overlap = 1 − total variation; under pure ε-privacy the variation is at most tanh(ε/2).
    overlap = 2 * float(ndtr(-spend.mu / 2))
    pure = 0.0
    for loss in spend.losses:
        if loss.delta:
            overlap *= max(0.0, 2 * (1 - loss.delta) / (1 + exp(loss.epsilon)))
        else:
            pure += loss.epsilon

    return 1 - overlap * (1 - tanh(pure / 2)) / 2
