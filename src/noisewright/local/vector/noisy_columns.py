"""The local matrix mechanism [003]: every person sends a noisy column of a strategy matrix.

With C the centred columns, z the noise of variance σ² per coordinate and Λ = CCᵀ/n + σ²I, the score
is s = 1 + CᵀΛ⁻¹(y − mean column): X = 11ᵀ + CᵀΛ⁻¹C, and the covariance of x̂ is the same for every
data set, N σ² X⁺ CᵀΛ⁻²C X⁺.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import TooLarge, require
from noisewright.local.analysis.grams import table_gram
from noisewright.local.analysis.information import DenseInformation, Information
from noisewright.local.fixedpoint import check_epsilon
from noisewright.local.mechanism import LocalMechanism, LocalProblem
from noisewright.local.randomizer.laws import Grid
from noisewright.local.randomizer.specification import Nodes
from noisewright.local.storage import Stored
from noisewright.local.strategy import Arrays, Settings, Strategy, check_dense
from noisewright.local.vector.codebook import (
    factor_columns,
    largest_distance,
    whole_columns,
)
from noisewright.norm.l1_search import signed_identity
from noisewright.privacy.exact.rounding import number, probability
from noisewright.privacy.noise.law import LawName, NoiseLaw
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.calibration import calibrate
from noisewright.workload.base import Workload
from noisewright.workload.kinds.atoms import Identity
from noisewright.workload.linear.gram import Gram

_MANY_CHOICES = 256
"""Cells up to which a factorization and the queries themselves are tried as columns too."""

_SEARCHED = 1024  # cells up to which sums are searched for: some ten seconds there
_MOST_COORDINATES = 2**16
"""Of a report: half a megabyte."""

_MOST_NUMBERS = 2**22
"""Of all columns in a client's specification: some 64 MiB of text at most."""

_FARTHEST = 2**50
"""Beyond this a coordinate cannot be an honest report."""


@dataclass(frozen=True, eq=False)
class VectorStrategy(Strategy):
    """A whole-number column per type, and exact noise on each of its coordinates.

    Without δ the noise is discrete Laplace for the largest ℓ1 distance between columns; with δ it
    is an exactly rounded Gaussian for the largest ℓ2 distance.
    """

    columns: IntArray
    epsilon: float
    delta: float = 0.0
    scale: float | None = None
    """Of the noise; the least that keeps ε and δ unless given."""

    kind = "vector"

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        c = self.columns
        shown = f"{self.columns.dtype} {self.columns.shape}"
        require(
            c.dtype == np.int64
            and c.ndim == 2
            and 0 not in c.shape
            and len(c) <= _MOST_COORDINATES,
            "columns",
            shown,
            "must be whole numbers",
        )

        # −2^63 is its own magnitude
        require(
            max(int(c.max()), -int(c.min())) < _FARTHEST // 2,
            "columns",
            shown,
            f"must hold numbers below {_FARTHEST // 2}",
        )
        require(
            not (c == c[:, :1]).all(),
            "columns",
            shown,
            "must differ",
            "ask more than totals",
        )

        if self.delta != 0:
            probability("delta", self.delta, "0 stands for pure privacy")

    @property
    def size(self) -> int:  # type: ignore[override]
        """Number of types."""
        return int(self.columns.shape[1])

    @cached_property
    def distance(self) -> float:
        """Largest distance between columns, in the norm that the noise is for."""
        return largest_distance(self.columns, 1 if self.delta == 0 else 2)

    @cached_property
    def law(self) -> NoiseLaw:
        """The noise on every coordinate."""
        if self.scale is not None:
            name: LawName = "rounded-gaussian" if self.delta else "discrete-laplace"
            return NoiseLaw(name, self.scale)

        promise = Privacy(self.epsilon, self.delta or None, neighbours="replace-one")
        return calibrate(promise, **{"l2" if self.delta else "l1": self.distance})

    def express(self, nodes: Nodes) -> int:
        if self.columns.size > _MOST_NUMBERS:
            raise TooLarge(
                f"{self.columns.size} coordinates of {self.size} types are too many for a client's "
                f"specification (limit {_MOST_NUMBERS}); choose another mechanism"
            )
        return nodes.add(
            Grid(
                columns=tuple(map(tuple, self.columns.T.tolist())),
                law="rounded-gaussian" if self.delta else "discrete-laplace",
                scale=_fraction(self.law.scale),
                epsilon=_fraction(self.epsilon) if self.delta else None,
            )
        )

    # --- analysis -----------------------------------------------------------------------------

    @cached_property
    def _unit(self) -> float:
        """Noise deviation, by which everything is scaled to stay near one."""
        return self.law.standard_deviation

    @cached_property
    def _centred(self) -> tuple[FloatArray, FloatArray]:
        """C and Λ⁻¹C in units of the noise."""
        c = (self.columns - self.columns.mean(axis=1, keepdims=True)) / self._unit
        spread = c @ c.T / self.size + np.eye(len(c))
        return c, np.linalg.solve(spread, c)

    def score(self, tally: IntArray, people: int) -> FloatArray:
        """Σ s from the sum of the vectors."""
        centred = (tally - people * self.columns.mean(axis=1)) / self._unit
        return np.asarray(people + self._centred[1].T @ centred)

    @cached_property
    def information(self) -> Information:
        """X = 11ᵀ + CᵀΛ⁻¹C."""
        c, weighted = self._centred
        return DenseInformation(1.0 + c.T @ weighted)

    @cached_property
    def _noise_matrix(self) -> FloatArray:
        weighted = self._centred[1]
        return weighted.T @ weighted

    def moment(self, histogram: FloatArray) -> FloatArray:
        """X Diag(x) X + N CᵀΛ⁻²C."""
        x = self.information.dense()
        return np.asarray((x * histogram) @ x + histogram.sum() * self._noise_matrix)

    def energy(self, quadratic: FloatArray) -> FloatArray:
        """(XSX)_uu + tr(S CᵀΛ⁻²C)."""
        x = self.information.dense()
        signal = np.einsum("uv,vw,wu->u", x, quadratic, x, optimize=True)
        return np.asarray(signal + np.sum(quadratic * self._noise_matrix))

    @cached_property
    def _unit_covariance(self) -> FloatArray:
        half = self.information.solve(self._noise_matrix)
        return self.information.solve(half.T)

    def covariance(self, histogram: FloatArray) -> FloatArray:
        """The same for every data set of as many people."""
        return np.asarray(histogram.sum() * self._unit_covariance)

    def type_variances(self, gram: Gram) -> FloatArray:
        """The same for every type."""
        total = float(np.sum(gram.matvec(self._unit_covariance).diagonal()))
        return np.full(self.size, total)

    def beside(self) -> tuple[Settings, Arrays]:
        return {"delta": self.delta}, {}

    @classmethod
    def restored(cls, stored: Stored) -> Self:
        law = stored.node(Grid)
        columns = np.array(law.columns, dtype=np.int64).T
        delta = float(number("delta", stored.settings["delta"]))
        return cls(columns, stored.epsilon, delta, float(law.spread))


def _fraction(value: float) -> tuple[str, str]:
    p, q = Fraction(value).as_integer_ratio()
    return str(p), str(q)


def matrix_l2(workload: Workload, epsilon: float, delta: float) -> VectorStrategy:
    """Gaussian noise on the columns of the least-error factorization."""
    columns = factor_columns(workload)
    largest = largest_distance(columns, 2)
    return VectorStrategy(
        whole_columns(columns, largest), check_epsilon(epsilon), float(delta)
    )


def matrix_l1(workload: Workload, epsilon: float) -> VectorStrategy:
    """Laplace noise on the best of a few strategies: cells with sums, queries, factorization."""
    check_epsilon(epsilon)
    check_dense(workload.size)
    gram = table_gram(workload)
    strategies = []

    for columns in _l1_choices(workload, gram):
        largest = largest_distance(columns, 1)
        if largest > 0:
            strategy = VectorStrategy(whole_columns(columns, largest), epsilon)
            if strategy.information.full_rank or _reaches(strategy, workload):
                strategies.append(strategy)

    return min(strategies, key=lambda strategy: strategy.worst_variance(gram))


def _l1_choices(workload: Workload, gram: Gram) -> list[FloatArray]:
    n = workload.size
    choices = [Identity(n).dense()]
    if n <= _SEARCHED:
        choices.append(signed_identity(gram, (n,)).strategy)
    else:
        choices += [_haar(n, 1.0), _haar(n, 0.7)]

    if n <= _MANY_CHOICES:
        choices.append(factor_columns(workload))
        if workload.queries <= 4 * n:
            choices.append(workload.dense())

    return choices


def _haar(n: int, decay: float) -> FloatArray:
    """Differences of halves of nested blocks, finer ones weighted by powers of `decay`."""
    rows = []
    width = 1 << (n - 1).bit_length()
    weight = 1.0

    while width > 1:
        for start in range(0, n, width):
            row = np.zeros(n)
            row[start : start + width // 2] = weight
            row[start + width // 2 : start + width] = -weight
            rows.append(row)
        width = width // 2
        weight = weight * decay

    return np.array(rows)


def _reaches(strategy: VectorStrategy, workload: Workload) -> bool:
    from noisewright.errors import OutOfReach

    try:
        strategy.check_reach(workload)
    except OutOfReach:
        return False

    return True


def _plan_gaussian(problem: LocalProblem) -> VectorStrategy:
    assert problem.delta is not None  # an entry that needs one is not planned without
    return matrix_l2(problem.questions, problem.epsilon, problem.delta)


MATRIX_L1 = LocalMechanism(
    "matrix-l1",
    "a vector with Laplace noise",
    lambda problem: matrix_l1(problem.questions, problem.epsilon),
    slow=lambda cells: cells > 128,
)

MATRIX_L2 = LocalMechanism(
    "matrix-l2",
    "a vector with Gaussian noise",
    _plan_gaussian,
    needs_delta=True,
    slow=lambda cells: cells > 256,
)
