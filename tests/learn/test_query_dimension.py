"""Bounds on the statistical query dimension, and the norm over signs that they rest on."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import noisewright as nw
from noisewright.errors import InvalidParameter, NoisewrightError
from noisewright.learn import QueryDimension
from noisewright.learn.queries.query_dimension import sign_norm


@pytest.mark.parametrize("seed", range(6))
def test_the_norm_is_that_of_all_signs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((rng.integers(1, 6), rng.integers(1, 9)))
    exact = max(
        np.abs(matrix @ g).sum() for g in product((-1, 1), repeat=matrix.shape[1])
    )
    value, signs = sign_norm(matrix)
    assert exact <= value <= exact * (1 + 1e-9)
    assert np.abs(matrix @ signs).sum() == pytest.approx(exact)


def test_large_tables_are_put_together_from_small_ones() -> None:
    matrix = np.random.default_rng(7).standard_normal((3, 14))
    signs = 2.0 * (np.arange(2**14)[:, None] >> np.arange(14) & 1) - 1
    assert sign_norm(matrix)[0] == pytest.approx(
        np.abs(matrix @ signs.T).sum(axis=0).max()
    )


def _by_definition(found: QueryDimension) -> float:
    """1/max_f Σ_v|Σ_x π_v(λ_v(x) − μ(x))f(x)| over all functions of labelled points."""
    table, d, t = found.concepts.table, found.marginal, found.lean
    mu = np.concatenate([(d + t) / 2, (d - t) / 2])
    lam = np.hstack([d * (table > 0), d * (table < 0)])
    u = found.prior[:, None] * (lam - mu)
    assert mu.min() >= -1e-15
    # every hypothesis
    assert np.minimum(mu[: len(d)], mu[len(d) :]).sum() > found.alpha
    return 1 / max(np.abs(u @ f).sum() for f in product((-1, 1), repeat=len(mu)))


@pytest.mark.parametrize(
    ("text", "alpha"), [("thresholds:5", 0.1), ("parities:2", 0.3)]
)
def test_the_lower_bound_is_that_of_the_definition(text: str, alpha: float) -> None:
    found = nw.learn.sq_dimension(text, alpha)
    assert found.lower_bound <= _by_definition(found) * (1 + 1e-9)
    assert found.proves() == pytest.approx(found.lower_bound)
    assert found.lower_bound <= found.upper_bound


def test_parities_have_the_dimension_of_their_bent_functions() -> None:
    """At α near ½ labels are random and no sign pattern correlates with all 16 above a quarter."""
    found = nw.learn.sq_dimension("parities:4", 0.499)
    assert found.lower_bound >= 4 * (1 - 1e-6)
    assert nw.learn.sq_dimension("parities:4", 0.1).lower_bound >= 20 * (1 - 1e-6)


def test_a_proof_of_other_distributions_is_refused() -> None:
    found = nw.learn.sq_dimension("thresholds:3", 0.2)
    for changes in (
        {"marginal": found.marginal / 2},
        {"prior": found.prior * 2},
        {"lean": found.marginal * 1.5},
    ):
        fields = {
            **{f: getattr(found, f) for f in found.__dataclass_fields__},
            **changes,
        }
        with pytest.raises(InvalidParameter):
            QueryDimension(**fields).proves()


def test_what_is_too_large_or_no_accuracy_is_refused() -> None:
    for source, alpha in (
        ("thresholds:21", 0.1),
        ("thresholds:4", 0.5),
        ("thresholds:4", 0.0),
    ):
        with pytest.raises(NoisewrightError):
            nw.learn.sq_dimension(source, alpha)
