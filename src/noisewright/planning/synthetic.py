"""Made-up people whose tables agree with a release: post-processing, at no cost of privacy.

One non-negative histogram is fitted to all answers at once (`postprocess.fitted_histogram`), and
rows are drawn from it. Tables that were asked for come out as the release has them, up to rounding;
whatever was not asked is what the fit makes of it, and no statement about the people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noisewright.display import Shown
from noisewright.domain import Domain
from noisewright.errors import InvalidParameter, TooLarge
from noisewright.estimate.nonnegative import LARGEST_HISTOGRAM
from noisewright.planning.postprocess import Steps, check_steps, fitted_histogram
from noisewright.workload.base import FloatArray

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from noisewright.planning.release import Release

_MOST_ROWS = 10**8


@dataclass(frozen=True, eq=False, repr=False)
class Synthetic(Shown):
    """Rows, and what they can be trusted for."""

    cells: np.ndarray[tuple[int], np.dtype[np.int64]]
    domain: Domain
    matched: tuple[str, ...]

    @property
    def note(self) -> str:
        """What the rows say of people, in words."""
        tables = ", ".join(self.matched[:10]) + (", …" if len(self.matched) > 10 else "")
        return (
            f"made-up rows: they match the release in {tables}, up to noise and whole numbers;"
            " all else about them, and every single row, is made up"
        )

    def to_arrow(self) -> pa.Table:
        """One row per made-up person, with a value of every attribute (null for others)."""
        import pyarrow as pa

        places = np.unravel_index(self.cells, self.domain.shape)
        columns = {}
        for name, place in zip(self.domain.names, places, strict=True):
            values = [self.domain[name].representative(i) for i in range(self.domain[name].size)]
            columns[name] = pa.array(values).take(pa.array(place))
        return pa.table(columns)

    def to_pandas(self) -> pd.DataFrame:
        """The same as a pandas frame."""
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def __len__(self) -> int:
        return len(self.cells)

    def _facts(self) -> list[tuple[str, str]]:
        return [("rows", f"{len(self):,}"), ("matches", ", ".join(self.matched[:5]))]


def synthesise(release: Release, count: int, rng: np.random.Generator | None = None) -> Synthetic:
    """So many made-up rows from a release; `rng` only decides how fractions are rounded."""
    from noisewright.planning.central import CentralPlan

    plan = release.plan
    if not isinstance(plan, CentralPlan) or plan.domain is None:
        raise InvalidParameter(
            "release", type(plan).__name__, "knows no table of people", "plan with a schema"
        )
    if isinstance(count, bool) or int(count) != count or not 1 <= count <= _MOST_ROWS:
        raise InvalidParameter("count", count, f"must be a whole number from 1 to {_MOST_ROWS}")
    check_steps(plan, Steps(non_negative=True))
    if plan.domain.size > LARGEST_HISTOGRAM:
        raise TooLarge(
            f"rows over {plan.domain.size} cells need a fit of the joint table, which is made up to"
            f" {LARGEST_HISTOGRAM}; ask about fewer attributes"
        )
    histogram = fitted_histogram(plan, release.unbiased.answers, release.unbiased.std)
    cells = drawn_cells(histogram, int(count), rng or np.random.default_rng())
    return Synthetic(cells, plan.domain, tuple(table.name for table in plan.tables()))


def drawn_cells(
    histogram: FloatArray, count: int, rng: np.random.Generator
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Cells of so many rows: whole parts for sure, fractions by systematic sampling.

    Every cell's number of rows is right on average and off by less than one, and so are sums over
    runs of cells.
    """
    total = float(histogram.sum())
    even = np.full(len(histogram), count / len(histogram))
    expected = even if total <= 0 else histogram * (count / total)
    ends = np.cumsum(expected)
    ends *= count / ends[-1]
    # Points at u, u + 1, ...: the last end is `count`, so exactly that many points lie below it.
    points = np.minimum(np.arange(count) + rng.random(), np.nextafter(ends[-1], 0.0))
    return rng.permutation(np.searchsorted(ends, points, side="right"))
