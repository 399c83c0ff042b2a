"""From those who answered to everybody: public margins, and answers weighted to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from math import ceil, prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self, cast

import msgspec
import numpy as np
from msgspec import Meta

from noisewright.arrays import FloatArray, IntArray
from noisewright.domain import Domain, Numeric
from noisewright.errors import InvalidParameter, TooLarge, require
from noisewright.estimate.post_stratification import post_stratified
from noisewright.files import check_apart
from noisewright.local.analysis.accuracy import Errors, LocalAccuracy
from noisewright.local.analysis.analysis import influence
from noisewright.local.analysis.answers import estimate
from noisewright.local.analysis.robust import can_be_robust, robust_answers
from noisewright.local.reports.aggregate import Aggregate
from noisewright.local.reports.exchange import write_reports
from noisewright.local.strategy import DENSE_SIZE, LARGEST_VECTOR
from noisewright.planning.counting import Counter, Source
from noisewright.planning.plan import LEVEL
from noisewright.stages import stage
from noisewright.workload.questions.statistics import Column

if TYPE_CHECKING:
    from noisewright.domain import Domain
    from noisewright.local.reports.aggregate import Aggregate
    from noisewright.planning.local.plan import LocalPlan


_PEOPLE = "people"


class Margins(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many people of the population are in every cell of a table of some attributes."""

    attributes: Annotated[tuple[str, ...], Meta(min_length=1, max_length=100)]
    people: Annotated[
        tuple[Annotated[float, Meta(ge=0, le=1e15)], ...],
        Meta(min_length=1, max_length=100_000),
    ]

    @classmethod
    def read(cls, path: str | Path, domain: Domain) -> Self:
        """Margins from a CSV file: a column an attribute, and a column `people`."""
        import pyarrow as pa
        import pyarrow.csv as csv

        try:
            table = csv.read_csv(path)
        except (pa.ArrowException, OSError):
            raise InvalidParameter(
                "margins", str(path), "cannot be read as CSV"
            ) from None

        names = tuple(name for name in domain.names if name in table.column_names)
        if sorted(table.column_names) != sorted((*names, _PEOPLE)) or not names:
            rule = (
                f"must have the columns of some attributes, each once, and `{_PEOPLE}`"
            )
            raise InvalidParameter("margins", table.column_names, rule)

        part = domain.project(names)
        cells = part.encode({name: table.column(name) for name in names})
        if sorted(cells.tolist()) != list(range(part.size)):
            rule = f"must have one row for each of the {part.size:,} combinations"
            raise InvalidParameter("margins", f"{len(cells)} rows", rule)

        counts = np.zeros(part.size)
        counts[cells] = np.asarray(
            table.column(_PEOPLE).cast(pa.float64()), dtype=np.float64
        )
        return cls(names, tuple(counts.tolist()))

    def strata(
        self, domain: Domain | None
    ) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], FloatArray]:
        """The stratum of every cell of a domain, and the people of every stratum."""
        if domain is None:
            raise InvalidParameter(
                "margins", self.attributes, "need a plan with a schema"
            )

        sizes = [domain[name].size for name in self.attributes]
        if len(self.people) != prod(sizes) or len(set(self.attributes)) != len(sizes):
            rule = f"must be {prod(sizes):,}, one for each combination of {self.attributes}"
            raise InvalidParameter("margins", f"{len(self.people):,} counts", rule)

        if domain.size > DENSE_SIZE:
            raise TooLarge(
                f"margins over {domain.size:,} cells are too many for one table"
            )

        codes = np.unravel_index(np.arange(domain.size), domain.shape)
        own = [codes[domain.index(name)] for name in self.attributes]
        flat = np.ravel_multi_index(own, sizes).astype(np.int64)

        return flat, np.array(self.people)


def _in_population(
    plan: LocalPlan, margins: Margins, cells: FloatArray | None, accuracy: LocalAccuracy
) -> Column:
    """Answers weighted to margins, from estimated cells, as if those in a stratum were drawn."""
    strata, people = margins.strata(plan.domain)
    if cells is None or accuracy.histogram is None:
        raise TooLarge("margins need estimates of all cells; ask fewer tables at once")

    likely = accuracy.histogram
    total = float(accuracy.people)
    noise = plan.strategy.covariance(likely) * accuracy.price**2
    drawn = np.diag(likely) - np.outer(likely, likely) / total
    workload = plan.plain_workload
    answers, variance = post_stratified(workload, cells, noise + drawn, strata, people)
    each = accuracy.multiplier(LEVEL)
    together = accuracy.bounded_multiplier(workload.queries, LEVEL)

    return Column.around(answers, np.sqrt(variance), each, together)


class Reading(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How answers are read from collected reports."""

    errors: Errors = "plug-in"
    population: bool = False
    non_negative: bool = False
    shrink: bool = False
    """Answers of the affine estimate with the least worst error, which is biased."""
    liars: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    """Share of the reports that may say anything; intervals hold for all of these as well."""
    margins: Margins | None = None
    """Where given, answers are those of the population that these margins are of."""

    def check(self, groups: int) -> None:
        """Refuse what cannot be had together."""
        if self.shrink and (
            self.non_negative or self.liars or self.margins or groups > 1
        ):
            raise InvalidParameter(
                "shrink",
                self.shrink,
                "stands alone: no non_negative, liars, margins or median",
            )
        if not 0 <= self.liars < 1:
            raise InvalidParameter(
                "liars", self.liars, "must be a share of the reports, 0 <= liars < 1"
            )
        if self.margins is not None and (self.liars or self.non_negative):
            raise InvalidParameter(
                "margins",
                self.margins.attributes,
                "cannot be combined with liars or non_negative",
            )

    @property
    def changes(self) -> bool:
        """Whether it asks for other answers than those that were measured."""
        return self.non_negative or self.shrink

    @property
    def plain(self) -> Reading:
        """The same of unbiased answers, trusting everybody."""
        return msgspec.structs.replace(
            self, non_negative=False, shrink=False, liars=0.0
        )

    def told(self, plan: LocalPlan, before: Mapping[str, object]) -> dict[str, object]:
        """What the record says of it."""
        return {
            **before,
            "standard_errors": self.errors,
            "population": self.population,
            "non_negative": self.non_negative,
            "shrink": self.shrink,
            "liars": self.liars,
            "liars_limit": plan.liars_limit(self),
            "margins": None if self.margins is None else list(self.margins.attributes),
        }


def read_reports(plan: LocalPlan, collected: Aggregate, reading: Reading) -> Column:
    """What collected reports say, read like this."""
    estimates = estimate(
        plan.answered,
        collected,
        errors=reading.errors,
        population=reading.population,
        non_negative=reading.non_negative,
    )
    # About the unbiased answers, and widened where needed to hold the fitted ones.
    accuracy = estimates.accuracy
    if reading.margins is not None:
        require(
            plan.targets is None,
            "margins",
            reading.margins.attributes,
            "need exact queries",
        )
        return _in_population(plan, reading.margins, estimates.histogram, accuracy)

    if reading.liars and collected.groups > 1:
        raise InvalidParameter(
            "liars", reading.liars, "cannot be combined with medians over groups",
            "leave out median",
        )  # fmt: skip

    if liars_limit(plan, reading) == "consistent":
        robust = robust_answers(plan.plain_workload, collected, reading.liars)
        limits = robust.lower, robust.upper
        return Column(robust.answers, accuracy.std, limits, limits)

    widths = accuracy.multiplier(LEVEL), accuracy.joint_multiplier(LEVEL)
    around = Column.around(estimates.centre, accuracy.std, *widths)
    answers = _shrunk(plan, collected) if reading.shrink else estimates.answers
    moved = _moved(plan, collected, reading.liars)
    if plan.bias is not None:
        moved = moved + collected.people * plan.bias

    each, all_ = (
        (np.minimum(low - moved, answers), np.maximum(high + moved, answers))
        for low, high in (around.each, around.all)
    )
    return Column(answers, accuracy.std, each, all_)


def liars_limit(
    plan: LocalPlan, reading: Reading
) -> Literal["consistent", "influence"] | None:
    """How it is found what liars can have done, where there may be any.

    `consistent`: answers and limits are of all tables of people that explain the reports with
    so few liars. `influence`: intervals are wider by what so many reports move an answer at
    most; larger, and for any number of cells.
    """
    if not reading.liars:
        return None
    plain = not (reading.non_negative or reading.population) and plan.targets is None
    small = can_be_robust(plan.strategy, plan.plain_workload)
    return "consistent" if plain and small else "influence"


def _shrunk(plan: LocalPlan, collected: Aggregate) -> FloatArray:
    require(
        collected.groups <= 1,
        "shrink",
        True,
        "cannot be combined with medians over groups",
    )
    cells = plan.shrinkage(collected.people).histogram(collected.total)
    return np.asarray(plan.answered.matvec(cells), dtype=np.float64)


def _moved(plan: LocalPlan, collected: Aggregate, liars: float) -> FloatArray | float:
    """How far liars can have moved each answer, at most."""
    if not liars:
        return 0.0
    number = ceil(liars * collected.people)
    return number * influence(plan.strategy, plan.answered, collected.cap)


@dataclass(frozen=True)
class Tallying:
    """Draws the reports of rows by their cells and adds them up, wherever it is called."""

    plan: bytes

    def __call__(self, batches: Iterable[IntArray]) -> bytes:
        """The aggregate of one part of the rows."""
        from noisewright.planning.files import from_bytes

        plan = cast("LocalPlan", from_bytes(self.plan, kind="local-plan"))
        aggregate = plan.aggregate()

        for cells in batches:
            aggregate.add(plan.randomize(cells))

        return aggregate.to_bytes()


def randomize_table(
    plan: LocalPlan, table: Source, output: str | Path, counter: Counter | None
) -> int:
    """Write one report for every row of a table, and return how many there are."""
    if isinstance(table, str | Path):
        check_apart(output, table)

    engine, domain = _reading(plan, counter)
    batches = engine.cells(table, domain)
    return write_reports(
        output, (plan.client.randomize_many(cells) for cells in batches)
    )


def tally_table(plan: LocalPlan, table: Source, counter: Counter | None) -> Aggregate:
    """The aggregate of one report for every row of a table."""
    engine, domain = _reading(plan, counter)
    stage("drawing and adding up reports")
    parts = engine.tallies(table, domain, Tallying(plan.to_bytes()))
    aggregates = (Aggregate.from_bytes(part, plan.format) for part in parts)

    return reduce(Aggregate.merge, aggregates, plan.aggregate())


def _reading(plan: LocalPlan, counter: Counter | None) -> tuple[Counter, Domain]:
    """The engine that reads a table, and what its columns mean."""
    domain = plan.domain or _numbered(plan.strategy.size)
    domain.require_reviewed()
    if counter is None:
        raise InvalidParameter(
            "counter", None, "must be given to read a table", "pass a counting engine"
        )
    return counter, domain


def _numbered(size: int) -> Domain:
    """Cells by their number, where a plan knows nothing else about them."""
    if size > LARGEST_VECTOR:
        raise TooLarge(f"{size:.3g} cells by number are too many; plan with a domain")
    return Domain([Numeric.integers("cell", 0, size - 1)])
