"""What a release costs: losses that add, and the promise that follows from them at any δ.

A loss says what was drawn, not what was promised: the ratio μ = sensitivity/σ of Gaussian noise,
the ratio sensitivity/scale of Laplace noise, or, where only a promise is known, the promise itself.
Gaussian ratios add in squares, exactly; the others in ε. A `Privacy` is always derived from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import inf

import msgspec

from noisewright.errors import InvalidParameter, NoisewrightError
from noisewright.privacy.budget import NEIGHBOURS, Neighbours, Privacy
from noisewright.privacy.gaussian import gaussian_epsilon, pure_to_zcdp, zcdp_epsilon
from noisewright.privacy.rounding import (
    float_above,
    float_below,
    positive,
    probability,
    root_above,
    sum_above,
)

_FLOAT_DELTA = 1e-12  # far above the rounding of a convolution of probabilities
_LARGEST_SPAN = 1e5
_FINEST_GRID = 1e-4
_GRID_POINTS = 2**18


class _Loss(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="loss"):
    """A part of what is spent."""


class Gaussian(_Loss, frozen=True, tag="gaussian"):
    """Gaussian noise of deviation σ on what a neighbour moves by at most mu·σ in L2."""

    mu: float

    def __post_init__(self) -> None:
        positive("mu", self.mu)


class Laplace(_Loss, frozen=True, tag="laplace"):
    """Laplace noise of scale b on what a neighbour moves by at most ratio·b in L1."""

    ratio: float

    def __post_init__(self) -> None:
        positive("ratio", self.ratio)


class Promise(_Loss, frozen=True, tag="promise"):
    """A mechanism of which nothing but its promise (ε, δ) is used."""

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        if self.delta != 0:
            probability("delta", self.delta)


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
        squares = [Fraction(loss.mu) ** 2 for loss in self.losses if isinstance(loss, Gaussian)]
        if len(squares) == 1:  # exactly what was stated, not the next float
            return next(loss.mu for loss in self.losses if isinstance(loss, Gaussian))
        return root_above(sum(squares, Fraction(0))) if squares else 0.0

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
        allowed = float_below(Fraction(delta) - sum(map(Fraction, self._deltas), Fraction(0)))
        if allowed < 0 or (self.mu and allowed <= 0):
            raise InvalidParameter(
                "delta", delta, f"must exceed the {sum_above(self._deltas):g} already promised"
            )
        epsilon = sum_above([*self._approximate, min(self._conversions(allowed))])
        return Privacy(epsilon=max(epsilon, 2.0**-1022), delta=delta, neighbours=self.neighbours)

    def _conversions(self, delta: float) -> Iterator[float]:
        """Values of ε at δ for everything but approximate promises, each valid by itself."""
        if not self.mu:
            yield sum_above(self._pure)
        else:
            yield sum_above([gaussian_epsilon(delta, self.mu), *self._pure])
        if delta > 0 and (self.mu or self._pure):
            yield zcdp_epsilon(self._rho, delta)

    def _unconverted(self) -> Privacy:
        if self.mu and self._deltas:
            raise InvalidParameter(
                "delta", None, "must be given to add Gaussian noise to approximate promises", "1e-9"
            )
        if self.mu:
            return Privacy(rho=self._rho, neighbours=self.neighbours)
        epsilon = sum_above([*self._pure, *self._approximate])
        delta = sum_above(self._deltas) if self._deltas else None
        return Privacy(epsilon=epsilon, delta=delta, neighbours=self.neighbours)

    @property
    def _rho(self) -> float:
        gaussian = Fraction(self.mu) ** 2 / 2
        return float_above(gaussian + sum(Fraction(pure_to_zcdp(e)) for e in self._pure))

    @property
    def _pure(self) -> list[float]:
        """The ε of every loss that is pure."""
        ratios = [loss.ratio for loss in self.losses if isinstance(loss, Laplace)]
        return ratios + [p.epsilon for p in self._promises if not p.delta]

    @property
    def _approximate(self) -> list[float]:
        return [p.epsilon for p in self._promises if p.delta]

    @property
    def _deltas(self) -> list[float]:
        return [p.delta for p in self._promises if p.delta]

    @property
    def _promises(self) -> list[Promise]:
        return [loss for loss in self.losses if isinstance(loss, Promise)]

    def to_dict(self) -> dict[str, object]:
        """The losses, ready for JSON."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        return plain


def loss_distribution_epsilon(
    delta: float, *, ratios: Sequence[float] = (), releases: Sequence[Privacy] = ()
) -> float:
    """Return the ε of all together by privacy loss distributions (extra `accounting`).

    `ratios` are sensitivity/σ of Gaussian releases. `releases` are pure or approximate guarantees,
    each replaced by the least private mechanism that keeps it, so nothing else need be known.
    The distributions are discretised pessimistically, on a grid of bounded size, so the ε returned
    is an upper bound, infinite where nothing useful can be said (δ below 2e-12, losses above 1e5).
    But dp-accounting computes it in floats: 1e-12 of δ is set aside for that, without the proof of
    the rest of this room.
    """
    probability("delta", delta)
    epsilons = [_stated(release) for release in releases]
    squares = sum((positive("ratio", ratio) ** 2 for ratio in ratios), Fraction(0))
    ratio = root_above(squares) if ratios else 0.0
    try:
        from dp_accounting.pld import common, privacy_loss_distribution
    except ImportError:
        raise NoisewrightError(
            "composition by privacy loss distributions needs dp-accounting;"
            " install noisewright[accounting]"
        ) from None
    span = ratio * (ratio + 20) + 2 * sum(epsilons)
    if delta < 2 * _FLOAT_DELTA or not 0 < span < _LARGEST_SPAN:
        return inf
    grid = {"value_discretization_interval": max(_FINEST_GRID, span / _GRID_POINTS)}
    total = privacy_loss_distribution.identity(**grid)
    if ratios:
        total = total.compose(privacy_loss_distribution.from_gaussian_mechanism(1 / ratio, **grid))
    for epsilon, release in zip(epsilons, releases, strict=True):
        promise = common.DifferentialPrivacyParameters(epsilon, release.delta or 0.0)
        total = total.compose(privacy_loss_distribution.from_privacy_parameters(promise, **grid))
    return float(total.get_epsilon_for_delta(delta - _FLOAT_DELTA)) * (1 + 1e-9)


def _stated(release: Privacy) -> float:
    if release.epsilon is None:
        raise InvalidParameter(
            "releases", release.text(), "cannot be zCDP", "give the ratios of Gaussian releases"
        )
    return release.epsilon
