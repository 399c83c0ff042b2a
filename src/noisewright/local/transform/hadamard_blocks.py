"""Hadamard response over blocks that are full: X is known by two eigenvalues, at any size.

The cells at hand may end inside the last block. What an output adds to the estimate is one value on
the cells it has inside, one beside them in the block, and one elsewhere: a constant, a block and a
Walsh character. Its energy zᵀMz follows from sums of M over blocks and transforms within them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, singledispatch

import numpy as np
import numpy.typing as npt

from noisewright.errors import TooLarge
from noisewright.local.composed.tree import has_closed_form, interval_products
from noisewright.local.strategy import IntArray
from noisewright.local.transform.walsh import prefix_sums
from noisewright.workload.base import FloatArray, Workload
from noisewright.workload.gram import (
    Gram,
    IdentityGram,
    OnesGram,
    PrefixGram,
    RangesGram,
    ScaledGram,
    SumGram,
)
from noisewright.workload.tensor import walsh_hadamard

_MOST_BLOCKS = 64


@dataclass(frozen=True)
class FullBlocks:
    """The first `real` cells of `blocks` full blocks of width − 1 cells each."""

    real: int
    blocks: int
    width: int
    low: float
    gain: float

    @property
    def cells(self) -> int:
        """Cells of full blocks."""
        return self.blocks * (self.width - 1)

    @cached_property
    def starts(self) -> IntArray:
        """First cell of each block."""
        return np.arange(self.blocks) * (self.width - 1)

    @cached_property
    def stops(self) -> IntArray:
        """End of each block, or of the cells at hand."""
        return np.minimum(self.starts + self.width - 1, self.real)

    def placed(self, x: FloatArray) -> FloatArray:
        """Values over the cells at hand, at their columns of the blocks."""
        grid = np.zeros((self.blocks, self.width, *x.shape[1:]))
        flat = np.zeros((self.cells, *x.shape[1:]))
        flat[: self.real] = x
        grid[:, 1:] = flat.reshape(self.blocks, self.width - 1, *x.shape[1:])
        return grid

    @cached_property
    def _scores(self) -> tuple[float, float]:
        """Prior chances of the first output of a block and of each other one."""
        b = self.width
        first = self.low + self.gain * (b - 1) / self.cells
        return first, self.low + self.gain * (b / 2 - 1) / self.cells

    @cached_property
    def _eigenvalues(self) -> tuple[float, float]:
        """Information on contrasts within a block and between blocks."""
        b, (first, rest) = self.width, self._scores
        within = self.gain**2 * b / (4 * rest)
        between = within + (b - 1) * (self.gain**2 * (1 / first - 1 / rest) + within)
        return within, between

    def chances(self, outputs: int) -> FloatArray:
        """Prior chance of every output, those of unused blocks included."""
        first, rest = self._scores
        result = np.full(outputs, self.low)
        grid = result[: self.blocks * self.width].reshape(self.blocks, self.width)
        grid[:] = rest
        grid[:, 0] = first
        return result

    def solve(self, score: FloatArray) -> FloatArray:
        """X⁻¹ on (blocks, b − 1)."""
        within, between = self._eigenvalues
        block = score.mean(axis=1, keepdims=True)
        mean = block.mean()
        return np.asarray((score - block) / within + (block - mean) / between + mean / self.cells)

    def query_moments(self, workload: Workload, histogram: FloatArray, unused: int) -> FloatArray:
        """Σ_o (Qx)_o (wᵀz_o)² for every query w, the outputs of a block but the first taken alike.

        That is right on average over the outputs of a block. `unused` is the number of outputs that
        say nothing.
        """
        if self.blocks > _MOST_BLOCKS:
            raise TooLarge(f"single queries in {self.blocks} blocks take long")
        b, people = self.width, float(histogram.sum())
        (first, _, first_away), (inside, beside, away) = self._contributions
        slope = (inside - beside) / 2
        whole = np.asarray(workload.matvec(np.ones(self.real)), dtype=np.float64)
        result = unused * self.low * people * (whole / self.cells) ** 2
        for start, stop in zip(self.starts, self.stops, strict=True):
            block = np.zeros(self.real)
            block[start:stop] = 1.0
            held = np.asarray(workload.matvec(block), dtype=np.float64)
            plain = away * whole + (beside - away + slope) * held
            squares = b * workload.row_squares(block) - held**2
            others = (b - 1) * plain**2 - 2 * slope * plain * held + slope**2 * squares
            lone = (first_away * whole + (first - first_away) * held) ** 2
            here = self.gain * float(histogram[start:stop].sum())
            share = self.low * people + here * (b / 2 - 1) / (b - 1)
            result += share * others + (self.low * people + here) * lone
        return np.asarray(result)

    @cached_property
    def _contributions(self) -> npt.NDArray[np.float64]:
        """What an output adds to a cell inside, to one beside it in the block, and elsewhere.

        One row for the first output of a block, one for the others.
        """
        within, between = self._eigenvalues
        b, rows = self.width, []
        for chance, share in zip(self._scores, (1.0, (b / 2 - 1) / (b - 1)), strict=True):
            block = ((self.low + self.gain * share) / chance - 1) / between + 1 / self.cells
            slope = self.gain / (chance * within)
            away = (self.low / chance - 1) / between + 1 / self.cells
            rows.append([block + (1 - share) * slope, block - share * slope, away])
        return np.array(rows)

    def energies(self, gram: Gram) -> FloatArray:
        """zᵀMz for every output of every block; see `surplus` where M has no closed form."""
        image = np.asarray(gram.matvec(np.ones(self.real)), dtype=np.float64)
        held = np.add.reduceat(image, self.starts)
        own, within = self._block_images(gram)

        def plain(away: float, extra: float) -> FloatArray:
            """The energy of a constant and a block."""
            return np.asarray(away**2 * image.sum() + 2 * away * extra * held + extra**2 * within)

        (first, _, first_away), (inside, beside, away) = self._contributions
        slope = (inside - beside) / 2
        extra = beside - away + slope
        linear = walsh_hadamard(self.placed(away * image + extra * own).T).T
        result = plain(away, extra)[:, None] + 2 * slope * linear
        if has_closed_form(gram):
            result += slope**2 * self._character_energies(gram)
        else:  # all characters of a block alike: right on average
            result += slope**2 * (self._traces(gram, within) / (self.width - 1))[:, None]
        result[:, 0] = plain(first_away, first - first_away)
        return np.asarray(result)

    def _block_images(self, gram: Gram) -> tuple[FloatArray, FloatArray]:
        """M1_B on the cells of each block B, and 1_BᵀM1_B."""
        if has_closed_form(gram):
            cells = np.arange(self.real)
            home = cells // (self.width - 1)
            own = interval_products(gram, cells, cells + 1, self.starts[home], self.stops[home])
            return own, interval_products(gram, self.starts, self.stops, self.starts, self.stops)
        if self.blocks > _MOST_BLOCKS:
            raise TooLarge(
                f"hadamard over {gram.size} cells in {self.blocks} blocks is analysed for sums "
                f"over intervals of cells only; choose another mechanism"
            )
        own = np.empty(self.real)
        for start, stop in zip(self.starts, self.stops, strict=True):
            block = np.zeros(self.real)
            block[start:stop] = 1.0
            own[start:stop] = gram.matvec(block)[start:stop]
        return own, np.add.reduceat(own, self.starts)

    def _traces(self, gram: Gram, within: FloatArray) -> FloatArray:
        """Σ χᵀMχ over the characters of each block but the first."""
        return np.asarray(self.width * np.add.reduceat(gram.diagonal(), self.starts) - within)

    def surplus(self, gram: Gram) -> FloatArray:
        """What to add for every cell so that its energy is never understated.

        A cell weighs the characters of its block by their sign at it. Where those energies are not
        known one by one, they are at most as if all their weight were on its side, for M is
        positive. On average over cells that is too large by 2e^ε/(1 + e^ε) or so, below two.
        """
        if has_closed_form(gram):
            return np.zeros(self.real)
        inside, beside, _ = self._contributions[1]
        share = self.gain * (self.width / 2) / (self.width - 1)
        most = (
            ((inside - beside) / 2) ** 2 * share * self._traces(gram, self._block_images(gram)[1])
        )
        return np.asarray(np.repeat(most, self.stops - self.starts))

    def _character_energies(self, gram: Gram) -> FloatArray:
        """χᵀMχ for the characters of every block, over its cells alone."""
        result = np.empty((self.blocks, self.width))
        for length in np.unique(self.stops - self.starts).tolist():
            members = self.stops - self.starts == length
            # Blocks begin at their second column: the first one's sum is taken off.
            total, sums, squares = prefix_sums(self.width, length + 1)
            columns = _Characters(
                length, total - 1, sums - length - 1, squares - 2 * sums + length + 1
            )
            result[members] = character_energies(gram, self.stops[members][:, None], columns)
        return result

    def flat_energy(self, gram: Gram) -> float:
        """The same for an output that says nothing."""
        image = gram.matvec(np.ones(self.real))
        return float(image.sum()) / self.cells**2


@dataclass(frozen=True, eq=False)
class _Characters:
    """Every character over `length` cells: its sum, and the sums of its prefix sums and squares."""

    length: int
    total: FloatArray
    sums: FloatArray
    squares: FloatArray


@singledispatch
def character_energies(gram: Gram, stop: IntArray, over: _Characters) -> FloatArray:
    """χᵀMχ for characters that end before the cell `stop`."""
    raise TooLarge(f"no closed form for characters over blocks of {gram.size} cells")


@character_energies.register
def _(gram: IdentityGram, stop: IntArray, over: _Characters) -> FloatArray:
    return np.full(over.total.shape, float(over.length))


@character_energies.register
def _(gram: OnesGram, stop: IntArray, over: _Characters) -> FloatArray:
    return over.total**2


@character_energies.register
def _(gram: PrefixGram, stop: IntArray, over: _Characters) -> FloatArray:
    return np.asarray(over.squares + (gram.size - stop) * over.total**2)


@character_energies.register
def _(gram: RangesGram, stop: IntArray, over: _Characters) -> FloatArray:
    # (n+1) ΣS² − (ΣS)² over the prefix sums S, which keep their last value after the block.
    after = gram.size - stop
    squares = over.squares + after * over.total**2
    return np.asarray((gram.size + 1) * squares - (over.sums + after * over.total) ** 2)


@character_energies.register
def _(gram: ScaledGram, stop: IntArray, over: _Characters) -> FloatArray:
    return gram.weight * character_energies(gram.inner, stop, over)


@character_energies.register
def _(gram: SumGram, stop: IntArray, over: _Characters) -> FloatArray:
    return np.asarray(sum(character_energies(part, stop, over) for part in gram.parts))
