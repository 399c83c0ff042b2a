"""Running counts under pure privacy: carry noise on a few levels, one number of memory each.

Steps are the lowest level; so many of them make a block, so many blocks a larger one. The running
count is the sum, over all levels, of the finished blocks in the one that is open above them. Within
that, every block's core is taken back by the next: after m blocks of a level its noise is s_1 + … +
s_m + r_m, whose variance hardly grows with m. A person is in one block of every level, so what the
levels spend adds up to the budget. Everything is counted and drawn in whole numbers.
"""

from __future__ import annotations

import os
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Any, ClassVar

import msgspec
import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.carry.carries import Carries
from noisewright.central.carry.law import CoreMoments, Tail, log_sinh_ratio
from noisewright.central.running import (
    Position,
    Stream,
    WholeText,
    check_state,
    whole_numbers,
    whole_texts,
)
from noisewright.central.stream import ONCE, plan_mark
from noisewright.errors import FileFormatError, InvalidParameter, require
from noisewright.estimate.intervals import largest_error_quantile
from noisewright.norm.exact.prefix import LONGEST
from noisewright.privacy.exact.rounding import (
    SCALE_LIMIT,
    float_above,
)
from noisewright.privacy.noise.flat_core import flat_core
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.spend import Laplace, Spend
from noisewright.workload.base import check_size

_MOST_LEVELS = 6  # tried: the best of all is taken
_MARGIN = 1 - Fraction(1, 2**45)  # far above the rounding of scales
# tried, in scales of the noise
_CORES = np.concatenate([[0.0], np.geomspace(0.05, 400.0, 160)])
_DRAWS = 4000  # of the noise of every watched step
# numbers that are drawn at once: the drawing costs one call for all of them
_BATCH = 1024
_ONE_LEVEL = 4096  # steps; from about a thousand on two levels are better
_WATCHED = 64  # steps whose laws are simulated
_RATES = np.tanh(np.linspace(0.02, 3.0, 48))  # of the largest that the tails allow


@dataclass(frozen=True, eq=False)
class Level:
    """Blocks of `steps` steps, counted up to `blocks` in a row under noise of this scale."""

    steps: int
    blocks: int
    scale: float

    @cached_property
    def cores(self) -> IntArray:
        """The best core for every place in the row: in how many answers a block is, decides."""
        later = np.arange(self.blocks - 1, -1, -1)
        trials = np.unique(np.rint(_CORES * self.scale))
        moments = CoreMoments(trials, self.scale)
        best = np.argmin(
            moments.drawn + later[:, None] * moments.beyond,
            axis=1,
        )

        return np.asarray(trials[best].astype(np.int64))

    @cached_property
    def variances(self) -> FloatArray:
        """Of the sum of the first 0, 1, 2, ... blocks."""
        moments = CoreMoments(self.cores.astype(np.float64), self.scale)
        return _first_blocks(moments.drawn, moments.beyond)

    def log_moments(self, theta: float) -> FloatArray:
        """ln E e^(θ·noise) of the first 0, 1, 2, ... blocks; θ is below 1/scale."""
        tail = Tail(self.scale)
        width = 2.0 * self.cores + 1
        total = np.log(tail.total(self.cores))
        above = tail.log_beyond(theta)
        below = tail.log_beyond(-theta)

        # Of a draw d, and of its excess s alone.
        at_core = theta * self.cores
        ends = np.logaddexp(at_core + above, -at_core + below)
        draw = np.logaddexp(log_sinh_ratio(theta, width), ends) - total
        excess = np.logaddexp(np.log(width), np.logaddexp(above, below)) - total

        return _first_blocks(draw, excess)

    def simulated(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Noise of the first 0, 1, 2, ... blocks: one row each."""
        alone = Carries.none(self.blocks)
        cores = self.cores[:, None]
        whole = (
            np.minimum(self.cores, 1),
            np.maximum(self.cores, 1),
        )
        carries = Carries(
            alone.order,
            *whole,
            alone.targets,
            alone.parts,
        )
        draws = carries.simulated_draws(self.scale, count, rng)
        inside = np.clip(draws, -cores, cores)
        sums = np.cumsum(draws - inside, axis=0) + inside

        return np.concatenate([np.zeros((1, count)), sums])


def _first_blocks(draw: FloatArray, excess: FloatArray) -> FloatArray:
    """Sums over the first 0, 1, 2, ... blocks: a draw of the last, of those before what is left."""
    before = np.concatenate([[0.0], np.cumsum(excess[:-1])])
    return np.concatenate([[0.0], before + draw])


@dataclass(frozen=True, eq=False)
class CarryStreamMechanism:
    """A planned stream: a person counts once, at one step, and one person is the neighbour."""

    steps: int
    privacy: Privacy
    levels: tuple[Level, ...]

    name = "carry"
    """What plans and records call it."""

    appearances = ONCE
    """A person counts at one step."""

    laws: ClassVar[tuple[dict[str, object], ...]] = ()
    """No law by itself: what one level draws is taken back by the next."""

    @property
    def memory(self) -> int:
        """How many numbers a stream remembers."""
        return len(self.levels)

    def record(self) -> dict[str, object]:
        """What is drawn and how fine, ready for JSON."""
        noise = {"law": "carried-laplace", "scale": self.levels[0].scale}
        return {"noise": noise, "grid_step": 1.0}

    @property
    def spend(self) -> Spend:
        """What all levels spend on one person, or on two where one is replaced."""
        people = 1 if self.privacy.neighbours == "add-remove" else 2
        ratio = sum(
            (people / Fraction(level.scale) for level in self.levels),
            Fraction(0),
        )
        return Spend(
            self.privacy.neighbours,
            (Laplace(float_above(ratio)),),
        )

    def finished(self, steps: IntArray) -> list[IntArray]:
        """For every level the finished blocks, in the open one above, after so many steps."""
        result = []
        for level, above in zip(self.levels, [*self.levels[1:], None], strict=True):
            blocks = steps // level.steps
            result.append(
                blocks if above is None else blocks % (above.steps // level.steps)
            )

        return result

    @cached_property
    def errors(self) -> FloatArray:
        """Standard deviation of the answer at every step, in counts."""
        finished = self.finished(np.arange(1, self.steps + 1))
        pairs = zip(self.levels, finished, strict=True)
        return np.sqrt(sum(level.variances[blocks] for level, blocks in pairs))

    def multiplier(self, level: float) -> float:
        """Standard deviations either side that hold one answer: the widest of those simulated."""
        chosen = np.unique(
            np.geomspace(1, self.steps, _WATCHED).round().astype(np.int64)
        )
        rng = np.random.default_rng(0)
        finished = self.finished(chosen)
        errors = np.zeros((len(chosen), _DRAWS))

        for stage, blocks in zip(self.levels, finished, strict=True):
            errors += stage.simulated(_DRAWS, rng)[blocks]

        std = self.errors[chosen - 1][:, None]
        # Budgets of hundreds leave no noise that a float could tell from none.
        errors = np.divide(
            errors,
            std,
            out=np.zeros_like(errors),
            where=std > 0,
        )
        return largest_error_quantile(np.abs(errors).T, level)

    def simultaneous_multiplier(self, level: float) -> float:
        """Standard deviations that hold all answers at once: Chernoff's bound, over all steps."""
        finished = self.finished(np.arange(1, self.steps + 1))
        alarm = np.log((1 - level) / (2 * self.steps))
        largest = max(stage.scale for stage in self.levels)
        best = np.full(self.steps, np.inf)

        for rate in _RATES:
            theta = rate / largest
            pairs = zip(self.levels, finished, strict=True)
            logs = sum(stage.log_moments(theta)[blocks] for stage, blocks in pairs)
            np.minimum(best, (logs - alarm) / theta, out=best)

        std = self.errors
        return float(
            np.divide(
                best,
                std,
                out=np.zeros_like(best),
                where=std > 0,
            ).max()
        )

    @property
    def mark(self) -> str:
        """What a stream's position says of its plan: a state of another plan does not go on."""
        levels = tuple((level.steps, level.blocks) for level in self.levels)
        return plan_mark(self.privacy, (self.steps, "carry", levels))


def carry_stream(steps: int, privacy: Privacy) -> CarryStreamMechanism:
    """The levels, and their shares of the budget, with the least mean square error."""
    if privacy.kind != "pure" or privacy.epsilon is None:
        raise InvalidParameter(
            "privacy",
            privacy.text(),
            "must be pure",
            "leave delta and rho out",
        )

    require(
        check_size("steps", steps) <= LONGEST,
        "steps",
        steps,
        f"must be at most {LONGEST}",
        "restart the stream",
    )

    people = 1 if privacy.neighbours == "add-remove" else 2
    budget = Fraction(privacy.epsilon) / people
    require(
        1 / SCALE_LIMIT * 64 <= budget <= SCALE_LIMIT / 64,
        "epsilon",
        privacy.epsilon,
        "needs noise beyond any grid",
        "",
    )

    options = [tuple(_levels(shape, budget)) for shape in _shapes(steps)]
    mechanisms = [CarryStreamMechanism(steps, privacy, levels) for levels in options]

    return min(
        mechanisms,
        key=lambda mechanism: float(np.mean(mechanism.errors**2)),
    )


def _shapes(steps: int) -> Iterator[list[int]]:
    """Children of a block at every level, lowest first; the highest holds all steps."""
    if steps <= _ONE_LEVEL:
        yield [steps]
    for count in range(2, _MOST_LEVELS + 1):
        children = max(2, ceil(steps ** (1 / count)))
        if children ** (count - 1) < steps:
            yield [children] * (count - 1) + [ceil(steps / children ** (count - 1))]


def _levels(shape: list[int], budget: Fraction) -> Iterator[Level]:
    """Shares by the cube root of what a level's noise costs at the whole budget."""
    last = len(shape) - 1
    counted = [
        children if k == last else children - 1 for k, children in enumerate(shape)
    ]
    alone = [Level(1, max(1, blocks), 64.0).variances.mean() for blocks in counted]
    roots = np.cbrt(alone) / np.cbrt(alone).sum()
    steps = 1

    for children, blocks, share in zip(shape, counted, roots, strict=True):
        scale = float_above(1 / (budget * Fraction(float(share)) * _MARGIN))
        yield Level(steps, max(1, blocks), scale)
        steps *= children


class CarryState(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    tag="carry",
):
    """What a stream under carry noise remembers of every level beside its answers: private."""

    open: tuple[WholeText, ...]
    carried: tuple[WholeText, ...]
    sums: tuple[WholeText, ...]


class CarryStream(Stream):
    """A running stream under carry noise. It holds sums of past counts, as private as the data."""

    def __init__(
        self,
        plan: CarryStreamMechanism,
        source: ByteSource | None,
        position: Position | None = None,
    ) -> None:
        self._begin(plan, plan.steps, source, position)
        count = len(plan.levels)
        self._open = [0] * count
        self._blocks = [0] * count
        self._carried = [0] * count
        self._sums = [0] * count
        self._draws: list[deque[int]] = [deque() for _ in plan.levels]

    def state(self) -> Any:
        """What goes on from here needs beside the answers; noise not yet used is no part of it."""
        self._check_uninterrupted()
        return CarryState(
            *map(
                whole_texts,
                (self._open, self._carried, self._sums),
            )
        )

    def resume(self, answers: Sequence[float], state: Any) -> None:
        """Go on from a state, if it is one that so many steps of this plan leave behind."""
        self._answers = array("d", answers)
        self._claimed = self.steps
        if not isinstance(state, CarryState):
            raise FileFormatError("the state is one of other noise than the plan has")

        kept = [
            whole_numbers(texts) for texts in (state.open, state.carried, state.sums)
        ]
        levels = self._plan.levels
        check_state(all(len(numbers) == len(levels) for numbers in kept))
        self._open, self._carried, self._sums = kept
        finished = self._plan.finished(np.array([self.steps]))
        self._blocks = [int(blocks[0]) for blocks in finished]

        for level, blocks, held, carried, total in zip(
            levels,
            self._blocks,
            *kept,
            strict=True,
        ):
            core = int(level.cores[blocks - 1]) if blocks else 0
            check_state(abs(carried) <= core and (blocks > 0 or total == 0))
            check_state(self.steps % level.steps > 0 or held == 0)

        check_state(
            float(sum(self._sums)) == (self._answers[-1] if self._answers else 0.0)
        )

    def _answered(self, increment: int) -> float:
        """Count into the open blocks, and measure the highest that is finished."""
        levels = self._plan.levels
        self._open = [count + increment for count in self._open]
        for number, level in enumerate(levels):
            self._blocks[number] += 1
            if number == len(levels) - 1 or self._blocks[number] <= level.blocks:
                self._measure(number, level)
                break
            self._blocks[number] = self._carried[number] = self._sums[number] = 0
            self._open[number] = 0

        return float(sum(self._sums))

    def _measure(self, number: int, level: Level) -> None:
        core = int(level.cores[self._blocks[number] - 1])
        draw = self._draw(number, level)
        self._sums[number] += self._open[number] + draw - self._carried[number]
        self._carried[number] = max(-core, min(core, draw))
        self._open[number] = 0

    def _draw(self, number: int, level: Level) -> int:
        """The next draw of a level; many are made at once."""
        # a forked process drops noise that its parent will use
        if self._process != os.getpid():
            self._process = os.getpid()
            self._draws = [deque() for _ in self._draws]

        if not self._draws[number]:
            left = self._most // level.steps - self.steps // level.steps
            places = self._blocks[number] - 1 + np.arange(min(_BATCH, max(1, left)))
            cores = level.cores[places % level.blocks]
            self._draws[number].extend(
                flat_core(level.scale, cores, self._source).tolist()
            )

        return self._draws[number].popleft()
