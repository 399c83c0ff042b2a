"""Gaussian strategies near the best linear one, for products over subsets of attributes.

A term S asks a product of one-attribute workloads; its variance splits over the subsets T ⊆ S into
Π_{i∈T} t_i · Π_{i∈S∖T} g_i, where t and g are what contrasts and totals of an attribute contribute
(see `axes`). Blocks T of the downward closure get independent noise, so the best split of the
budget over blocks is in closed form and the weighted total variance is (Σ_T √v_T)².

Every group of attributes asked alike gets one axis: the optimal factorization of its queries
together with τ times the total, one number per group. τ = 0 is the Kronecker optimum, plain counts
have the same axis for every τ, and in between a fixed point finds the τ at which neither the total
nor the contrasts would gain from more budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.central.blocks.axes import (
    Axis,
    centred_axis,
    from_strategy,
)
from noisewright.errors import TooLarge
from noisewright.norm.exact.tridiagonal import (
    TridiagonalProblem,
    prefix_gram_inverse,
)
from noisewright.norm.kernel.problems import GramProblem
from noisewright.norm.kernel.solver import Weights, solve
from noisewright.workload import Workload
from noisewright.workload.linear.gram import PrefixGram
from noisewright.workload.linear.interactions import subsets
from noisewright.workload.structure import Term

Table = tuple[int, ...]

PAIR_LIMIT = 20_000_000
"""Interactions of all tables together up to which they are listed one by one."""


@dataclass(frozen=True)
class Kind:
    """A workload asked of an attribute; attributes asked the same things share their kinds."""

    group: int
    workload: Workload

    @cached_property
    def gram(self) -> FloatArray:
        """Dense Gram matrix over the attribute's own values."""
        return self.workload.gram().dense()


@dataclass(frozen=True, eq=False)
class Family:
    """Terms over attributes, with every pair (block T, term S ⊇ T) listed."""

    sizes: tuple[int, ...]
    terms: tuple[Term, ...]
    groups: tuple[int, ...]
    kinds: tuple[Kind, ...]
    blocks: tuple[Table, ...]
    pair_block: IntArray
    pair_term: IntArray
    pair_kinds: IntArray
    pair_inside: BoolArray

    @property
    def queries(self) -> int:
        """Number of queries."""
        return sum(term.queries for term in self.terms)

    @cached_property
    def squares(self) -> FloatArray:
        """Squared weight of every term."""
        return np.array([term.weight**2 for term in self.terms])

    @cached_property
    def group_sizes(self) -> list[int]:
        """Number of values of the attributes of each group."""
        sizes = dict(zip(self.groups, self.sizes, strict=True))
        return [sizes[group] for group in range(len(sizes))]

    def contributions(self, totals: FloatArray, contrasts: FloatArray) -> FloatArray:
        """Variance that each pair adds, from g and t of every kind (a last, neutral kind is 1)."""
        g = np.append(totals, 1.0)
        t = np.append(contrasts, 1.0)
        factors = np.where(self.pair_inside, t[self.pair_kinds], g[self.pair_kinds])
        return np.asarray(self.squares[self.pair_term] * factors.prod(axis=1))

    def block_variances(self, contributions: FloatArray) -> FloatArray:
        """v_T: total over the terms that hold each block."""
        sums = np.bincount(self.pair_block, contributions, minlength=len(self.blocks))
        return sums.astype(np.float64)

    def gradients(
        self,
        contributions: FloatArray,
        totals: FloatArray,
        contrasts: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Derivatives of Σ_T √v_T by g and by t of every kind."""
        slopes = 0.5 / np.sqrt(self.block_variances(contributions))[self.pair_block]
        weights = np.repeat(
            (slopes * contributions)[:, None],
            self.pair_kinds.shape[1],
            axis=1,
        )
        count = len(self.kinds) + 1
        sums = [
            np.bincount(self.pair_kinds[mask], weights[mask], minlength=count)[:-1]
            for mask in (~self.pair_inside, self.pair_inside)
        ]

        return sums[0] / totals, sums[1] / np.maximum(contrasts, 1e-300)


def compile_family(sizes: Sequence[int], terms: Sequence[Term]) -> Family:
    """List blocks and pairs of terms that all are products over their attributes."""
    pairs = sum(2 ** len(term.attributes) for term in terms)
    if pairs > PAIR_LIMIT:
        raise TooLarge(
            f"{len(terms)} tables have {pairs} interactions, more than {PAIR_LIMIT}; ask fewer "
            f"tables, or tables of fewer attributes"
        )

    groups, kinds, number = _group_attributes(len(sizes), terms)
    width = max((len(term.attributes) for term in terms), default=0)
    blocks: dict[Table, int] = {}
    pair_block: list[int] = []
    pair_term: list[int] = []
    pair_kinds: list[list[int]] = []
    pair_inside: list[list[bool]] = []

    for index, term in enumerate(terms):
        factors = term.by_attribute.items()
        chosen = [number[groups[i], factor.text()] for i, factor in factors]
        chosen += [len(kinds)] * (width - len(chosen))
        for table in subsets(tuple(i for i in term.attributes if sizes[i] > 1)):
            inside = [i in table for i in term.attributes]
            pair_block.append(blocks.setdefault(table, len(blocks)))
            pair_term.append(index)
            pair_kinds.append(chosen)
            pair_inside.append(inside + [False] * (width - len(inside)))

    shape = (len(pair_block), width)
    return Family(
        tuple(sizes),
        tuple(terms),
        groups,
        kinds,
        tuple(blocks),
        np.array(pair_block, dtype=np.int64),
        np.array(pair_term, dtype=np.int64),
        np.array(pair_kinds, dtype=np.int64).reshape(shape),
        np.array(pair_inside, dtype=bool).reshape(shape),
    )


def _group_attributes(
    count: int, terms: Sequence[Term]
) -> tuple[tuple[int, ...], tuple[Kind, ...], dict[tuple[int, str], int]]:
    """Attributes asked exactly the same workloads form one group and share one axis."""
    by_attribute: list[dict[str, Workload]] = [{} for _ in range(count)]
    texts: dict[int, str] = {}
    for term in terms:
        for i, factor in term.by_attribute.items():
            text = texts.setdefault(id(factor), factor.text())
            by_attribute[i][text] = factor

    names: dict[tuple[str, ...], int] = {}
    groups: list[int] = []
    kinds: list[Kind] = []
    number: dict[tuple[int, str], int] = {}

    for i, workloads in enumerate(by_attribute):
        key = tuple(sorted(workloads)) or (f"unused:{i}",)
        new = key not in names
        group = names.setdefault(key, len(names))
        groups.append(group)
        if new:
            for text, workload in workloads.items():
                number[group, text] = len(kinds)
                kinds.append(Kind(group, workload))

    return tuple(groups), tuple(kinds), number


# of axes, which settle before: half or double changes nothing at 16 × 8 × 8 cells
_ROUNDS = 12
_TOLERANCE = 1e-5  # of the solver: half or double changes errors by 3e-5 at most
# gain of a round below which axes move no more: half or double changes errors by 3e-5
_SETTLED = 1e-5
_ITERATIONS = 500  # of the solver: half or double changes nothing at 16 × 8 × 8 cells
# of the largest: the noise of a block is then a million times as large, and still drawn
_LEAST_SHARE = 1e-12
# of the mean eigenvalue: gives queries that leave cells apart a full-rank strategy
_RIDGE = 1e-7


@dataclass(frozen=True, eq=False)
class MixedDesign:
    """Axes per group, budget share per block, and the error they give at unit noise.

    `value` is the root mean squared error over all queries (weights included) when the noise is
    scaled to the strategy's L2 sensitivity; `dual` holds cell weights per group that certify it.
    """

    family: Family
    axes: tuple[Axis, ...]
    dual: tuple[FloatArray, ...]
    variances: FloatArray

    @property
    def value(self) -> float:
        """Root mean squared error per unit of noise."""
        return float(np.sqrt(self.variances).sum()) / float(
            np.sqrt(self.family.queries)
        )

    @property
    def shares(self) -> FloatArray:
        """Share of the squared sensitivity spent on each block; they sum to one."""
        roots = np.sqrt(self.variances)
        # Where nothing is asked of a block (of totals, by differences alone) rounding may remain:
        # the least share is one that noise can still be drawn for.
        roots = np.maximum(roots, _LEAST_SHARE * roots.max())
        return np.asarray(roots / roots.sum())

    def axis(self, attribute: int) -> Axis:
        """The axis of one attribute."""
        return self.axes[self.family.groups[attribute]]

    def noise(self, block: Table, share: float) -> float:
        """Standard deviation of a block's integer contrasts that spends `share`."""
        length = prod(float(self.axis(attribute).length) for attribute in block)
        return float(np.sqrt(length / share))


def design(family: Family, bits: int = 12) -> MixedDesign:
    """Optimise the axes for total weighted variance; exact for counts, certified otherwise."""
    states = [_start(family, group, bits) for group in range(len(family.group_sizes))]
    best = np.inf
    chosen = states

    for _ in range(_ROUNDS):
        totals, contrasts = _variances(family, [state.axis for state in states])
        contributions = family.contributions(totals, contrasts)
        value = float(np.sqrt(family.block_variances(contributions)).sum())
        if value < best:
            chosen = states

        if value > best * (1 - _SETTLED) or all(state.exact for state in states):
            break

        best = value
        slopes = family.gradients(contributions, totals, contrasts)
        states = [
            state
            if state.exact
            else _improve(
                family,
                group,
                state,
                totals,
                contrasts,
                slopes,
                bits,
            )
            for group, state in enumerate(states)
        ]

    return design_of(family, [s.axis for s in chosen], [s.dual for s in chosen])


def design_of(
    family: Family,
    axes: Sequence[Axis],
    dual: Sequence[FloatArray],
) -> MixedDesign:
    """The design with given axes, one per group of attributes."""
    variances = family.block_variances(family.contributions(*_variances(family, axes)))
    return MixedDesign(
        family,
        tuple(axes),
        tuple(dual),
        variances,
    )


def _variances(family: Family, axes: Sequence[Axis]) -> tuple[FloatArray, FloatArray]:
    """g and t of every kind."""
    totals = [axes[kind.group].total_variance(kind.gram) for kind in family.kinds]
    contrasts = [axes[kind.group].contrast_variance(kind.gram) for kind in family.kinds]
    return np.array(totals), np.array(contrasts)


@dataclass(frozen=True, eq=False)
class _State:
    axis: Axis
    dual: FloatArray
    exact: bool


def _start(
    family: Family,
    group: int,
    bits: int,
) -> _State:
    size = family.group_sizes[group]
    grams = [kind.gram for kind in family.kinds if kind.group == group]
    if all(has_exchangeable_cells(gram) for gram in grams):
        return _State(centred_axis(size), np.full(size, 1.0 / size), True)

    mean = sum(gram / np.trace(gram) for gram in grams)
    return _solve(mean, 0.0, None, bits)


def has_exchangeable_cells(gram: FloatArray) -> bool:
    """Whether all cells are alike, G = aI + c11ᵀ: then uniform weights are optimal."""
    if len(gram) == 1:
        return True
    a = gram[0, 0] - gram[0, 1]
    rest = gram - a * np.eye(len(gram)) - gram[0, 1]
    return bool(np.abs(rest).max() <= 1e-12 * np.abs(gram).max())


def _solve(
    gram: FloatArray,
    tau_squared: float,
    start: FloatArray | None,
    bits: int,
) -> _State:
    problem = _problem(gram, tau_squared)
    begin = None if start is None else Weights(None, start)
    solution = solve(
        problem,
        2,
        tolerance=_TOLERANCE,
        iterations=_ITERATIONS,
        start=begin,
    )
    axis = from_strategy(problem.factors(solution.primal).strategy, bits)

    return _State(axis, solution.dual.b, False)


def _problem(gram: FloatArray, tau_squared: float) -> GramProblem | TridiagonalProblem:
    scale = float(gram[-1, -1])
    prefix = scale * PrefixGram(len(gram)).dense()
    if len(gram) > 1 and scale > 0 and np.allclose(gram, prefix, rtol=1e-12, atol=0.0):
        # Adding 11ᵀ to the Gram matrix of prefix sums changes one entry of its inverse.
        plain = prefix_gram_inverse(len(gram))
        diagonal = plain.diagonal.copy()
        diagonal[-1] -= tau_squared / (scale + tau_squared)
        return TridiagonalProblem(diagonal / scale, plain.off_diagonal / scale)

    ridge = _RIDGE * float(np.trace(gram)) / len(gram)
    return GramProblem(gram + tau_squared + ridge * np.eye(len(gram)))


def _improve(
    family: Family,
    group: int,
    state: _State,
    totals: FloatArray,
    contrasts: FloatArray,
    slopes: tuple[FloatArray, FloatArray],
    bits: int,
) -> _State:
    """The axis whose own optimality conditions match the slopes of the whole objective.

    For one attribute with the total weighted by τ the optimum minimises √(g + τ²) + √t, so its
    slopes by g and t are 1/(2√(g + τ²)) and 1/(2√t); matching their ratio gives τ.
    """
    members = np.array(
        [k for k, kind in enumerate(family.kinds) if kind.group == group]
    )
    by_total = slopes[0][members]
    by_contrast = slopes[1][members]
    shares = by_contrast / by_contrast.sum()
    gram = np.asarray(
        sum(s * family.kinds[k].gram for s, k in zip(shares, members, strict=True)),
        dtype=np.float64,
    )
    g = float(shares @ totals[members])
    t = float(shares @ contrasts[members])
    slope = float(by_total @ totals[members]) / g
    tau_squared = max(0.0, (float(by_contrast.sum()) / slope) ** 2 * t - g)

    return _solve(gram, tau_squared, state.dual, bits)
