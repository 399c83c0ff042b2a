"""How wrong answers are: their errors' variances and bias, how they vary together, and their law.

Both models state accuracy by this one type. A release's intervals, the conditioning on public
facts, the combination of releases and the split of a budget all read it and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import TooLarge
from noisewright.estimate.intervals import (
    check_level,
    largest_error_quantile,
    log_concave_multiplier,
    simultaneous_multiplier,
)

Kind = Literal["exact", "bound", "simulated"]

SIMULATED_ANSWERS = 20_000
"""Answers above which joint intervals are bounded instead of simulated."""

_MOST_COVARIANCES = 2**26  # at once, in 512 MB
_DRAWS = 4000  # joint errors behind a simultaneous interval: its level is then known to 0.3 %
# for one answer; where more were needed, Chebyshev's bound is taken
_MOST_DRAWS = 40_000
_SEEN = 40  # simulated errors beyond a level that tell where it lies
_WATCHED = 2048  # answers whose own laws are simulated
_BLOCK = 2**22  # numbers simulated at a time
_WEAKEST_FIRST: tuple[Kind, ...] = ("simulated", "bound", "exact")


class Accuracy(ABC):
    """The errors of some answers, before any data is read.

    `kind` says what the figures are: exact, upper bounds, or found by simulation.
    """

    kind: Kind = "exact"

    @cached_property
    def alike(self) -> bool:
        """Whether `multiplier` holds for every linear combination of the answers too."""
        return True

    @property
    @abstractmethod
    def variance(self) -> FloatArray:
        """The variance of every answer."""

    @property
    def bias(self) -> FloatArray | None:
        """The largest bias of every answer; None where there is none."""
        return None

    @property
    def error(self) -> FloatArray:
        """Root mean square error of every answer, bias included: what mechanisms are ranked by."""
        if self.bias is None:
            return self.std
        return np.sqrt(self.variance + self.bias**2)

    @property
    def worst_rmse(self) -> float | None:
        """A root mean square over answers that no data exceed, where `error` is for some alone."""
        return None

    @cached_property
    def std(self) -> FloatArray:
        """The standard deviation of every answer."""
        return np.sqrt(self.variance)

    @abstractmethod
    def covariance(self, chosen: IntArray) -> FloatArray:
        """Covariances of all answers (rows) with some of them (columns)."""

    @cached_property
    def _within(
        self,
    ) -> dict[tuple[int, int, tuple[int, ...]], FloatArray]:
        return {}

    def covariance_within(
        self,
        rows: slice,
        chosen: tuple[int, ...],
    ) -> FloatArray:
        """Covariances of the answers in `rows` with some of them; kept, as releases repeat them."""
        key = rows.start, rows.stop, chosen
        if key not in self._within:
            places = np.asarray(chosen, dtype=np.int64) + rows.start
            self._within[key] = self.covariance(places)[rows]
        return self._within[key]

    @abstractmethod
    def draw(
        self,
        count: int,
        rng: np.random.Generator,
    ) -> FloatArray:
        """So many joint errors of all answers, one a row."""

    @abstractmethod
    def multiplier(self, level: float) -> float:
        """Standard deviations either side that hold the error of one answer at this level."""

    def bounded_multiplier(
        self,
        answers: int,
        level: float,
    ) -> float:
        """Standard deviations that hold so many answers at once, whatever their correlation."""
        return self.multiplier(1 - (1 - level) / answers)

    def tail(self, alarm: float) -> float | None:
        """Standard deviations that an answer exceeds with probability `alarm` at most, proved.

        Unlike `multiplier` it holds for the very numbers that are drawn, however far out; None
        where no such bound is known.
        """
        return None

    @cached_property
    def _joint(self) -> dict[float, float]:
        return {}

    def joint_multiplier(self, level: float) -> float:
        """Standard deviations either side that hold the errors of all answers at once."""
        if level not in self._joint:
            self._joint[level] = self._find_joint(level)
        return self._joint[level]

    def _find_joint(self, level: float) -> float:
        answers = len(self.variance)
        if answers > SIMULATED_ANSWERS:
            return self.bounded_multiplier(answers, level)

        safe = np.where(self.std > 0, self.std, 1.0)

        def errors(
            count: int,
            rng: np.random.Generator,
        ) -> FloatArray:
            return self.draw(count, rng) / safe

        # Public simulation of the error law: nothing here touches data, so a fixed seed is right
        # and makes a plan's forecast reproducible.
        return simultaneous_multiplier(
            errors,
            level,
            draws=_DRAWS,
            rng=np.random.default_rng(0),
        )


def check_covariances(
    entries: int,
    remedy: str = "declare fewer tables at once",
) -> None:
    """Refuse covariances between so many answers and measurements, before they are formed."""
    if entries > _MOST_COVARIANCES:
        raise TooLarge(f"covariances of so many answers are too large; {remedy}")


def drawn_multiplier(
    accuracy: Accuracy,
    level: float,
) -> float:
    """The multiplier of the widest law among the answers, from draws; far out by Chebyshev."""
    alarm = 1 - check_level(level)
    moved = np.flatnonzero(accuracy.variance > 0)
    if not len(moved):
        return 0.0

    draws = max(_DRAWS, int(np.ceil(_SEEN / alarm)))
    if draws > _MOST_DRAWS:
        return float(alarm**-0.5)

    places = (
        np.linspace(0, len(moved) - 1, min(_WATCHED, len(moved)))
        .round()
        .astype(np.int64)
    )
    watched = moved[places]
    rng = np.random.default_rng(0)
    step = max(1, _BLOCK // len(accuracy.variance))
    counts = [min(step, draws - start) for start in range(0, draws, step)]
    errors = np.concatenate([accuracy.draw(count, rng)[:, watched] for count in counts])
    errors = np.abs(errors) / accuracy.std[watched]

    return largest_error_quantile(errors, level)


@dataclass(frozen=True, eq=False)
class LogConcave(Accuracy):
    """Linear answers from numbers whose joint density is log-concave and symmetric.

    Every answer's error has such a law too, so that the widest of these holds all. `weights` are
    what answers take of uncorrelated numbers of unit variance.
    """

    weights: FloatArray

    @cached_property
    def variance(self) -> FloatArray:
        return np.asarray((self.weights**2).sum(axis=1))

    def covariance(self, chosen: IntArray) -> FloatArray:
        return self.weights @ self.weights[chosen].T

    def multiplier(self, level: float) -> float:
        return log_concave_multiplier(level)


@dataclass(frozen=True, eq=False)
class Joined(Accuracy):
    """Answers from mechanisms with independent noise; `places` says whose is which answer."""

    parts: Sequence[Accuracy]
    places: Sequence[IntArray]

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        kinds = {part.kind for part in self.parts}
        return next(kind for kind in _WEAKEST_FIRST if kind in kinds)

    @cached_property
    def variance(self) -> FloatArray:
        return self._whole([part.variance for part in self.parts])

    @cached_property
    def bias(self) -> FloatArray | None:
        if all(part.bias is None for part in self.parts):
            return None
        zeros = (
            np.zeros(len(p.variance)) if p.bias is None else p.bias for p in self.parts
        )
        return self._whole(list(zeros))

    def _whole(self, pieces: Sequence[FloatArray]) -> FloatArray:
        result = np.empty(sum(len(piece) for piece in pieces))
        for place, piece in zip(self.places, pieces, strict=True):
            result[place] = piece
        return result

    def covariance(self, chosen: IntArray) -> FloatArray:
        result = np.zeros((len(self.variance), len(chosen)))
        for place, part in zip(self.places, self.parts, strict=True):
            number = np.full(len(self.variance), -1)
            number[place] = np.arange(len(place))
            columns = np.flatnonzero(number[chosen] >= 0)
            if len(columns):
                result[np.ix_(place, columns)] = part.covariance(
                    number[chosen[columns]]
                )

        return result

    def draw(
        self,
        count: int,
        rng: np.random.Generator,
    ) -> FloatArray:
        result = np.empty((count, len(self.variance)))
        for place, part in zip(self.places, self.parts, strict=True):
            result[:, place] = part.draw(count, rng)
        return result

    @cached_property
    def alike(self) -> bool:
        return all(part.alike for part in self.parts)

    def multiplier(self, level: float) -> float:
        return max(part.multiplier(level) for part in self.parts)

    def tail(self, alarm: float) -> float | None:
        tails = [part.tail(alarm) for part in self.parts]
        known = [tail for tail in tails if tail is not None]
        return max(known) if len(known) == len(tails) else None


@dataclass(frozen=True, eq=False)
class Conditioned(Accuracy):
    """The first `count` answers of `inner`, given the true values of those at the places `known`.

    What is known may be among these answers (declared values) or behind them (impossible cells).
    The best linear estimate given it stays linear in the measurement.
    """

    inner: Accuracy
    known: IntArray
    count: int
    exact: IntArray | None = None
    """Places of answers that the known ones repeat, and that are exact with them."""

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        return self.inner.kind

    @cached_property
    def _cross(self) -> FloatArray:
        return self.inner.covariance(self.known)

    @property
    def _exact(self) -> IntArray:
        """Places of the answers that are themselves known."""
        return self.known[self.known < self.count] if self.exact is None else self.exact

    @cached_property
    def gain(self) -> FloatArray:
        """What one unit of error in each known answer tells about each of the others."""
        spread = self._cross[self.known]
        inverse = np.linalg.pinv(spread, rcond=1e-10, hermitian=True)
        return self._cross[: self.count] @ inverse

    def correct(
        self,
        answers: FloatArray,
        truth: FloatArray,
    ) -> FloatArray:
        """The first answers, given that those at the known places are `truth`."""
        better = answers[: self.count] - self.gain @ (answers[self.known] - truth)
        inside = self.known < self.count
        better[self.known[inside]] = truth[inside]
        return better

    @cached_property
    def variance(self) -> FloatArray:
        before = self.inner.variance[: self.count]
        after = before - np.einsum("ij,ij->i", self.gain, self._cross[: self.count])
        after[self._exact] = 0.0
        # What is left of answers that the known ones determine is rounding.
        return np.where(after > 1e-9 * before, after, 0.0)

    def covariance(self, chosen: IntArray) -> FloatArray:
        plain = self.inner.covariance(chosen)[: self.count]
        return plain - self.gain @ self._cross[chosen].T

    def draw(
        self,
        count: int,
        rng: np.random.Generator,
    ) -> FloatArray:
        errors = self.inner.draw(count, rng)
        left = errors[:, : self.count] - errors[:, self.known] @ self.gain.T
        left[:, self.variance == 0] = 0.0
        return left

    @cached_property
    def alike(self) -> bool:
        return self.inner.alike

    def multiplier(self, level: float) -> float:
        return (
            self.inner.multiplier(level)
            if self.alike
            else drawn_multiplier(self, level)
        )

    def bounded_multiplier(
        self,
        answers: int,
        level: float,
    ) -> float:
        if not self.alike:
            return super().bounded_multiplier(answers, level)
        return self.inner.bounded_multiplier(answers, level)
