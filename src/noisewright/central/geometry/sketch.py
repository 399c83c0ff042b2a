"""Ball noise on fewer rows than are asked: a sketch, from which answers follow only nearly.

Rows that the sketch tells are told without bias, as by any balls. Every other query w is near some
combination v of the noisy rows: with N people, wx - vx lies between N times the least and N times
the largest difference over the cells. The middle is added to the answer, since N is public, and
what is left on either side is its bias at most, whatever the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.geometry.balls import (
    BallAccuracy,
    BallMechanism,
    over_cells,
)
from noisewright.central.mechanism import (
    Counts,
    Measurement,
    StoredMechanism,
)
from noisewright.errors import (
    FileFormatError,
    InvalidParameter,
    require,
)
from noisewright.estimate.accuracy import Accuracy, Kind
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload.structure import Term


@dataclass(frozen=True, eq=False)
class SketchMechanism(BallMechanism):
    """Balls on a sketch of the queries, for at most so many `people`."""

    people: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self._replaced:
            rule = "must make the number of people public for a sketch"
            raise InvalidParameter(
                "neighbours",
                self.privacy.neighbours,
                rule,
                "plan with replace-one",
            )

        require(
            self.people >= 1,
            "people",
            self.people,
            "must be >= 1",
        )

    def measure(self, counts: Counts, source: ByteSource | None = None) -> Measurement:
        """Noisy rows and the number of people, who are no more than biases are told for."""
        people = int(counts[self.tables[0]].sum())
        if people > self.people:
            rule = f"must be at most the {self.people} that were planned for"
            raise InvalidParameter(
                "people",
                people,
                rule,
                "plan with their number",
            )

        return super().measure(counts, source)

    def reading(self, asked: Sequence[Term]) -> tuple[FloatArray, FloatArray]:
        people, weights, _ = self._near(asked)
        return people, weights

    def _near(self, asked: Sequence[Term]) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weights of people and of noisy rows; how far over cells they are off either side."""
        wanted = over_cells(self.sizes, asked)
        weights, told = self._exact_weights(wanted)
        if not told.all():
            weights[~told] = self._balanced(wanted[~told])
        middles, off = self._middles(wanted, weights)
        return middles, weights, np.where(told, 0.0, off)

    def _balanced(self, wanted: FloatArray) -> FloatArray:
        """Weights whose noise and whose bias are small together, people spread over all cells."""
        design = self._design[0]
        centred = wanted - wanted.mean(axis=1, keepdims=True)
        ridge = np.eye(len(design)) * (design.shape[1] / self.people**2)
        return np.linalg.solve(design @ design.T + ridge, design @ centred.T).T

    def accuracy(self, asked: Sequence[Term]) -> Accuracy:
        _, weights, off = self._near(asked)
        dimensions = tuple(len(rows) for rows in self.parts)
        if not off.any():
            return BallAccuracy(weights, dimensions)
        return SketchAccuracy(weights, dimensions, self.people * off)

    def packed(self) -> StoredMechanism:
        return StoredSketch(self.parts, self.shares, self.people)


class StoredSketch(StoredMechanism, frozen=True, tag="sketch"):
    """The rows of every part, and for how many people they were planned."""

    parts: tuple[IntArray, ...]
    shares: tuple[float, ...]
    people: int

    def unpacked(self, privacy: Privacy, sizes: tuple[int, ...]) -> SketchMechanism:
        """The mechanism under this budget."""
        if self.people > 2**53:
            raise FileFormatError(
                "the plan is for more people than there are; plan again"
            )
        return SketchMechanism(sizes, self.parts, self.shares, privacy, self.people)


@dataclass(frozen=True, eq=False)
class SketchAccuracy(BallAccuracy):
    """Nearly linear answers: the noise is known, and the bias is at most `off`."""

    off: FloatArray
    kind: Kind = "bound"

    @property
    def bias(self) -> FloatArray | None:
        return self.off
