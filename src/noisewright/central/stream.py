"""Continual release of a running count: one private answer per step, a few numbers of memory.

Measured is M = A·x plus noise, with A the lower-triangular strategy of `norm.exact.prefix`; the
answers are functions of M alone. The geometric sums behind A are kept in fixed-point integers, so M
lies on a grid and the noise is an exactly rounded Gaussian on that grid. Rounding makes the
measured vector not quite linear in x. For two neighbouring inputs each rounding step adds less than
one unit to the difference, and the sensitivity that the noise is calibrated to holds the sum of all
these units.
"""

from __future__ import annotations

import math
import os
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, NoReturn

import msgspec
import numpy as np

from noisewright.arrays import FloatArray
from noisewright.central.stream_position import Position
from noisewright.container import digest
from noisewright.errors import (
    FileFormatError,
    InvalidParameter,
    NoisewrightError,
    OutOfReach,
    require,
)
from noisewright.norm.exact.prefix import (
    Kind,
    StreamFactorization,
    stream_factorization,
)
from noisewright.privacy.exact.rounding import SCALE_LIMIT, float_above
from noisewright.privacy.noise.law import NoiseLaw
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.calibration import calibrate
from noisewright.privacy.promise.spend import Gaussian, Spend
from noisewright.workload.base import is_whole

# every rate and gain is a float above 2^-40: exact in this many binary places
_RATE_BITS = 100
_STATE_BITS = 40  # of the running sums beyond the grid: their rounding never reaches it
_LOSS_BITS = 16  # rounding may cost 2^-16 of the sensitivity
_BATCH = 1024  # numbers that are drawn at once: one call for all of them


@dataclass(frozen=True)
class Appearances:
    """A person counts at most at `times` steps, any two of them at least `apart` steps apart."""

    times: int = 1
    apart: int = 1

    def __post_init__(self) -> None:
        for name in ("times", "apart"):
            value = getattr(self, name)
            require(
                isinstance(value, int) and not isinstance(value, bool) and value >= 1,
                f"appearances.{name}",
                value,
                "must be a whole number >= 1",
            )

    @property
    def person(self) -> str:
        """Whom a promise is about, in words."""
        if self.times == 1:
            return "one person, who counts once, at one step"
        apart = (
            "" if self.apart == 1 else f", any two of them {self.apart:,} or more apart"
        )
        return f"one person, who counts at up to {self.times:,} steps{apart}"

    def within(self, steps: int) -> int:
        """At how many of so many steps a person can count at most."""
        return min(self.times, -(-steps // self.apart))

    def length(self, factorization: StreamFactorization) -> float:
        """How long the sum of a person's columns can be, each of length one and not negative.

        Columns of a band that lie no nearer than its width share no row: their squares add. A
        column meets at most 2⌈band/apart⌉ − 1 of a person's columns, itself included, and no inner
        product exceeds one.
        """
        steps = factorization.steps
        band = factorization.band.size if factorization.kind == "banded" else steps
        times = self.within(steps)
        return math.sqrt(times * min(times, 2 * -(-band // self.apart) - 1))


ONCE = Appearances()


@dataclass(frozen=True, eq=False)
class StreamMechanism:
    """A planned stream: one person, who counts at one step or several, is the neighbour."""

    factorization: StreamFactorization
    privacy: Privacy
    law: NoiseLaw
    grid_bits: int
    appearances: Appearances = ONCE

    @property
    def sensitivity(self) -> float:
        """How far, in grid steps, a neighbour moves the measured vector."""
        neighbours = self.privacy.neighbours
        return sensitivity(
            self.factorization,
            self.grid_bits,
            neighbours,
            self.appearances,
        )

    @property
    def spend(self) -> Spend:
        """The ratio of sensitivity to noise, as drawn."""
        ratio = float_above(Fraction(self.sensitivity) / Fraction(self.law.scale))
        return Spend(self.privacy.neighbours, (Gaussian(ratio),))

    @property
    def noise(self) -> float:
        """Standard deviation of the noise on each measurement, in counts."""
        return self.law.standard_deviation * 2.0**-self.grid_bits

    @property
    def errors(self) -> FloatArray:
        """Standard deviation of the answer at every step, in counts."""
        return self.noise * self.factorization.errors

    @property
    def mark(self) -> str:
        """What a stream's position says of its plan: a state of another plan does not go on."""
        factors = self.factorization
        parts: tuple[object, ...] = (
            factors.steps, factors.kind, factors.band.size, self.grid_bits
        )  # fmt: skip
        if self.appearances != ONCE:
            parts = (*parts, self.appearances.times, self.appearances.apart)

        return plan_mark(self.privacy, parts)


def stream_mechanism(
    steps: int,
    privacy: Privacy,
    kind: Kind,
    band: int,
    appearances: Appearances = ONCE,
) -> StreamMechanism:
    """The noise for a stream of at most `steps` steps."""
    if privacy.kind == "pure":
        raise InvalidParameter(
            "privacy",
            privacy.text(),
            "has no delta and no rho",
            "streams need Gaussian noise",
        )

    factorization = stream_factorization(steps, kind, band=band)
    bits = _LOSS_BITS + math.ceil(math.log2(steps) / 2) + 1
    law = calibrate(
        privacy, l2=appearances.length(factorization) * (1.0 + 2.0**-_LOSS_BITS)
    )

    while bits > 0 and law.scale * 2.0**bits * 4 > SCALE_LIMIT:
        bits -= 1

    law = calibrate(
        privacy,
        l2=sensitivity(
            factorization,
            bits,
            privacy.neighbours,
            appearances,
        ),
    )
    return StreamMechanism(
        factorization,
        privacy,
        law,
        bits,
        appearances,
    )


def sensitivity(
    factorization: StreamFactorization,
    grid_bits: int,
    neighbours: str,
    appearances: Appearances = ONCE,
) -> float:
    """How far, in grid steps, a neighbour moves the measured vector, all rounding included."""
    # Columns have length one and non-negative entries: what two people add differs by at most √2
    # times the longest.
    people = math.sqrt(2) if neighbours == "replace-one" else 1.0
    lengths = people * appearances.length(factorization) * 2.0**grid_bits * (1 + 1e-9)
    memory = factorization.memory
    reach = float(np.sum(factorization.gains / (1 - factorization.rates))) + memory + 1
    per_step = 1 + 2.0**-_STATE_BITS * reach
    return lengths + math.sqrt(factorization.steps) * per_step


def plan_mark(privacy: Privacy, parts: tuple[object, ...]) -> str:
    """A short name for a promise and the whole numbers of a plan."""
    return digest(repr(sorted(privacy.to_dict().items(), key=str)), repr(parts))[:32]


WholeText = Annotated[str, msgspec.Meta(pattern=r"\A-?[0-9a-f]{1,500}\Z")]
"""A whole number of any size in hexadecimal: JSON has no room for it."""


class SumsState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="sums"):
    """What a stream under Gaussian noise remembers beside its answers: private."""

    sums: tuple[WholeText, ...]
    estimates: tuple[float, ...]


class Stream:
    """A running stream. It holds sums of past increments, so it is as private as the data.

    No step is answered twice: with fresh noise each time, the answers' mean would tell the count.
    """

    def __init__(
        self,
        plan: StreamMechanism,
        source: ByteSource | None,
        position: Position | None = None,
    ) -> None:
        self._begin(
            plan,
            plan.factorization.steps,
            source,
            position,
        )
        self._noise: deque[int] = deque()
        self._lengths: deque[float] = deque()
        kind = plan.factorization.kind
        self._filter: Any = _Band(plan) if kind == "banded" else _Buffers(plan)

    def _begin(
        self,
        plan: Any,
        steps: int,
        source: ByteSource | None,
        position: Position | None,
    ) -> None:
        """What streams of every noise keep of where they are."""
        self._plan = plan
        self._most = steps
        self._source = source
        self._position = position
        self._answers = array("d")
        self._claimed = 0
        self._process = os.getpid()

    @property
    def steps(self) -> int:
        """Number of answers given so far."""
        return len(self._answers)

    @property
    def answers(self) -> FloatArray:
        """The running counts given so far."""
        return np.array(self._answers, dtype=np.float64)

    @property
    def position(self) -> Position | None:
        """The count of steps on disk, where there is one."""
        return self._position

    def state(self) -> Any:
        """What goes on from here needs beside the answers; noise not yet used is no part of it.

        Two copies that shared such noise would show what they differ in.
        """
        self._check_uninterrupted()
        sums, estimates = self._filter.memory()
        return SumsState(whole_texts(sums), tuple(estimates))

    def resume(self, answers: Sequence[float], state: Any) -> None:
        """Go on from a state, if it is one that so many steps of this plan leave behind."""
        self._answers = array("d", answers)
        self._claimed = self.steps
        if not isinstance(state, SumsState):
            raise FileFormatError("the state is one of other noise than the plan has")

        self._filter.remember(
            whole_numbers(state.sums), list(state.estimates), self.steps
        )

    def step(self, increment: int) -> float:
        """Take the exact count of this step and return the private running count."""
        require(
            is_whole(increment),
            "increment",
            "?",
            "must be a whole number",
            "count people",
        )
        if self.steps == self._most:
            raise OutOfReach(
                f"the stream was planned for {self.steps} steps; plan a longer one beforehand"
            )

        self._claim()
        answer = self._answered(int(increment))
        self._answers.append(answer)

        return answer

    def _answered(self, increment: int) -> float:
        """Measure one more step, and answer from what was measured."""
        if not self._noise or self._process != os.getpid():
            self._refill()

        length = self._lengths.popleft()
        scale = int(
            Fraction(1 << self._plan.grid_bits + _STATE_BITS) / Fraction(length)
        )
        measured = self._filter.measure(increment * scale) + self._noise.popleft()
        # From here on only `measured` is used: everything below is post-processing.
        count = length * self._filter.estimate(
            math.ldexp(measured, -self._plan.grid_bits)
        )

        return float((self._answers[-1] if self._answers else 0.0) + count)

    def _claim(self) -> None:
        """Take this step before anything is measured; whatever fails later, it stays taken."""
        self._check_uninterrupted()
        if self._position is not None:
            self._position.claim(self.steps)
        elif self._process != os.getpid():
            raise NoisewrightError(
                "a stream without a position goes on only in the process that started it, lest two"
                " copies answer one step; start it with start(position=...)"
            )

        self._claimed += 1

    def _check_uninterrupted(self) -> None:
        if self._claimed != self.steps:
            raise NoisewrightError(
                "a step of this stream was interrupted; start a new one with a budget of its own"
            )

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise NoisewrightError(
            "a running stream is neither copied nor pickled, lest a copy answer a step again; start"
            " it with start(position=...), keep it with save(path), go on with nw.load(path)"
        )

    def _refill(self) -> None:
        # a forked process drops noise that its parent will use
        self._process = os.getpid()
        self._noise.clear()
        self._lengths.clear()
        count = min(_BATCH, self._plan.factorization.steps - self.steps)
        self._noise.extend(self._plan.law.sample(count, self._source).tolist())
        lengths = self._plan.factorization.column_lengths(
            self.steps, self.steps + count
        )
        self._lengths.extend(lengths.tolist())


class _Buffers:
    """T as geometric sums: one running sum per rate, for the data and for the estimate."""

    def __init__(self, plan: StreamMechanism) -> None:
        rates = plan.factorization.rates.tolist()
        gains = plan.factorization.gains.tolist()
        self.rates = rates
        self.gains = gains
        self.fixed = [
            (_fixed(rate), _fixed(gain))
            for rate, gain in zip(rates, gains, strict=True)
        ]
        self.sums = [0] * len(rates)
        self.estimates = [0.0] * len(rates)

    def measure(self, value: int) -> int:
        """Fixed-point T·x at this step, on the grid."""
        total = value
        sums = self.sums
        for k, (rate, gain) in enumerate(self.fixed):
            past = sums[k]
            total += gain * past >> _RATE_BITS
            sums[k] = (rate * past >> _RATE_BITS) + value

        return total >> _STATE_BITS

    def memory(self) -> tuple[Sequence[int], Sequence[float]]:
        """What goes on from here needs."""
        return self.sums, self.estimates

    def remember(
        self,
        sums: list[int],
        estimates: list[float],
        steps: int,
    ) -> None:
        """Go on from such a memory after so many steps."""
        check_state(len(sums) == len(estimates) == len(self.rates))
        check_state(steps > 0 or not any((*sums, *estimates)))
        self.sums = sums
        self.estimates = estimates

    def estimate(self, measured: float) -> float:
        """T⁻¹ applied to the measurements, at this step."""
        past = self.estimates
        now = measured - sum(map(float.__mul__, self.gains, past))
        self.estimates = [
            rate * s + now for rate, s in zip(self.rates, past, strict=True)
        ]
        return now


class _Band:
    """T as a band: the last increments and the last estimates."""

    def __init__(self, plan: StreamMechanism) -> None:
        band = plan.factorization.band.tolist()
        self.fixed = [_fixed(c) for c in band]
        self.coefficients = band[1:]
        self.values: deque[int] = deque(maxlen=len(band))
        self.estimates: deque[float] = deque(maxlen=max(len(band) - 1, 1))

    def measure(self, value: int) -> int:
        """Fixed-point T·x at this step, on the grid."""
        self.values.appendleft(value)
        total = sum(map(int.__mul__, self.fixed, self.values))
        return total >> _RATE_BITS + _STATE_BITS

    def memory(self) -> tuple[Sequence[int], Sequence[float]]:
        """What goes on from here needs, latest first."""
        return self.values, self.estimates

    def remember(
        self,
        values: list[int],
        estimates: list[float],
        steps: int,
    ) -> None:
        """Go on from such a memory after so many steps."""
        for past, kept in ((self.values, values), (self.estimates, estimates)):
            assert past.maxlen is not None
            check_state(len(kept) == min(steps, past.maxlen))
        self.values.extend(values)
        self.estimates.extend(estimates)

    def estimate(self, measured: float) -> float:
        """T⁻¹ applied to the measurements, at this step."""
        now = measured - sum(map(float.__mul__, self.coefficients, self.estimates))
        self.estimates.appendleft(now)
        return now


def whole_texts(numbers: Sequence[int]) -> tuple[str, ...]:
    """Whole numbers as a file keeps them."""
    return tuple(f"{number:x}" for number in numbers)


def whole_numbers(texts: Sequence[str]) -> list[int]:
    """What `whole_texts` kept."""
    return [int(text, 16) for text in texts]


def check_state(possible: bool) -> None:
    """Refuse a state that no stream of the plan can have."""
    if not possible:
        raise FileFormatError(
            "the state is not one of this stream; it was damaged or edited"
        )


def _fixed(value: float) -> int:
    """A float as an integer number of 2^-100, exactly."""
    scaled = Fraction(value) * (1 << _RATE_BITS)
    require(
        scaled.denominator == 1,
        "rate",
        value,
        "must be a multiple of 2^-100",
    )
    return int(scaled)
