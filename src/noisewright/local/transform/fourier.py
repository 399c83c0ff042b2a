"""Fourier [030]: each client draws one Walsh character, and reports its sign of it, randomised.

Characters that the workload does not ask are never drawn; the others are drawn with chances
proportional to √(χᵀMχ), which is the best for every data set at once. A report is a character and a
bit; nothing over the cells is stored, so that marginals over many binary attributes are within
reach however large their domain.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import TooLarge, require
from noisewright.local.analysis.grams import table_gram
from noisewright.local.analysis.information import (
    DenseInformation,
    Information,
    check_rows,
)
from noisewright.local.composed.table_strategy import TableStrategy, counts_or_even
from noisewright.local.fixedpoint import (
    WORD,
    check_epsilon,
    numbers,
    whole_weights,
)
from noisewright.local.histogram.centred import FavouringStrategy, check_cells
from noisewright.local.mechanism import LocalMechanism
from noisewright.local.randomizer.laws import Same
from noisewright.local.randomizer.routers import Project
from noisewright.local.randomizer.specification import Nodes
from noisewright.local.storage import Stored, check_weights
from noisewright.local.strategy import (
    DENSE_SIZE,
    LARGEST_VECTOR,
    IndexStrategy,
    check_dense,
)
from noisewright.local.transform.invariants import (
    InvariantInformation,
    block_mask,
    local_subsets,
    padded_size,
    walsh_energies,
    xor_table,
)
from noisewright.local.transform.translations import (
    Translations,
    binary_sizes,
    is_power_of_two,
)
from noisewright.workload.base import Workload
from noisewright.workload.linear.gram import Gram
from noisewright.workload.linear.marginal_gram import MarginalGram
from noisewright.workload.linear.tensor import walsh_hadamard

_ONE_BY_ONE = 2**24
"""Queries times cells that are looked at one query at a time."""


@dataclass(frozen=True, eq=False)
class Fourier(FavouringStrategy, TableStrategy, IndexStrategy):
    """A character drawn from `masks`, and the randomised sign of the cell under it."""

    size: int
    epsilon: float
    masks: IntArray
    weights: tuple[int, ...]
    """Chances of the characters, out of 2^64."""

    kind = "fourier"

    def __post_init__(self) -> None:
        check_cells(self.size)
        check_epsilon(self.epsilon)

        masks = self.masks
        whole = masks.dtype == np.int64 and masks.ndim == 1
        known = np.unique(masks)
        different = whole and 0 < len(known) == masks.size
        require(
            different and known[0] >= 1 and known[-1] < self.full,
            "masks",
            f"{masks.dtype} {masks.shape}",
            f"must be different whole numbers in 1..{self.full - 1}",
        )

        check_weights(self.weights, len(masks))
        if self.size > DENSE_SIZE and not is_power_of_two(self.size):
            raise TooLarge(
                f"fourier over {self.size} cells needs a power of two above {DENSE_SIZE} cells; "
                f"pad the domain"
            )

    @property
    def full(self) -> int:
        """Number of binary strings that hold the cells."""
        return padded_size(self.size)

    @property
    def sizes(self) -> tuple[int, ...]:  # type: ignore[override]
        """One binary attribute per bit."""
        return binary_sizes(self.full)

    @property
    def outputs(self) -> int:
        """A character and a sign."""
        return 2 * len(self.masks)

    @property
    def favoured(self) -> tuple[int, int]:
        """The true sign."""
        return 1, 2

    def express(self, nodes: Nodes) -> int:
        sign = nodes.favour(self.threshold, Same(cells=2))
        return nodes.add(
            Project(
                cells=str(self.size),
                base=2,
                digits=len(self.sizes),
                of=sign,
                vectors=tuple(map(str, self.masks.tolist())),
                weights=tuple(map(str, self.weights)),
            )
        )

    @classmethod
    def restored(cls, stored: Stored) -> Self:
        node = stored.node(Project)
        masks = np.array(node.listed, dtype=np.int64)
        weights = numbers(node.weights or ())
        return cls(stored.cells, stored.epsilon, masks, weights)

    @cached_property
    def slope(self) -> float:
        """δ: the mean of the reported sign times the true one."""
        return 2 * self.threshold / WORD - 1

    @cached_property
    def chances(self) -> FloatArray:
        """w_χ."""
        return np.array([weight / WORD for weight in self.weights])

    @cached_property
    def gains(self) -> FloatArray:
        """δ² w_χ: what a report tells of each character."""
        return self.slope**2 * self.chances

    def coefficients(self, tally: IntArray) -> FloatArray:
        """Unbiased estimates of Σ_u x_u χ(u) for the characters drawn."""
        positive, negative = tally.reshape(-1, 2).T
        return (positive - negative) / (self.slope * self.chances)

    # --- over vectors of cells ----------------------------------------------------------------

    def _spectrum(self, values: FloatArray) -> FloatArray:
        if self.full > LARGEST_VECTOR:
            raise TooLarge(
                f"{self.size} cells are too many for a vector; ask for tables"
            )

        spectrum = np.zeros(self.full)
        spectrum[self.masks] = values

        return spectrum

    def _waves(self, values: FloatArray) -> FloatArray:
        """Σ_χ v_χ χ(u) for every cell, over the characters drawn."""
        return walsh_hadamard(self._spectrum(values))[: self.size]

    def _padded(self, x: FloatArray) -> FloatArray:
        """The same over all binary strings: nothing beyond the domain."""
        result = np.zeros((self.full,) * x.ndim)
        result[(slice(self.size),) * x.ndim] = x
        return result

    def score(self, tally: IntArray, people: int) -> FloatArray:
        """Σ s with s = 1 + δ·sign·χ."""
        positive, negative = tally.reshape(-1, 2).T
        waves = np.asarray(self.slope * (positive - negative), dtype=np.float64)
        return people + self._waves(waves)

    @property
    def counts_people(self) -> bool:
        """Not where cells beyond the domain are left out of the characters' sums."""
        return is_power_of_two(self.size)

    @cached_property
    def information(self) -> Information:
        """X = 11ᵀ + δ² Σ_χ w_χ χχᵀ."""
        spectrum = self._spectrum(self.gains)
        if is_power_of_two(self.size):
            spectrum *= self.size
            spectrum[0] = self.size
            return InvariantInformation(Translations(self.sizes), spectrum, least=0.0)

        spectrum[0] = 1.0
        return DenseInformation(self._xor(walsh_hadamard(spectrum)))

    def _xor(self, column: FloatArray) -> FloatArray:
        """The matrix with entry column[u ⊕ v]."""
        check_dense(self.size)
        return column[xor_table(self.size)]

    def moment(self, histogram: FloatArray) -> FloatArray:
        """Σ_χ w_χ (N 11ᵀ + δ² x̂_χ (χ1ᵀ + 1χᵀ) + N δ² χχᵀ)."""
        coefficients = walsh_hadamard(self._padded(histogram))[self.masks]
        cross = self._waves(self.gains * coefficients)
        column = walsh_hadamard(self._spectrum(self.gains))
        squares = self._xor(column)

        result = histogram.sum() * (1 + squares)
        return np.asarray(result + cross[:, None] + cross)

    def energy(self, quadratic: FloatArray) -> FloatArray:
        """1ᵀS1 + δ² Σ_χ w_χ (2χ(u) χᵀS1 + χᵀSχ)."""
        half = walsh_hadamard(self._padded(quadratic))
        image = half.sum(axis=1)[self.masks]
        cross = self._waves(2 * self.gains * image)
        squares = np.diagonal(walsh_hadamard(half.T))[self.masks]
        return np.asarray(quadratic.sum() + self.gains @ squares + cross)

    def type_variances(self, gram: Gram) -> FloatArray:
        """(Σ_χ χᵀMχ/(δ²w_χ) − 1ᵀM1)/n² + (2/n)(M1)_u − M_uu over 2^k cells."""
        if not is_power_of_two(self.size):
            return super().type_variances(gram)

        n = self.size
        image = gram.matvec(np.ones(n))
        squares = walsh_energies(gram)[self.masks] / self.gains
        constant = (squares.sum() - image.sum()) / n**2
        return np.asarray(constant + 2 * image / n - gram.diagonal())

    def worst_variance(self, gram: Gram) -> float:
        """All types are alike for marginals of binary attributes."""
        tables = binary_tables(gram)
        if tables is None:
            return super().worst_variance(gram)

        masks, energies = _asked_of_tables(tables)
        drawn = [self._position[mask] for mask in masks.tolist()]
        squares = energies / self.gains[drawn]

        n = float(gram.size)
        total = float(squares.sum()) / n + tables.eigenvalue(()) / n
        return total - float(sum(tables.weights.values()))

    def average_variance(self, gram: Gram) -> float:
        """All types are alike for marginals of binary attributes."""
        if binary_tables(gram) is None:
            return super().average_variance(gram)
        return self.worst_variance(gram)

    # --- over tables --------------------------------------------------------------------------

    @cached_property
    def _position(self) -> dict[int, int]:
        return {int(mask): index for index, mask in enumerate(self.masks)}

    def _inside(self, attributes: tuple[int, ...]) -> IntArray:
        """Positions of the characters of all subsets, by local mask; −1 for one never drawn."""
        positions = [-1]
        for block in local_subsets(attributes)[1:]:
            mask = block_mask(block, len(self.sizes))
            positions.append(self._position.get(mask, -1))
        return np.array(positions)

    @property
    def by_tables(self) -> bool:
        """Whether the domain is too large for a vector."""
        return self.full > LARGEST_VECTOR

    def reaches(self, attributes: tuple[int, ...]) -> bool:
        """Whether every interaction of the table is drawn."""
        drawn = self._inside(attributes)[1:]
        return bool((drawn >= 0).all())

    def interactions(self, tally: IntArray, people: int) -> FloatArray:
        """The coefficients of the characters drawn, after the number of people."""
        coefficients = self.coefficients(tally)
        return np.concatenate([[float(people)], coefficients])

    def table(
        self, interactions: FloatArray, attributes: tuple[int, ...]
    ) -> FloatArray:
        """Estimated counts of one marginal table."""
        spectrum = interactions[1 + self._inside(attributes)]
        return walsh_hadamard(spectrum) / len(spectrum)

    def table_covariance(
        self,
        attributes: tuple[int, ...],
        people: float,
        counts: FloatArray | None = None,
    ) -> FloatArray:
        """Covariance of one table, at its true counts or at even ones."""
        cells = 1 << len(attributes)
        x = counts_or_even(counts, cells, people)
        spectrum = 1 / self.gains[self._inside(attributes)]
        spectrum[0] = -1.0

        squares = walsh_hadamard(spectrum)[xor_table(cells)]
        pairs = people * squares / cells + x[:, None] + x
        return np.asarray(pairs / cells - np.diag(x))

    def check_reach(self, workload: Workload) -> None:
        """Raise `OutOfReach` naming the first query that needs a character never drawn."""
        if self.by_tables:
            TableStrategy.check_reach(self, workload)
        elif not self.information.full_rank and not self._tells_all(workload):
            check_rows(self.kind, self.information, workload)

    def _tells_all(self, workload: Workload) -> bool:
        """Whether next to nothing is asked of characters never drawn, as many queries' sum says.

        A query far smaller than others hides in their energies: few are asked one by one.
        """
        many = workload.queries * self.size > _ONE_BY_ONE
        if not many or not is_power_of_two(self.size):
            return False

        missing = np.ones(self.full, dtype=bool)
        missing[self.masks] = False
        missing[0] = False
        energies = walsh_energies(table_gram(workload))
        return bool(energies[missing].sum() <= 1e-14 * energies.sum())


def binary_tables(gram: Gram) -> MarginalGram | None:
    """The matrix, where it is of marginals of binary attributes."""
    match gram:
        case MarginalGram() if set(gram.sizes) == {2}:
            return gram
        case _:
            return None


def _asked_of_tables(gram: MarginalGram) -> tuple[IntArray, FloatArray]:
    """The characters that marginals ask, and how much."""
    attributes = len(gram.sizes)
    blocks = [block for block in gram.closure if block]
    masks = [block_mask(block, attributes) for block in blocks]
    energies = [gram.eigenvalue(block) for block in blocks]
    return np.array(masks, dtype=np.int64), np.array(energies)


def _asked(gram: Gram) -> tuple[IntArray, FloatArray]:
    """The characters that a workload asks, and how much."""
    tables = binary_tables(gram)
    if tables is not None:
        return _asked_of_tables(tables)
    if padded_size(gram.size) > LARGEST_VECTOR:
        raise TooLarge(
            f"fourier over {gram.size} cells answers marginals of binary attributes only"
        )

    energies = walsh_energies(gram)
    if is_power_of_two(gram.size):
        energies[0] = 0.0
        least = 1e-12 * energies.max(initial=0.0)
        masks = np.flatnonzero(energies > least)
        return masks, energies[masks]

    # Cells beyond the domain tie characters together: all are asked.
    masks = np.arange(1, len(energies))
    least = 1e-9 * energies[1:].max() or 1.0
    return masks, np.maximum(energies[1:], least)


def fourier(gram: Gram, epsilon: float) -> Fourier:
    """The characters that the workload needs, with the best chances for it."""
    size = check_cells(gram.size)
    masks, energies = _asked(gram)
    if not masks.size:  # only totals are asked
        masks = np.array([1])
        energies = np.ones(1)

    # A floor keeps every needed character alive in fixed point.
    roots = np.sqrt(energies)
    weights = whole_weights(np.maximum(roots, roots.max() * 1e-12))
    masks = masks.astype(np.int64)

    return Fourier(size, check_epsilon(epsilon), masks, tuple(weights))


ENTRY = LocalMechanism(
    "fourier",
    "the sign of one Walsh character",
    lambda problem: fourier(problem.gram, problem.epsilon),
)
