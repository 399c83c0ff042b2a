"""The best ε-LDP strategy on a small domain as one convex program over all two-valued reports.

Some best strategy reports sets S of cells with chances μ_S v_S, v_S = e^ε on S and 1 elsewhere.
With Z_S = μ_S V_S, V_S what a report adds to the answers, W = VQ is linear in Z and the second
moment of a person of type u, Σ_S v_S(u)‖Z_S‖²/μ_S, is jointly convex in Z and μ: a second-order
cone program.
Queries count up to a constant, which exact rational arithmetic takes off here.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import cvxpy as cp
import numpy as np

_CLOSE = 1e-8


@dataclass(frozen=True)
class Optimum:
    """Bounds on the least variance per person: one of a strategy, and one by weak duality."""

    above: float
    below: float


def asked(matrix):
    """Rows less their first entry, exactly, then less their mean: all that people differ in."""
    rows = [
        [float(Fraction(float(x)) - Fraction(float(row[0]))) for x in row]
        for row in matrix
    ]
    differences = np.array(rows)
    return differences - differences.mean(axis=1, keepdims=True)


def optimum(matrix, epsilon, worst=True):
    """The least worst-case (or mean) variance over all strategies with unbiased linear answers."""
    centred = asked(matrix)
    unit = float(np.linalg.norm(centred))
    if unit == 0.0:
        return Optimum(0.0, 0.0)
    _, s, vt = np.linalg.svd(centred / unit, full_matrices=False)
    # the rest is below the last digits that are compared
    w = s[s > 1e-10, None] * vt[s > 1e-10]
    patterns = _patterns(w.shape[1], epsilon)
    above, below = np.inf, -np.inf
    # the same program in other units, where digits are short
    for power in (0.5, 0.25, 0.0, 0.75):
        solution = _solved(w, patterns, worst, s[s > 1e-10] ** power)
        if solution is not None:
            weights, pieces, *duals = solution
            above = min(above, _variance(w, patterns, weights, pieces, worst))
            below = max(below, _dual(w, patterns, *duals))
        if above - below <= _CLOSE * above:
            break
    return Optimum(unit**2 * above, unit**2 * below)


def _patterns(n, epsilon):
    """Every set but the empty one and the whole, and one row that says nothing."""
    sets = np.array(list(product((0.0, 1.0), repeat=n)))[:-1]
    return 1.0 + np.expm1(epsilon) * sets


def _solved(w, v, worst, units):
    """μ and Z, and the duals of variances, columns and answers, as a cone solver finds them."""
    count, n = v.shape
    mass = v.mean(axis=1)
    share, pieces, square = (
        cp.Variable(count),
        cp.Variable((count, len(w))),
        cp.Variable(count),
    )
    scaled = v / mass[:, None]
    needed = (w**2).sum(axis=0)
    level = cp.Variable()
    limit = level * np.ones(n) if worst else level
    moments = scaled.T @ square - needed
    held = moments <= limit if worst else cp.sum(moments) / n <= limit
    total = scaled.T @ share == 1
    cone = cp.SOC(
        share + square,
        cp.hstack(
            [2 * pieces @ np.diag(units), cp.reshape(share - square, (count, 1), "F")]
        ),
        axis=1,
    )
    answered = scaled.T @ pieces == (w / units[:, None]).T
    problem = cp.Problem(cp.Minimize(level), [held, total, answered, cone])
    if not _solve(problem):
        return None
    prior = np.maximum(held.dual_value, 0.0) if worst else np.ones(n)
    duals = prior / prior.sum(), total.dual_value, answered.dual_value / units
    return share.value / mass, pieces.value * units / mass[:, None], *duals


def _solve(problem):
    """As closely as the solver can; whatever it says is checked afterwards."""
    for digits in (1e-12, 1e-10, 1e-8):
        told = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), digits)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                problem.solve(solver=cp.CLARABEL, max_iter=200, **told)
            return all(variable.value is not None for variable in problem.variables())
        except cp.SolverError:
            continue
    return False


def _variance(w, v, weights, pieces, worst):
    """What the strategy really costs, after both constraints are met to the last digit."""
    mu = np.maximum(weights, 1e-14 * weights.max())
    for _ in range(5):
        step = mu * (
            v @ np.linalg.lstsq((v * mu[:, None]).T @ v, 1.0 - mu @ v, rcond=None)[0]
        )
        shrinking = step < 0
        mu = (
            mu
            + min(1.0, 0.9 * np.min(-mu[shrinking] / step[shrinking], initial=np.inf))
            * step
        )
    q = mu[:, None] * v
    answers = np.where(mu[:, None] > 1e-9 * mu.max(), pieces / mu[:, None], 0.0).T
    # The least change, weighted by chances, that makes the answers unbiased.
    answers = (
        answers + (w - answers @ q) @ np.linalg.pinv((v * mu[:, None]).T @ v) @ v.T
    )
    variances = (answers**2).sum(axis=0) @ q - ((answers @ q) ** 2).sum(axis=0)
    off = max(np.abs(answers @ q - w).max(), np.abs(q.sum(axis=0) - 1.0).max())
    cost = float(variances.max() if worst else variances.mean())
    return cost if off < 1e-11 else np.inf  # nothing is proved by what is no strategy


def _dual(w, v, prior, prices, slopes):
    """tr(WΓ)²/(4κ·1ᵀλ) − Σπ‖We_u‖², with ‖Γᵀv‖² ≤ 4κ(λᵀv)(πᵀv) for every v: weak duality."""
    prior = np.maximum(prior, 1e-12)
    prior = prior / prior.sum()
    prices = np.sign(prices.sum()) * prices / np.abs(prices).sum()
    prices = prices + max(0.0, 1e-12 - float((v @ prices).min()))
    kappa = (
        float((((v @ slopes) ** 2).sum(axis=1) / ((v @ prior) * (v @ prices))).max())
        / 4
    )
    gained = float(np.trace(w @ slopes)) ** 2 / (4 * kappa * float(prices.sum()))
    floor = gained - float(prior @ (w**2).sum(axis=0))
    return floor if np.isfinite(floor) else -np.inf
