"""Two families of distributions that nobody tells apart with fewer people, under local privacy.

A row v drawn from `weights` says which pair (first[v], second[v]) the data may come from; reports
are made without knowing v. With M_v = first − second and Mᵀ Diag(weights) M ⪯ Diag(d), κ = Σd, a
report of ε-LDP moves by at most c κ in Kullback–Leibler divergence on average over v,
c = (e^ε − 1)²/4: a row of chances is z(1 + (e^ε − 1)g) with 0 ≤ g ≤ 1 and Σz ≤ 1, so that
(a − b)²/b ≤ z(e^ε − 1)²⟨g − ½, M_v⟩². Errors of at most β both ways on average over v then need
N ≥ (1 − 2β) ln((1 − β)/β)/(cκ). It holds for non-interactive protocols, biased or not. The pairs
come from the dual witness of the task's norm [001, with the corrections of its lemmas].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noisewright.display import Shown
from noisewright.errors import Contradiction, InvalidParameter, NoisewrightError
from noisewright.local.fixedpoint import check_epsilon
from noisewright.norm.approximate import approximate_norm
from noisewright.norm.boxes import boxed_norm
from noisewright.solution import BoundClass
from noisewright.workload.base import FloatArray
from noisewright.workload.linear import IndexArray
from noisewright.workload.text import Queries
from noisewright.workload.text import workload as as_workload

_TOLERANCES = 1.0, 2.0, 4.0
"""Multiples of the error at which witnesses are taken; the one that proves most is kept."""

_ROUNDS, _POWERS, _FINEST = 60, 30, 1e-12
_ABOVE = 1 + 1e-9  # gaps are just above what a protocol would need to miss
_RANK = 24


@dataclass(frozen=True, eq=False)
class HardInstance(Shown):
    """Families `first` and `second`, a row each per v, `weights` on v, and what telling them takes.

    Columns are the cells, for labelled tasks all points with label +1 and then with −1. `task`
    says what solves the instance: a protocol for it tells the families apart.
    """

    first: FloatArray
    second: FloatArray
    weights: FloatArray
    diagonal: FloatArray
    epsilon: float
    beta: float
    task: str
    rows: IndexArray
    """The queries, concepts or pairs of concepts that the families are about, by number."""

    def __post_init__(self) -> None:
        for family in (self.first, self.second, self.weights[None, :]):
            if family.min() < -1e-12 or np.abs(family.sum(axis=1) - 1).max() > 1e-9:
                raise Contradiction("a hard instance holds something that is no distribution")
        if not math.isfinite(self.kappa):
            raise Contradiction("a hard instance proves nothing")

    bound_class = BoundClass.NON_INTERACTIVE

    @cached_property
    def kappa(self) -> float:
        """Σd, after as much is added to d as the inequality is short of, rounding included."""
        moved = self.first - self.second
        gram = moved.T @ (self.weights[:, None] * moved)
        short = -float(np.linalg.eigvalsh(np.diag(self.diagonal) - gram)[0])
        n = len(gram)
        rounding = 8 * n * np.finfo(float).eps * float(np.abs(gram).max() + self.diagonal.max())
        return float(self.diagonal.sum()) + n * max(0.0, short + n * rounding)

    @property
    def information(self) -> float:
        """c κ: what one report tells at most, on average over v."""
        return math.expm1(self.epsilon) ** 2 / 4 * self.kappa

    @property
    def people(self) -> int:
        """No non-interactive protocol solves the task with fewer."""
        needed = (1 - 2 * self.beta) * math.log((1 - self.beta) / self.beta)
        return max(1, math.ceil(needed / self.information * (1 - 1e-12)))

    def advantage(self, people: int) -> float:
        """True less false alarms, on average over v, are at most this from so many people."""
        return min(1.0, math.sqrt(people * self.information / 2))

    def draw(
        self, people: int, rng: np.random.Generator, second: bool | None = None
    ) -> tuple[int, bool, np.ndarray]:
        """A row v, whether its second family is the truth (by a coin unless told), and cells."""
        v = int(rng.choice(len(self.weights), p=self.weights / self.weights.sum()))
        which = bool(rng.integers(2)) if second is None else second
        chances = (self.second if which else self.first)[v].clip(0)
        return v, which, rng.choice(len(chances), size=people, p=chances / chances.sum())

    def _facts(self) -> list[tuple[str, str]]:
        return [
            ("task", self.task),
            ("families", f"{len(self.weights):,} pairs"),
            ("people", f"{self.people:,}"),
            ("for", str(self.bound_class)),
        ]


def hard_instance(
    workload: Queries, alpha: float, *, epsilon: float = 1.0, beta: float = 0.05
) -> HardInstance:
    """Distributions on which no non-interactive protocol answers all queries within `alpha`.

    Its `.people` is certified for every ε-LDP protocol, biased or not, whose answers are all within
    α of the population's with probability 1 − β.
    """
    asked = as_workload(workload)
    matrix = asked.dense()
    _check(alpha, epsilon, beta)
    best: HardInstance | None = None
    for multiple in _TOLERANCES:
        u = approximate_norm(asked, multiple * alpha, shift=True, tolerance=1e-2).certificate.matrix
        sizes = np.abs(u).sum(axis=1)
        used = np.flatnonzero(sizes > 1e-9 * max(sizes.max(), 1e-300))
        if not len(used):
            continue
        u = u[used] / sizes[used, None] * 2
        gaps = (matrix[used] * u).sum(axis=1)
        u, gaps = np.sign(gaps)[:, None] * u, np.abs(gaps)
        best = _better(best, _queries(u, gaps, sizes[used], used, alpha, epsilon, beta))
    return _known(best, alpha)


def _queries(
    u: FloatArray,
    gaps: FloatArray,
    sizes: FloatArray,
    used: IndexArray,
    alpha: float,
    epsilon: float,
    beta: float,
) -> HardInstance | None:
    """Rows whose families differ by more than 2α in their own query, each mixed down to that."""
    kept = np.flatnonzero(gaps > 2 * alpha * _ABOVE)
    if not len(kept):
        return None
    first, away = np.maximum(u[kept], 0.0), np.maximum(-u[kept], 0.0)
    share = (2 * alpha * _ABOVE / gaps[kept])[:, None]
    second = first + share * (away - first)
    return _instance(first, second, sizes[kept], epsilon, beta, "all answers within α", used[kept])


def hard_refutation(
    concepts: Queries, alpha: float, *, epsilon: float = 1.0, beta: float = 0.05
) -> HardInstance:
    """Agnostic refutation: are labels random, or has some concept a loss of at most ½ − α?

    `concepts` is a matrix of ±1, a row per concept and a column per point.
    """
    c = _signs(concepts)
    _check(alpha, epsilon, beta)
    best: HardInstance | None = None
    for multiple in _TOLERANCES:
        level = min(2 * multiple * alpha, 0.9)
        h = approximate_norm(c, level, tolerance=1e-2).certificate.matrix
        sizes = np.abs(h).sum(axis=1)
        used = np.flatnonzero(sizes > 1e-9 * max(sizes.max(), 1e-300))
        if not len(used):
            continue
        points = np.abs(h[used]) / sizes[used, None]
        tilt = np.sign(h[used])
        gaps = (points * tilt * c[used]).sum(axis=1)
        kept = np.flatnonzero(gaps > 2 * alpha * _ABOVE)
        if not len(kept):
            continue
        t = (2 * alpha * _ABOVE / gaps[kept])[:, None]
        first = np.hstack([points[kept], points[kept]]) / 2
        moved = t * points[kept] * tilt[kept] / 2
        second = first + np.hstack([moved, -moved])
        told = "agnostic refutation"
        best = _better(
            best, _instance(first, second, sizes[used][kept], epsilon, beta, told, used[kept])
        )
    return _known(best, alpha)


def hard_learning(
    concepts: Queries, alpha: float, *, epsilon: float = 1.0, beta: float = 0.05
) -> HardInstance:
    """Agnostic learning: a hypothesis within α of the least loss, from pairs of concepts.

    Rows of the instance are the numbers of the pairs in the order of `itertools.combinations`.
    """
    c = _signs(concepts)
    _check(alpha, epsilon, beta)
    one, other = np.triu_indices(len(c), 1)
    differences = (c[one] - c[other]) / 2
    distinct = np.flatnonzero(np.abs(differences).any(axis=1))
    if not len(distinct):
        raise InvalidParameter("concepts", c.shape, "must hold two that differ")
    best: HardInstance | None = None
    for multiple in _TOLERANCES:
        level = min(2 * multiple * alpha, 0.9)
        u = approximate_norm(differences[distinct], level, tolerance=1e-2).certificate.matrix
        sizes = np.abs(u).sum(axis=1)
        used = np.flatnonzero(sizes > 1e-9 * max(sizes.max(), 1e-300))
        if not len(used):
            continue
        points, sign = np.abs(u[used]) / sizes[used, None], np.sign(u[used])
        gaps = (points * sign * differences[distinct][used]).sum(axis=1)
        kept = np.flatnonzero(gaps > 2 * alpha * _ABOVE)
        if not len(kept):
            continue
        t = (2 * alpha * _ABOVE / gaps[kept])[:, None]
        middle = np.hstack([points[kept], points[kept]]) / 2
        moved = t * points[kept] * sign[kept] / 2
        moved = np.hstack([moved, -moved])
        rows = distinct[used][kept]
        told = "agnostic learning"
        best = _better(
            best,
            _instance(middle + moved, middle - moved, sizes[used][kept], epsilon, beta, told, rows),
        )
    return _known(best, alpha)


def hard_realizable(
    concepts: Queries, alpha: float, *, epsilon: float = 1.0, beta: float = 0.05
) -> HardInstance:
    """Realizable refutation: are labels those of a concept, or has every hypothesis loss > α?

    Points × labels; the witness is that of η: entries of the concept's own label within a
    tolerance of zero, of the other label at least one, rows up to a shift.
    """
    c = _signs(concepts)
    _check(alpha, epsilon, beta)
    right = np.hstack([c > 0, c < 0])
    best: HardInstance | None = None
    for multiple in _TOLERANCES:
        level = min(2 * multiple * alpha, 0.9)
        lower = np.where(right, -level, 1.0)
        upper = np.where(right, level, np.inf)
        u = boxed_norm(lower, upper, shift=True, tolerance=1e-2).certificate.matrix
        sizes = np.abs(u).sum(axis=1)
        used = np.flatnonzero(sizes > 1e-9 * max(sizes.max(), 1e-300))
        if not len(used):
            continue
        u, own = 2 * u[used] / sizes[used, None], right[used]
        plus, minus = np.maximum(u, 0.0), np.maximum(-u, 0.0)
        wrong = np.where(own, 0.0, plus).sum(axis=1)
        kept = np.flatnonzero(wrong > 2 * alpha * _ABOVE)
        if not len(kept):
            continue
        t = (2 * alpha * _ABOVE / wrong[kept])[:, None]
        mixed = t * plus[kept] + (1 - t) * minus[kept]
        points = mixed[:, : c.shape[1]] + mixed[:, c.shape[1] :]
        labelled = np.where(own[kept], np.hstack([points, points]), 0.0)
        first, second = (minus[kept] + labelled) / 2, (mixed + labelled) / 2
        told = "realizable refutation"
        best = _better(
            best, _instance(first, second, sizes[used][kept], epsilon, beta, told, used[kept])
        )
    return _known(best, alpha)


def _instance(
    first: FloatArray,
    second: FloatArray,
    start: FloatArray,
    epsilon: float,
    beta: float,
    task: str,
    rows: IndexArray,
) -> HardInstance:
    weights, diagonal = reweighted(first - second, start)
    kept = weights > _FINEST * weights.max()
    return HardInstance(
        first[kept],
        second[kept],
        weights[kept] / weights[kept].sum(),
        diagonal / weights[kept].sum(),
        check_epsilon(epsilon),
        beta,
        task,
        rows[kept],
    )


def reweighted(moved: FloatArray, start: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weights π̂ and d with Mᵀ Diag(π̂) M ⪯ Diag(d) and Σd small.

    For given weights the least Σd is the largest tr(BY) over correlation matrices Y, found as
    Y = XXᵀ with unit rows; the weights then move to rows that these directions see less.
    """
    weights = start / start.sum()
    rank = min(_RANK, moved.shape[1])
    x = np.random.default_rng(0).standard_normal((moved.shape[1], rank))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    best, pair = math.inf, (weights, np.zeros(moved.shape[1]))
    for count in range(_ROUNDS):
        for _ in range(_POWERS):
            pulled = moved.T @ (weights[:, None] * (moved @ x))
            lengths = np.maximum(np.linalg.norm(pulled, axis=1, keepdims=True), 1e-300)
            x = np.where(lengths > 1e-300, pulled / lengths, x)
        gram = moved.T @ (weights[:, None] * moved)
        d = np.linalg.norm(gram @ x, axis=1)
        d = d + max(0.0, -float(np.linalg.eigvalsh(np.diag(d) - gram)[0]))
        if float(d.sum()) < best:
            best, pair = float(d.sum()), (weights, d)
        seen = np.einsum("vr,vr->v", moved @ x, moved @ x)
        dearer = (seen / max(float(weights @ seen), 1e-300) - 1).clip(-3, 3)
        weights = weights * np.exp(-dearer / (1 + count / 6))
        weights /= weights.sum()
    return pair


def _better(one: HardInstance | None, other: HardInstance | None) -> HardInstance | None:
    if one is None or other is None:
        return one or other
    return one if one.information <= other.information else other


def _known(instance: HardInstance | None, alpha: float) -> HardInstance:
    if instance is None:
        raise NoisewrightError(
            f"no two distributions were found that differ by more than twice {alpha:g}; ask for a "
            f"smaller error"
        )
    return instance


def _signs(concepts: Queries) -> FloatArray:
    c = as_workload(concepts).dense()
    if not (np.abs(c) == 1).all():
        raise InvalidParameter("concepts", f"array of shape {c.shape}", "must hold only 1 and -1")
    return c


def _check(alpha: float, epsilon: float, beta: float) -> None:
    check_epsilon(epsilon)
    if not 0 < alpha < 0.5:
        raise InvalidParameter("alpha", alpha, "must lie between 0 and 0.5", "try 0.05")
    if not 0 < beta < 0.5:
        raise InvalidParameter("beta", beta, "must lie between 0 and 0.5", "try 0.05")
