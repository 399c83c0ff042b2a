"""Sums of cells beside the cells, under carry noise: A = [I; T]·Diag(1 + 1ᵀT)⁻¹ with T ≥ 0.

On long lists of cells a few sums are worth their share of the budget. Carries, for the answers of
generalised least squares under the noise so far, and rows, by descent for given noise, are improved
in turn, and each step lowers the same error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.carry.carries import Carries
from noisewright.central.carry.means import (
    CoreWidths,
    log_mean,
    powers,
)
from noisewright.central.carry.search import best_carries
from noisewright.norm.l1 import WeightedIdentity
from noisewright.norm.l1_search import intervals
from noisewright.workload.linear.tensor import mean_error

LEAST_SUMMED = 80
"""Cells from which sums of them are searched: at 64 they pay a thousandth."""

MOST_SUMMED = 1024
"""Cells up to which they are."""

LEAST_WEIGHED = 24
"""The same for other means than squares: at 64 they pay a fiftieth of the largest error."""

_START = 0.3  # weight of a sum, in weights of a cell
_FIRST, _MORE = (
    2,
    6,
)  # rounds of every start, and of the best of them
_WEIGHED = 2  # rounds for other means than squares
# power of variances by which queries are weighed for the largest error
_LIKE_LARGEST = 32.0
_RACED = 512  # cells up to which several starts race
_STEPS = 30  # of descent in a round
_STEPS_FOR_MEAN = 20  # the same, for every power of other means
# times the error without sums: a start that is worse by then is given up
_HOPEFUL = 1.05
_NEGLIGIBLE = 1e-6  # weight of a cell in a row that is left out
_FINE = 64.0  # grid steps per scale of the noise, while rows are searched
# of a cell in a sum, in weights of its own row, which then has a thousandth of its budget
_HEAVIEST = 1000.0
_BITS = 14  # of the largest integer of a row


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Generalised least squares for y₁ = x/s + η₁ and y₂ = T(x/s) + η₂, E ηηᵀ as given.

    y₂ − Ty₁ = η₂ − Tη₁ is noise alone, of variance V. What it tells of η₁, H = E η₁(η₂ − Tη₁)ᵀ, is
    taken off: x is s(y₁ − HV⁻¹(y₂ − Ty₁)), and a system is solved for the few sums only.
    """

    norms: FloatArray
    rows: FloatArray
    covariance: FloatArray

    @property
    def _of_cells(self) -> FloatArray:
        """E η₁η₁ᵀ."""
        cells = self.rows.shape[1]
        return self.covariance[:cells, :cells]

    @property
    def _mixed(self) -> FloatArray:
        """E η₁η₂ᵀ."""
        cells = self.rows.shape[1]
        return self.covariance[:cells, cells:]

    @cached_property
    def _cross(self) -> FloatArray:
        """H."""
        return self._mixed - self._of_cells @ self.rows.T

    @cached_property
    def _gain(self) -> FloatArray:
        """HV⁻¹."""
        cells = self.rows.shape[1]
        of_sums = self.covariance[cells:, cells:]
        variance = of_sums - self.rows @ self._cross - self._mixed.T @ self.rows.T
        symmetric = (variance + variance.T) / 2
        return np.asarray(np.linalg.solve(symmetric, self._cross.T).T)

    def variance(self, gram: FloatArray) -> float:
        """Of all answers together."""
        return self.slopes(gram)[0]

    @property
    def cells(self) -> FloatArray:
        """Covariances of what is said of all cells."""
        covariance = self._of_cells - self._gain @ self._cross.T
        return self.norms[:, None] * covariance * self.norms

    def variances(self, queries: FloatArray) -> FloatArray:
        """Of queries, one by one."""
        squares = np.einsum("ij,ij->i", queries @ self.cells, queries)
        return np.asarray(np.maximum(squares, 0.0))

    def recipes(self, queries: FloatArray) -> FloatArray:
        """What every query takes of y."""
        scaled = queries * self.norms
        of_sums = scaled @ self._gain
        return np.concatenate([scaled + of_sums @ self.rows, -of_sums], axis=1)

    def slopes(self, gram: FloatArray) -> tuple[float, FloatArray]:
        """The variance, and its derivatives by the rows T where s = 1 + 1ᵀT."""
        s = self.norms[:, None]
        h = self._cross
        x = self._gain

        # s·(M ∘ E η₁η₁ᵀ)·s less tr(HᵀSMSX), S = Diag(s) and X = HV⁻¹.
        plain = (gram * self._of_cells) @ self.norms
        image = gram @ (s * x)
        y = s * image
        value = float(self.norms @ plain - (h * y).sum())

        by_norms = 2 * (plain - (h * image).sum(axis=1))
        by_rows = 2 * ((self._of_cells @ y).T - (x.T @ y) @ h.T)

        return value, by_norms + by_rows

    def weights(self, gram: FloatArray) -> FloatArray:
        """C = RᵀR for the answers R = WS·[I + XT, −X] from y."""
        t = self.rows
        x = self._gain
        scaled = self.norms[:, None] * gram * self.norms
        y = scaled @ x
        square = x.T @ y
        mixed = y + t.T @ square
        first = scaled + y @ t + t.T @ mixed.T
        first = (first + first.T) / 2

        return np.block([[first, -mixed], [-mixed.T, square]])


@dataclass(frozen=True, eq=False)
class SumRows:
    """Rows T, and the covariance of carry noise on all rows at L1 sensitivity one and ε = 1."""

    rows: FloatArray
    covariance: FloatArray

    @classmethod
    def begun(cls, sums: FloatArray) -> SumRows:
        """From sums of cells, with independent noise."""
        return cls(_START * sums, 2.0 * np.eye(sum(sums.shape)))

    @property
    def order(self) -> IntArray:
        """Cells from the last to the first, as is best for cumulative queries, and then sums."""
        count, cells = self.rows.shape
        return np.concatenate(
            [
                np.arange(cells)[::-1],
                np.arange(cells, cells + count),
            ]
        )

    @property
    def answers(self) -> LeastSquares:
        """What is answered from all rows."""
        return LeastSquares(1 + self.rows.sum(axis=0), self.rows, self.covariance)

    def carries(self, gram: FloatArray) -> Carries:
        """The best ones for the answers that are given under the noise so far."""
        return best_carries(self.answers.weights(gram), self.order, _FINE)[1]

    def under(self, carries: Carries) -> SumRows:
        """With the noise of these carries."""
        covariance = (carries.covariance(_FINE).todense()) / _FINE**2
        return replace(self, covariance=covariance)

    def descended(self, gram: FloatArray) -> SumRows:
        """With rows after some steps towards the least variance of all queries together."""
        return self._descended(lambda answers: answers.slopes(gram), _STEPS)

    def descended_for_mean(
        self,
        queries: FloatArray,
        power: float,
    ) -> SumRows:
        """The same, towards the least mean of this power of the variances."""

        def objective(
            answers: LeastSquares,
        ) -> tuple[float, FloatArray]:
            value, shares = log_mean(answers.variances(queries), power)
            return value, answers.slopes(_weighed(queries, shares))[1]

        return self._descended(objective, _STEPS_FOR_MEAN)

    def _descended(
        self,
        objective: Callable[[LeastSquares], tuple[float, FloatArray]],
        steps: int,
    ) -> SumRows:
        """By L-BFGS, for the noise as it is."""
        from scipy.optimize import Bounds, minimize

        shape = self.rows.shape

        def value(flat: FloatArray) -> tuple[float, FloatArray]:
            error, slope = objective(replace(self, rows=flat.reshape(shape)).answers)
            return error, slope.ravel()

        result = minimize(
            value,
            self.rows.ravel(),
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(0.0, _HEAVIEST),
            options={"maxiter": steps},
        )
        return replace(self, rows=result.x.reshape(shape))

    def improved(
        self,
        gram: FloatArray,
        rounds: int,
    ) -> SumRows:
        """After so many rounds of carries for the rows, and rows for the carries."""
        design = self
        for _ in range(rounds):
            design = design.under(design.carries(gram)).descended(gram)
        return design.under(design.carries(gram))

    def used(self) -> SumRows:
        """Without rows that sum nothing."""
        kept = self.rows.max(axis=1) > _NEGLIGIBLE
        all_rows = np.concatenate([np.ones(self.rows.shape[1], dtype=np.bool_), kept])
        return SumRows(
            self.rows[kept],
            self.covariance[np.ix_(all_rows, all_rows)],
        )

    def on_grid(
        self,
        gram: FloatArray,
        epsilon: float,
        wanted: Mean | None = None,
    ) -> tuple[IntArray, Carries, FloatArray]:
        """The rows in integers, carries for this budget, and what cells have of both together.

        Carries are those for the Gram matrix, with widths for the mean that is wanted, if any.
        """
        whole = WeightedIdentity(self.rows).integers(_BITS)
        scale = float(whole.sum(axis=0).max()) / epsilon
        weights = whole.diagonal().astype(np.float64)
        sums = whole[len(weights) :] / weights
        answers = LeastSquares(1 / weights, sums, self.covariance * scale**2)

        _, carries = best_carries(answers.weights(gram), self.order, scale)
        if wanted:
            carries = wanted.widened(answers, carries, scale)

        exact = np.asarray(carries.covariance(scale).todense())
        return (
            whole,
            carries,
            replace(answers, covariance=exact).cells,
        )


@dataclass(frozen=True, eq=False)
class Mean:
    """Another mean of errors than that of squares, over queries."""

    queries: FloatArray
    norm: float

    def error(self, variances: FloatArray) -> float:
        """Of queries with these variances."""
        return mean_error(np.sqrt(variances), self.norm)

    def gram(self, variances: FloatArray) -> FloatArray:
        """Of queries that weigh as this mean, or one of high power, grows with their variances."""
        _, shares = log_mean(variances, min(_LIKE_LARGEST, self.norm / 2))
        return _weighed(self.queries, shares)

    def widened(
        self,
        answers: LeastSquares,
        carries: Carries,
        scale: float,
    ) -> Carries:
        """With cores as wide as is best for these answers."""
        for power in powers(self.norm):
            recipes = answers.recipes(self.queries)
            carries = CoreWidths(recipes, carries, scale).descended(power)
            exact = carries.covariance(scale).todense()
            answers = replace(answers, covariance=exact)
        return carries

    def rounds(self, sums: FloatArray) -> Iterator[tuple[float, SumRows, FloatArray]]:
        """Who takes cores back, for queries as they weigh; then rows and widths in turn."""
        gram = self.queries.T @ self.queries
        design = SumRows.begun(sums).improved(gram, 1)
        for _ in range(_WEIGHED):
            carries = design.carries(gram)
            design = design.under(carries)
            for power in powers(self.norm):
                design = design.descended_for_mean(self.queries, power)
                recipes = design.answers.recipes(self.queries)
                carries = CoreWidths(recipes, carries, _FINE).descended(power)
                design = design.under(carries)
            variances = design.answers.variances(self.queries)
            yield self.error(variances), design, gram
            gram = self.gram(variances)


def with_sums(
    gram: FloatArray,
    sizes: tuple[int, ...],
    plain: float,
) -> SumRows | None:
    """The best rows found, or None where none promises less variance than `plain`, without any."""
    starts = map(SumRows.begun, _starts(sizes))
    raced = [start.improved(gram, _FIRST) for start in starts]
    best = min(raced, key=lambda design: design.answers.variance(gram))
    if best.answers.variance(gram) > _HOPEFUL**2 * plain:
        return None

    best = best.improved(gram, _MORE).used()
    return best if len(best.rows) else None


def sums_for_mean(
    wanted: Mean,
    sizes: tuple[int, ...],
    plain: float,
) -> tuple[SumRows | None, FloatArray]:
    """The best rows found for a mean, if any, and the Gram matrix that their carries are for.

    After a round of every start the best goes on, where it promises less than `plain`, without any.
    """
    starts = [wanted.rounds(sums) for sums in _starts(sizes)]
    trials = [next(rounds) for rounds in starts]
    first = int(np.argmin([error for error, _, _ in trials]))
    if trials[first][0] < plain:
        trials += starts[first]

    _, best, gram = min(trials, key=lambda trial: trial[0])
    best = best.used()
    return best if len(best.rows) else None, gram


def _weighed(
    queries: FloatArray,
    weights: FloatArray,
) -> FloatArray:
    """The Gram matrix of queries that weigh so much."""
    return queries.T @ (weights[:, None] * queries)


def _starts(sizes: tuple[int, ...]) -> Iterator[FloatArray]:
    """Sums that share the cells of one attribute evenly; of several, the sum of them all."""
    cells = prod(sizes)
    if len(sizes) > 1:
        yield np.ones((1, cells))
        return

    most = round(np.sqrt(cells) / 2)
    for count in dict.fromkeys((most, most // 2) if cells <= _RACED else (most,)):
        yield intervals(cells, count)
