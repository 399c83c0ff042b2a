"""Intervals around noisy answers: exact per query, simultaneous over many by simulation.

The noise of an answer is known in law before any data is read, so an interval here is a statement
about noise alone: `answer ± half-width` covers the true answer with the stated probability.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from noisewright.errors import InvalidParameter

FloatArray = npt.NDArray[np.float64]
Sampler = Callable[[int, np.random.Generator], FloatArray]
"""Draws `(count, queries)` joint errors, every query scaled to unit variance (or all zero)."""

_SURE = 0.99
_BLOCK_ENTRIES = 2**22


def check_level(level: float) -> float:
    """Refuse coverage levels outside (0, 1)."""
    if not 0 < level < 1:
        raise InvalidParameter("level", level, "must lie in (0, 1)", "use 0.95 for 95 %")
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


def sidak_multiplier(queries: int, level: float = 0.95) -> float:
    """A multiplier that covers `queries` jointly Gaussian answers whatever their correlation.

    Šidák's inequality: centred Gaussians all stay within their bounds at least as often as
    independent ones would.
    """
    if queries < 1:
        raise InvalidParameter("queries", queries, "must be >= 1", "ask at least one query")
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
    parts, done = [np.abs(first).max(axis=1)], 1
    while done < draws:
        count = min(block, draws - done)
        parts.append(np.abs(sample_correlated_normals(count, rng)).max(axis=1))
        done += count
    return largest_error_quantile(np.concatenate(parts), level)


def _upper_rank(draws: int, level: float) -> int:
    """Index of the order statistic that lies above the quantile with probability 0.99."""
    from scipy.stats import binom

    return int(min(draws - 1, binom.ppf(_SURE, draws, level)))


def largest_error_quantile(errors: FloatArray, level: float = 0.95) -> float:
    """The same order statistic from simulated largest errors, for noise of any law."""
    return float(np.sort(np.asarray(errors))[_upper_rank(len(errors), check_level(level))])
