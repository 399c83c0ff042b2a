"""What several releases about the same people promise together, rounded to the safe side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import inf

from noisewright.errors import InvalidParameter, NoisewrightError
from noisewright.privacy.budget import Privacy
from noisewright.privacy.conversion import pure_to_zcdp, zcdp_epsilon
from noisewright.privacy.rounding import root_above, sum_above
from noisewright.privacy.rules import positive, probability

_FLOAT_DELTA = 1e-12  # far above the rounding of a convolution of probabilities
_LARGEST_SPAN = 1e5
_FINEST_GRID = 1e-4
_GRID_POINTS = 2**18


def compose(releases: Sequence[Privacy], *, delta: float | None = None) -> Privacy:
    """Add up guarantees: in ε if all are pure, in ρ if zCDP joins, in (ε, δ) otherwise.

    `delta` is the δ at which zCDP is read as (ε, δ): optional when the sum stays zCDP, needed (and
    added to the others) when approximate guarantees join.
    """
    if not releases:
        raise InvalidParameter("releases", [], "must not be empty")
    relations = sorted({release.neighbours for release in releases})
    if len(relations) > 1:
        raise InvalidParameter(
            "neighbours", relations, "must be one relation", "state every release for the same one"
        )
    kinds = {release.kind for release in releases}
    neighbours = releases[0].neighbours
    if "zcdp" not in kinds:
        deltas = [release.delta for release in releases if release.delta is not None]
        return Privacy(
            epsilon=sum_above(_epsilons(releases)),
            delta=_summed_delta(deltas) if deltas else None,
            neighbours=neighbours,
        )
    rho = sum_above(_rhos(releases))
    if "approximate" not in kinds:
        return Privacy(rho=rho, delta=delta, neighbours=neighbours)
    if delta is None:
        raise InvalidParameter(
            "delta", None, "must be given to add zCDP to approximate guarantees", "take 1e-9"
        )
    others = [release for release in releases if release.kind == "approximate"]
    return Privacy(
        epsilon=sum_above([zcdp_epsilon(rho, delta), *_epsilons(others)]),
        delta=_summed_delta([delta, *(other.delta for other in others if other.delta)]),
        neighbours=neighbours,
    )


def compose_gaussians(ratios: Iterable[float]) -> float:
    """Return the one ratio μ = √Σμ² that several Gaussian releases exactly amount to."""
    return root_above(sum((positive("ratio", ratio) ** 2 for ratio in ratios), Fraction(0)))


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
    ratio = compose_gaussians(ratios) if ratios else 0.0
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


def _epsilons(releases: Iterable[Privacy]) -> list[float]:
    return [release.epsilon for release in releases if release.epsilon is not None]


def _rhos(releases: Iterable[Privacy]) -> list[float]:
    """Return what pure and zCDP releases spend in ρ."""
    pure = [pure_to_zcdp(r.epsilon) for r in releases if r.kind == "pure" and r.epsilon is not None]
    return pure + [release.rho for release in releases if release.rho is not None]


def _summed_delta(deltas: Iterable[float]) -> float:
    total = sum_above(deltas)
    if total >= 1:
        raise InvalidParameter("delta", total, "of all releases together must stay below 1")
    return total
