"""Integer blocks under independent noise: the mechanism behind every linear strategy here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np

from noisewright.central.blocks.block_strategy import BlockStrategy
from noisewright.central.blocks.variance import query_variances
from noisewright.central.mechanism import Counts, Measurement, Table, Values
from noisewright.errors import TooLarge
from noisewright.estimate.accuracy import Accuracy, Indices
from noisewright.estimate.intervals import laplace_multiplier, normal_multiplier, sidak_multiplier
from noisewright.privacy.budget import Privacy
from noisewright.privacy.calibration import calibrate
from noisewright.privacy.law import NoiseLaw
from noisewright.privacy.rounding import float_above
from noisewright.privacy.source import ByteSource
from noisewright.privacy.spend import Gaussian, Laplace, Spend
from noisewright.workload.base import FloatArray
from noisewright.workload.measures import COUNT, Measure
from noisewright.workload.structure import Term

_NO_NOISE = 2.0**-30  # in grid steps: every draw is zero
_CROSS_LIMIT = 2**26


@dataclass(frozen=True, eq=False)
class BlockMechanism:
    """A block strategy of one measure under the least noise that keeps `privacy`."""

    strategy: BlockStrategy
    privacy: Privacy
    content: Measure = COUNT

    @property
    def _pure(self) -> bool:
        return self.privacy.kind == "pure"

    @cached_property
    def sensitivity(self) -> float:
        """How far one neighbour moves the measurements, in L1 or L2 as the noise needs."""
        order, neighbours = (1 if self._pure else 2), self.privacy.neighbours
        if self.content == COUNT:
            return self.strategy.sensitivity(order, neighbours)
        # A replaced person takes one value out of a cell and puts another into a cell.
        alone = Fraction(self.strategy.sensitivity(order, "add-remove"))
        return float_above(alone * self.content.reach * (1 if neighbours == "add-remove" else 2))

    @cached_property
    def law(self) -> NoiseLaw:
        """The noise on a block of relative scale one, in grid steps."""
        if not self.sensitivity:  # nobody can move it: it is public
            return NoiseLaw("discrete-laplace" if self._pure else "rounded-gaussian", _NO_NOISE)
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

    @property
    def tables(self) -> tuple[Table, ...]:
        return tuple(Table(attributes, self.content) for attributes in self.strategy.tables)

    def at(self, privacy: Privacy) -> Self:
        return replace(self, privacy=privacy)

    def measure(self, counts: Counts, source: ByteSource | None = None) -> Measurement:
        exact = self.strategy.measure(lambda table: counts[Table(table, self.content)])
        noise = self.strategy.draw(self.law, source)
        pairs = zip(exact, noise, strict=True)
        return Measurement(tuple(value + drawn for value, drawn in pairs))

    def answer(self, measurement: Measurement, terms: Sequence[Term]) -> FloatArray:
        noisy = [values.astype(np.float64) for values in measurement.values]
        return np.concatenate(self.strategy.answers(terms, noisy))

    def accuracy(self, terms: Sequence[Term]) -> Accuracy:
        return BlockAccuracy(self, tuple(terms))

    def check_reach(self, terms: Sequence[Term]) -> None:
        start = 0
        for term in terms:
            self.strategy.check_reach(term, start)
            start += term.queries

    def record(self) -> dict[str, Any]:
        return {
            "noise": self.law.to_dict(),
            "sensitivity": self.sensitivity,
            "measurements": self.strategy.measurements,
        }


@dataclass(frozen=True, eq=False)
class BlockAccuracy(Accuracy):
    """Linear answers from blocks of independent noise: everything is exact."""

    mechanism: BlockMechanism
    terms: tuple[Term, ...]

    @cached_property
    def variance(self) -> FloatArray:
        law, strategy = self.mechanism.law, self.mechanism.strategy
        return np.concatenate(query_variances(strategy, self.terms, law))

    def _effect(self, noise: list[Values]) -> FloatArray:
        """Answers are linear in the measurement: what errors in it do to them."""
        return np.concatenate(self.mechanism.strategy.answers(self.terms, noise))

    def covariance(self, chosen: Indices) -> FloatArray:
        blocks = self.mechanism.strategy.blocks
        queries = sum(term.queries for term in self.terms)
        if queries * max(block.rows for block in blocks) > _CROSS_LIMIT:
            raise TooLarge(
                "covariances of so many answers are too large; declare fewer tables at once"
            )
        result = np.zeros((queries, len(chosen)))
        for number, law in enumerate(self.mechanism.laws):
            units: list[Values] = [np.zeros((b.rows, blocks[number].rows)) for b in blocks]
            units[number] = np.eye(blocks[number].rows)
            part = self._effect(units)
            result += law.variance * (part @ part[chosen].T)
        return result

    def draw(self, count: int, rng: np.random.Generator) -> FloatArray:
        pairs = zip(self.mechanism.strategy.blocks, self.mechanism.laws, strict=True)
        noise = [law.standard_deviation * self._unit(rng, (b.rows, count)) for b, law in pairs]
        return self._effect(noise).T

    def _unit(self, rng: np.random.Generator, shape: tuple[int, int]) -> Values:
        if self.mechanism.law.law == "discrete-laplace":
            return rng.laplace(scale=np.sqrt(0.5), size=shape)
        return rng.standard_normal(shape)

    def multiplier(self, level: float) -> float:
        pure = self.mechanism.law.law == "discrete-laplace"
        return (laplace_multiplier if pure else normal_multiplier)(level)

    def bounded_multiplier(self, answers: int, level: float) -> float:
        if self.mechanism.law.law == "discrete-laplace":
            return super().bounded_multiplier(answers, level)  # Šidák's inequality is Gaussian
        return sidak_multiplier(answers, level)
