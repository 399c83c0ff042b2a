"""What several releases about the same people promise together, rounded to the safe side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from noisewright.errors import InvalidParameter, NoisewrightError
from noisewright.privacy.budget import Privacy
from noisewright.privacy.conversion import pure_to_zcdp, zcdp_epsilon
from noisewright.privacy.rounding import root_above, sum_above
from noisewright.privacy.rules import positive, probability


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
    The distributions are discretised pessimistically, so the ε returned is an upper bound; but
    dp-accounting computes it in floats, without the proof of the rest of this room.
    """
    probability("delta", delta)
    try:
        from dp_accounting.pld import common, privacy_loss_distribution
    except ImportError:
        raise NoisewrightError(
            "composition by privacy loss distributions needs dp-accounting;"
            " install noisewright[accounting]"
        ) from None
    total = privacy_loss_distribution.identity()
    if ratios:
        sigma = 1 / compose_gaussians(ratios)
        total = total.compose(privacy_loss_distribution.from_gaussian_mechanism(sigma))
    for release in releases:
        if release.epsilon is None:
            raise InvalidParameter(
                "releases", release.text(), "cannot be zCDP", "give the ratios of Gaussian releases"
            )
        promise = common.DifferentialPrivacyParameters(release.epsilon, release.delta or 0.0)
        total = total.compose(privacy_loss_distribution.from_privacy_parameters(promise))
    return float(total.get_epsilon_for_delta(delta))


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
