"""Impossible cells: answered by zero without error, and of help to all other answers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, norm
from test_planning_release import repeated

import noisewright as nw
from noisewright.planning.central import CentralPlan
from noisewright.privacy.budget import Privacy

ATTRIBUTES = (
    nw.Categorical("age", ("child", "adult", "old")),
    nw.Categorical("work", ("none", "employed", "retired")),
    nw.Categorical("region", tuple("abcdefgh")),
)
SPEC = {"queries": [{"marginal": ["age", "work"]}, {"marginals": 1}]}


def made(zeros: bool, privacy: Privacy, mechanism: str = "auto") -> CentralPlan:
    impossible = [{"age": ["child"], "work": ["employed", "retired"]}] if zeros else []
    domain = nw.Domain(ATTRIBUTES, impossible=impossible)
    return nw.plan(nw.Workload.from_spec(SPEC, domain), privacy, mechanism=mechanism)


@pytest.mark.parametrize("mechanism", ["residual", "gaussian-strategy", "laplace-strategy"])
def test_known_zeros_are_exact_and_help(mechanism: str) -> None:
    """2,000 releases; the bands of a case have a false-alarm rate of 1e-6."""
    pure = mechanism == "laplace-strategy"
    privacy = Privacy(epsilon=1) if pure else Privacy(rho=0.1)
    with_zeros, without = made(True, privacy, mechanism), made(False, privacy, mechanism)
    x = np.random.default_rng(0).integers(0, 50, size=(3, 3, 8))
    x[0, 1:] = 0
    labels = with_zeros.labels()
    empty = [k for k, label in enumerate(labels) if "child" in label and "work = " in label
             and "none" not in label]  # fmt: skip
    assert len(empty) == 2
    assert with_zeros.variances[empty].max() == 0
    assert (with_zeros.variances <= without.variances * (1 + 1e-6)).all()
    assert with_zeros.variances.sum() < 0.98 * without.variances.sum()
    errors = repeated(with_zeros, x, seed=3) - with_zeros.plain_workload.matvec(x.ravel())
    np.testing.assert_allclose(errors[:, empty], 0, atol=1e-6)
    open_ = with_zeros.variances > 0
    alarm = 1e-6 / (2 * open_.sum())
    z = np.sqrt(len(errors)) * errors.mean(axis=0)[open_] / np.sqrt(with_zeros.variances[open_])
    assert np.abs(z).max() < norm.isf(alarm / 2)
    if not pure:
        ratio = errors.var(axis=0, ddof=1)[open_] / with_zeros.variances[open_]
        band = chi2.ppf([alarm / 2, 1 - alarm / 2], len(errors) - 1) / (len(errors) - 1)
        assert band[0] < ratio.min()
        assert ratio.max() < band[1]
