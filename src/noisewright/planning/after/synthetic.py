"""Made-up people whose tables agree with a release: post-processing, at no cost of privacy.

One non-negative histogram of the attributes asked is fitted to all answers at once
(`postprocess.fitted_histogram`) and rounded so that the tables asked come out as the release has
them, up to whole numbers (`whole_answers`). Where that has too many cells, rows are put together
from the released tables (`estimate/table_tree`). How far each table comes out from the release is
told. Whatever was not asked is no statement about the people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.central.geometry.fitted import FittedMechanism
from noisewright.display import Shown
from noisewright.domain import Domain
from noisewright.errors import InvalidParameter, TooLarge, require
from noisewright.estimate.nonnegative import LARGEST_HISTOGRAM
from noisewright.estimate.table_tree import (
    distance,
    drawn_cells,
    drawn_within,
    rows_of_tables,
)
from noisewright.planning.after.asked_cells import AskedCells
from noisewright.planning.after.postprocess import (
    NOTHING_DECLARED,
    Steps,
    by_tables,
    check_steps,
    fitted_histogram,
    nonnegative_answers,
)
from noisewright.planning.after.whole_answers import Kept, whole_histogram
from noisewright.workload.linear.tensor import sum_out

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from noisewright.planning.central.plan import CentralPlan
    from noisewright.planning.release import Release


MATCHED = 0.01
"""The share of rows that may lie elsewhere in a table that matches."""

_MOST_ROWS = 10**8  # only bounds memory: a byte or more for every attribute


@dataclass(frozen=True, eq=False, repr=False)
class Synthetic(Shown):
    """Rows, and what they can be trusted for."""

    places: IntArray
    domain: Domain
    distances: Mapping[str, float]
    """Of every table asked, the share of rows that would have to move for it to be as released."""

    @property
    def matched(self) -> tuple[str, ...]:
        """Tables that come out as released, but for one row in a hundred."""
        return tuple(name for name, share in self.distances.items() if share <= MATCHED)

    @property
    def extrapolated(self) -> tuple[str, ...]:
        """Tables that were asked and do not come out as released."""
        return tuple(name for name, share in self.distances.items() if share > MATCHED)

    @property
    def note(self) -> str:
        """What the rows say of people, in words."""
        text = (
            f"made-up rows: they match the release in {_listed(self.matched)}, up to noise and"
            " whole numbers; all else about them, and every single row, is made up"
        )
        if self.extrapolated:
            worst = max(self.distances.values())
            text += (
                f"; off by up to {worst:.0%} of rows in {_listed(self.extrapolated)}"
            )

        return text

    @property
    def cells(self) -> IntArray:
        """The cell of every row, where cells can be numbered."""
        return np.asarray(np.ravel_multi_index(tuple(self.places.T), self.domain.shape))

    def to_arrow(self) -> pa.Table:
        """One row per made-up person, with a value of every attribute (null for others)."""
        import pyarrow as pa

        columns = {}
        for name, place in zip(self.domain.names, self.places.T, strict=True):
            values = [
                self.domain[name].representative(i)
                for i in range(self.domain[name].size)
            ]
            columns[name] = pa.array(values).take(pa.array(place))

        return pa.table(columns)

    def to_pandas(self) -> pd.DataFrame:
        """The same as a pandas frame."""
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def __len__(self) -> int:
        return len(self.places)

    def _facts(self) -> list[tuple[str, str]]:
        return [("rows", f"{len(self):,}"), ("matches", ", ".join(self.matched[:5]))]


def synthesise(
    release: Release, count: int, rng: np.random.Generator | None = None
) -> Synthetic:
    """So many made-up rows from a release; `rng` only decides what was not asked about."""
    plan = check_synthesis(release.plan, count)
    assert plan.domain is not None
    rng = rng or np.random.default_rng()
    if by_tables(plan):
        return _from_tables(plan, release, int(count), rng)

    asked = AskedCells.of_plan(plan)
    own: FloatArray | None = None
    if isinstance(plan.mechanism, FittedMechanism):
        own = plan.mechanism.histogram(release.measurement)
        histogram = sum_out(
            own.reshape(plan.sizes), plan.sizes, asked.attributes
        ).ravel()
    else:
        histogram = fitted_histogram(
            asked, release.unbiased.answers, release.unbiased.std
        )

    expected = _scaled(histogram, asked, int(count))
    whole = whole_histogram(asked, expected, Kept(int(count)))
    places = _completed(plan.domain, asked, whole, own, rng)

    return Synthetic(places, plan.domain, _distances(plan, asked, expected, whole))


def _scaled(histogram: FloatArray, asked: AskedCells, count: int) -> FloatArray:
    """Expected numbers of rows in the cells asked: even where nobody is told of."""
    people = float(histogram.sum())
    if people > 0:
        return histogram * (count / people)
    even = np.zeros(asked.size)
    even[asked.inside] = count / max(1, len(asked.inside))
    return even


def _completed(
    domain: Domain,
    asked: AskedCells,
    whole: IntArray,
    own: FloatArray | None,
    rng: np.random.Generator,
) -> IntArray:
    """Rows of all attributes: what was not asked is drawn by `own`, or evenly."""
    if domain.size > LARGEST_HISTOGRAM:
        rows = rng.permutation(np.repeat(np.arange(asked.size), whole))
        places = np.stack(
            [drawn_cells(np.zeros(n), len(rows), rng) for n in domain.shape], axis=1
        )
        if asked.sizes:
            places[:, asked.attributes] = np.stack(
                np.unravel_index(rows, asked.sizes), axis=1
            )
        return places

    cells = np.unravel_index(np.arange(domain.size), domain.shape)
    chosen = tuple(cells[i] for i in asked.attributes)
    kinds = (
        np.ravel_multi_index(chosen, asked.sizes) if chosen else np.zeros_like(cells[0])
    )
    possible = domain.possible(domain.names).astype(np.float64)
    chances = possible if own is None else own
    told = np.bincount(kinds, chances, minlength=asked.size) > 0
    drawn = drawn_within(kinds, np.where(told[kinds], chances, possible), whole, rng)

    return np.stack(np.unravel_index(rng.permutation(drawn), domain.shape), axis=1)


def _distances(
    plan: CentralPlan, asked: AskedCells, expected: FloatArray, whole: IntArray
) -> dict[str, float]:
    """The share of rows that would have to move for every table, or at least so many."""
    people = max(1, int(whole.sum()))
    gap = (
        np.asarray(asked.workload.matvec(whole.astype(np.float64) - expected))
        / asked.weights
    )
    ends = np.cumsum([term.queries for term in asked.terms])[:-1]
    shares = [
        float(np.abs(own).sum() / 2 if term.is_counts else np.abs(own).max(initial=0.0))
        / people
        for term, own in zip(asked.terms, np.split(gap, ends), strict=True)
    ]
    names = [table.name for table in plan.tables()]
    if len(names) == len(shares):
        return dict(zip(names, shares, strict=True))

    # tables of several terms, or of ratios
    return dict.fromkeys(names, max(shares, default=0.0))


def _of_people(plan: object) -> CentralPlan:
    """The plan, which must know a table of people."""
    from noisewright.planning.central.plan import CentralPlan

    if isinstance(plan, CentralPlan) and plan.domain is not None:
        return plan
    rule = "knows no table of people"
    raise InvalidParameter("release", type(plan).__name__, rule, "plan with a schema")


def check_synthesis(plan: object, count: int) -> CentralPlan:
    """Refuse plans whose releases give no rows; ask this before a budget is spent for them."""
    plan = _of_people(plan)
    require(
        not isinstance(count, bool)
        and int(count) == count
        and 1 <= count <= _MOST_ROWS,
        "count",
        count,
        f"must be a whole number from 1 to {_MOST_ROWS}",
    )

    if not isinstance(plan.mechanism, FittedMechanism):
        check_steps(plan, Steps(non_negative=True))

    counts = any(term.is_counts and term.attributes for term in plan.terms)
    if by_tables(plan) and not counts:
        raise TooLarge(
            "rows over so many cells are put together from tables of counts, and none was asked"
        )

    return plan


def _from_tables(
    plan: CentralPlan, release: Release, count: int, rng: np.random.Generator
) -> Synthetic:
    """Rows put together from released tables of counts, made non-negative and agreeing."""
    assert plan.domain is not None
    unbiased = release.unbiased
    answers = nonnegative_answers(
        plan, unbiased.answers, unbiased.std, NOTHING_DECLARED, integer=False
    )
    ends = np.cumsum([term.queries for term in plan.terms])[:-1]
    named = zip(plan.tables(), plan.terms, np.split(answers, ends), strict=True)
    tables = [
        (table.name, term.attributes, part / term.weight)
        for table, term, part in named
        if term.is_counts and term.attributes
    ]
    sizes = plan.domain.shape
    places = rows_of_tables(
        sizes, {block: values for _, block, values in tables}, count, rng
    )

    return Synthetic(
        places,
        plan.domain,
        {
            name: distance(sizes, block, values, places)
            for name, block, values in tables
        },
    )


def to_mbi(release: Release) -> list[Any]:
    """The unbiased tables of counts of a release as linear measurements of private-pgm."""
    plan = _of_people(release.plan)
    assert plan.domain is not None
    try:
        from mbi import LinearMeasurement  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise InvalidParameter(
            "mbi",
            None,
            "is not installed",
            "pip install private-pgm, which provides it",
        ) from None

    require(
        plan.tells_unbiased,
        "release",
        plan.mechanism.name,
        "measured no unbiased tables",
        "plan by another mechanism",
    )

    column = release.unbiased
    names = plan.domain.names
    ends = np.cumsum([term.queries for term in plan.terms])[:-1]
    pieces = zip(
        plan.terms,
        np.split(column.answers, ends),
        np.split(column.std, ends),
        strict=True,
    )

    return [
        LinearMeasurement(
            answers / term.weight,
            tuple(names[i] for i in term.attributes),
            stddev=float(np.sqrt(np.mean((std / term.weight) ** 2))),
        )
        for term, answers, std in pieces
        if term.is_counts and term.attributes
    ]


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "no table"
    return ", ".join(names[:10]) + ", …" * (len(names) > 10)
