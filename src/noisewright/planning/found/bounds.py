"""Bounds of numeric columns found privately: three noisy CDFs per column, nothing looked at.

The first CDF is over a signed geometric grid and tells where most people are; the second divides
that interval and its surroundings evenly, and tells the middle and the spread; the third goes
outward from there, and tells the ends (`bound_rules`). Where a unit is given, one row of a person
counts in each of them, and one more CDF tells how many rows people have. All of it follows from
noisy counts, so that bounds found so may be public.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial, reduce
from operator import add

import numpy as np

from noisewright.arrays import FloatArray, IntArray
from noisewright.container import digest
from noisewright.domain import Domain, Numeric, Unit
from noisewright.domain.unit import read_unit
from noisewright.errors import InvalidParameter, require
from noisewright.planning.central.choose import plan_central
from noisewright.planning.central.options import Central
from noisewright.planning.central.plan import CentralPlan
from noisewright.planning.counting import Counter, Source
from noisewright.planning.found import bound_rules
from noisewright.planning.release import Release
from noisewright.planning.spending import (
    Cost,
    LedgerNote,
    Purse,
)
from noisewright.privacy.promise.budget import Privacy
from noisewright.privacy.promise.calibration import split
from noisewright.privacy.promise.spend import Spend
from noisewright.workload import Prefix
from noisewright.workload.questions.measures import COUNT
from noisewright.workload.questions.quantiles import monotone_counts

# of a column's budget: to find where people are, the spread, the ends
_SHARES = (0.25, 0.15, 0.6)
_CELLS = (
    len(bound_rules.MAGNITUDES),
    bound_rules.ZOOM_CELLS + 1,
    bound_rules.END_CELLS + 1,
)
_CLEAR = 8.0  # standard errors that the number of people with a number must be
# kinds that shares of a budget have
_AT_ONE = {"pure": {"epsilon": 1.0}, "zcdp": {"rho": 1.0}}


@dataclass(frozen=True)
class FoundBounds:
    """Bounds of a column, and what its noisy CDF says besides: all of it private already.

    `people` counts those with a number, `std_error` is the error of that; `quartiles` are estimates
    over the grid. `lower` and `upper` are None where hardly anybody has a number.
    """

    name: str
    lower: float | None
    upper: float | None
    quartiles: tuple[float, float, float] | None
    people: float
    everybody: float
    std_error: float

    def attribute(self) -> Numeric:
        """The attribute to declare: clipped to the bounds, in bins of equal width."""
        if self.lower is None or self.upper is None:
            raise InvalidParameter("column", self.name, "has too few numbers to bound")
        edges = bound_rules.even_edges(self.lower, self.upper)
        return Numeric(self.name, edges, outside="clip", missing="other")


@dataclass(frozen=True, eq=False)
class BoundsSearch:
    """What was found, and the releases that it was read off.

    `unit` has the number of rows that should count of a person, where one was given.
    """

    columns: tuple[FoundBounds, ...]
    releases: tuple[Release, ...]
    privacy: Privacy
    unit: Unit | None = None
    note: LedgerNote | None = None

    @property
    def spend(self) -> Spend:
        """What all of it cost, from the noise that was drawn."""
        return reduce(add, (_plan(release).spend for release in self.releases))

    def domain(self) -> Domain:
        """A schema of the columns with bounds; the bounds are private, so it is reviewed."""
        known = [found.attribute() for found in self.columns if found.lower is not None]
        if not known:
            raise InvalidParameter(
                "columns",
                [found.name for found in self.columns],
                "have no numbers to bound",
            )

        return Domain(known, unit=self.unit)

    def record(self) -> dict[str, object]:
        """What was spent and how, ready for JSON."""
        first = dict(self.releases[0].metadata)
        names = (
            "format",
            "version",
            "model",
            "neighbours",
            "libraries",
            "time",
            "ledger",
        )

        return {
            **{name: first[name] for name in names if name in first},
            "release": secrets.token_hex(8),
            "workload": _title([found.name for found in self.columns], self.unit)[:200],
            "privacy": self.privacy.to_dict(),
            **({} if self.unit is None else {"person": self.unit.text()}),
            "spend": self.spend.to_dict(),
            **({} if self.note is None else {"ledger": self.note.to_dict()}),
            "parts": [release.metadata["release"] for release in self.releases],
        }


def search_bounds(
    source: Source,
    columns: Sequence[str],
    privacy: Privacy,
    counter: Counter,
    *,
    unit: object = None,
    purse: Purse | None = None,
) -> BoundsSearch:
    """Find bounds of numeric columns, and of rows per person, each under its share of the budget.

    A ledger is asked once, for the whole search, before anything is measured.
    """
    search = _Search(tuple(columns), privacy, read_unit(unit))
    if purse is None:
        return search.run(source, counter, None)
    require(
        purse.again != "stored",
        "again",
        purse.again,
        "keeps no bounds",
        "find them anew, or keep a schema",
    )

    purse.check(search.cost)
    return purse.spend(search.cost, lambda paid: search.run(source, counter, paid.note))


def bounds_cost(columns: Sequence[str], privacy: Privacy, unit: object = None) -> Cost:
    """What a search would spend; nothing is measured."""
    return _Search(tuple(columns), privacy, read_unit(unit)).cost


@dataclass(frozen=True, eq=False)
class _Search:
    """A search that is about to run: what is measured is fixed, but for the grids."""

    names: tuple[str, ...]
    privacy: Privacy
    unit: Unit | None

    def __post_init__(self) -> None:
        if len(set(self.names)) < len(self.names) or not (self.names or self.unit):
            rule = "must name at least one column, each once"
            raise InvalidParameter("columns", list(self.names), rule)

    @property
    def plans(self) -> list[CentralPlan]:
        """Every CDF that is measured: the three of each column, and that of rows last."""
        parts = len(self.names) + (self.unit is not None)
        shares = [share / parts for _ in self.names for share in _SHARES]
        cells = [*_CELLS * len(self.names)]

        if self.unit is not None:
            shares.append(1 / parts)
            cells.append(len(bound_rules.ROWS) - 1)

        budgets = split(self.privacy, shares)
        one = _AT_ONE[budgets[0].kind]
        whole = Privacy(neighbours=self.privacy.neighbours, **one)
        return [
            _cdf_plan(n, whole).at(budget)
            for n, budget in zip(cells, budgets, strict=True)
        ]

    @property
    def cost(self) -> Cost:
        """What the whole search spends."""
        costs = [plan.cost for plan in self.plans]

        spend = reduce(add, (cost.spend for cost in costs))
        noise = [drawn for cost in costs for drawn in cost.noise]

        unit = "" if self.unit is None else self.unit.text()
        name = digest(*self.names, unit, *(cost.plan for cost in costs))
        title = _title(self.names, self.unit)

        return Cost(spend, self.privacy, name, title, noise, self.unit)

    def run(
        self, source: Source, counter: Counter, note: LedgerNote | None
    ) -> BoundsSearch:
        """Measure, column by column, each CDF on the grid that the one before suggests."""
        plans = self.plans
        columns = []
        releases: list[Release] = []

        for number, name in enumerate(self.names):
            count = partial(self.histogram, source, counter, name)
            three = plans[3 * number : 3 * number + 3]
            found, own = _column(name, three, count)
            columns.append(found)
            releases += own

        unit = self.unit
        if unit is not None:
            held = counter.rows_held(source, unit)
            release = plans[-1].release(_rows(held))
            rows = bound_rules.rows_to_keep(release.answers, _spread(release))
            unit = replace(unit, rows=rows)
            releases = [*releases, release]

        return BoundsSearch(tuple(columns), tuple(releases), self.privacy, unit, note)

    def histogram(
        self, source: Source, counter: Counter, name: str, edges: FloatArray
    ) -> IntArray:
        """Exact counts of people between edges, and last of those without a number."""
        attribute = Numeric(
            name, tuple(edges.tolist()), outside="clip", missing="other"
        )

        unit = None if self.unit is None else replace(self.unit, rows=1)
        domain = Domain([attribute], unit=unit)

        (counts,) = counter.tables(source, domain, [((name,), COUNT)])

        return counts


def _column(
    name: str, plans: Sequence[CentralPlan], count: Callable[[FloatArray], IntArray]
) -> tuple[FoundBounds, tuple[Release, ...]]:
    where = plans[0].release(count(bound_rules.MAGNITUDES))
    low, high = bound_rules.magnitude(*_below(where))
    edges = bound_rules.cells_around(low, high)

    around = plans[1].release(count(edges))
    edges = bound_rules.outward(edges, *_below(around))
    far = plans[2].release(count(edges))

    return _bounds(name, edges, far), (where, around, far)


def _below(release: Release) -> tuple[FloatArray, FloatArray]:
    """People with a number below every edge, and standard errors."""
    return release.answers[:-1], _spread(release)[:-1]


def _rows(held: Mapping[int, int]) -> IntArray:
    """Exact counts of people by how many rows they have: everybody is in one cell."""
    ends = bound_rules.ROWS
    counts = np.zeros(len(ends) - 1, dtype=np.int64)
    cells = np.searchsorted(ends, list(held), side="left") - 1
    cells = np.clip(cells, 0, len(counts) - 1)

    np.add.at(counts, cells, list(held.values()))
    return counts


def _title(names: Sequence[str], unit: Unit | None) -> str:
    rows = [] if unit is None else [f"rows per {unit.name}"]
    return f"bounds of {', '.join([*names, *rows])}"


@lru_cache(maxsize=16)
def _cdf_plan(cells: int, budget: Privacy) -> CentralPlan:
    """Columns share their plans, whatever the budget of each.

    Carry noise is what the search for the best ends in for such CDFs, after seven times as long.
    """
    mechanism = "carry" if budget.kind == "pure" else "auto"
    return plan_central(Prefix(cells), budget, Central(mechanism=mechanism))


def _plan(release: Release) -> CentralPlan:
    assert isinstance(release.plan, CentralPlan)
    return release.plan


def _spread(release: Release) -> FloatArray:
    """Standard errors; a total that is public has none."""
    return np.sqrt(np.maximum(_plan(release).accuracy.variance, 0.0))


def _bounds(name: str, edges: FloatArray, release: Release) -> FoundBounds:
    below, spread = _below(release)
    people = float(below[-1])
    everybody = float(release.answers[-1])
    error = float(spread[-1])
    facts = people, everybody, error
    if people < _CLEAR * error or people < everybody / 2:
        return FoundBounds(name, None, None, None, *facts)

    fitted = monotone_counts(below, spread)
    place = partial(bound_rules.share_place, edges, fitted)
    quartiles = place(0.25), place(0.5), place(0.75)
    lower, upper = bound_rules.ends(edges, below, spread)

    return FoundBounds(name, lower, upper, quartiles, *facts)
