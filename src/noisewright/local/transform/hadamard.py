"""Hadamard response [029], for any ε: blocks of a Walsh–Hadamard matrix.

Outputs come in B blocks of b, a power of two. A cell owns one column of one block and is e^ε times
likelier to report the b/2 outputs where that column is +1 than any other output. Everything is a
Walsh–Hadamard transform within blocks. As published B is a power of two near e^ε/2, whatever is
asked; a plan takes the B that suits its workload.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import ceil, exp, inf, log2
from typing import Self

import numpy as np

from noisewright.arrays import BoolArray, FloatArray, IntArray
from noisewright.errors import TooLarge
from noisewright.local.fixedpoint import WORD
from noisewright.local.histogram.centred import FavouringStrategy, PlainStrategy
from noisewright.local.mechanism import LocalMechanism, LocalProblem, slow_matrices
from noisewright.local.randomizer.laws import Favour, Parity
from noisewright.local.randomizer.specification import Nodes
from noisewright.local.storage import Stored, whole_number
from noisewright.local.strategy import DENSE_SIZE, IndexStrategy
from noisewright.workload.linear.tensor import walsh_hadamard

_PATIENCE = 2
"""Numbers of blocks in a row that cost more before the search ends on that side."""


@dataclass(frozen=True)
class HadamardResponse(FavouringStrategy, PlainStrategy, IndexStrategy):
    """Report an output on which the cell's own Hadamard column is +1, or some other.

    Offered up to 4096 cells: beyond, others were found to need 2 to 286 times fewer people.
    """

    size: int
    epsilon: float
    parts: int = 0
    """Number of blocks; the published choice for this ε, a power of two, unless given."""

    kind = "hadamard"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size > DENSE_SIZE:
            raise TooLarge(
                f"hadamard is offered up to {DENSE_SIZE} cells, not for {self.size}: others need "
                f"half as many people there, or fewer; choose local-hashing or hierarchical"
            )

        if self.parts == 0:
            reach = min(exp(self.epsilon), 2.0 * self.size)
            bits = max(ceil(log2(reach)) - 1, 0)
            object.__setattr__(self, "parts", 2**bits)

        whole_number("parts", self.parts, 1, 2 * self.size)

    @cached_property
    def width(self) -> int:
        """b, the number of outputs of a block."""
        bits = ceil(log2(self.size / self.parts + 1))
        return int(2**bits)

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

    @classmethod
    def restored(cls, stored: Stored) -> Self:
        owner = stored.node(Favour).owner
        blocks = owner.blocks if isinstance(owner, Parity) else 0
        return cls(stored.cells, stored.epsilon, blocks)

    @cached_property
    def _chances(self) -> tuple[float, float]:
        """Chance of one output outside, and what being inside adds."""
        half = self.width // 2

        # The rest in whole numbers: 1 − p in floats would be zero where ε is large.
        inside = self.threshold / WORD
        outside = (WORD - self.threshold) / WORD
        low = outside / (self.outputs - half)

        return low, inside / half - low

    # --- transforms ---------------------------------------------------------------------------

    def _inside_sums(self, x: FloatArray) -> FloatArray:
        """For every output of a block in use, the sum of x over cells that have it inside."""
        used = self.used
        columns = np.zeros(used * (self.width - 1))
        columns[: self.size] = x
        grid = np.zeros((used, self.width))
        grid[:, 1:] = columns.reshape(used, -1)
        waves = walsh_hadamard(grid.T)

        return np.asarray((waves.T + waves[0][:, None]) / 2)

    def _waves(self, z: FloatArray) -> FloatArray:
        """Transforms within the blocks in use of weights over outputs."""
        grid = z[: self.used * self.width].reshape(self.used, -1)
        return walsh_hadamard(grid.T).T

    def _inside(self, waves: FloatArray) -> FloatArray:
        """For every cell, the sum of weights over the outputs that it has inside."""
        sums = (waves[:, :1] + waves[:, 1:]) / 2
        return np.asarray(sums.ravel()[: self.size])

    def forward(self, x: FloatArray) -> FloatArray:
        """Qx: chances of the outputs under weights over cells."""
        low, gain = self._chances
        result = np.full(self.outputs, low * x.sum())
        inside = self._inside_sums(x).ravel()
        result[: len(inside)] += gain * inside

        return result

    def backward(self, z: FloatArray) -> FloatArray:
        """Qᵀz for weights z over outputs."""
        low, gain = self._chances
        inside = self._inside(self._waves(z))
        return np.asarray(low * z.sum() + gain * inside)

    @cached_property
    def _prior_chances(self) -> FloatArray:
        return self.forward(self.prior)

    @cached_property
    def _owned(self) -> BoolArray:
        """Outputs of the blocks in use that some cell has inside.

        The others get nothing by transforms but rounding, and it would be divided by their small
        chances.
        """
        return self._inside_sums(np.ones(self.size)) > 0.5

    def score(self, tally: IntArray, people: int) -> FloatArray:
        """Σ_o y_o q_o / (q_oᵀπ)."""
        return self.backward(tally / self._prior_chances)

    def moment(self, histogram: FloatArray) -> FloatArray:
        """Σ_o w_o q_o q_oᵀ with w = (Qx)/(Qπ)²: ones, two vectors and XOR-invariant blocks."""
        low, gain = self._chances
        w = self.forward(histogram) / self._prior_chances**2
        owned = self._owned.ravel()
        waves = self._waves(w[: len(owned)] * owned)
        inside = self._inside(waves)
        cross = inside[:, None] + inside
        result = low**2 * w.sum() + low * gain * cross

        for g, cells in zip(waves, self._blocks(), strict=True):
            count = cells.stop - cells.start
            column = np.arange(1, 1 + count)
            own = g[column]
            both = g[column[:, None] ^ column]
            pairs = (g[0] + own[:, None] + own + both) / 4
            result[cells, cells] += gain**2 * pairs

        return np.asarray(result)

    def _blocks(self) -> list[slice]:
        """The cells that have their columns in each block in use."""
        columns = self.width - 1
        starts = range(0, self.size, columns)
        return [slice(start, min(start + columns, self.size)) for start in starts]

    def energy(self, quadratic: FloatArray) -> FloatArray:
        """Σ_o Q[o,u] s_oᵀSs_o, by a two-sided transform of each diagonal block of S."""
        low, gain = self._chances
        image = quadratic.sum(axis=1)
        energies = np.full(self.outputs, low**2 * image.sum())
        linear = 2 * low * gain * self._inside_sums(image)

        for block, cells in enumerate(self._blocks()):
            columns = slice(1, 1 + cells.stop - cells.start)
            part = np.zeros((self.width, self.width))
            part[columns, columns] = quadratic[cells, cells]

            half = walsh_hadamard(part)
            cross = 2 * half.sum(axis=1)
            both = np.diagonal(walsh_hadamard(half.T))
            squares = (part.sum() + cross + both) / 4

            added = linear[block] + gain**2 * squares
            first = block * self.width
            energies[first : first + self.width] += self._owned[block] * added

        return self.backward(energies / self._prior_chances**2)


def _block_counts(size: int) -> list[int]:
    """How many blocks of each width hold all cells; more would take chances and tell nothing."""
    columns = [2**bits - 1 for bits in range(1, size.bit_length() + 1)]
    return sorted({-(-size // count) for count in columns})


def best_blocks(
    size: int, epsilon: float, cost: Callable[[HadamardResponse], float]
) -> HadamardResponse:
    """The number of blocks that costs least.

    The search goes both ways from the published number and stops after two in a row that cost more:
    where a block holds but one cell that others spilled, it costs more than both its neighbours.
    """
    best = HadamardResponse(size, epsilon)
    least = inf
    counts = _block_counts(size)
    ratios = [abs(log2(count / best.parts)) for count in counts]
    middle = ratios.index(min(ratios))

    for way in (counts[middle:], counts[:middle][::-1]):
        worse = 0
        for count in way:
            strategy = HadamardResponse(size, epsilon, count)
            value = cost(strategy)
            worse += 1
            if value < least:
                best = strategy
                least = value
                worse = 0
            if worse == _PATIENCE:
                break

    return best


def _plan(problem: LocalProblem) -> HadamardResponse:
    gram = problem.gram

    def cost(strategy: HadamardResponse) -> float:
        return strategy.worst_variance(gram)

    return best_blocks(problem.listed_cells, problem.epsilon, cost)


ENTRY = LocalMechanism(
    "hadamard",
    "half of a block of Hadamard rows",
    _plan,
    slow=slow_matrices,
)
