"""Strategies given as a list of reports: a matrix of whole-number weights, and another decoding.

A randomizer that somebody brings: their matrix of chances, verified in whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import InvalidParameter, require
from noisewright.local.fixedpoint import check_epsilon, floor_times
from noisewright.local.mechanism import LocalMechanism, LocalProblem
from noisewright.local.randomizer.laws import Weigh
from noisewright.local.randomizer.specification import Nodes
from noisewright.local.storage import Stored, listable_strategy, stored_description
from noisewright.local.strategy import Arrays, IndexStrategy, Settings, Strategy

UNIT = 1 << 62
"""Every column of weights sums to this."""

_TOLERANCE = 1e-9
"""How far given chances may be from private and from summing to one: rounding of long sums."""

_SNAP = 1e-7
"""Of a chance: what lies as near to an extreme of its row is taken to be that extreme."""


@dataclass(frozen=True, eq=False)
class MatrixStrategy(IndexStrategy):
    """Explicit chances Q[o,u] = weights[o,u] / 2^62."""

    weights: IntArray
    epsilon: float
    estimate_prior: FloatArray | None = field(default=None)

    kind = "matrix"

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        w = self.weights
        require(
            w.dtype == np.int64 and w.ndim == 2 and 0 not in w.shape and w.min() > 0,
            "weights",
            f"{w.dtype} array of shape {w.shape}",
            "must be positive whole numbers",
        )

        # A plan may come from anybody: sums of chances must not be right only modulo 2^64.
        require(
            (w.sum(axis=0) == UNIT).all()
            and w.sum(axis=0, dtype=np.float64).max() <= 2.0 * UNIT,
            "weights",
            "a column",
            "must sum to 2^62 exactly",
        )

        self.check_loss()
        if self.estimate_prior is not None:
            object.__setattr__(
                self, "estimate_prior", check_prior(self.estimate_prior, w.shape[1])
            )

    @classmethod
    def from_chances(
        cls, chances: npt.ArrayLike, epsilon: float, prior: FloatArray | None = None
    ) -> MatrixStrategy:
        """Round a matrix of chances (ε-LDP and columns summing to one, to 1e-9) to whole numbers.

        Each row becomes low + whole steps up to floor(e^ε·low); what rounding leaves of each
        column goes to one slack row, made just large enough to be ε-LDP itself.
        """
        q = _checked_chances(chances, check_epsilon(epsilon))
        share = 2.0**-52

        for _ in range(50):
            weights = _rounded(q * (1.0 - share), epsilon)
            slack = UNIT - weights.sum(axis=0)
            if not slack.any():
                return cls(weights, epsilon, prior)

            low = slack.min()
            if low > 0 and slack.max() <= floor_times(epsilon, np.array([low]))[0]:
                return cls(np.vstack([weights, slack]), epsilon, prior)

            share *= 2

        raise InvalidParameter(
            "chances", "a column", "must sum to one", "normalise the columns"
        )

    @property
    def size(self) -> int:  # type: ignore[override]
        """Number of types."""
        return int(self.weights.shape[1])

    def express(self, nodes: Nodes) -> int:
        return nodes.add(Weigh.of(self.weights))

    @property
    def prior(self) -> FloatArray:
        """The distribution over types for which the estimate is best."""
        if self.estimate_prior is not None:
            return self.estimate_prior
        return np.full(self.size, 1.0 / self.size)

    def rows(self, start: int, stop: int) -> FloatArray:
        """Chances of reports `start` to `stop`."""
        return self.weights[start:stop] / UNIT

    def beside(self) -> tuple[Settings, Arrays]:
        return {}, {} if self.estimate_prior is None else {"prior": self.estimate_prior}

    @classmethod
    def restored(cls, stored: Stored) -> Self:
        prior = None
        if "prior" in stored.arrays:
            prior = stored.array("prior", np.float64, (stored.cells,))

        return cls(stored.node(Weigh).matrix, stored.epsilon, prior)


def check_prior(prior: npt.ArrayLike, size: int) -> FloatArray:
    """A positive distribution over types."""
    try:
        values = np.asarray(prior, dtype=np.float64)
    except (TypeError, ValueError):
        rule = f"must be {size} numbers, the share of people with each type"
        raise InvalidParameter("prior", type(prior).__name__, rule) from None

    require(
        values.shape == (size,) and np.isfinite(values).all() and values.min() > 0,
        "prior",
        f"array of shape {values.shape}",
        "must be positive",
    )

    with np.errstate(over="ignore"):
        total = values.sum()

    # A prior that was read from a plan file stays as it is, to the last bit.
    shares = values if abs(total - 1.0) < 1e-14 * size else values / total
    require(
        np.isfinite(total) and shares.min() >= np.finfo(np.float64).tiny,
        "prior",
        f"array of shape {values.shape}",
        "is too uneven",
    )

    return shares


def _checked_chances(chances: npt.ArrayLike, epsilon: float) -> FloatArray:
    q = np.asarray(chances, dtype=np.float64)
    require(
        q.ndim == 2 and 0 not in q.shape and np.isfinite(q).all() and q.min() >= 0,
        "chances",
        f"array of shape {q.shape}",
        "must be a matrix of finite chances >= 0",
    )
    require(
        np.abs(q.sum(axis=0) - 1.0).max() <= _TOLERANCE,
        "chances",
        "a column",
        "must sum to one",
        "normalise the columns",
    )

    q = q[q.max(axis=1) > 0]
    low = q.min(axis=1)
    require(
        not (q.max(axis=1) > low * np.exp(epsilon) * (1 + _TOLERANCE)).any(),
        "chances",
        "a row",
        f"must have max <= e^{epsilon} min",
        "project it, or raise epsilon",
    )

    return np.asarray(q)


def _rounded(q: FloatArray, epsilon: float) -> IntArray:
    """Whole weights row by row, snapped to the two extreme values where they are that close."""
    low = np.floor(q.min(axis=1) * UNIT).astype(np.int64)
    q = q[low > 0]
    low = low[low > 0]
    lows = low[:, None]
    highs = floor_times(epsilon, low)[:, None]

    least = q.min(axis=1)[:, None]
    near_low = q <= least * (1 + _SNAP * epsilon)
    near_high = q >= least * np.exp(epsilon) * (1 - _SNAP * epsilon)

    nearest = np.rint(q * UNIT).astype(np.int64)
    inner = np.clip(nearest, lows, highs)
    raised = np.where(near_high, highs, inner)

    return np.where(near_low, lows, raised)


@dataclass(frozen=True, eq=False)
class Decoded(IndexStrategy):
    """A strategy with listed reports whose estimate is the best for people spread as `guess`.

    Clients do the same as before, so privacy is untouched, and estimates stay unbiased whatever
    the data are: the guess only decides for which data they are best.
    """

    inner: IndexStrategy
    guess: FloatArray

    kind = "decoded"

    def __post_init__(self) -> None:
        object.__setattr__(self, "guess", check_prior(self.guess, self.inner.size))

    @property
    def size(self) -> int:  # type: ignore[override]
        """Number of types."""
        return self.inner.size

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        """That of the reports."""
        return self.inner.epsilon

    @property
    def prior(self) -> FloatArray:
        """The guess."""
        return self.guess

    def express(self, nodes: Nodes) -> int:
        # the guess is the estimator's, not the client's
        return self.inner.express(nodes)

    def beside(self) -> tuple[Settings, Arrays]:
        settings, arrays = stored_description(self.inner)
        return {"strategy": settings}, {**arrays, "guess": self.guess}

    @classmethod
    def restored(cls, stored: Stored) -> Self:
        inner = stored.strategy(stored.settings["strategy"])
        guess = stored.array("guess", np.float64, (stored.cells,))
        return cls(listable_strategy(inner), guess)


# --- own chances ----------------------------------------------------------------------------------


NAME = "own-strategy"

_LARGEST = 1.5  # of an entry: what is more is no chance, however it was rounded
_ROUNDING = 1e-9
"""Of the budget: how far above it chances may spend in floats, before they are verified."""


def own_mechanism(chances: npt.ArrayLike) -> LocalMechanism:
    """The mechanism whose report o has the chance `chances[o, u]` where a person's value is u.

    Chances are rounded to whole numbers out of 2^62; what a report spends is recomputed from these,
    exactly, and refused above the budget.
    """

    def plan(problem: LocalProblem) -> Strategy:
        matrix = _oriented(chances, problem.cells)
        return MatrixStrategy.from_chances(matrix, _spent(matrix, problem.epsilon))

    return LocalMechanism(NAME, "a matrix of chances that was given", plan)


def _spent(matrix: FloatArray, budget: float) -> float:
    """What the chances spend, to be verified once they are whole numbers; never over the budget."""
    sent = matrix[matrix.max(axis=1) > 0]
    low = sent.min(axis=1, initial=1.0)
    require(
        low.min(initial=1.0) > 0,
        "strategy",
        "a report that some values never send",
        "is not private at any epsilon",
        "let every value send every report, however rarely",
    )

    spent = float(np.log((sent.max(axis=1) / low).max(initial=1.0)))
    if spent > budget * (1 + _ROUNDING):
        rule = f"is not kept by `strategy`, whose reports spend {spent:.9g}"
        raise InvalidParameter(
            "epsilon", budget, rule, "raise epsilon, or bring rows together"
        )

    return min(spent, budget) or budget


def _oriented(chances: npt.ArrayLike, cells: int) -> FloatArray:
    try:
        matrix = np.array(chances, dtype=np.float64)
    except (TypeError, ValueError):
        kind = type(chances).__name__
        raise InvalidParameter(
            "strategy", kind, "must be a matrix of numbers"
        ) from None

    shape = f"array of shape {matrix.shape}"
    if matrix.ndim != 2 or matrix.shape[1] != cells:
        remedy = "give one row per report and one column per value"
        if (
            matrix.ndim == 2
            and matrix.shape[0] == cells
            and np.allclose(matrix.sum(axis=1), 1)
        ):
            remedy += "; this looks like the transpose"
        raise InvalidParameter(
            "strategy", shape, f"must have one column per cell ({cells})", remedy
        )

    require(
        np.isfinite(matrix).all() and np.abs(matrix).max(initial=0.0) <= _LARGEST,
        "strategy",
        shape,
        "must hold chances, from 0 to 1",
    )

    by_columns = np.abs(matrix.sum(axis=0) - 1).max()
    require(
        by_columns <= 1e-6 or np.abs(matrix.sum(axis=1) - 1).max() >= 1e-6,
        "strategy",
        shape,
        "must have columns that sum to one; its rows do",
        "transpose it",
    )

    return matrix
