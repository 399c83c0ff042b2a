"""Integer blocks under independent noise: the mechanism behind every linear strategy here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Self

import numpy as np

from noisewright.arrays import Array, FloatArray, IntArray
from noisewright.central.blocks.block import Block
from noisewright.central.blocks.reach import check_reach
from noisewright.central.blocks.strategy import BlockStrategy
from noisewright.central.blocks.variance import query_variances
from noisewright.central.mechanism import (
    Counts,
    Measurement,
    NamedMechanism,
    StoredMechanism,
    Table,
)
from noisewright.errors import FileFormatError
from noisewright.estimate.accuracy import (
    Accuracy,
    check_covariances,
)
from noisewright.estimate.intervals import (
    laplace_multiplier,
    normal_multiplier,
    sidak_multiplier,
)
from noisewright.privacy.exact.rounding import float_above
from noisewright.privacy.noise.law import NoiseLaw
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.calibration import calibrate
from noisewright.privacy.promise.spend import (
    Gaussian,
    Laplace,
    Spend,
)
from noisewright.workload.kinds.marginals import OnAttributes
from noisewright.workload.questions.measures import COUNT, Measure
from noisewright.workload.structure import Term

_NO_NOISE = 2.0**-30
"""Scale in grid steps under which every draw is zero."""


@dataclass(frozen=True, eq=False)
class BlockMechanism(NamedMechanism):
    """A block strategy of one measure under the least noise that keeps `privacy`.

    The strategy sees the attributes of `attribute_sizes`, or all their cells on one axis.
    """

    strategy: BlockStrategy
    privacy: Privacy
    content: Measure = COUNT
    attribute_sizes: tuple[int, ...] | None = None

    @cached_property
    def _pure(self) -> bool:
        return self.privacy.kind == "pure"

    @cached_property
    def _on_single_axis(self) -> bool:
        """Whether the strategy sees the cells of all attributes on one axis."""
        return self.attribute_sizes not in (None, self.strategy.sizes)

    @cached_property
    def sensitivity(self) -> float:
        """How far one neighbour moves the measurements, in L1 or L2 as the noise needs."""
        order = 1 if self._pure else 2
        neighbours = self.privacy.neighbours
        if self.content == COUNT:
            return self.strategy.sensitivity(order, neighbours)

        joining = Fraction(self.strategy.sensitivity(order, "add-remove"))
        movement = joining
        if neighbours == "replace-one":
            # Who is replaced takes one value out of a cell and puts another into a cell. Values of
            # one sign move most where one of them is none, or both are the largest.
            replaced = Fraction(self.strategy.sensitivity(order, neighbours))
            movement = 2 * joining if self.content.signed else max(joining, replaced)

        return float_above(movement * self.content.reach)

    @cached_property
    def law(self) -> NoiseLaw:
        """The noise on a block of relative scale one, in grid steps."""
        if not self.sensitivity:  # nobody can move it: it is public
            return NoiseLaw(
                "discrete-laplace" if self._pure else "rounded-gaussian",
                _NO_NOISE,
            )
        if self._pure:
            return calibrate(self.privacy, l1=self.sensitivity)
        return calibrate(self.privacy, l2=self.sensitivity)

    @cached_property
    def laws(self) -> list[NoiseLaw]:
        """The noise on every block."""
        return self.strategy.laws(self.law)

    @cached_property
    def spend(self) -> Spend:
        """The ratio of sensitivity to noise, as drawn."""
        if not self.sensitivity:
            return Spend(self.privacy.neighbours, ())
        ratio = float_above(Fraction(self.sensitivity) / Fraction(self.law.scale))
        loss = Laplace(ratio) if self._pure else Gaussian(ratio)
        return Spend(self.privacy.neighbours, (loss,))

    @cached_property
    def unit_noise(self) -> float:
        """Deviation at sensitivity one that bounds may count on, over all blocks people can move.

        Noise on the grid may vary a little less than the continuous law of the same budget.
        """
        # Under replace-one the total is public, and its block bears no bound.
        public_total = self.privacy.neighbours == "replace-one"
        pairs = zip(self.strategy.blocks, self.laws, strict=True)
        moved = [law for block, law in pairs if block.attributes or not public_total]

        # variance of the continuous law of scale one
        continuous = 2.0 if self._pure else 1.0
        least = min(
            (law.variance / (continuous * law.scale**2) for law in moved),
            default=1.0,
        )

        return continuous_deviation(self.privacy) * float(np.sqrt(min(1.0, least)))

    @property
    def agrees(self) -> bool:
        return not self.strategy.separate

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        return tuple(
            Table(self._attributes(a), self.content) for a in self.strategy.tables
        )

    def _attributes(self, seen: tuple[int, ...]) -> tuple[int, ...]:
        """Attributes of the domain behind those that the strategy sees."""
        return (
            tuple(range(len(self.attribute_sizes or ())))
            if self._on_single_axis and seen
            else seen
        )

    def _as_strategy_sees(self, terms: Sequence[Term]) -> Sequence[Term]:
        """Terms as the strategy sees them."""
        if not self._on_single_axis or self.attribute_sizes is None:
            return terms
        return [_on_one_axis(term, self.attribute_sizes) for term in terms]

    def of(self, measure: Measure) -> Self:
        return replace(self, content=measure)

    def at(self, privacy: Privacy) -> Self:
        return self if privacy == self.privacy else replace(self, privacy=privacy)

    def exact(self, counts: Counts) -> list[IntArray]:
        """What is measured, before any noise: as private as the data."""
        return self.strategy.measure(
            {
                a: counts[Table(self._attributes(a), self.content)]
                for a in self.strategy.tables
            }
        )

    def measure(
        self,
        counts: Counts,
        source: ByteSource | None = None,
    ) -> Measurement:
        # Both are exact integers; what is kept of their sum is rounded after the noise.
        pairs = zip(
            self.exact(counts),
            self.strategy.draw(self.laws, source),
            strict=True,
        )
        return Measurement(
            tuple((value + noise).astype(np.float64) for value, noise in pairs)
        )

    def answer(
        self,
        measurement: Measurement,
        terms: Sequence[Term],
    ) -> FloatArray:
        return np.concatenate(
            self.strategy.answers(self._as_strategy_sees(terms), measurement.values)
        )

    def accuracy(self, terms: Sequence[Term]) -> Accuracy:
        return BlockAccuracy(self, tuple(self._as_strategy_sees(terms)))

    def check_reach(self, terms: Sequence[Term]) -> None:
        start = 0
        for term in self._as_strategy_sees(terms):
            check_reach(self.strategy, term, start)
            start += term.queries

    def fits(self, measurement: Measurement) -> bool:
        return measurement.lengths == [block.rows for block in self.strategy.blocks]

    def record(self) -> dict[str, object]:
        return {
            "noise": self.law.to_dict(),
            "sensitivity": self.sensitivity,
            "measurements": self.strategy.measurements,
        }

    def packed(self) -> StoredBlocks:
        strategy = self.strategy
        return StoredBlocks(
            strategy.sizes,
            strategy.blocks,
            strategy.separate,
            self.content,
        )


def continuous_deviation(privacy: Privacy) -> float:
    """Standard deviation of continuous noise for sensitivity one under this budget."""
    if privacy.kind == "pure":
        assert privacy.epsilon is not None
        return float(np.sqrt(2) / privacy.epsilon)
    return calibrate(privacy, l2=1.0).scale


def _on_one_axis(
    term: Term,
    sizes: tuple[int, ...],
) -> Term:
    whole = term.attributes == tuple(range(len(sizes)))
    inner = term.inner if whole else OnAttributes(sizes, term.attributes, term.inner)
    return Term(
        term.weight,
        (0,),
        inner,
        (inner,),
        term.measure,
    )


class StoredBlocks(StoredMechanism, frozen=True, tag="blocks"):
    """A block strategy and what it measures."""

    sizes: tuple[int, ...]
    blocks: tuple[Block, ...]
    separate: bool
    content: Measure

    def unpacked(
        self,
        privacy: Privacy,
        sizes: tuple[int, ...],
    ) -> BlockMechanism:
        """The mechanism under this budget, over attributes of these sizes."""
        if not self.blocks or min(self.sizes, default=0) < 0:
            raise FileFormatError("the plan measures nothing; plan again")
        if self.sizes not in (sizes, (prod(sizes),)):
            raise FileFormatError(
                "the plan's parts are over different cells; plan again"
            )

        strategy = BlockStrategy(self.sizes, self.blocks, self.separate)
        mechanism = BlockMechanism(strategy, privacy, self.content, sizes)
        _ = mechanism.law  # refuses budgets for which no noise can be drawn

        return mechanism


@dataclass(frozen=True, eq=False)
class BlockAccuracy(Accuracy):
    """Linear answers from blocks of independent noise: everything is exact."""

    mechanism: BlockMechanism
    terms: tuple[Term, ...]

    @property
    def _is_laplace(self) -> bool:
        return self.mechanism.law.law == "discrete-laplace"

    @cached_property
    def variance(self) -> FloatArray:
        law = self.mechanism.law
        strategy = self.mechanism.strategy
        return np.concatenate(query_variances(strategy, self.terms, law))

    def _effect(self, noise: list[Array]) -> FloatArray:
        """Answers are linear in the measurement: what errors in it do to them."""
        return np.concatenate(self.mechanism.strategy.answers(self.terms, noise))

    def covariance(self, chosen: IntArray) -> FloatArray:
        blocks = self.mechanism.strategy.blocks
        queries = sum(term.queries for term in self.terms)
        check_covariances(queries * max(block.rows for block in blocks))

        result = np.zeros((queries, len(chosen)))

        for number, law in enumerate(self.mechanism.laws):
            rows = blocks[number].rows
            units: list[Array] = [np.zeros((block.rows, rows)) for block in blocks]
            units[number] = np.eye(rows)
            effect = self._effect(units)
            result += law.variance * (effect @ effect[chosen].T)

        return result

    def draw(
        self,
        count: int,
        rng: np.random.Generator,
    ) -> FloatArray:
        pairs = zip(
            self.mechanism.strategy.blocks,
            self.mechanism.laws,
            strict=True,
        )
        noise = [
            law.standard_deviation * self._unit_draws(rng, (b.rows, count))
            for b, law in pairs
        ]
        return self._effect(noise).T

    def _unit_draws(
        self,
        rng: np.random.Generator,
        shape: tuple[int, int],
    ) -> Array:
        if self._is_laplace:
            return rng.laplace(scale=np.sqrt(0.5), size=shape)
        return rng.standard_normal(shape)

    def multiplier(self, level: float) -> float:
        return (laplace_multiplier if self._is_laplace else normal_multiplier)(level)

    def bounded_multiplier(
        self,
        answers: int,
        level: float,
    ) -> float:
        if self._is_laplace:  # Šidák's inequality is Gaussian
            return super().bounded_multiplier(answers, level)
        return sidak_multiplier(answers, level)

    def tail(self, alarm: float) -> float | None:
        laws = self.mechanism.laws
        if any(law.variance == 0 for law in laws):
            return None
        largest = max(_proxy_variance(law) / law.variance for law in laws)
        return _chernoff_multiplier(self.mechanism.law, alarm) * float(np.sqrt(largest))


def _proxy_variance(law: NoiseLaw) -> float:
    """Variance of a continuous law whose moment generating function is nowhere below the law's.

    Rounding a Gaussian adds at most half a step, itself subgaussian with 1/4, and square roots of
    such variances add. For discrete Laplace noise, (cosh u − 1)/(cosh u − cosh t) <= u²/(u² − t²)
    with u = 1/scale, as (cosh t − 1)/t² grows.
    """
    if law.law == "discrete-laplace":
        return 2 * law.scale**2
    return (law.scale + 0.5) ** 2


def _chernoff_multiplier(law: NoiseLaw, alarm: float) -> float:
    """Standard deviations that a sum of such continuous noise exceeds with this probability.

    Among sums of Laplace noise of one variance, a single one has the largest moment generating
    function: −log(1 − s²v/2) is convex in the variance v.
    """
    from scipy.optimize import brentq

    exponent = -np.log(alarm)
    if law.law != "discrete-laplace":
        return float(np.sqrt(2 * exponent))

    def excess(z: float) -> float:
        s = (np.sqrt(1 + 2 * z * z) - 1) / z
        return float(s * z + np.log1p(-s * s / 2) - exponent)

    return float(brentq(excess, 1e-3, 10 + 2 * exponent))
