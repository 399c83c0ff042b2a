"""Hadamard response [029], for any ε: blocks of a Walsh–Hadamard matrix.

Outputs come in B blocks of b, both powers of two, B near e^ε/2. A cell owns one column of one block
and is e^ε times likelier to report the b/2 outputs where that column is +1 than any other output.
Everything is a Walsh–Hadamard transform within blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, exp, log2

import numpy as np

from noisewright.errors import InvalidParameter
from noisewright.local.analysis.information import (
    DenseInformation,
    Information,
    UnformedInformation,
)
from noisewright.local.fixedpoint import (
    WORD,
)
from noisewright.local.histogram.plain import FavouringStrategy, PlainStrategy
from noisewright.local.mechanism import LocalMechanism, slow_matrices
from noisewright.local.randomizer.laws import Parity
from noisewright.local.randomizer.specification import Nodes
from noisewright.local.reading import whole
from noisewright.local.strategy import (
    DENSE_SIZE,
    IndexStrategy,
    IntArray,
    check_dense,
)
from noisewright.local.transform.hadamard_blocks import FullBlocks
from noisewright.local.transform.walsh import is_power_of_two
from noisewright.workload.base import FloatArray, Workload
from noisewright.workload.gram import Gram
from noisewright.workload.tensor import walsh_hadamard


@dataclass(frozen=True)
class HadamardResponse(FavouringStrategy, PlainStrategy, IndexStrategy):
    """Report an output on which the cell's own Hadamard column is +1, or some other.

    Up to 4096 cells the estimate is the best for uniform data. Beyond, it is the best for uniform
    data over the cells that full blocks would hold, which has a closed form.
    """

    size: int
    epsilon: float
    parts: int = 0
    """Number of blocks, a power of two; the published choice for this ε unless given."""

    kind = "hadamard"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.parts == 0:
            reach = min(exp(self.epsilon), 2.0 * self.size)
            object.__setattr__(self, "parts", int(2 ** max(ceil(log2(reach)) - 1, 0)))
        if not (0 < self.parts <= 2 * self.size and is_power_of_two(self.parts)):
            raise InvalidParameter("parts", self.parts, "must be a power of two", "try 1")
        whole("outputs", self.outputs)
        if self.used > self.parts:  # widths are rounded where cells are beyond 2^52
            raise InvalidParameter("size", self.size, "does not fit the blocks", "give parts=1")

    @cached_property
    def width(self) -> int:
        """b, the number of outputs of a block."""
        return int(2 ** ceil(log2(self.size / self.parts + 1)))

    @property
    def used(self) -> int:
        """Blocks in which some cell has its column."""
        return -(-self.size // (self.width - 1))

    @property
    def outputs(self) -> int:
        """All outputs of all blocks."""
        return self.parts * self.width

    @property
    def favoured(self) -> tuple[int, int]:
        """Half of a block."""
        return self.width // 2, self.outputs

    def express(self, nodes: Nodes) -> int:
        owner = Parity(cells=self.size, width=self.width, blocks=self.parts)
        return nodes.favour(self.threshold, owner)

    @cached_property
    def _chances(self) -> tuple[float, float]:
        """Chance of one output outside, and what being inside adds."""
        half, p = self.width // 2, self.threshold / WORD
        low = (1 - p) / (self.outputs - half)
        return low, p / half - low

    # --- transforms ---------------------------------------------------------------------------

    def _inside_sums(self, x: FloatArray) -> FloatArray:
        """For every output of a block in use, the sum of x over cells that have it inside."""
        grid = self._full.placed(x)
        waves = walsh_hadamard(np.moveaxis(grid, 1, 0))
        return np.asarray((np.moveaxis(waves, 0, 1) + waves[0][:, None]) / 2)

    def forward(self, x: FloatArray) -> FloatArray:
        """Qx: chances of the outputs under weights over cells."""
        low, gain = self._chances
        result = np.zeros((self.outputs, *x.shape[1:]))
        result += low * x.sum(axis=0)
        result[: self.used * self.width] += gain * self._inside_sums(x).reshape(-1, *x.shape[1:])
        return result

    def _padded_backward(self, z: FloatArray) -> FloatArray:
        """Qᵀz over the cells that full blocks would hold, as (blocks in use, b − 1)."""
        low, gain = self._chances
        grid = z[: self.used * self.width].reshape(self.used, self.width)
        waves = walsh_hadamard(grid.T).T
        return np.asarray(low * z.sum() + gain * (waves[:, :1] + waves[:, 1:]) / 2)

    def backward(self, z: FloatArray) -> FloatArray:
        """Qᵀz for weights z over outputs."""
        return self._padded_backward(z).ravel()[: self.size]

    # --- collector and analysis, up to 4096 cells ---------------------------------------------

    @cached_property
    def _prior_chances(self) -> FloatArray:
        return self.forward(self.prior)

    def score(self, tally: IntArray, people: int) -> FloatArray:
        """Σ_o y_o q_o / (q_oᵀπ)."""
        return self.backward(tally / self._prior_chances)

    @cached_property
    def information(self) -> Information:
        """X under uniform data."""
        if self.size > DENSE_SIZE:
            return UnformedInformation(self.size)
        return DenseInformation(self.moment(self.prior))

    def moment(self, histogram: FloatArray) -> FloatArray:
        """Σ_o w_o q_o q_oᵀ with w = (Qx)/(Qπ)²: ones, two vectors and XOR-invariant blocks."""
        check_dense(self.size)
        low, gain = self._chances
        w = self.forward(histogram) / self._prior_chances**2
        grid = w[: self.used * self.width].reshape(self.used, self.width)
        waves = walsh_hadamard(grid.T).T
        inside = ((waves[:, :1] + waves[:, 1:]) / 2).ravel()[: self.size]
        result = low**2 * w.sum() + low * gain * (inside[:, None] + inside[None, :])
        columns = np.arange(1, self.width)
        for block in range(self.used):
            start = block * (self.width - 1)
            c = columns[: self.size - start]
            g, stop = waves[block], start + len(c)
            pairs = (g[0] + g[c][:, None] + g[c][None, :] + g[c[:, None] ^ c[None, :]]) / 4
            result[start:stop, start:stop] += gain**2 * pairs
        return np.asarray(result)

    def energy(self, quadratic: FloatArray) -> FloatArray:
        """Σ_o Q[o,u] s_oᵀSs_o, by a two-sided transform of each diagonal block of S."""
        low, gain = self._chances
        image = quadratic.sum(axis=1)
        energies = np.full(self.outputs, low**2 * image.sum())
        linear = 2 * low * gain * self._inside_sums(image)
        for block in range(self.used):
            start = block * (self.width - 1)
            stop = min(start + self.width - 1, self.size)
            part = np.zeros((self.width, self.width))
            part[1 : 1 + stop - start, 1 : 1 + stop - start] = quadratic[start:stop, start:stop]
            half = walsh_hadamard(part)
            both = walsh_hadamard(half.T)
            squares = (part.sum() + 2 * half.sum(axis=1) + np.diagonal(both)) / 4
            outputs = slice(block * self.width, (block + 1) * self.width)
            energies[outputs] += linear[block] + gain**2 * squares
        return self.backward(energies / self._prior_chances**2)

    # --- beyond 4096 cells: full blocks -------------------------------------------------------

    @cached_property
    def _full(self) -> FullBlocks:
        return FullBlocks(self.size, self.used, self.width, *self._chances)

    def estimate(self, tally: IntArray, people: int) -> FloatArray:
        """Unbiased estimate of the histogram."""
        if self.size <= DENSE_SIZE:
            return super().estimate(tally, people)
        z = tally / self._full.chances(self.outputs)
        return self._full.solve(self._padded_backward(z)).ravel()[: self.size]

    def type_variances(self, gram: Gram) -> FloatArray:
        """By matrices up to 4096 cells; beyond, by transforms.

        These are exact for sums over intervals of cells, and never understated for any workload.
        """
        if self.size <= DENSE_SIZE:
            return super().type_variances(gram)
        energies = np.full((self.parts, self.width), self._full.flat_energy(gram))
        energies[: self.used] = self._full.energies(gram)
        return self.backward(energies.ravel()) + self._full.surplus(gram) - gram.diagonal()

    def query_variances(self, workload: Workload, histogram: FloatArray) -> FloatArray:
        """By matrices up to 4096 cells; beyond, with outputs of a block equally likely."""
        if self.size <= DENSE_SIZE:
            return super().query_variances(workload, histogram)
        unused = (self.parts - self.used) * self.width
        second = self._full.query_moments(workload, histogram, unused)
        return np.asarray(second - workload.row_squares(histogram))

    # --- privacy and form ---------------------------------------------------------------------


ENTRY = LocalMechanism(
    "hadamard",
    "half of a block of Hadamard rows",
    lambda problem: HadamardResponse(problem.listed_cells, problem.epsilon),
    slow=slow_matrices,
)
