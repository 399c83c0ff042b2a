"""Bounds of numeric columns found privately: two noisy CDFs per column, nothing looked at.

The first CDF is of magnitudes over powers of two, and tells the scale. The second is over a grid
of both signs that grows by a third of an octave a step up to four times that scale. The ends of the
data are too few people to be seen under noise, so they are extrapolated: from the point beyond
which a clearly visible share p of people lies and the one with 3p beyond it, to where 0.2 % would
be left, halfway (in logarithms) between an exponential and a power-law tail. All of it follows from
noisy counts, so that bounds found so may be public.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from math import ceil, floor, log, log10, sqrt
from operator import add
from typing import Any

import numpy as np

from noisewright.container import digest
from noisewright.domain import Domain, Numeric
from noisewright.errors import InvalidParameter
from noisewright.planning.central import CentralPlan
from noisewright.planning.choice import plan_central
from noisewright.planning.counting import Counter, Source
from noisewright.planning.release import Release
from noisewright.planning.spending import Again, Cost, LedgerLike, LedgerNote, purse_of
from noisewright.privacy.budget import Privacy
from noisewright.privacy.calibration import split
from noisewright.privacy.spend import Spend
from noisewright.workload import Prefix
from noisewright.workload.base import FloatArray
from noisewright.workload.measures import COUNT
from noisewright.workload.quantiles import monotone_counts, quantiles

_OCTAVES = np.concatenate([[0.0], 2.0 ** np.arange(-20, 53)])
_STEPS = 16  # of a third of an octave, on each side of zero
_SHARES = (0.4, 0.6)  # of the budget: to find the scale, and the bounds
_SEEN = 2.0  # standard errors that a count must be to be clearly there
_LEFT = 0.002  # share of people that may be left beyond a bound
_APART = 3.0  # between the two shares that the tail is judged by
_ONE_SIDED = 3.0  # a bound so much nearer to zero than the other is put to zero
_BINS = 20


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
        edges = tuple(float(edge) for edge in np.linspace(self.lower, self.upper, _BINS + 1))
        return Numeric(self.name, edges, outside="clip", missing="other")


@dataclass(frozen=True, eq=False)
class BoundsSearch:
    """What was found, and the releases that it was read off."""

    columns: tuple[FoundBounds, ...]
    releases: tuple[Release, ...]
    privacy: Privacy
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
                "columns", [found.name for found in self.columns], "have no numbers to bound"
            )
        return Domain(known)

    def record(self) -> dict[str, Any]:
        """What was spent and how, ready for JSON."""
        first = dict(self.releases[0].metadata)
        names = ("format", "version", "model", "neighbours", "libraries", "time", "ledger")
        return {
            **{name: first[name] for name in names if name in first},
            "release": secrets.token_hex(8),
            "workload": f"bounds of {', '.join(found.name for found in self.columns)}"[:200],
            "privacy": self.privacy.to_dict(),
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
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
    again: Again = "refuse",
) -> BoundsSearch:
    """Find bounds of numeric columns, each under its share of the budget.

    A ledger is asked once, for the whole search, before anything is measured.
    """
    names = list(columns)
    if not names or len(set(names)) < len(names):
        raise InvalidParameter("columns", names, "must name at least one column, each once")
    shares = [share / len(names) for _ in names for share in _SHARES]
    budgets = split(privacy, shares)

    purse = purse_of(ledger, dataset, again)
    if purse is None:
        return _searched(source, names, privacy, budgets, counter, None)
    if again == "stored":
        raise InvalidParameter(
            "again", again, "keeps no bounds", "find them anew, or keep a schema"
        )
    cost = _cost(names, privacy, budgets)
    purse.check(cost)
    return purse.spend(cost, lambda r: _searched(source, names, privacy, budgets, counter, r.note))


def _cost(names: Sequence[str], privacy: Privacy, budgets: Sequence[Privacy]) -> Cost:
    """What a whole search spends: how many cells it counts is fixed beforehand."""
    sizes = (len(_OCTAVES), 2 * _STEPS + 1) * len(names)
    costs = [_cdf_plan(n, budget).cost for n, budget in zip(sizes, budgets, strict=True)]
    spend = reduce(add, (cost.spend for cost in costs))
    title = f"bounds of {', '.join(names)}"
    noise = [drawn for cost in costs for drawn in cost.noise]
    return Cost(spend, privacy, digest(*names, *(cost.plan for cost in costs)), title, noise)


def _searched(
    source: Source,
    names: Sequence[str],
    privacy: Privacy,
    budgets: Sequence[Privacy],
    counter: Counter,
    note: LedgerNote | None,
) -> BoundsSearch:
    def measured(histogram: FloatArray, budget: Privacy) -> Release:
        return _cdf_plan(len(histogram), budget).release(histogram.astype(np.int64))

    found, releases = [], []
    for number, name in enumerate(names):
        coarse, fine = budgets[2 * number : 2 * number + 2]
        signed = np.concatenate([-_OCTAVES[:0:-1], _OCTAVES])
        counts = _histogram(source, name, signed, counter)
        half = len(_OCTAVES) - 1
        folded = counts[:half][::-1] + counts[half : 2 * half]
        scale = measured(np.append(folded, counts[-1]), coarse)
        edges = _grid(_scale(scale))
        sought = measured(_histogram(source, name, edges, counter), fine)
        found.append(_bounds(name, edges, sought))
        releases += [scale, sought]
    return BoundsSearch(tuple(found), tuple(releases), privacy, note)


@lru_cache(maxsize=16)
def _cdf_plan(cells: int, budget: Privacy) -> CentralPlan:
    """Columns, and tables after one another, share their plans."""
    return plan_central(Prefix(cells), budget)


def _histogram(source: Source, name: str, edges: FloatArray, counter: Counter) -> FloatArray:
    """Exact counts of cells between edges, and last of people without a number."""
    attribute = Numeric(name, tuple(edges.tolist()), outside="clip", missing="other")
    (counts,) = counter.tables(source, Domain([attribute]), [((name,), COUNT)])
    return np.asarray(counts, dtype=np.float64)


def _plan(release: Release) -> CentralPlan:
    assert isinstance(release.plan, CentralPlan)
    return release.plan


def _scale(release: Release) -> float:
    """The power of two below which some four fifths of magnitudes lie."""
    counts = monotone_counts(release.answers, release.std)[:-1]
    place = int(np.searchsorted(counts, 0.8 * counts[-1]))
    return float(_OCTAVES[min(place, len(counts) - 1) + 1])


def _grid(scale: float) -> FloatArray:
    side = 4 * scale * 2.0 ** (-np.arange(_STEPS - 1, -1, -1) / 3)
    return np.concatenate([-side[::-1], [0.0], side])


def _bounds(name: str, edges: FloatArray, release: Release) -> FoundBounds:
    cells = len(edges) - 1
    covariance = _plan(release).accuracy.covariance(np.arange(cells + 1))
    spread = np.sqrt(np.maximum(np.diag(covariance), 0.0))  # a public total is exact
    below, people = release.answers[:cells], float(release.answers[cells - 1])
    facts = people, float(release.answers[cells]), float(spread[cells - 1])
    if people < 4 * _SEEN * spread[cells - 1] or people < facts[1] / 2:
        return FoundBounds(name, None, None, None, *facts)
    last = covariance[cells - 1, cells - 1]
    beyond = np.sqrt(np.maximum(last + spread**2 - 2 * covariance[cells - 1], 0))[:cells]
    upper = _end(edges, people - below, beyond, people)
    mirrored = np.append(below[-2::-1], 0.0), np.append(spread[cells - 2 :: -1], spread[0])
    lower = -_end(-edges[::-1], *mirrored, people)
    lower, upper = _sides(min(lower, upper), max(lower, upper))
    width = release.simultaneous_halfwidth[:cells]
    read = quantiles(below, spread[:cells], width, edges, (0.25, 0.5, 0.75))
    first, second, third = (q.estimate for q in read)
    return FoundBounds(name, lower, upper, (first, second, third), *facts)


def _end(edges: FloatArray, tail: FloatArray, spread: FloatArray, people: float) -> float:
    """Beyond which hardly anybody is left; `tail` counts people beyond every edge but the first."""
    falling = -monotone_counts(people - tail, np.ones_like(tail)) + people
    falling = np.clip(falling, 0.0, None)
    visible = (falling > 0.02 * people) & (falling < 0.3 * people)
    typical = float(np.median(spread[visible] if visible.any() else spread))
    share = min(max(_SEEN * typical / people, _LEFT), 0.2)
    near = _crossing(edges, falling, share * people)
    inner = _crossing(edges, falling, _APART * share * people)
    steps = log(share / _LEFT) / log(_APART)
    straight = near + (near - inner) * steps
    if inner <= 0 or near <= inner or straight <= 0:
        return min(straight, float(edges[-1]))
    return min(sqrt(straight * near * (near / inner) ** steps), float(edges[-1]))


def _crossing(edges: FloatArray, tail: FloatArray, count: float) -> float:
    """Where the number of people beyond falls to `count`, evenly spread within cells."""
    reached = np.flatnonzero(tail >= count)
    place = int(reached[-1]) + 1 if len(reached) else 0  # of the edge before the crossing
    if place >= len(tail):
        return float(edges[-1])
    before = tail[place - 1] if place else 2 * tail[0] - tail[1]
    share = (before - count) / (before - tail[place]) if before > tail[place] else 1.0
    low, high = edges[place], edges[place + 1]
    return float(low + min(max(share, 0.0), 1.0) * (high - low))


def _sides(lower: float, upper: float) -> tuple[float, float]:
    """Outward to two digits; a side that is near zero for its size becomes zero."""
    if 0 < lower < upper / _ONE_SIDED:
        lower = 0.0
    if lower / _ONE_SIDED < upper < 0:
        upper = 0.0
    digit = 10.0 ** (floor(log10(max(abs(lower), abs(upper)))) - 1)
    ends = floor(lower / digit) * digit, ceil(upper / digit) * digit
    rounded = tuple(float(f"{end:.6g}") for end in ends)
    return rounded[0], rounded[1] if rounded[1] > rounded[0] else rounded[0] + digit
