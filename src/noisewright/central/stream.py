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
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from noisewright.arrays import FloatArray
from noisewright.container import digest
from noisewright.errors import (
    InvalidParameter,
    require,
)
from noisewright.estimate.intervals import normal_multiplier, sidak_multiplier
from noisewright.norm.exact.prefix import (
    Kind,
    StreamFactorization,
    stream_factorization,
)
from noisewright.privacy.exact.rounding import SCALE_LIMIT, float_above
from noisewright.privacy.noise.law import NoiseLaw
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.calibration import calibrate
from noisewright.privacy.promise.spend import Gaussian, Spend

STATE_BITS = 40
"""Of the running sums beyond the grid: their rounding never reaches it."""

_LOSS_BITS = 16  # rounding may cost 2^-16 of the sensitivity


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
    def name(self) -> str:
        """What plans and records call it."""
        return self.factorization.kind

    @property
    def steps(self) -> int:
        """How many answers are given at most."""
        return self.factorization.steps

    @property
    def memory(self) -> int:
        """How many numbers a stream remembers."""
        return self.factorization.memory

    @property
    def laws(self) -> list[dict[str, object]]:
        """The one law that is drawn, with the sensitivity that it is for."""
        return [{**self.law.to_dict(), "sensitivity": self.sensitivity}]

    def record(self) -> dict[str, object]:
        """What is drawn and how fine, ready for JSON."""
        return {
            "noise": self.law.to_dict(),
            "grid_step": 2.0**-self.grid_bits,
        }

    def multiplier(self, level: float) -> float:
        """Standard deviations either side that hold one answer."""
        return normal_multiplier(level)

    def simultaneous_multiplier(self, level: float) -> float:
        """Standard deviations either side that hold all answers at once."""
        return sidak_multiplier(self.steps, level)

    @property
    def sensitivity(self) -> float:
        """How far, in grid steps, a neighbour moves the measured vector."""
        return sensitivity(
            self.factorization,
            self.grid_bits,
            self.privacy.neighbours,
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
            parts = (
                *parts,
                self.appearances.times,
                self.appearances.apart,
            )

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
        rule = "has no delta and no rho"
        remedy = "streams need Gaussian noise"
        raise InvalidParameter("privacy", privacy.text(), rule, remedy)

    # As fine a grid as noise is drawn on, up to where rounding costs next to nothing.
    factorization = stream_factorization(steps, kind, band=band)
    length = appearances.length(factorization)
    continuous = calibrate(privacy, l2=length * (1.0 + 2.0**-_LOSS_BITS))
    bits = _LOSS_BITS + math.ceil(math.log2(steps) / 2) + 1

    while bits > 0 and continuous.scale * 2.0**bits * 4 > SCALE_LIMIT:
        bits -= 1

    moved = sensitivity(factorization, bits, privacy.neighbours, appearances)
    law = calibrate(privacy, l2=moved)
    return StreamMechanism(factorization, privacy, law, bits, appearances)


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
    exact = people * appearances.length(factorization) * 2.0**grid_bits * (1 + 1e-9)

    # Rounding of the sums reaches later steps through their geometric series.
    series = float(np.sum(factorization.gains / (1 - factorization.rates)))
    rounding = 1 + 2.0**-STATE_BITS * (series + factorization.memory + 1)

    return exact + math.sqrt(factorization.steps) * rounding


def plan_mark(privacy: Privacy, parts: tuple[object, ...]) -> str:
    """A short name for a promise and the whole numbers of a plan."""
    return digest(repr(sorted(privacy.to_dict().items(), key=str)), repr(parts))[:32]
