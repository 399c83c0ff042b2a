"""Sums and means of a bounded number by group: counts and sums measured by one strategy.

Values are taken in whole units and centred, c = 2v − (lower + upper), so that one person changes a
cell of the sums by at most the width of the bounds. The strategy planned for the groups' counts
measures both tables; a share α² of the squared sensitivity goes to counts and β² = 1 − α² to sums
(α + β = 1 under pure privacy), chosen for the error of the sums themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewright.central.blocks.axes import Integers
from noisewright.central.blocks.variance import query_variances
from noisewright.domain import Numeric
from noisewright.errors import InvalidParameter
from noisewright.planning.central import LEVEL, CentralPlan
from noisewright.planning.counting import Counter
from noisewright.planning.forecast import certified_ratio
from noisewright.planning.release import fresh_name, write_answers
from noisewright.privacy.calibration import calibrate
from noisewright.privacy.law import NoiseLaw
from noisewright.privacy.rounding import float_above
from noisewright.privacy.source import ByteSource
from noisewright.workload.base import FloatArray
from noisewright.workload.structure import terms
from noisewright.workload.tensor import mean_error

if TYPE_CHECKING:
    import pyarrow as pa

_NO_NOISE = 2.0**-30  # in grid steps: every draw is zero
_COLUMNS = (
    "table", "group", "count", "count_std", "sum", "sum_std", "sum_lower", "sum_upper",
    "mean", "mean_lower", "mean_upper",
)  # fmt: skip
_CLEAR = 4  # half-widths that a count must be for a ratio to it to be stated
MEANS = (
    "sum over count, whoever lacks a value adding nothing to the sum; left out where the noisy "
    "count is below four times its own half-width; intervals are given for every group and hold "
    "for each group of at least one person, though not given that its mean is stated"
)


@dataclass(frozen=True, eq=False)
class SumsRelease:
    """Counts, sums and means by group; intervals hold for each answer with 95 % probability.

    Means of groups whose noisy count is below four times its own half-width are left out.
    """

    table: pa.Table
    metadata: Mapping[str, Any]

    def write(self, path: str | Path) -> Path:
        """Write the answers (CSV, or Parquet by suffix) and `<path>.meta.json` beside them."""
        return write_answers(self.table, self.metadata, Path(path))

    def to_arrow(self) -> pa.Table:
        """All answers as an Arrow table."""
        return self.table

    def to_pandas(self) -> Any:
        """All answers as a pandas frame."""
        return self.table.to_pandas()


@dataclass(frozen=True, eq=False)
class SumsPlan:
    """Sums of attribute `value`, in whole multiples of `unit`, for the groups of a plan of counts.

    The plan's queries must be plain counts by group; its budget is what counts and sums share.
    """

    groups: CentralPlan
    value: str
    unit: float

    def __post_init__(self) -> None:
        domain = self.groups.domain
        if domain is None:
            raise InvalidParameter("domain", None, "must be known to sum a column", "plan with one")
        if not isinstance(domain[self.value], Numeric):
            raise InvalidParameter("value", self.value, "must be a numeric attribute")
        object.__setattr__(self, "unit", float(self.unit))  # bounds and values divide alike
        self._attribute.largest_units(self.unit)
        position = domain.names.index(self.value)
        asked = terms(self.groups.workload, self.groups.sizes)
        if any(position in term.attributes for term in asked):
            raise InvalidParameter(
                "value", self.value, "cannot be a group of its own sums", "group by others"
            )

    @property
    def _attribute(self) -> Numeric:
        assert self.groups.domain is not None
        found = self.groups.domain[self.value]
        assert isinstance(found, Numeric)
        return found

    @cached_property
    def _ends(self) -> tuple[int, int]:
        """Bounds in whole units."""
        lower, upper = self._attribute.lower, self._attribute.upper
        assert lower is not None
        assert upper is not None
        return round(lower / self.unit), round(upper / self.unit)

    @property
    def reach(self) -> int:
        """The most one person's centred value can be: the width, or what a missing value gives."""
        low, high = self._ends
        return max(high - low, abs(low + high) if self._may_miss else 0, 1)

    @property
    def _may_miss(self) -> bool:
        """Whether people can be without a value, or outside of those declared."""
        return len(self._attribute.declared_labels) < self._attribute.size

    @cached_property
    def shares(self) -> tuple[float, float]:
        """α and β: how much of the sensitivity is spent on counts and on sums."""
        low, high = self._ends
        if self._counts_public:
            return 0.0, 1.0
        # Var(2·sum) = Var(centred) + (low + high)² Var(count), and counts matter by themselves.
        counts, sums = float((low + high) ** 2 + self.reach**2), float(self.reach**2)
        power = 1 / 3 if self._pure else 1 / 4
        a, b = counts**power, sums**power
        total = a + b if self._pure else float(np.hypot(a, b))
        alpha, beta = a / total * (1 - 1e-12), b / total * (1 - 1e-12)
        spent = Fraction(alpha) + Fraction(beta)
        if not self._pure:
            spent = Fraction(alpha) ** 2 + Fraction(beta) ** 2
        if spent > 1:  # cannot happen: the margin is far above rounding
            raise AssertionError("shares exceed the budget")
        return alpha, beta

    @property
    def _pure(self) -> bool:
        return self.groups.privacy.kind == "pure"

    @cached_property
    def sensitivities(self) -> tuple[float, float]:
        """How far a neighbour moves the measured counts, and the measured centred sums."""
        neighbours, strategy = self.groups.privacy.neighbours, self.groups.strategy
        order = 1 if self._pure else 2
        alone = Fraction(strategy.sensitivity(order, "add-remove"))
        # A replaced person takes one value out of a cell and puts another into a cell.
        both = self.reach * alone * (1 if neighbours == "add-remove" else 2)
        return strategy.sensitivity(order, neighbours), float_above(both)

    @property
    def _counts_public(self) -> bool:
        """Whether no neighbour changes any count: all people together, one of them replaced."""
        return self.sensitivities[0] == 0

    @cached_property
    def laws(self) -> tuple[NoiseLaw, NoiseLaw]:
        """Noise on counts and on centred sums, for a block of relative scale one."""
        privacy, (moved, both) = self.groups.privacy, self.sensitivities
        name = "l1" if self._pure else "l2"
        alpha, beta = self.shares
        sums = calibrate(privacy, **{name: float_above(Fraction(both) / Fraction(beta))})
        if self._counts_public:
            return NoiseLaw(sums.law, _NO_NOISE), sums
        counts = calibrate(privacy, **{name: float_above(Fraction(moved) / Fraction(alpha))})
        return counts, sums

    @cached_property
    def errors(self) -> tuple[FloatArray, FloatArray]:
        """Standard errors of counts and of sums, per group, before any budget is spent."""
        counts, centred = (
            np.concatenate(query_variances(self.groups.strategy, self.groups.terms, law))
            for law in self.laws
        )
        low, high = self._ends
        sums = (centred + (low + high) ** 2 * counts) / 4
        return np.sqrt(counts), self.unit * np.sqrt(sums)

    def release(self, data: Any, *, counter: Counter | None = None) -> SumsRelease:
        """Count and sum a table of people, add fresh noise, answer. Each call spends the budget."""
        return self._release(data, counter, None)

    def _release(
        self, data: Any, counter: Counter | None, source: ByteSource | None
    ) -> SumsRelease:
        engine = counter or self.groups.counter
        if engine is None or not hasattr(engine, "sums"):
            raise InvalidParameter("counter", None, "must be given to sum a column", "pass one")
        counts, sums = self._counted(data, engine)
        strategy = self.groups.strategy
        answers, told = [], {}
        for tables, law in zip((counts, sums), self.laws, strict=True):
            exact = strategy.measure(tables.__getitem__)
            noise = strategy.draw(law, source)
            noisy = [(e + n).astype(np.float64) for e, n in zip(exact, noise, strict=True)]
            answers.append(self.groups.answer(noisy))
            if tables is counts:
                told = self.groups.contradictions(noisy, law)
        metadata = {**self.metadata(), **told, "release": fresh_name()}
        return SumsRelease(self._table(answers[0], answers[1]), metadata)

    def metadata(self) -> dict[str, Any]:
        """What a release spends and how: ready for JSON, nothing private in it."""
        counts, sums = self.laws
        names = ("counts", "centred_sums")
        return {
            **self.groups.record(),
            "value": self.value,
            "unit": self.unit,
            "noise": dict(zip(names, (counts.to_dict(), sums.to_dict()), strict=True)),
            "sensitivity": dict(zip(names, self.sensitivities, strict=True)),
            "shares": dict(zip(names, self.shares, strict=True)),
            "measurements": 2 * self.groups.strategy.measurements,
            "ratio": self.ratios(),
            "means": MEANS,
        }

    def ratios(self) -> dict[str, float | None]:
        """Root mean squared error of counts and of sums, each over a lower bound of its own.

        The bound is for linear strategies under this noise that spend the whole budget on the
        counts alone, or on the sums alone.
        """
        bound = self.groups.lower_bound
        widest = max(map(abs, self._ends)) * self.unit
        counts, sums = (mean_error(errors, 2) for errors in self.errors)
        return {
            "counts": certified_ratio(counts, bound),
            "sums": None if bound is None else certified_ratio(sums, bound * widest),
        }

    def _counted(
        self, data: Any, engine: Any
    ) -> tuple[dict[tuple[int, ...], Integers], dict[tuple[int, ...], Integers]]:
        domain, wanted = self.groups.domain, self.groups.strategy.tables
        assert domain is not None
        domain.require_reviewed()
        names = self.groups.names_of(wanted, domain)
        counts, units = engine.sums(data, domain, self.value, self.unit, names)
        low, high = self._ends
        centred = [2 * u - (low + high) * c for u, c in zip(units, counts, strict=True)]
        return dict(zip(wanted, counts, strict=True)), dict(zip(wanted, centred, strict=True))

    def _table(self, counts: FloatArray, centred: FloatArray) -> pa.Table:
        import pyarrow as pa

        low, high = self._ends
        sums = self.unit * (centred + (low + high) * counts) / 2
        count_std, sum_std = self.errors
        width = self.groups.halfwidth_multiplier(LEVEL) * sum_std
        mean, mean_low, mean_high = self._means(counts, centred)
        tables = self.groups.tables()
        names = np.repeat([t.name for t in tables], [t.queries for t in tables])
        columns = [names, self.groups.labels(), counts, count_std, sums, sum_std]
        stated = pa.array(mean, mask=np.isnan(mean))
        columns += [sums - width, sums + width, stated, mean_low, mean_high]
        return pa.table(dict(zip(_COLUMNS, columns, strict=True)))

    def _means(self, counts: FloatArray, centred: FloatArray) -> tuple[FloatArray, ...]:
        """Ratios with intervals from both parts, each held at half the allowed misses.

        A ratio to a count that noise may have made says nothing, and its expectation is far off: a
        mean is stated only where the count is at least four times its own half-width. Intervals are
        stated for every group; a group that has a mean has somebody in it.
        """
        low, high = (end * self.unit for end in self._ends)
        middle = (low + high) / 2
        split = self.groups.halfwidth_multiplier(1 - (1 - LEVEL) / 2)
        count_std, _ = self.errors
        raw = np.concatenate(query_variances(self.groups.strategy, self.groups.terms, self.laws[1]))
        half, spread = split * count_std, split * np.sqrt(raw)
        fewest, most = np.maximum(counts - half, 1.0), np.maximum(counts + half, 1.0)
        lower, upper = centred - spread, centred + spread
        lower = middle + self.unit / 2 * lower / np.where(lower < 0, fewest, most)
        upper = middle + self.unit / 2 * upper / np.where(upper < 0, most, fewest)
        known = (counts > 0) & (counts >= _CLEAR * half)
        mean = middle + self.unit / 2 * centred / np.where(known, counts, np.nan)
        if self._may_miss:  # who has no value adds nothing to the sum and one to the count
            low, high = min(low, 0.0), max(high, 0.0)
        mean, lower, upper = (np.clip(end, low, high) for end in (mean, lower, upper))
        return mean, np.fmin(lower, mean), np.fmax(upper, mean)
