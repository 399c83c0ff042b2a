"""Hierarchical [031]: a histogram mechanism on each level of a tree of blocks, well weighted.

In the notation of `tree`, λ_l = Σ_{j<=l} p_j a_j w_j for levels weighted by p with mechanisms of
contrast a: the best weights follow from traces of the Gram matrix alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.errors import InvalidParameter, TooLarge, require
from noisewright.local.analysis.information import Information, inverse_where_seen
from noisewright.local.composed.mixture import Coarsening, Mixture
from noisewright.local.fixedpoint import check_epsilon
from noisewright.local.histogram.centred import CentredStrategy, check_cells
from noisewright.local.histogram.hashing import LocalHashing
from noisewright.local.histogram.sets import RandomizedResponse
from noisewright.local.listed import Decoded
from noisewright.local.mechanism import LocalMechanism, slow_matrices
from noisewright.local.shares import faded_shares
from noisewright.local.strategy import DENSE_SIZE, IndexStrategy
from noisewright.local.transform.spectrum import (
    Intervals,
    SummedGram,
    block_traces,
    has_closed_form,
    interval_products,
)
from noisewright.workload.linear.gram import Gram

_BRANCHINGS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 32, 64)
"""What is tried: all small ones, where the error turns most, and powers of two beyond."""

_STEPS = 300
"""For the weights of levels: half as many cost up to 8e-6 of the error, twice as many gain none."""

_LISTED_ENTRIES = 2**22  # chances, of which a decoder takes products for a second

Oracle = RandomizedResponse | LocalHashing


@dataclass(frozen=True, eq=False)
class TreeInformation(Information):
    """X = Σ_l λ_l Π_l + 11ᵀ for widths that divide one another, the last below n."""

    cells: int
    widths: tuple[int, ...]
    eigenvalues: FloatArray

    @property
    def size(self) -> int:
        """Number of types."""
        return self.cells

    @property
    def full_rank(self) -> bool:
        """Whether every level is seen."""
        return bool((self.eigenvalues > 0).all())

    def _filtered(self, x: FloatArray, gains: FloatArray, total: float) -> FloatArray:
        mean = x.mean(axis=0)
        result = np.broadcast_to(total * mean, x.shape).copy()
        above = np.broadcast_to(mean, x.shape)

        for level in reversed(range(len(self.widths))):
            width = self.widths[level]
            blocks = x.reshape(-1, width, *x.shape[1:])
            means = blocks.mean(axis=1)
            here = np.repeat(means, width, axis=0)
            result += gains[level] * (here - above)
            above = here

        return result

    def matvec(self, x: FloatArray) -> FloatArray:
        """Product with `x`."""
        return self._filtered(x, self.eigenvalues, float(self.cells))

    def solve(self, x: FloatArray) -> FloatArray:
        """Pseudo-inverse applied to `x`."""
        gains = inverse_where_seen(self.eigenvalues)
        return self._filtered(x, gains, 1.0 / self.cells)

    def inverse_products(self, gram: Gram, level: int) -> FloatArray:
        """(X⁻¹1_B)ᵀ M (X⁻¹1_B) for every block B of a level, without a matrix over cells.

        X⁻¹1_B is a combination of the indicators of the blocks around B, one per level above.
        """
        widths = [*self.widths[level:], self.cells]
        eigenvalues = np.append(self.eigenvalues[level:], float(self.cells))
        shares = widths[0] / np.array(widths)
        k = shares * np.diff(1.0 / eigenvalues, prepend=0.0)

        starts = np.arange(0, self.cells, widths[0])
        total = np.zeros(len(starts))

        for i, inner in enumerate(widths):
            # Products over blocks of one level are needed once per block, not once per B.
            first = np.arange(0, self.cells, inner)
            part = np.zeros(len(first))

            for j in range(i, len(widths)):
                width = widths[j]
                outer = first // width * width
                over = Intervals(first, first + inner, outer, outer + width)
                twice = 1.0 if i == j else 2.0
                part += twice * k[i] * k[j] * interval_products(gram, over)

            total += part[starts // inner]

        return total


@dataclass(frozen=True, eq=False)
class TreeMixture(Mixture):
    """A mixture over even blocks whose mechanisms treat cells alike: all of it in closed form."""

    kind = "tree-mixture"

    def __post_init__(self) -> None:
        super().__post_init__()
        widths = [coarsening.width for coarsening in self.coarsenings]
        nested = all(
            wide % width == 0 for width, wide in pairwise([*widths, self.size])
        )
        blocks = all(coarsening.table is None for coarsening in self.coarsenings)
        require(
            nested and blocks and widths[0] == 1,
            "components",
            widths,
            "must be cells of nested blocks",
        )
        _ = self._alike

    @property
    def counts_people(self) -> bool:
        """Blocks are even."""
        return True

    @cached_property
    def information(self) -> Information:
        """X = Σ_l λ_l Π_l + 11ᵀ."""
        return self.tree

    @cached_property
    def tree(self) -> TreeInformation:
        """What X is on the blocks."""
        widths = tuple(coarsening.width for coarsening in self.coarsenings)
        contrasts = np.array([component.contrast for component in self._alike])
        gains = self.chances * contrasts * np.array(widths)

        return TreeInformation(self.size, widths, np.cumsum(gains))

    @property
    def _alike(self) -> list[CentredStrategy]:
        """The components, which treat all cells alike to third order, as closed forms need."""
        alike: list[CentredStrategy] = []

        for component in self.components:
            match component:
                case CentredStrategy(alike=True):
                    alike.append(component)
                case _:
                    rule = "must treat all cells alike"
                    raise InvalidParameter("components", component.kind, rule)

        return alike

    def type_variances(self, gram: Gram) -> FloatArray:
        """Energies level by level: only diagonals and row sums of coarsened matrices are needed."""
        return _tree_variances(self, gram)


@lru_cache(maxsize=2)  # planning asks for the same variances several times
def _tree_variances(strategy: TreeMixture, gram: Gram) -> FloatArray:
    if not has_closed_form(gram):
        gram = SummedGram.of(gram)

    tree = strategy.tree
    mean = gram.matvec(np.ones(strategy.size)) / strategy.size
    image = tree.solve(mean)
    result = -gram.diagonal()

    for level, component in enumerate(strategy._alike):
        coarsening = strategy.coarsenings[level]
        diagonal = tree.inverse_products(gram, level)
        energy = component.energy_of(diagonal, coarsening.gather(image))
        result = result + strategy.chances[level] * coarsening.spread(energy)

    result.setflags(write=False)
    return np.asarray(result)


def _frequency_oracle(cells: int, epsilon: float, buckets: int = 0) -> Oracle:
    """The histogram mechanism with reports of constant size that tells cells apart best.

    Hashing to two `buckets` treats all cells alike; as many as are best do not.
    """
    response = RandomizedResponse(cells, epsilon)
    hashing = LocalHashing(cells, epsilon, buckets)
    return response if response.contrast >= hashing.contrast else hashing


@dataclass(frozen=True)
class _Tree:
    """A tree with its mechanisms and weights, and the objective they reach."""

    objective: float
    widths: list[int]
    oracles: list[Oracle]
    weights: FloatArray


def hierarchical(
    gram: Gram, epsilon: float, branching: int | None = None
) -> IndexStrategy:
    """Levels of a tree with the given branching, or the best one, weighted for the workload.

    Above 4096 cells blocks must be even, and every level's mechanism treats its cells alike.
    """
    check_epsilon(epsilon)
    size = check_cells(gram.size)
    asked = gram
    require(
        branching is None or (int(branching) == branching and branching >= 2),
        "branching",
        branching,
        "must be a whole number >= 2",
        "try 4",
    )

    if not has_closed_form(gram):
        gram = SummedGram.of(gram)

    large = size > DENSE_SIZE
    choices = _BRANCHINGS if branching is None else (int(branching),)
    levels = _even_widths if large else _widths
    widths = [levels(size, choice) for choice in choices]
    trees = [_tree(gram, epsilon, nested, large) for nested in widths if nested]
    if not trees:
        raise TooLarge(
            f"{size} cells have no tree of even blocks; pad to a multiple of a power"
        )

    best = min(trees, key=lambda tree: tree.objective)
    coarsenings = [Coarsening(size, width) for width in best.widths]
    if not large:
        mixture = Mixture.of(best.oracles, coarsenings, best.weights)
        return _pooled(mixture, asked)

    # Every level stays, if with hardly any weight: the closed forms want the whole tree.
    weights = np.maximum(best.weights, 1e-12)
    return TreeMixture.of(best.oracles, coarsenings, weights)


def _pooled(mixture: Mixture, gram: Gram) -> IndexStrategy:
    """The same reports, decoded together for evenly spread people where they can be listed.

    Every part's own statistic is best for people even over its own blocks, and hashed reports are
    counted by cells. Together they are best on average over all cells; where that raises the worst
    case, which is what people are planned for (by up to 0.3 % on a few trees), parts stay apart.
    """
    if mixture.outputs * mixture.size > _LISTED_ENTRIES:
        return mixture

    even = np.full(mixture.size, 1.0 / mixture.size)
    together = Decoded(mixture, even)
    return min(together, mixture, key=lambda one: one.worst_variance(gram))


def _widths(size: int, branching: int) -> list[int]:
    widths = []
    width = 1

    while width < size:
        widths.append(width)
        width *= branching

    return widths


def _even_widths(size: int, branching: int) -> list[int]:
    """Powers of the branching that divide the size; none if they leave too wide a top level."""
    widths = [width for width in _widths(size, branching) if size % width == 0]
    return widths if size // widths[-1] <= 64 else []


def _tree(gram: Gram, epsilon: float, widths: list[int], alike: bool) -> _Tree:
    size = gram.size
    buckets = 2 if alike else 0
    blocks = [-(-size // width) for width in widths]
    oracles = [_frequency_oracle(count, epsilon, buckets) for count in blocks]

    levels = [*widths, size]
    traces = np.array([block_traces(gram, width) / width for width in levels])
    detail = np.maximum(traces[:-1] - traces[1:], 0.0)
    contrasts = np.array([oracle.contrast for oracle in oracles])
    objective, weights = level_weights(detail, contrasts * np.array(widths))

    return _Tree(objective, widths, oracles, weights)


def level_weights(detail: FloatArray, gains: FloatArray) -> tuple[float, FloatArray]:
    """Minimise Σ_l m_l/λ_l with λ_l = Σ_{j<=l} p_j g_j over distributions p."""
    value, p = _level_weights(detail.tobytes(), gains.tobytes())
    return value, p.copy()


# a plan has these trees as candidates, and again as what to be better than
@lru_cache(maxsize=256)
def _level_weights(details: bytes, gained: bytes) -> tuple[float, FloatArray]:
    detail = np.frombuffer(details)
    gains = np.frombuffer(gained)

    def slopes(known: FloatArray) -> FloatArray:
        from_below = (detail / known**2)[::-1]
        return gains * np.cumsum(from_below)[::-1]

    p = faded_shares(
        len(gains), lambda shares: np.cumsum(shares * gains), slopes, _STEPS
    )
    p[p < 1e-9] = 0.0
    p /= p.sum()
    seen = np.cumsum(p * gains)

    # A level with no weight below it is lost; keep a grain of it if the workload needs it.
    if seen[0] == 0 and detail[0] > 0:
        p = (p + 1e-9) / (1 + 1e-9 * len(p))
        seen = np.cumsum(p * gains)

    needed = detail > 0
    cost = detail[needed] / seen[needed]
    return float(cost.sum()), p


ENTRY = LocalMechanism(
    "hierarchical",
    "one level of a tree of blocks",
    lambda problem: hierarchical(problem.gram, problem.epsilon),
    slow=slow_matrices,
)
