"""Second moments of rows of bounded length under noise that depends on nothing else.

Rows are clipped to the radius, put on a grid of whole numbers and extended by one constant entry,
so that one matrix tells their second moments, their sums and their number. Under pure privacy its
noise is a difference of Wishart matrices (`noise/wishart`), otherwise symmetric Gaussian noise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import isqrt, sqrt
from typing import cast

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.errors import InvalidParameter, TooLarge, require
from noisewright.privacy.exact.rounding import float_above, positive
from noisewright.privacy.noise.law import NoiseLaw
from noisewright.privacy.noise.source import ByteSource
from noisewright.privacy.noise.wishart import add_wishart_difference
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.calibration import calibrate
from noisewright.privacy.promise.spend import Gaussian, Promise, Spend

LARGEST_DIMENSION = 2000
"""Columns up to which the matrix is measured: its eigenvalues are one dense problem."""

GRID = 2**18
"""Whole steps of the radius."""

LARGEST_SHARE = 1.4
"""Of the constant entry: products of two entries, summed over 2^26 people, fit a word."""

_MOST_PEOPLE = 2**26  # sums over them of products of two entries fit a word
_ROWS = 2**15  # summed at once in floats, which hold these sums exactly
_ROOT_HALF = 0.7071067811865476  # the least float not below it
_LARGEST = 1e100  # radii: longer rows have lost their direction, and floats their range
# errors go by its fourth power: floats hold it
_SMALLEST_RADIUS = 1e-50
_LARGEST_RADIUS = 1e50  # the same at the other end
_SIMULATED = 1000  # eigenvalues of the noise that are simulated at least
# of rounding within the scale of the noise: they add nothing that could be seen
_STEPS = 64
_LARGEST_SCALE = 2**62 * _STEPS  # of the noise: its step is a word


@dataclass(frozen=True)
class SecondMoments:
    """Rows of `columns` numbers and Euclidean length at most `radius`, under a budget.

    `share` is the constant entry, in radii: larger, sums and number of people are known better and
    second moments worse. Zero tells second moments alone.
    """

    columns: int
    radius: float
    share: float
    privacy: Privacy

    @property
    def name(self) -> str:
        """What plans and records call it: by its noise."""
        return "wishart-difference" if self.pure else "gaussian"

    def __post_init__(self) -> None:
        require(
            1 <= self.columns <= LARGEST_DIMENSION,
            "columns",
            self.columns,
            f"must be from 1 to {LARGEST_DIMENSION}",
        )

        positive(
            "radius",
            self.radius,
            "the Euclidean length that rows are clipped to",
        )
        if not _SMALLEST_RADIUS <= self.radius <= _LARGEST_RADIUS:
            rule = f"must lie between {_SMALLEST_RADIUS:g} and {_LARGEST_RADIUS:g}"
            raise InvalidParameter(
                "radius",
                self.radius,
                rule,
                "count in another unit",
            )

        require(
            0 <= self.share <= LARGEST_SHARE,
            "share",
            self.share,
            f"must lie between 0 and {LARGEST_SHARE}",
        )

        if self.pure and self.scale > _LARGEST_SCALE:
            rule = "needs noise that no whole number of 64 bits holds"
            raise InvalidParameter(
                "epsilon",
                self.privacy.epsilon,
                rule,
                "allow more",
            )

        _ = self.spend

    @property
    def protected(self) -> bool:
        """Whether the number of people is."""
        return self.privacy.neighbours == "add-remove"

    @cached_property
    def constant(self) -> int:
        """The entry that every row is extended by, in grid steps."""
        return round(self.share * GRID)

    @property
    def size(self) -> int:
        """Rows and columns of the matrix that is measured."""
        return self.columns + (self.constant > 0)

    @property
    def length(self) -> int:
        """The squared length of an extended row at most, in grid steps."""
        return GRID**2 + self.constant**2

    @property
    def degrees(self) -> int:
        """Outer products in each of the Wishart matrices."""
        return self.size + 1

    @property
    def pure(self) -> bool:
        """Whether the noise is a difference of Wishart matrices."""
        return self.privacy.kind == "pure"

    @cached_property
    def scale(self) -> Fraction:
        """Of the Wishart matrices, in squared grid steps."""
        doubled = 2 if self.protected or self.size == 1 else 1
        # What is the same in all rows cannot be replaced, and one entry alone moves one way.
        return Fraction(self.length) / (
            doubled * Fraction(cast("float", self.privacy.epsilon))
        )

    @cached_property
    def moved(self) -> float:
        """How far one neighbour moves the matrix at most, in the root of summed squares."""
        # ‖yyᵀ - zzᵀ‖² = ‖y‖⁴ + ‖z‖⁴ - 2⟨y, z⟩² <= 2·length²
        if self.protected:
            return float_above(Fraction(self.length))
        return float_above(Fraction(isqrt(2 * self.length**2) + 1))

    @cached_property
    def laws(self) -> tuple[NoiseLaw, NoiseLaw]:
        """Gaussian noise on the diagonal and above it, in squared grid steps.

        An entry above the diagonal stands for two in the sum of squares: 1/√2 of the noise will do.
        """
        law = calibrate(self.privacy, l2=self.moved)
        above = float_above(Fraction(law.scale) * Fraction(_ROOT_HALF))
        return law, NoiseLaw(law.law, above)

    @cached_property
    def spend(self) -> Spend:
        """What one measurement costs."""
        neighbours = self.privacy.neighbours
        if self.pure:
            return Spend(
                neighbours,
                (Promise(cast("float", self.privacy.epsilon)),),
            )

        ratio = float_above(Fraction(self.moved) / Fraction(self.laws[0].scale))
        return Spend(neighbours, (Gaussian(ratio),))

    def at(self, privacy: Privacy) -> SecondMoments:
        """The same under another budget."""
        return replace(self, privacy=privacy)

    # --- what is measured -----------------------------------------------------------------------

    def exact(self, batches: Iterable[FloatArray]) -> tuple[IntArray, int]:
        """Σyyᵀ over extended rows on the grid, and how many there are: as private as the data."""
        total = np.zeros((self.size, self.size), dtype=np.int64)
        people = 0
        for batch in batches:
            if batch.ndim != 2 or batch.shape[1] != self.columns:
                raise InvalidParameter(
                    "columns",
                    batch.shape[1:],
                    f"must be {self.columns}",
                )

            people += len(batch)
            if people > _MOST_PEOPLE:
                raise TooLarge(
                    "a table of more than 2^26 rows is too large for second moments"
                )

            for start in range(0, len(batch), _ROWS):
                rows = self.on_grid(batch[start : start + _ROWS])
                total += (rows.T @ rows).astype(np.int64)

        return total, people

    def on_grid(self, rows: FloatArray) -> FloatArray:
        """Extended rows in whole steps, none longer than the radius; values unknown are zero."""
        rows = np.nan_to_num(np.asarray(rows, dtype=np.float64), nan=0.0)
        rows = rows.clip(-_LARGEST * self.radius, _LARGEST * self.radius)
        largest = np.abs(rows).max(axis=1, initial=0.0, keepdims=True)
        safe = np.where(largest > 0, largest, 1.0)
        # entries of at most one: squares neither overflow nor vanish
        shape = rows / safe
        length = np.sqrt((shape**2).sum(axis=1, keepdims=True))
        scaled = shape * np.minimum(
            safe * (GRID / self.radius), GRID / np.maximum(length, 1.0)
        )
        grid = np.rint(scaled)
        long = (grid**2).sum(axis=1) > GRID**2
        grid[long] = np.trunc(scaled[long] * (1 - 2.0**-40))
        if self.constant:
            grid = np.hstack([grid, np.full((len(grid), 1), float(self.constant))])

        if ((grid[:, : self.columns] ** 2).sum(axis=1) > GRID**2).any():
            raise AssertionError("a row is longer than the radius")

        return np.asarray(grid, dtype=np.float64)

    def measure(self, exact: IntArray, source: ByteSource | None = None) -> FloatArray:
        """Σyyᵀ of extended rows in radii, under fresh noise; only tests pass a source."""
        if self.pure:
            step = max(1, int(self.scale / _STEPS))
            noisy = add_wishart_difference(exact, self.scale, step, source)
            return np.asarray(noisy * (step / GRID**2), dtype=np.float64)

        on, above = (
            law.sample(count, source)
            for law, count in zip(self.laws, self._counts, strict=True)
        )
        upper = np.zeros_like(exact)
        upper[np.triu_indices(self.size, 1)] = above
        noise = upper + upper.T + np.diag(on)

        return (exact + noise) / GRID**2

    @property
    def _counts(self) -> tuple[int, int]:
        return self.size, self.size * (self.size - 1) // 2

    # --- how wrong it is ------------------------------------------------------------------------

    @cached_property
    def variances(self) -> tuple[float, float]:
        """Of an entry on the diagonal and of one off it, in squared squared radii."""
        unit = float(Fraction(GRID**2))
        if self.pure:
            off = 2 * self.degrees * (float(self.scale) / unit) ** 2
            return 2 * off, off
        on, above = (law.variance / unit**2 for law in self.laws)
        return on, above

    @cached_property
    def spectrum(self) -> FloatArray:
        """Eigenvalues of the noise on second moments, in squared radii, by public simulation."""
        rng = np.random.default_rng(0)
        d = self.columns
        drawn = []

        for _ in range(max(1, _SIMULATED // d)):
            if self.pure:
                factors = rng.standard_normal((2, self.degrees, d))
                noise = factors[0].T @ factors[0] - factors[1].T @ factors[1]
                noise *= float(self.scale) / GRID**2
            else:
                half = np.triu(rng.standard_normal((d, d)), 1) * sqrt(self.variances[1])
                noise = (
                    half
                    + half.T
                    + np.diag(rng.standard_normal(d)) * sqrt(self.variances[0])
                )
            drawn.append(np.linalg.eigvalsh(noise))

        values = np.sort(np.concatenate(drawn))
        return np.asarray((values - values[::-1]) / 2)  # the law is symmetric

    def record(self) -> dict[str, object]:
        """What is drawn, ready for JSON."""
        if self.pure:
            noise: dict[str, str | float] = {
                "law": "wishart-difference",
                "scale": float(self.scale),
            }
            moved = float(self.length)
        else:
            noise = self.laws[0].to_dict()
            moved = self.moved

        grid = {"radius": self.radius, "share": self.share, "grid": GRID}
        return {"noise": noise, "sensitivity": moved, **grid}
