"""A local mechanism by its name: what it is, what it is planned for and how.

Every family states its own in an entry that stands beside it; `registry` lists them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any, Self, TypedDict

import numpy.typing as npt

from noisewright.arrays import FloatArray
from noisewright.errors import InvalidParameter, TooLarge, refuse_given, unknown_name
from noisewright.local.analysis.grams import table_gram, without_offsets
from noisewright.local.fixedpoint import check_planned
from noisewright.local.storage import whole_number
from noisewright.local.strategy import DENSE_SIZE, Strategy
from noisewright.local.time_limit import TimeLimit
from noisewright.local.vector.tails import MaxError
from noisewright.privacy.exact.rounding import number, positive
from noisewright.privacy.promise.budget import Privacy
from noisewright.workload.base import Workload
from noisewright.workload.linear.gram import Gram

_MOST_CELLS = 2**24
"""Cells with a counter each: 128 MiB."""

_QUICK_MATRICES = 1024
"""Cells up to which products of matrices over pairs of them take well under a second."""


@dataclass(frozen=True)
class Progress:
    """Where planning stands: `ratio` is its error over the lower bound known at the time."""

    stage: str
    iteration: int
    ratio: float
    seconds: float


EFFORTS = "low", "normal", "high"
EFFORT_VARIABLE = "NOISEWRIGHT_EFFORT"


def _default_effort() -> str:
    """How hard to search unless told: `normal`, or what the environment says."""
    return os.environ.get(EFFORT_VARIABLE) or "normal"


class SearchOptions(TypedDict, total=False):
    """Fields of `Search`, where they are given by name."""

    effort: str
    time_limit: float | None
    seed: int
    target_ratio: float | None
    progress: Callable[[Progress], None] | None
    checkpoint: str | Path | None
    cache: str | Path | bool
    objective: str
    prior: npt.ArrayLike | None
    norm: float


@dataclass(frozen=True)
class Search:
    """How hard, how long and from which seed to look for a better strategy.

    `progress` is told after every iteration, `target_ratio` stops the search early, `checkpoint`
    names a file from which an interrupted one goes on, and finished ones are kept in a `cache`.

    The error that counts is the worst case over people unless `objective` is "average", a `prior`
    over cells is given, or a `norm` other than 2 asks for an ℓp mean over the queries.
    """

    effort: str = field(default_factory=_default_effort)
    time_limit: float | None = None
    seed: int = 0
    target_ratio: float | None = None
    progress: Callable[[Progress], None] | None = None
    checkpoint: str | Path | None = None
    cache: str | Path | bool = True
    objective: str = "worst"
    prior: npt.ArrayLike | None = None
    norm: float = 2.0

    @classmethod
    def names(cls) -> list[str]:
        """What may be set."""
        return [field.name for field in fields(cls)]

    @classmethod
    def of(cls, options: Mapping[str, Any], given: Self | None = None) -> Self:
        """The struct given, or one of these options by their names: none unknown, none twice."""
        if unknown := sorted(set(options) - set(cls.names())):
            rule = "is no option of the local model"
            raise unknown_name("argument", unknown[0], rule, cls.names())

        if given is None:
            return cls(**options)

        if not isinstance(given, cls):
            name = cls.__name__
            kind = type(given).__name__
            remedy = f"{name}(effort='high'), say"
            raise InvalidParameter(name.lower(), kind, f"must be a {name}", remedy)

        refuse_given(options, "stands beside a struct of all options", "say it there")
        return given

    @property
    def steering(self) -> dict[str, object]:
        """What steers a search otherwise than it is steered unless told."""
        plain: dict[str, object] = {"effort": _default_effort()}
        told = {}

        for each in fields(Search):
            value = getattr(self, each.name)
            if not _same(value, plain.get(each.name, each.default)):
                told[each.name] = value

        told.pop("progress", None)  # a listener steers nothing
        return told

    @property
    def own_error(self) -> bool:
        """Whether another error counts than the one that mechanisms are ranked by."""
        return self.objective != "worst" or self.prior is not None or self.norm != 2

    def __post_init__(self) -> None:
        if self.effort not in EFFORTS:
            rule = f"must be one of {', '.join(EFFORTS)}"
            raise InvalidParameter("effort", self.effort, rule)

        whole_number("seed", self.seed)
        if self.time_limit not in (None, inf):
            positive("time_limit", self.time_limit, "give seconds")
        if self.target_ratio is not None:
            remedy = "1.01 is within 1 % of the bound"
            positive("target_ratio", self.target_ratio, remedy)
        if self.norm not in (2, inf):  # the mean square, and the worst
            number("norm", self.norm, "2 is the mean square, inf the worst")


def _same(value: object, other: object) -> bool:
    """Whether two settings are one; an array is never the same as what is no array."""
    return value is other or (other is not None and value == other)


@dataclass(frozen=True, eq=False)
class LocalProblem:
    """What a local mechanism plans for."""

    workload: Workload
    epsilon: float
    delta: float | None = None
    search: Search = field(default_factory=Search)
    goal: MaxError | None = None
    """A largest error to reach with the fewest people, in place of a small variance."""
    limit: TimeLimit = field(default_factory=TimeLimit)
    """The time that planning may take, and whether it was cut short."""

    @classmethod
    def of(
        cls,
        workload: Workload,
        privacy: Privacy,
        search: Search,
        goal: MaxError | None = None,
        limit: TimeLimit | None = None,
    ) -> LocalProblem:
        """The problem at a budget whose relation is not used: nobody can be absent from a report.

        A report hides which value its person holds, one replaced by another.
        """
        if privacy.epsilon is None:
            rule = "is not offered in the local model"
            raise InvalidParameter("rho", privacy.rho, rule, "give ε")

        limit = limit or TimeLimit(search.time_limit)
        epsilon = check_planned(privacy.epsilon)
        problem = cls(workload, epsilon, privacy.delta, search, goal, limit)

        if problem.gram.mean_square() == 0:
            raise InvalidParameter(
                "workload",
                workload.brief(),
                "tells no two people apart: every answer follows from their number",
                "collect nothing, or ask for something that differs between people",
            )

        return problem

    @cached_property
    def cells(self) -> int:
        return self.workload.size

    @property
    def listed_cells(self) -> int:
        """Number of cells, where they are few enough for a counter each."""
        if self.cells > _MOST_CELLS:
            raise TooLarge(f"{self.cells:.3g} cells are too many to count one by one")
        return self.cells

    @property
    def questions(self) -> Workload:
        """The queries up to a constant each."""
        return without_offsets(self.workload)

    @cached_property
    def gram(self) -> Gram:
        """The Gram matrix of the queries up to a constant each."""
        return table_gram(self.workload)


@dataclass(frozen=True)
class LocalMechanism:
    """A named way to report; `plan` raises a noisewright error, in words, where it cannot.

    `slow` tells where planning takes so long that it is done only by name. One that `searches` is
    tried after the others, where none of them meets the bound, and alone where another error counts
    than the worst case. One that `needs_goal` is for a largest error, and tried without one only by
    name; its `targets` are what is answered in place of the queries, None for the queries.
    """

    name: str
    summary: str
    plan: Callable[[LocalProblem], Strategy]
    needs_delta: bool = False
    slow: Callable[[int], bool] = lambda _: False
    searches: bool = False
    needs_goal: bool = False
    targets: Callable[[LocalProblem], FloatArray | None] = lambda _: None

    def refuses(self, problem: LocalProblem, named: bool) -> str | None:
        """Why the mechanism does not suit the budget or is not tried, or None."""
        if self.needs_delta and problem.delta is None:
            return "Gaussian noise gives no pure privacy; give a delta"
        if self.needs_goal and problem.goal is None and not named:
            return "is for a largest error; say which, or plan it by name"
        if self.slow(problem.cells) and not named:
            return f"takes long at {problem.cells} cells; plan it by name"
        return None


def slow_matrices(cells: int) -> bool:
    """Where an error is found by matrices over pairs of cells, and these are large."""
    return _QUICK_MATRICES < cells <= DENSE_SIZE
