"""Who answers is not everybody: estimates weighted to public margins, with their variance."""

from __future__ import annotations

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import InvalidParameter
from noisewright.workload.base import Workload

_CLEAR = 4.0
"""Standard errors by which a stratum must be clear of nobody, for a ratio to have a law."""


def post_stratified(
    workload: Workload,
    cells: FloatArray,
    covariance: FloatArray,
    strata: IntArray,
    margins: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Answers in the population, and their variances.

    `strata` names the stratum of every cell, `margins` how many people of the population are in
    each. Within a stratum, those who answered stand for those who did not: x_c becomes
    M_s x_c / x_s, a ratio of estimates, whose variance follows from their `covariance` by the delta
    method.
    """
    count = len(margins)
    estimates = np.bincount(strata, weights=cells, minlength=count)
    member = (strata[None, :] == np.arange(count)[:, None]).astype(np.float64)
    variances = np.einsum("sc,cd,sd->s", member, covariance, member)
    errors = np.sqrt(np.maximum(variances, 0.0))

    wanted = margins > 0
    unclear = wanted & (estimates < np.maximum(_CLEAR * errors, 1e-9))
    if unclear.any():
        raise InvalidParameter(
            "margins",
            f"{int(unclear.sum())} strata",
            f"have an estimate below {_CLEAR:g} standard errors of it: too few people answered",
            "merge strata, or wait for more reports",
        )

    # f_s = M_s/x_s, and d(M_s x_c / x_s) = f_s (dx_c − x_c / x_s dx_s).
    inverse = np.where(wanted, 1 / np.where(wanted, estimates, 1.0), 0.0)
    factors = (margins * inverse)[strata]
    shares = inverse[strata] * cells
    within = (strata[:, None] == strata[None, :]) * shares[:, None]
    gradient = factors[:, None] * (np.eye(len(cells)) - within)
    variance = workload.row_quadratics(gradient @ covariance @ gradient.T)

    return workload.matvec(cells * factors), np.maximum(variance, 0.0)
