"""Intervals around noisy answers: exact per query, simultaneous over many by simulation.

The noise of an answer is known in law before any data is read, so an interval here is a statement
about noise alone: `answer ± half-width` covers the true answer with the stated probability.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import InvalidParameter, require

Sampler = Callable[[int, np.random.Generator], FloatArray]
"""Draws `(count, queries)` joint errors, every query scaled to unit variance (or all zero)."""

# chance that an order statistic lies above the quantile that it stands for
_SURE = 0.99
_BLOCK_ENTRIES = 2**22  # numbers simulated at once: 32 MB
# of a Gamma law, beyond which it is not integrated: below any level asked
_LEAST_TAIL = 1e-30
_HALVINGS = 20  # of a share: to a millionth of the alarm
_NODES = 1000  # of the integral, whose rule converges faster than any power of them


def check_level(level: float) -> float:
    """Refuse coverage levels outside (0, 1)."""
    if not 0 < level < 1:
        remedy = "use 0.95 for 95 %"
        raise InvalidParameter("level", level, "must lie in (0, 1)", remedy)
    return float(level)


def normal_multiplier(level: float) -> float:
    """Standard deviations either side of a Gaussian that hold it with probability `level`."""
    from scipy.special import ndtri

    # The upper tail itself, so that levels very near one keep their digits.
    return float(-ndtri((1 - check_level(level)) / 2))


def laplace_multiplier(level: float) -> float:
    """Standard deviations either side that hold a sum of Laplace errors with probability `level`.

    Among weighted sums of one variance, a single Laplace error is the widest from 95 % on (checked
    over mixtures in the tests), so its quantile covers them all.
    """
    return float(-np.log1p(-check_level(level)) / np.sqrt(2))


def log_concave_multiplier(level: float) -> float:
    """Standard deviations either side that hold any symmetric log-concave error at this level.

    Among such laws of one variance, the tail beyond a point is largest for one whose density falls
    exponentially from zero and may end early (localisation leaves laws with a log-linear density
    on an interval): with rate one and end b, the quantile over the deviation is maximised over b.
    Far out the end moves to infinity and the law to Laplace's.
    """
    from scipy.optimize import minimize_scalar

    tail = 1 - check_level(level)

    def negative_quantile(log_end: float) -> float:
        end = float(np.exp(log_end))
        rest = float(np.exp(-end))
        mass = -float(np.expm1(-end))
        variance = 2 - rest * end * (end + 2) / mass
        quantile = -float(np.log(rest + tail * mass))
        return -quantile / float(np.sqrt(variance))

    best = minimize_scalar(negative_quantile, bounds=(-6.0, 6.0), method="bounded")
    laplace = -float(np.log(tail)) / float(np.sqrt(2))
    return max(-float(best.fun), laplace)


def variance_gamma_multiplier(shape: float, level: float) -> float:
    """Standard deviations either side that hold G − H with probability `level`.

    G and H are independent, Gamma of this shape. An entry on the diagonal of a Wishart difference
    of m degrees of freedom is such with shape m/2. Entries off it, and weighted sums of entries,
    are sums of several such: narrower from 95 % on, as for Laplace errors (shape 1).
    """
    from scipy.optimize import brentq
    from scipy.special import gammainccinv, gammaincinv, gammaln, ndtr

    tail = 1 - check_level(level)

    # G − H is Gaussian of variance 2V for V of that Gamma: an integral over V.
    # In its logarithm the integrand falls off on both sides, where equal steps are exact.
    least = gammaincinv(shape, _LEAST_TAIL)
    largest = gammainccinv(shape, _LEAST_TAIL)
    logs, step = np.linspace(np.log(least), np.log(largest), _NODES, retstep=True)
    v = np.exp(logs)
    weights = step * np.exp(shape * logs - v - gammaln(shape))

    def beyond(multiplier: float) -> float:
        return float(2 * (weights @ ndtr(-multiplier * np.sqrt(shape / v)))) - tail

    # Chebyshev's at the most
    return float(brentq(beyond, 0.0, 1 / np.sqrt(tail), xtol=1e-10))


def sidak_multiplier(queries: int, level: float = 0.95) -> float:
    """A multiplier that covers `queries` jointly Gaussian answers whatever their correlation.

    Šidák's inequality: centred Gaussians all stay within their bounds at least as often as
    independent ones would.
    """
    require(
        queries >= 1,
        "queries",
        queries,
        "must be >= 1",
        "ask at least one query",
    )

    from scipy.special import ndtri

    tail = -np.expm1(np.log(check_level(level)) / queries)

    return float(-ndtri(tail / 2))


def simultaneous_multiplier(
    sample_correlated_normals: Sampler,
    level: float = 0.95,
    draws: int = 20_000,
    rng: np.random.Generator | None = None,
) -> float:
    """Multiplier of the standard deviations that covers all answers at once.

    The `level` quantile of the largest absolute standardised error, estimated from above: the
    order statistic taken exceeds the true quantile with probability 0.99, whatever the law.
    Draws come in blocks, so that memory stays bounded.
    """
    check_level(level)
    if draws < 100:
        raise InvalidParameter("draws", draws, "must be >= 100", "simulate more")

    rng = np.random.default_rng() if rng is None else rng
    first = sample_correlated_normals(1, rng)
    block = max(1, _BLOCK_ENTRIES // max(1, first.shape[1]))
    parts = [np.abs(first).max(axis=1)]
    done = 1

    while done < draws:
        count = min(block, draws - done)
        parts.append(np.abs(sample_correlated_normals(count, rng)).max(axis=1))
        done += count

    return largest_error_quantile(np.concatenate(parts), level)


def upper_rank(draws: int, level: float) -> int:
    """Index of the order statistic that lies above the quantile with probability 0.99."""
    # scipy.stats takes most of a second to import
    from scipy.special import bdtr, bdtrik

    quantile = np.ceil(bdtrik(_SURE, draws, level))
    below = quantile - 1  # rounding may have put the quantile one too high
    rank = below if below >= 0 and bdtr(below, draws, level) >= _SURE else quantile
    return int(min(draws - 1, rank))


def largest_error_quantile(errors: FloatArray, level: float = 0.95) -> float:
    """The same order statistic of simulated errors, for noise of any law.

    Errors of several answers stand in columns; the largest of their quantiles is given.
    """
    rank = upper_rank(len(errors), check_level(level))
    return float(np.partition(errors, rank, axis=0)[rank].max())


def balanced_share(
    together: Callable[[float], float],
    alone: Callable[[float], float],
    tests: int,
    alarm: float,
    least: float,
) -> float:
    """The share of an alarm that answers held together have where they are as wide as tests.

    The rest is shared evenly by so many tests; `together` and `alone` give the standard errors that
    hold the answers, and a test, at a level. Neither side has less than the `least` share.
    """
    low = least
    high = 1 - least
    for _ in range(_HALVINGS):
        share = (low + high) / 2
        if together(1 - share * alarm) > alone(1 - (1 - share) * alarm / tests):
            low = share
        else:
            high = share

    return (low + high) / 2
