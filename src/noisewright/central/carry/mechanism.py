"""Cells and sums of them under carry noise: what is measured, drawn, answered and kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Self

import numpy as np

from noisewright.arrays import Array, FloatArray, IntArray
from noisewright.central.blocks.block import Block, is_identity
from noisewright.central.blocks.mechanism import (
    BlockMechanism,
    StoredBlocks,
)
from noisewright.central.carry.accuracy import CarryAccuracy
from noisewright.central.carry.carries import Carries
from noisewright.central.carry.zero_total import ZeroTotal
from noisewright.central.mechanism import (
    Counts,
    CountsPeople,
    Measurement,
    StoredMechanism,
    Table,
)
from noisewright.errors import (
    InvalidParameter,
    OutOfReach,
    TooLarge,
    require,
)
from noisewright.estimate.accuracy import Accuracy
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.spend import Spend
from noisewright.workload.questions.measures import COUNT, Measure
from noisewright.workload.structure import Term, cell_answers

MOST_CELLS = 2048
"""Cells up to which covariances over all of them are kept."""

LARGEST_CLOSED = 64.0
"""Budgets of noise that adds up to zero: beyond, its variance is lost in rounding."""

_RELIABLE = 1e-7  # of the largest pivot: below, columns are not told apart


@dataclass(frozen=True, eq=False)
class CarryMechanism(CountsPeople):
    """Integer rows over one table, as `measured` counts them, under noise with carried cores.

    The noise on each row has the scale that independent Laplace noise would need, and costs the
    same. With `closed`, for replaced people alone, it is drawn given that it adds up to zero: no
    neighbour changes what all rows add up to, so that is public.
    """

    measured: BlockMechanism
    carries: Carries
    closed: bool = False

    def __post_init__(self) -> None:
        blocks = self.measured.strategy.blocks
        if len(blocks) != 1 or blocks[0].noise != 1 or blocks[0].weights is not None:
            rule = "need one block under plain noise"
            raise InvalidParameter("carries", len(blocks), rule)
        if self.privacy.kind != "pure":
            raise InvalidParameter("privacy", self.privacy.text(), "must be pure")
        if self.block.rows != self.carries.rows:
            rule = "must be one per row measured"
            raise InvalidParameter("carries", self.carries.rows, rule)
        if prod(self.sizes) > MOST_CELLS or self.block.rows > 2 * MOST_CELLS:
            raise TooLarge(
                f"carry noise is for up to {MOST_CELLS} cells; plan for fewer"
            )

        if self.closed:
            self._check_closed()

    def _check_closed(self) -> None:
        constant = all(
            len(np.unique(factor.sum(axis=0))) == 1 for factor in self.block.factors
        )
        require(
            self.privacy.neighbours == "replace-one"
            and self.measured.content == COUNT
            and constant,
            "closed",
            True,
            "needs replaced people, and rows whose sum nobody changes",
        )
        require(
            (self.privacy.epsilon or 0.0) <= LARGEST_CLOSED,
            "epsilon",
            self.privacy.epsilon,
            f"must be at most {LARGEST_CLOSED:g} for carry noise among replaced people",
            "it is no noise by then",
        )
        _ = self._zero_total  # its last row has no core, and the others are cancelled

    @property
    def block(self) -> Block:
        """What is measured: one block."""
        return self.measured.strategy.blocks[0]

    @property
    def privacy(self) -> Privacy:
        return self.measured.privacy

    @property
    def spend(self) -> Spend:
        return self.measured.spend

    @property
    def tables(self) -> tuple[Table, ...]:
        return self.measured.tables

    @property
    def scale(self) -> float:
        """Grid steps over which the density falls by a factor e beyond the cores."""
        return self.measured.law.scale

    @property
    def sizes(self) -> tuple[int, ...]:
        """Values of every attribute."""
        return self.measured.attribute_sizes or self.measured.strategy.sizes

    def of(self, measure: Measure) -> Self:
        if self.closed and measure != COUNT:
            raise OutOfReach(
                "what replaced people add up to changes; plan for added ones"
            )
        return self._with(self.measured.of(measure), self.closed)

    def at(self, privacy: Privacy) -> Self:
        if privacy == self.privacy:
            return self
        closed = self.closed and privacy.neighbours == "replace-one"
        return self._with(self.measured.at(privacy), closed)

    def _with(self, measured: BlockMechanism, closed: bool) -> Self:
        """The same cores in scales of the noise that this measurement needs."""
        carries = self.carries.scaled(measured.law.scale / self.scale)
        return replace(
            self,
            measured=measured,
            carries=carries,
            closed=closed,
        )

    # --- noise ------------------------------------------------------------------------------------

    @cached_property
    def _zero_total(self) -> ZeroTotal:
        return ZeroTotal(self.carries, self.scale)

    def draw(self, source: ByteSource | None = None) -> IntArray:
        """Fresh noise for every row; only tests pass a source."""
        if self.closed:
            return self._zero_total.draw(source)
        return self.carries.draw(self.scale, 1, source)[:, 0]

    def simulated(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Columns of noise of the same law, for forecasts."""
        if self.closed:
            return self._zero_total.simulated(count, rng)
        return self.carries.simulated(self.scale, count, rng)

    @cached_property
    def covariance(self) -> FloatArray:
        """Of the noise on all rows, exactly."""
        if self.closed:
            return self._zero_total.covariance
        return self.carries.covariance(self.scale).todense()

    @property
    def accepted(self) -> float:
        """The probability that rows drawn one by one are kept."""
        return self._zero_total.accepted if self.closed else 1.0

    def measure(self, counts: Counts, source: ByteSource | None = None) -> Measurement:
        (exact,) = self.measured.exact(counts)
        return Measurement(((exact + self.draw(source)).astype(np.float64),))

    # --- answers ----------------------------------------------------------------------------------

    @cached_property
    def inverse(self) -> FloatArray | None:
        """From rows to cells by generalised least squares; None where rows are the cells."""
        from scipy.linalg import (
            cho_factor,
            cho_solve,
            solve_triangular,
        )

        if all(is_identity(factor) for factor in self.block.factors):
            return None

        covariance = np.asarray(self.carries.covariance(self.scale).todense())
        # no noise at all: every solution is exact
        if not (covariance.diagonal() > 0).all():
            covariance = np.eye(len(covariance))

        # White rows have independent noise of variance one: least squares is plain for them.
        matrix = self.measured.strategy.matrix.astype(np.float64)
        lower = np.linalg.cholesky(covariance)
        white = solve_triangular(lower, matrix * self.block.multiplier, lower=True)
        if matrix.shape[0] >= matrix.shape[1]:
            pivots = np.abs(np.diagonal(np.linalg.qr(white)[1]))
            if pivots.min() > _RELIABLE * pivots.max():
                back = solve_triangular(lower, white, lower=True, trans="T")
                return np.asarray(cho_solve(cho_factor(white.T @ white), back.T))

        # Columns that are not told apart share what is said of them.
        pseudo = np.linalg.pinv(white)
        return np.asarray(solve_triangular(lower, pseudo.T, lower=True, trans="T").T)

    def cells(self, values: Array) -> FloatArray:
        """What rows say of all cells; trailing axes are a batch."""
        if self.inverse is None:
            return np.asarray(values / self.block.multiplier)
        return np.asarray(self.inverse @ values)

    def effect(self, cells: FloatArray, terms: Sequence[Term]) -> FloatArray:
        """Answers from all cells; trailing axes are a batch."""
        return np.concatenate(cell_answers(cells, self.sizes, terms))

    def answer(self, measurement: Measurement, terms: Sequence[Term]) -> FloatArray:
        return self.effect(self.cells(measurement.values[0]), terms)

    def accuracy(self, terms: Sequence[Term]) -> Accuracy:
        return CarryAccuracy(self, tuple(terms))

    def check_reach(self, terms: Sequence[Term]) -> None:
        self.measured.check_reach(terms)

    def fits(self, measurement: Measurement) -> bool:
        return self.measured.fits(measurement)

    def record(self) -> dict[str, object]:
        cores = self.carries.cores
        return {
            "noise": {
                "law": "carried-laplace",
                "scale": self.scale,
            },
            "sensitivity": self.measured.sensitivity,
            "measurements": self.carries.rows,
            "cores": [int(cores.min()), int(cores.max())],
            "carried": int((cores > 0).sum()),
            "closed": self.closed,
        }

    def packed(self) -> StoredCarry:
        return StoredCarry(self.measured.packed(), self.carries, self.closed)


class StoredCarry(StoredMechanism, frozen=True, tag="carry"):
    """What is measured, its carries, and whether its noise adds up to zero."""

    blocks: StoredBlocks
    carries: Carries
    closed: bool

    def unpacked(self, privacy: Privacy, sizes: tuple[int, ...]) -> CarryMechanism:
        """The mechanism under this budget: all that it promises follows from its integers."""
        measured = self.blocks.unpacked(privacy, sizes)
        return CarryMechanism(measured, self.carries, self.closed)
