"""Designs for product queries at any norm, each with a lower bound on the error of any other.

Norm 2 is one design and its bound. For the largest error, or any mean above the second, row weights
a (one per table) turn the problem into one at norm 2 whose optimum bounds the original from below.
Weights move towards the tables with the largest errors until nothing is gained; the best strategy
and the best bound met are kept. Within a table all queries keep one weight, which is what the
certified ratio then shows.

Replaced people: budget shares for the changes that one of them can make.

No replaced person changes the number of people, so it is public and its block costs nothing. For
the others, two people that differ in the attributes D move block T by a squared distance d_T(D)
(see `sensitivity`), and the best precisions y minimise Σ v_T/y_T with Σ y_T·d_T(D) ≤ 1 for every D:
the problem that `norm.kernel.solver` solves, with one dual weight per D. Axes may be those for
added people, or those that keep differences of columns short.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.central.blocks.axes import Axis
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.quantise import (
    USUAL_BITS,
    contrast_bits,
    integer_multiple,
)
from noisewright.central.blocks.sensitivity import (
    Span,
    pattern_distances,
)
from noisewright.central.gaussian.product_bounds import lower_bound
from noisewright.central.gaussian.product_designs import (
    MixedDesign,
    compile_family,
    design,
    design_of,
    has_exchangeable_cells,
)
from noisewright.central.problem import CentralProblem
from noisewright.norm.factorize import Factorization, factorize
from noisewright.norm.kernel.solver import Spectrum, Weights, solve
from noisewright.workload import Identity, Workload, kron, stack
from noisewright.workload.linear.tensor import column_kron, mean_error
from noisewright.workload.structure import Term

# of contrasts: half as many lose 2e-3 of the error, twice gain nothing, at 16 × 8 × 8 cells
_MOST_BITS = 14
# of table weights, which settle before: half or double changes nothing at 16 × 8 × 8 cells
_ROUNDS = 10
# gain below which weights move no more: half or double changes nothing at 16 × 8 × 8 cells
_SETTLED = 1e-3
_LEAST_WEIGHT = 1e-6  # of the largest: a table without any would be forgotten


@dataclass(frozen=True, eq=False)
class Certified:
    """A design, its p-th mean error over the terms asked, and a bound on that of any other."""

    design: MixedDesign
    value: float
    bound: float
    bits: int

    def improved(self, other: Certified) -> Certified:
        """The better design of the two, and the better bound."""
        best = other if other.value < self.value else self
        return replace(best, bound=max(self.bound, other.bound))

    def gains_on(self, other: Certified) -> bool:
        """Whether a design or a bound is better than before by what is worth another round."""
        nearer = self.value < other.value * (1 - _SETTLED)
        return nearer or self.bound > other.bound * (1 + _SETTLED)


def certified(problem: CentralProblem) -> Certified:
    """The design that several mechanisms start from, and its bound."""
    return certified_design(
        problem.shifted_terms,
        problem.sizes,
        problem.norm,
        problem.neighbours,
        problem.grid_bits,
    )


def certified_design(
    terms: Sequence[Term],
    sizes: tuple[int, ...],
    norm: float,
    neighbours: str = "add-remove",
    total_bits: int = USUAL_BITS,
) -> Certified:
    """Axes and budget shares for product queries, queries that are none replaced by their cells."""
    products = [as_product(term, sizes) for term in terms]
    bits = contrast_bits(total_bits, products, sizes, _MOST_BITS)
    if norm == 2:
        best = design(compile_family(sizes, products), bits)
        return Certified(
            best,
            best.value,
            lower_bound(best, neighbours),
            bits,
        )

    return _reweight(
        products,
        sizes,
        norm,
        neighbours,
        bits,
    )


def as_product(term: Term, sizes: Sequence[int]) -> Term:
    """A stand-in for queries that are no product: the cells they look at, as much variance."""
    if term.factors is not None:
        return term

    factors = tuple(Identity(sizes[i]) for i in term.attributes)
    weight = term.weight * float(np.sqrt(term.inner.gram().trace() / term.inner.size))
    return Term(
        weight,
        term.attributes,
        kron(list(factors)),
        factors,
    )


def _reweight(
    terms: Sequence[Term],
    sizes: Sequence[int],
    norm: float,
    neighbours: str,
    bits: int,
) -> Certified:
    """Search table weights for the p-th mean error of product terms, p > 2."""
    rows = np.array([term.queries for term in terms], dtype=np.float64)
    importance = np.ones(len(terms))
    best: Certified | None = None

    for _ in range(_ROUNDS):
        weighted = [
            replace(term, weight=term.weight * float(np.sqrt(a)))
            for term, a in zip(terms, importance, strict=True)
        ]
        trial = design(compile_family(sizes, weighted), bits)
        errors = _term_errors(trial, terms, norm)
        value = mean_error(errors, norm, rows)

        nuclear = lower_bound(trial, neighbours) * float(np.sqrt(rows.sum()))
        length = np.sqrt(_dual_length(importance, rows, norm))
        bound = float(nuclear / length * rows.sum() ** (-1 / norm))
        found = Certified(trial, value, bound, bits)
        better = found if best is None else best.improved(found)
        if best is not None and not better.gains_on(best):
            return better

        best = better
        importance = _moved(importance, errors, norm)

    assert best is not None
    return best


def _moved(importance: FloatArray, errors: FloatArray, norm: float) -> FloatArray:
    """Weights moved towards the tables with the largest errors."""
    relative = errors / errors.max()
    if np.isinf(norm):
        target = importance * relative**2
    else:
        target = np.sqrt(importance * relative ** (norm - 2))
    return np.asarray(np.maximum(target / target.max(), _LEAST_WEIGHT))


def _dual_length(
    importance: FloatArray,
    rows: FloatArray,
    norm: float,
) -> float:
    """‖a‖ in the exponent dual to norm/2, over all rows."""
    exponent = 1.0 if np.isinf(norm) else norm / (norm - 2)
    return float((rows @ importance**exponent) ** (1 / exponent))


def _term_errors(
    trial: MixedDesign,
    terms: Sequence[Term],
    norm: float,
) -> FloatArray:
    """p-th mean deviation of each term's queries at unit noise and sensitivity."""
    family = trial.family
    parts = _row_variances(trial)
    variances = 1 / trial.shares
    totals = [np.zeros(term.queries) for term in terms]

    for pair, number in enumerate(family.pair_term):
        width = len(terms[number].attributes)
        inside = family.pair_inside[pair, :width].tolist()
        kinds = family.pair_kinds[pair, :width].tolist()
        product = column_kron(
            [parts[varied][k] for varied, k in zip(inside, kinds, strict=True)]
        )
        totals[number] += variances[family.pair_block[pair]] * product

    pairs = zip(terms, totals, strict=True)
    return np.array(
        [mean_error(term.weight * np.sqrt(total), norm) for term, total in pairs]
    )


def _row_variances(
    trial: MixedDesign,
) -> tuple[list[FloatArray], list[FloatArray]]:
    """What totals and contrasts of an attribute add to the queries of each kind, in its units."""
    totals = []
    contrasts = []
    for kind in trial.family.kinds:
        axis = trial.axes[kind.group]
        totals.append(
            kind.workload.row_quadratics(np.outer(axis.reference, axis.reference))
        )
        contrasts.append(
            kind.workload.row_quadratics(float(axis.length) * axis.covariance)
        )

    return totals, contrasts


FREE_NOISE = 2.0**-20
"""Of the strategy's scale, for the public total in whole people: a law that rounds to nothing."""

PAIR_CELLS = 256
"""Cells up to which the best strategy for replaced people is found pair by pair."""

_MOST_PATTERNED = 10  # attributes whose 2^10 ways to differ are weighted one by one
_TOLERANCE = 1e-4  # of the solver: half or double changes errors by a millionth
_ITERATIONS = 500  # of the solver: half or double changes nothing at 16 × 8 × 8 cells


@dataclass(frozen=True, eq=False)
class _Problem:
    gains: FloatArray
    distances: FloatArray  # ways to differ × blocks

    @property
    def rows(self) -> int:
        return 0

    @property
    def columns(self) -> int:
        return len(self.distances)

    def precisions(self, weights: FloatArray) -> FloatArray:
        return np.sqrt(self.gains / (weights @ self.distances))

    def spectrum(self, weights: Weights) -> Spectrum:
        changes = self.distances @ self.precisions(weights.b)
        return Spectrum(float(weights.b @ changes), None, changes)


def replaced_precisions(
    blocks: Sequence[Block], gains: FloatArray
) -> FloatArray | None:
    """Precision of every block (of at least one attribute) that makes Σ gains/precision least.

    None where there are too many attributes to tell all ways to differ apart.
    """
    used = sorted({i for block in blocks for i in block.attributes})
    if len(used) > _MOST_PATTERNED:
        return None

    spans = {id(f): Span.of(f) for block in blocks for f in block.factors}
    distances = np.array([pattern_distances(used, block, spans) for block in blocks]).T
    problem = _Problem(gains, distances)
    solution = solve(
        problem,
        2,
        tolerance=_TOLERANCE,
        iterations=_ITERATIONS,
    )

    return problem.precisions(solution.primal.b)


def contrasts_by_pairs(
    workload: Workload,
    norm: float,
    bits: int,
) -> tuple[Axis, Factorization] | None:
    """The optimal contrasts of one attribute for replaced people, and the solution they are from.

    They are known up to a shift of all columns, which no difference sees: centred, so that columns
    are short. None where all cells are alike.
    """
    solved = factorize(
        workload,
        norm=norm,
        neighbours="replace-one",
        tolerance=_TOLERANCE,
        iterations=_ITERATIONS,
    )
    rows = solved.strategy.dense()
    weights = _cell_weights(solved)
    if not len(rows):
        return None

    rows = rows - (rows @ weights)[:, None]
    lengths = np.linalg.norm(rows, axis=1)
    if len(rows) != workload.size - 1 or lengths.min() < 1e-4 * lengths.max():
        rows = _completed(rows, weights, 2.0 ** (-bits / 2))

    return Axis(integer_multiple(rows, bits)), solved


def _completed(
    rows: FloatArray,
    weights: FloatArray,
    share: float,
) -> FloatArray:
    """As many contrasts as there are differences, the missing ones measured weakly.

    Rounding moves the row space by 2^-bits, and what it leaves unseen is answered from the weak
    rows: at 2^(-bits/2) of the rest, both cost 2^-bits of the squared error.
    """
    size = rows.shape[1]
    # vanishes on the weights too
    weak = share / np.sqrt(2) * (np.eye(size) - weights[:, None])
    _, s, vt = np.linalg.svd(np.concatenate([rows, weak]), full_matrices=False)
    return np.asarray(s[: size - 1, None] * vt[: size - 1], np.float64)


def _cell_weights(solved: Factorization) -> FloatArray:
    """How much every cell weighs in the pairs that decide, in total one."""
    pairs = solved.certificate.column_weights()
    size = solved.workload.size
    if pairs.size != size * (size - 1) // 2:  # families of tables: all cells are alike
        return np.full(size, 1 / size)

    weights = np.zeros(size)
    for ends in np.triu_indices(size, 1):
        np.add.at(weights, ends, pairs / 2)

    return weights


def replaced_design(design: MixedDesign, bits: int) -> MixedDesign | None:
    """The same family with axes that are optimal for replaced people; None if nothing changes."""
    family = design.family
    axes = list(design.axes)
    dual = list(design.dual)

    for group, size in enumerate(family.group_sizes):
        kinds = [kind for kind in family.kinds if kind.group == group]
        if (
            size > PAIR_CELLS
            or not kinds
            or all(has_exchangeable_cells(kind.gram) for kind in kinds)
        ):
            continue

        optimum = contrasts_by_pairs(stack([kind.workload for kind in kinds]), 2, bits)
        if optimum is not None:
            axes[group], dual[group] = (
                optimum[0],
                _cell_weights(optimum[1]),
            )

    changed = any(new is not old for new, old in zip(axes, design.axes, strict=True))
    return design_of(family, axes, dual) if changed else None
