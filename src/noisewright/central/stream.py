"""Continual release of a running count: one private answer per step, a few numbers of memory.

Measured is M = A·x plus noise, with A the lower-triangular strategy of `norm.prefix`; the answers
are functions of M alone. The geometric sums behind A are kept in fixed-point integers, so M lies on
a grid and the noise is an exactly rounded Gaussian on that grid. Rounding makes the measured vector
not quite linear in x. For two neighbouring inputs each rounding step adds less than one unit to the
difference, and the sensitivity that the noise is calibrated to holds the sum of all these units.
"""

from __future__ import annotations

import math
import os
import secrets
from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from noisewright.errors import InvalidParameter, NoisewrightError, OutOfReach
from noisewright.norm.prefix import Kind, StreamFactorization, stream_factorization
from noisewright.privacy.budget import Privacy
from noisewright.privacy.calibration import calibrate
from noisewright.privacy.law import NoiseLaw
from noisewright.privacy.rounding import SCALE_LIMIT, float_above
from noisewright.privacy.source import ByteSource
from noisewright.privacy.spend import Gaussian, Spend
from noisewright.workload.base import FloatArray

_RATE_BITS = 100  # every rate and gain is a float above 2^-40: exact in this many binary places
_STATE_BITS = 40  # of the running sums beyond the grid: their rounding never reaches it
_LOSS_BITS = 16  # rounding may cost 2^-16 of the sensitivity
_BATCH = 1024


@dataclass(frozen=True, eq=False)
class StreamMechanism:
    """A planned stream: a person counts once, at one step, and one person is the neighbour."""

    factorization: StreamFactorization
    privacy: Privacy
    law: NoiseLaw
    grid_bits: int

    @property
    def spend(self) -> Spend:
        """The ratio of sensitivity to noise, as drawn."""
        moved = sensitivity(self.factorization, self.grid_bits, self.privacy.neighbours)
        ratio = float_above(Fraction(moved) / Fraction(self.law.scale))
        return Spend(self.privacy.neighbours, (Gaussian(ratio),))

    @property
    def noise(self) -> float:
        """Standard deviation of the noise on each measurement, in counts."""
        return self.law.standard_deviation * 2.0**-self.grid_bits

    @property
    def errors(self) -> FloatArray:
        """Standard deviation of the answer at every step, in counts."""
        return self.noise * self.factorization.errors

    def start(self, position: str | Path | None = None) -> Stream:
        """Begin a stream, which spends the budget; its noise comes from the operating system.

        A stream that is to be stored and restored needs a `position`: a new folder that keeps, on
        disk, how many steps were answered. Without one it lives and ends with this process.
        """
        return Stream(self, None, None if position is None else Position(position))


def stream_mechanism(steps: int, privacy: Privacy, kind: Kind, band: int) -> StreamMechanism:
    """The noise for a stream of at most `steps` steps."""
    if privacy.kind == "pure":
        raise InvalidParameter(
            "privacy", privacy.text(), "has no delta and no rho", "streams need Gaussian noise"
        )
    factorization = stream_factorization(steps, kind, band=band)
    bits = _LOSS_BITS + math.ceil(math.log2(steps) / 2) + 1
    law = calibrate(privacy, l2=1.0 + 2.0**-_LOSS_BITS)
    while bits > 0 and law.scale * 2.0**bits * 4 > SCALE_LIMIT:
        bits -= 1
    law = calibrate(privacy, l2=sensitivity(factorization, bits, privacy.neighbours))
    return StreamMechanism(factorization, privacy, law, bits)


def sensitivity(factorization: StreamFactorization, grid_bits: int, neighbours: str) -> float:
    """How far, in grid steps, a neighbour moves the measured vector, all rounding included."""
    # Columns have length one and non-negative entries: two of them differ by at most √2.
    people = math.sqrt(2) if neighbours == "replace-one" else 1.0
    lengths = people * 2.0**grid_bits * (1 + 1e-9)
    memory = factorization.memory
    reach = float(np.sum(factorization.gains / (1 - factorization.rates))) + memory + 1
    per_step = 1 + 2.0**-_STATE_BITS * reach
    return lengths + math.sqrt(factorization.steps) * per_step


class Stream:
    """A running stream. It holds sums of past increments, so it is as private as the data.

    No step is answered twice: with fresh noise each time, the answers' mean would tell the count.
    """

    def __init__(
        self, plan: StreamMechanism, source: ByteSource | None, position: Position | None = None
    ) -> None:
        self._plan, self._source, self._position = plan, source, position
        self._step = self._claimed = 0
        self._answer = 0.0
        self._process = os.getpid()
        self._noise: deque[int] = deque()
        self._lengths: deque[float] = deque()
        kind = plan.factorization.kind
        self._filter: Any = _Band(plan) if kind == "banded" else _Buffers(plan)

    @property
    def steps(self) -> int:
        """Number of answers given so far."""
        return self._step

    def step(self, increment: int) -> float:
        """Take the exact count of this step and return the private running count."""
        if not _is_whole(increment):
            raise InvalidParameter("increment", "?", "must be a whole number", "count people")
        if self._step == self._plan.factorization.steps:
            raise OutOfReach(
                f"the stream was planned for {self._step} steps; plan a longer one beforehand"
            )
        self._claim()
        if not self._noise or self._process != os.getpid():
            self._refill()
        length = self._lengths.popleft()
        scale = int(Fraction(1 << self._plan.grid_bits + _STATE_BITS) / Fraction(length))
        measured = self._filter.measure(int(increment) * scale) + self._noise.popleft()
        # From here on only `measured` is used: everything below is post-processing.
        self._answer += length * self._filter.estimate(math.ldexp(measured, -self._plan.grid_bits))
        self._step += 1
        return self._answer

    def _claim(self) -> None:
        """Take this step before anything is measured; whatever fails later, it stays taken."""
        if self._claimed != self._step:
            raise NoisewrightError(
                "a step of this stream was interrupted; start a new one with a budget of its own"
            )
        if self._position is not None:
            self._position.claim(self._step)
        elif self._process != os.getpid():
            raise NoisewrightError(
                "a stream without a position goes on only in the process that started it, lest two"
                " copies answer one step; start it with start(position=...)"
            )
        self._claimed += 1

    def __getstate__(self) -> dict[str, Any]:
        """Leave out noise not yet used: two copies that share it would show what they differ in."""
        if self._position is None:
            raise NoisewrightError(
                "a stream without a position is neither copied nor stored, lest a copy answer a"
                " step again; start it with start(position=...)"
            )
        return {**self.__dict__, "_noise": deque(), "_lengths": deque()}

    def _refill(self) -> None:
        self._process = os.getpid()  # a forked process drops noise that its parent will use
        self._noise.clear()
        self._lengths.clear()
        count = min(_BATCH, self._plan.factorization.steps - self._step)
        self._noise.extend(self._plan.law.sample(count, self._source).tolist())
        lengths = self._plan.factorization.column_lengths(self._step, self._step + count)
        self._lengths.extend(lengths.tolist())


class _Buffers:
    """T as geometric sums: one running sum per rate, for the data and for the estimate."""

    def __init__(self, plan: StreamMechanism) -> None:
        rates, gains = plan.factorization.rates.tolist(), plan.factorization.gains.tolist()
        self.rates, self.gains = rates, gains
        self.fixed = [(_fixed(rate), _fixed(gain)) for rate, gain in zip(rates, gains, strict=True)]
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

    def estimate(self, measured: float) -> float:
        """T⁻¹ applied to the measurements, at this step."""
        past = self.estimates
        now = measured - sum(map(float.__mul__, self.gains, past))
        self.estimates = [rate * s + now for rate, s in zip(self.rates, past, strict=True)]
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

    def estimate(self, measured: float) -> float:
        """T⁻¹ applied to the measurements, at this step."""
        now = measured - sum(map(float.__mul__, self.coefficients, self.estimates))
        self.estimates.appendleft(now)
        return now


def _is_whole(increment: object) -> bool:
    if isinstance(increment, bool) or not isinstance(increment, Real):
        return False
    return math.isfinite(increment) and math.floor(increment) == increment


def _fixed(value: float) -> int:
    """A float as an integer number of 2^-100, exactly."""
    scaled = Fraction(value) * (1 << _RATE_BITS)
    if scaled.denominator != 1:
        raise InvalidParameter("rate", value, "must be a multiple of 2^-100")
    return int(scaled)


class Position:
    """The one count of a stream's steps that all its copies share, and none can turn back.

    A folder holds one empty file, whose name is the number of the steps answered. A step begins by
    renaming it, which of several copies only one can do, and waits until the disk holds the name.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()
        self.name = secrets.token_hex(8)  # another stream in the same place is another stream
        try:
            self.folder.mkdir(mode=0o700)
            self._file(0).touch(exist_ok=False)
            _sync(self.folder)
            _sync(self.folder.parent)
        except OSError as error:
            rule = f"cannot be made a new folder ({error.strerror or type(error).__name__})"
            raise InvalidParameter("position", str(folder), rule, "name one that is free") from None

    def claim(self, step: int) -> None:
        """Take the next step, for good; refused where it has been taken."""
        try:
            self._file(step).rename(self._file(step + 1))
            _sync(self.folder)
        except FileNotFoundError:
            raise NoisewrightError(
                f"step {step + 1} of this stream was taken before, by another copy or before a"
                " restart; answering it again would spend its budget again: restore the latest"
                " state, or start a new stream with a budget of its own"
            ) from None
        except OSError as error:
            raise NoisewrightError(
                f"the stream's position cannot be written ({error.strerror}); no answer was given"
            ) from None

    def _file(self, step: int) -> Path:
        return self.folder / f"{self.name}-{step}"


def _sync(folder: Path) -> None:
    """Wait until the disk holds the names in a folder, where the system can tell."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
