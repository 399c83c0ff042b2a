"""From those who answered to everybody: public margins, and answers weighted to them."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import msgspec
import numpy as np
from msgspec import Meta

from noisewright.arrays import FloatArray
from noisewright.errors import InvalidParameter, TooLarge
from noisewright.estimate.post_stratification import post_stratified
from noisewright.local.analysis.accuracy import LocalAccuracy
from noisewright.local.strategy import DENSE_SIZE
from noisewright.planning.plan import LEVEL
from noisewright.workload.questions.statistics import Column

if TYPE_CHECKING:
    from noisewright.domain import Domain
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


def in_population(
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
