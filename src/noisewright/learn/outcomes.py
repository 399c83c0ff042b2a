"""What a plan says of the reports of so many people, and what holds of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy.typing as npt

from noisewright.arrays import SignArray
from noisewright.display import Shown
from noisewright.learn.concept_classes import ConceptClass
from noisewright.privacy.promise.budget import Privacy


class Proven(NamedTuple):
    """What holds with probability 1 − `beta` of so many people's reports; None for nothing."""

    alpha: float | None
    beta: float
    people: int

    def summary(self) -> dict[str, object]:
        """The figures that fit on a line."""
        return self._asdict()


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome(Shown):
    """What reports say, and what holds of it with probability 1 − `beta`.

    `alpha` is the accuracy that holds with so many people; None where nothing does. `warning` says
    it where they were fewer than the plan asks for, or where no concept fits. `privacy` is what
    every report promised.
    """

    alpha: float | None
    beta: float
    people: int
    warning: str | None = None
    privacy: Privacy | None = None

    def _facts(self) -> list[tuple[str, str]]:
        within = "nothing proven" if self.alpha is None else f"{self.alpha:.4g}"
        facts = [("alpha", within), ("people", f"{self.people:,}")]
        return [*facts, *([("warning", self.warning)] if self.warning else [])]


@dataclass(frozen=True, eq=False, kw_only=True)
class Learned(Outcome):
    """A concept: agnostic, of a loss within `alpha` of the best; realizable, of at most `alpha`.

    `concept` is its row in the class as it was given, before concepts that say the same were
    joined, and `learned(points)` what it says of points of `source`, the class. `loss` and
    `interval` are estimated where the plan says so.
    """

    concept: int
    name: str
    labels: SignArray = field(repr=False)
    source: ConceptClass = field(repr=False)
    loss: float | None = None
    interval: tuple[float, float] | None = None

    def _facts(self) -> list[tuple[str, str]]:
        told = [] if self.loss is None else [("loss", f"{self.loss:.4f}")]
        return [("concept", self.name), *told, *super()._facts()]

    def __call__(self, points: Iterable[object] | npt.ArrayLike) -> SignArray:
        return self.labels[self.source.columns(points)]


@dataclass(frozen=True, eq=False, kw_only=True)
class Refutation(Outcome):
    """Whether some concept `fits`: right with probability 1 − β where something is promised.

    That is where the best concept has a loss of at most `theta`, and where all have a loss above
    theta + alpha. `score` is the estimate that decided, `threshold` what it was compared with.
    """

    fits: bool
    theta: float
    score: float
    threshold: float

    def _facts(self) -> list[tuple[str, str]]:
        said = "some concept fits" if self.fits else "refuted: no concept fits"
        return [("verdict", said), ("theta", f"{self.theta:g}"), *super()._facts()]
