"""Replace-one neighbours: the sensitivity is the largest distance between two columns.

The number of people N is then public, so every query may be shifted for free: w + c·1 has the
answer wx + cN. Only differences of columns count, on both sides, and the problem is the add-remove
one for the columns W(e_j − e_k), with one dual weight per pair of cells. The weights of the pairs
form the Laplacian L of a graph: the dual value is ‖D_a^½ W L^½‖_*. With the last cell as origin,
L = E·L₀·Eᵀ, where E takes differences from that cell and L₀ is L without its last row and column.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import TooLarge
from noisewright.norm.dispatch import (
    on_attributes,
    reweighted_factorization,
    solve_part,
)
from noisewright.norm.exact.symmetric import solve_family
from noisewright.norm.kernel import certificate
from noisewright.norm.kernel.certificate import EPSILON, inward, outward
from noisewright.norm.kernel.factorization import (
    Part,
    Settings,
    nothing_asked,
    row_lengths,
    run_solver,
    solved_part,
    without_offsets,
)
from noisewright.norm.kernel.problems import (
    WELL_CONDITIONED,
    Factors,
    gram_root,
    row_basis,
)
from noisewright.norm.kernel.solver import Spectrum, Weights, mean_factor
from noisewright.workload.base import Workload
from noisewright.workload.kinds.algebra import Kron, Weighted
from noisewright.workload.kinds.atoms import Atom
from noisewright.workload.kinds.explicit import Explicit
from noisewright.workload.kinds.marginals import OnAttributes
from noisewright.workload.linear.maps import Scaled
from noisewright.workload.linear.tensor import mean_error

LARGEST_PAIRS = 2048  # cells: two million pairs
_HELD = 2**20  # entries of a structured workload up to which its rows are held
SMALL_PRODUCT = 256  # cells up to which a product is solved exactly, pair by pair


@dataclass(frozen=True, eq=False)
class PairsProblem:
    """A workload over pairs of cells; `b` holds one weight per pair, by `np.triu_indices(n, 1)`."""

    workload: Workload

    @property
    def rows(self) -> int:
        return self.workload.queries

    @property
    def columns(self) -> int:
        return self.workload.size * (self.workload.size - 1) // 2

    @cached_property
    def _edges(self) -> FloatArray | None:
        """Every column less the last one, unless all queries are alike or too many to be held."""
        workload = self.workload
        large = workload.queries * workload.size > _HELD
        if isinstance(workload, Atom) or (large and not isinstance(workload, Explicit)):
            return None

        rows = workload.dense()
        return rows[:, :-1] - rows[:, -1:]

    @cached_property
    def _basis(self) -> FloatArray:
        """Orthonormal rows that span the differences asked."""
        if self._edges is None:
            return np.eye(self.workload.size - 1)
        return row_basis(self._edges)

    @property
    def _full(self) -> bool:
        """Whether the differences asked span all of them."""
        return len(self._basis) == self.workload.size - 1

    @cached_property
    def _queries(self) -> FloatArray | None:
        """The differences asked in coordinates of the basis."""
        if self._edges is None or self._full:
            return self._edges
        return self._edges @ self._basis.T

    @cached_property
    def _plain_gram(self) -> FloatArray:
        if self._queries is not None:
            return self._queries.T @ self._queries
        return gram_of_differences(self.workload.gram().dense())

    @property
    def asks_anything(self) -> bool:
        """Whether any two cells have different columns: shifts answer the rest for free."""
        if self._edges is not None:
            return bool(self._edges.any())

        # Rounding leaves differences of equal columns of about 1e-16, squared.
        whole = np.trace(self.workload.gram().dense())
        return bool(np.trace(self._plain_gram) > 1e-24 * whole)

    def _gram(self, a: FloatArray | None) -> FloatArray:
        if a is None:
            return self._plain_gram
        if self._queries is not None:
            return self._queries.T @ (a[:, None] * self._queries)
        return gram_of_differences(self.workload.weighted_gram(a))

    def _singular(self, weights: Weights) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Singular values and right vectors of D_a^½ Z C, and C with C·Cᵀ = Q·L₀·Qᵀ.

        W·E = Z·Q, Q the basis: strategy and inverse are S^½ Vᵀ C⁻¹ Q and Qᵀ C V S^-½.
        """
        a = weights.a
        basis = self._basis
        grounded = _laplacian(self.workload.size, weights.b)[:-1, :-1]
        c: FloatArray = np.asarray(np.linalg.cholesky(grounded), dtype=np.float64)
        if len(basis) < len(c):
            upper: FloatArray = np.asarray(np.linalg.qr((basis @ c).T, mode="r"))
            c = upper.T

        gram = self._gram(a)
        values, vectors = np.linalg.eigh(c.T @ gram @ c)
        if values[0] > WELL_CONDITIONED * values[-1]:
            return np.sqrt(values), vectors, c

        # Squares would blur directions: from the rows themselves, or a root of their Gram matrix.
        queries = self._queries
        rows = gram_root(gram) if queries is None else weights.scaled(queries)
        _, s, vt = np.linalg.svd(rows @ c, full_matrices=False)
        return np.maximum(s, EPSILON * s[0]), vt.T, c

    def spectrum(self, weights: Weights) -> Spectrum:
        """Squared distances between columns take the place of squared lengths."""
        s, v, c = self._singular(weights)
        rows = None
        if weights.a is not None and self._queries is not None:
            images = self._queries @ (c @ v)
            rows = (images * images) @ (1 / s)
        elif weights.a is not None:
            inverse = self._inverse(s, v, c)
            rows = np.maximum(self.workload.row_quadratics(inverse @ inverse.T), 0.0)

        columns = _squared_distances(self._strategy(s, v, c))
        return Spectrum(float(s.sum()), rows, columns)

    def factors(self, weights: Weights) -> Factors:
        """The factorization of the shifted workload, with sensitivity one."""
        s, v, c = self._singular(weights)
        strategy = self._strategy(s, v, c)
        inverse = self._inverse(s, v, c)

        widest = math.sqrt(float(_squared_distances(strategy).max()))
        return Factors(strategy / widest, inverse * widest)

    def _strategy(self, s: FloatArray, v: FloatArray, c: FloatArray) -> FloatArray:
        from scipy.linalg import solve_triangular

        inner = np.sqrt(s)[:, None] * solve_triangular(c, v, trans="T", lower=True).T
        if not self._full:
            inner = inner @ self._basis
        return np.column_stack([inner, np.zeros(len(inner))])

    def _inverse(self, s: FloatArray, v: FloatArray, c: FloatArray) -> FloatArray:
        inner = (c @ v) / np.sqrt(s)
        if not self._full:
            inner = self._basis.T @ inner
        return np.vstack([inner, -inner.sum(axis=0)])


def _laplacian(size: int, pairs: FloatArray) -> FloatArray:
    """The Laplacian of the graph whose edges have the weights of the pairs."""
    result = np.zeros((size, size))
    result[np.triu_indices(size, 1)] = -pairs
    result += result.T

    np.fill_diagonal(result, -result.sum(axis=1))
    return result


def gram_of_differences(gram: FloatArray) -> FloatArray:
    """EᵀGE: the Gram matrix of the columns less the last column."""
    last = gram[:-1, -1]
    return np.asarray(gram[:-1, :-1] - last[:, None] - last + gram[-1, -1])


def _squared_distances(strategy: FloatArray) -> FloatArray:
    """‖A_j − A_k‖² for every pair j < k."""
    gram = strategy.T @ strategy
    lengths = np.diagonal(gram)
    table = lengths[:, None] + lengths - 2 * gram
    return np.maximum(table[np.triu_indices(len(gram), 1)], 0.0)


def solve_replace(workload: Workload, settings: Settings) -> Part:
    """The best factorization under replace-one neighbours, by the workload's structure."""
    if isinstance(workload, Weighted):
        return reweighted_factorization(
            workload.weight, solve_replace(workload.inner, settings)
        )
    if isinstance(workload, OnAttributes):
        return on_attributes(workload, solve_replace(workload.inner, settings))
    if isinstance(workload, Explicit):
        return _scaled_pairs(workload, settings)

    family = workload.structure.tables
    if family is not None:
        return solve_family(workload, family, settings)
    if isinstance(workload, Kron) and workload.size > SMALL_PRODUCT:
        return _solve_product(workload, settings)

    _check_pairs(workload)
    return _solve_pairs(workload, settings)


def _scaled_pairs(workload: Explicit, settings: Settings) -> Part:
    """An explicit matrix with its entries brought to order one first, and offsets left out."""
    _check_pairs(workload)
    matrix = workload.dense()
    exponent = math.frexp(float(np.ptp(matrix, axis=1).max()))[1]
    scaled = Explicit(np.ldexp(matrix, -exponent))

    inner = _solve_pairs(without_offsets(scaled), settings, scaled)
    return reweighted_factorization(math.ldexp(1.0, exponent), inner)


def _check_pairs(workload: Workload) -> None:
    if workload.size > LARGEST_PAIRS:
        raise TooLarge(
            f"workload {workload.brief()} has {workload.size} cells; under replace-one neighbours "
            f"the limit is {LARGEST_PAIRS}, except for products and families of marginals; use "
            f"add-remove neighbours, or coarsen the domain"
        )


def _solve_pairs(
    workload: Workload, settings: Settings, original: Workload | None = None
) -> Part:
    """Exact, with a weight for every pair of cells; the bound is of the `original`, unshifted."""
    norm = settings.norm
    problem = PairsProblem(workload)
    if not problem.asks_anything:
        return nothing_asked(workload, norm)

    # A warm start weighs cells, not pairs of them.
    point = run_solver(problem, replace(settings, start=None))
    factors = problem.factors(point.primal)
    error = mean_error(row_lengths(workload, factors.inverse), norm)
    dual = point.dual
    bound = certificate.nuclear_of_pairs(original or workload, dual.a, dual.b)
    return solved_part(workload, factors, point, error, bound, norm)


def _solve_product(workload: Kron, settings: Settings) -> Part:
    """The add-remove optimum of a product, with its replace-one sensitivity and a bound of its own.

    Pairs weighted by b_j·b_k have the Laplacian D_b − bbᵀ (over (1 − Σb²)/2), and
    ‖X(I − uuᵀ)‖_* ≥ ‖X‖_* − ‖Xu‖ with X = D_a^½ W D_b^½, u = √b: everything is a product.
    """
    share = replace(settings, tolerance=settings.tolerance / len(workload.factors))
    solved = {
        factor: solve_part(factor, share) for factor in dict.fromkeys(workload.factors)
    }
    whole = solve_part(workload, settings)
    nuclear = centre = squares = closest = 1.0
    for factor in workload.factors:
        part = solved[factor]
        nuclear *= part.lower_bound
        centre *= _image_of_weights(factor, part, settings.norm)
        b = part.certificate.column_weights()
        squares *= float(b @ b)
        columns = part.strategy.dense()
        least = float((columns.T @ columns).min())
        closest *= least if least >= 0 else math.nan

    # Columns at most one long are apart by √2 at most where no angle is obtuse, by 2 elsewhere.
    widest = math.sqrt(2 - 2 * closest) if closest >= 0 else 2.0
    bound = math.sqrt(2 / (1 - squares)) * (nuclear - outward(centre, len(solved)))
    note = "product of add-remove optima under the replace-one sensitivity"
    return replace(
        whole,
        strategy=Scaled(1 / widest, whole.strategy),
        inverse=Scaled(widest, whole.inverse),
        errors=lambda: widest * whole.errors(),
        value=outward(widest * whole.value, 2),
        lower_bound=max(0.0, inward(bound, 2 * len(solved))),
        notes=(*whole.notes, note),
    )


def _image_of_weights(factor: Workload, part: Part, norm: float) -> float:
    """‖Xu‖ of one factor, in the units of its bound."""
    b = part.certificate.column_weights()
    a = part.certificate.row_weights()
    weights = np.ones(factor.queries) if a is None else a

    answers = np.asarray(factor.matvec(b), dtype=np.float64)
    length = float(np.sqrt(weights @ answers**2))
    return length * mean_factor(factor.queries, norm)
