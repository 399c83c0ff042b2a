"""A running stream: one private answer per step, a few numbers of memory, and its place on disk.

The geometric sums behind the strategy are kept in fixed-point integers, so that what is measured
lies on a grid. No step is answered twice: the position on disk keeps every copy of a stream from
answering a step again.
"""

from __future__ import annotations

import math
import os
import secrets
from array import array
from collections import deque
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, NoReturn, Self

import msgspec
import numpy as np

from noisewright.arrays import FloatArray
from noisewright.central.stream import STATE_BITS, StreamMechanism
from noisewright.errors import (
    FileFormatError,
    InvalidParameter,
    NoisewrightError,
    OutOfReach,
    require,
)
from noisewright.privacy.noise.source import ByteSource
from noisewright.workload.base import is_whole

# every rate and gain is a float above 2^-40: exact in this many binary places
_RATE_BITS = 100
_BATCH = 1024  # numbers that are drawn at once: one call for all of them


class Position:
    """The one count of a stream's steps that all its copies share, and none can turn back.

    A folder holds one empty file, whose name is the stream's, with its plan's mark at the end, and
    the number of the steps answered. A step begins by renaming it, which of several copies only one
    can do, and waits until the disk holds the name.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name

    @classmethod
    def new(cls, folder: str | Path, mark: str) -> Self:
        """A position before the first step, in a folder that must not exist."""
        # Another stream in the same place is another stream.
        position = cls(Path(folder).absolute(), secrets.token_hex(8) + mark)
        try:
            position.folder.mkdir(mode=0o700)
            position._file(0).touch(exist_ok=False)
            _sync(position.folder)
            _sync(position.folder.parent)
        except OSError as error:
            rule = f"cannot be made a new folder ({error.strerror or type(error).__name__})"
            raise InvalidParameter(
                "position",
                str(folder),
                rule,
                "name one that is free",
            ) from None

        return position

    def is_of(self, mark: str) -> bool:
        """Whether it is a position of a stream of the plan with this mark."""
        return self.name.endswith(mark)

    def is_at(self, step: int) -> bool:
        """Whether so many steps were taken, neither more nor fewer."""
        try:
            return self._file(step).exists()
        except OSError:
            return False

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
        scale = int(Fraction(1 << self._plan.grid_bits + STATE_BITS) / Fraction(length))
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
        fixed = map(_fixed, rates), map(_fixed, gains)
        self.fixed = list(zip(*fixed, strict=True))

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

        return total >> STATE_BITS

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
        return total >> _RATE_BITS + STATE_BITS

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
        for past, kept in (
            (self.values, values),
            (self.estimates, estimates),
        ):
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
