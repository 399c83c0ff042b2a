"""The statistical query dimension of a class, between a certified lower and an upper bound.

Definition [001, 8.2]: 1/SQD is the least, over distributions μ on which every hypothesis has a loss
above α, of the largest, over random functions F into [−1, 1], of the least E|λF − μF|, over λ that
some concept labels without an error. By the minimax theorem, for every μ and every prior π over
such λ_v, SQD ≥ 1/‖U‖ with U_vx = π_v(λ_v(x) − μ(x)) and ‖U‖ = max_f Σ_v|U_v·f| over signs f.

Here λ_v and μ share a marginal D over points: λ_v is labelled by concept v, and t_a = D_a·E_μ[b|a].
Then ‖U‖ = max over signs g of Σ_v π_v|Σ_a(D_a c_v(a) − t_a)g_a|, all 2^(n−1) of which are tried,
and the best hypothesis has loss (1 − Σ|t_a|)/2 under μ. For given π the best (D, t), and for given
(D, t) the best π, are linear programs over the sign patterns met so far; they are solved in turn.
The problem is not convex: the lower bound is that of the point found, checked over all signs.

Upper bounds: a random concept as F tells by 2α at one in |C|: SQD ≤ |C|/(2α). With W̃ = RA of
η(C, a), F = the sign of a product with a uniform direction in d dimensions: SQD ≤
c_d·η(C, a)/(α(1+a) − 2a), c_d = √π·Γ((d+1)/2)/Γ(d/2), since |⟨R_v, g⟩| ≤ ‖R_v‖ for unit g.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import exp, lgamma, log, pi

import numpy as np
from scipy.optimize import linprog

from noisewright.arrays import FloatArray
from noisewright.display import Shown
from noisewright.errors import TooLarge, require
from noisewright.learn.concept_classes import ConceptClass, Concepts, concepts
from noisewright.norm.kernel.certificate import outward

MOST_POINTS = 20
"""Whose 2^20 patterns of signs are all tried."""
_MOST_WORK = 2**31  # signs × concepts that are tried at once for one norm
_BLOCK = 2**11  # patterns in one table, which then stays in the processor's cache
_STRICT = 1e-9  # μ's losses are above α by this much
_ROUNDS = 4  # half loses 0.3 % of the bound of conjunctions:3, double wins none
_CUTS = 30  # half loses up to 3 % of the bound, double wins up to 6 in twice the time


@dataclass(frozen=True, eq=False)
class QueryDimension(Shown):
    """SQD of a class at α lies between `lower_bound` and `upper_bound`.

    `prior` over concepts, `marginal` over points and `lean` = D·E_μ[b|a] prove the lower bound:
    `proves()` computes it again from all signs.
    """

    concepts: ConceptClass
    alpha: float
    lower_bound: float
    upper_bound: float
    prior: FloatArray
    marginal: FloatArray
    lean: FloatArray

    def _facts(self) -> list[tuple[str, str]]:
        between = f"{self.lower_bound:.4g} to {self.upper_bound:.4g}"
        return [
            ("class", self.concepts.title),
            ("alpha", f"{self.alpha:g}"),
            ("SQD", between),
        ]

    def proves(self) -> float:
        """The lower bound from what proves it, after checking that it is allowed to."""
        p = self.prior
        d = self.marginal
        t = self.lean

        shares = [x.min() >= 0 and abs(x.sum() - 1) <= 1e-12 for x in (p, d)]
        require(
            all(shares)
            and not (np.abs(t) > d).any()
            and (1 - np.abs(t).sum()) / 2 > self.alpha,
            "proof",
            self.concepts.title,
            "is of no distributions",
        )

        return 1 / sign_norm(p[:, None] * (self.concepts.matrix * d - t))[0]


def sign_norm(matrix: FloatArray) -> tuple[float, FloatArray]:
    """max over signs g of Σ_v|M_v·g|, never understated, and a g that attains it.

    Signs of the first column are fixed: −g is as good as g. Signs of the last eleven columns make
    one table, which is shifted by each pattern of the others.
    """
    columns = matrix.shape[1]
    inner = min(columns - 1, _BLOCK.bit_length() - 1)
    outer = columns - 1 - inner
    table = matrix[:, columns - inner :] @ _signs(inner).T

    best = -1.0
    at = (0, 0)

    for k, front in enumerate(_signs(outer)):
        offset = matrix[:, : outer + 1] @ np.concatenate([[1.0], front])
        sums = np.abs(table + offset[:, None]).sum(axis=0)
        place = int(np.argmax(sums))
        if sums[place] > best:
            best = float(sums[place])
            at = (k, place)

    signs = np.concatenate([[1.0], _signs(outer)[at[0]], _signs(inner)[at[1]]])
    rounding = 4 * matrix.size * np.finfo(float).eps * float(np.abs(matrix).sum())
    return outward(best, matrix.size) + rounding, signs


@lru_cache(maxsize=4)
def _signs(count: int) -> FloatArray:
    """All patterns of so many signs, a row each."""
    bits = np.arange(2**count)[:, None] >> np.arange(count) & 1
    return np.asarray(2.0 * bits - 1.0)


def sq_dimension(source: Concepts, alpha: float = 0.1) -> QueryDimension:
    """Bounds on the statistical query dimension of a class of at most 20 points, at α < ½.

    The lower bound is a proof for realizable refutation: sequential ε-local protocols need
    Ω(SQD²/ε²) people and single-intrusion pan-private ones Ω(SQD/ε), up to constants.
    """
    given = concepts(source)
    if given.size > MOST_POINTS or given.count * 2**given.size > _MOST_WORK:
        raise TooLarge(
            f"{given.title} has {given.count} concepts on {given.size} points; all signs are tried "
            f"for at most {MOST_POINTS} points and {_MOST_WORK:,} signs times concepts"
        )

    require(0 < alpha < 0.5, "alpha", alpha, "must lie between 0 and 1/2", "try 0.1")

    search = _Search(np.unique(given.matrix, axis=0), alpha)
    search.run()

    prior = np.zeros(given.count)
    _, first = np.unique(given.matrix, axis=0, return_index=True)
    prior[first] = search.prior

    upper = max(_upper_bound(given, alpha), 1 / search.value)

    return QueryDimension(
        given, alpha, 1 / search.value, upper, prior, search.marginal, search.lean
    )


class _Search:
    """Linear programs in turn, over sign patterns met so far."""

    def __init__(self, table: FloatArray, alpha: float) -> None:
        self.table = table
        self.alpha = alpha

        rows, n = table.shape
        self.prior, self.marginal = np.full(rows, 1 / rows), np.full(n, 1 / n)
        self.lean = np.zeros(n)

        agreed = np.flatnonzero((table == table[0]).all(axis=0))
        if 0 < len(agreed) < n:
            # What nobody doubts takes most people, so that μ is near all of the λ.
            rest = 2 * alpha * (1 + 2 * _STRICT)
            self.marginal = np.full(n, rest / (n - len(agreed)))
            self.marginal[agreed] = (1 - rest) / len(agreed)
            self.lean[agreed] = self.marginal[agreed] * table[0, agreed]

        self.value = self._norm(self.prior, self.marginal, self.lean)[0]

    def _norm(
        self, p: FloatArray, d: FloatArray, t: FloatArray
    ) -> tuple[float, FloatArray]:
        return sign_norm(p[:, None] * (self.table * d - t))

    def run(self) -> None:
        for _ in range(_ROUNDS):
            before = self.value
            self._better_marginal()
            self._better_prior()
            if self.value > before * (1 - 1e-4):
                return

    def _keep(self, p: FloatArray, d: FloatArray, t: FloatArray) -> FloatArray:
        """The worst signs at a point, which is kept where it is better."""
        value, signs = self._norm(p, d, t)
        if value < self.value:
            self.value = value
            self.prior = p
            self.marginal = d
            self.lean = t

        return signs

    def _better_prior(self) -> None:
        """min over π of the largest Σ_v π_v|M_v·g|."""
        d = self.marginal
        t = self.lean
        rows = len(self.table)
        moves = self.table * d - t
        cuts = [np.abs(moves @ self._norm(self.prior, d, t)[1])]

        for _ in range(_CUTS):
            solution = _program(np.array(cuts), rows)
            if solution is None:
                return
            prior = _shares(solution[:rows])
            cut = np.abs(moves @ self._keep(prior, d, t))
            if cut @ prior <= solution[-1] * (1 + 1e-6):
                return
            cuts.append(cut)

    def _better_marginal(self) -> None:
        """min over (D, t) of the largest Σ_v π_v|Σ_a(D_a c_v(a) − t_a)g_a|.

        Variables are D, t⁺, t⁻ and the value; for signs g and σ_v of the sums, each cut is linear.
        """
        n = self.table.shape[1]
        cuts = [self._cut(self.marginal, self.lean)]

        for _ in range(_CUTS):
            solution = _program(np.array(cuts), n, self.alpha)
            if solution is None:
                return
            d = _shares(solution[:n])
            t = np.clip(solution[n : 2 * n] - solution[2 * n : 3 * n], -d, d)
            room = 1 - 2 * self.alpha * (1 + _STRICT)
            t = t * min(1.0, room / max(float(np.abs(t).sum()), 1e-300))
            cuts.append(self._cut(d, t))
            if cuts[-1] @ solution[:-1] <= solution[-1] * (1 + 1e-6):
                return

    def _cut(self, d: FloatArray, t: FloatArray) -> FloatArray:
        """The value at the worst signs of a point, linear in D, t⁺ and t⁻."""
        signs = self._keep(self.prior, d, t)
        sides = self.prior * np.sign((self.table * d - t) @ signs)
        lean = -sides.sum() * signs
        return np.concatenate([(sides @ self.table) * signs, lean, -lean])


def _program(
    cuts: FloatArray, shares: int, alpha: float | None = None
) -> FloatArray | None:
    """Minimise the largest cut over shares that sum to one, and over leans where α is given."""
    count = cuts.shape[1]
    upper = [np.hstack([cuts, -np.ones((len(cuts), 1))])]
    limits = [np.zeros(len(cuts))]
    if alpha is not None:  # |t_a| ≤ D_a and Σ|t_a| ≤ 1 − 2α
        eye = np.eye(shares)
        upper.append(np.hstack([-eye, eye, eye, np.zeros((shares, 1))]))
        ones = np.ones(shares)
        upper.append(np.concatenate([0 * ones, ones, ones, [0.0]])[None, :])
        limits += [np.zeros(shares), np.array([1 - 2 * alpha * (1 + _STRICT)])]

    whole = np.concatenate([np.ones(shares), np.zeros(count + 1 - shares)])[None, :]
    cost = np.concatenate([np.zeros(count), [1.0]])
    solved = linprog(
        cost, A_ub=np.vstack(upper), b_ub=np.concatenate(limits), A_eq=whole, b_eq=[1.0]
    )

    return np.asarray(solved.x) if solved.success else None


def _shares(values: FloatArray) -> FloatArray:
    kept = np.maximum(values, 0.0)
    return np.asarray(kept / kept.sum())


def _upper_bound(given: ConceptClass, alpha: float) -> float:
    """The better of a random concept and of a random direction."""
    from noisewright.learn.realizable import eta

    bounds = [given.count / (2 * alpha)]

    a = alpha / 8
    solution = eta(given, a)

    dimension = int(np.linalg.matrix_rank(solution.approximation)) + 1
    constant = exp(log(pi) / 2 + lgamma((dimension + 1) / 2) - lgamma(dimension / 2))
    bounds.append(constant * solution.value / (alpha * (1 + a) - 2 * a))

    return min(bounds)
