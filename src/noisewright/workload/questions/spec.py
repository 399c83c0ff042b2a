"""Questions about a table, in YAML and by attribute name.

queries:
  - cdf: age                       # cumulative counts
  - cdf: income
    by: [region, sex]              # one CDF per region and sex
  - marginal: [region, employment] # a table of counts
  - marginals: 2                   # all tables of two attributes
  - ranges: age                    # every interval
  - count: age >= 65 and sex == "F"
    label: women of 65 and over
  - total: true
  - sum: hours                     # sums of a bounded number
    by: [region]
  - mean: hours                    # or variance: hours; of those who have a value
    by: [region]
    missing: zero                  # ... or of all, whoever lacks one counting as zero
  - quantiles: income
    at: [0.1, 0.5, 0.9]
    by: [region]
Each may carry `weight:` (how much its accuracy matters, 1 by default) and `name:`. Where `weight:`
names a numeric attribute, people are weighed by it, up to its upper bound; `importance:` then says
how much accuracy matters. Beside means and the like, every question's error matters relative to
what it would be alone (`relative_weights`); where all are counts, in people.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, islice
from operator import methodcaller
from pathlib import Path
from typing import cast

from noisewright.domain import Domain
from noisewright.domain.schema import dump_yaml, load_yaml
from noisewright.errors import InvalidParameter, is_listed, read_plain_values, require
from noisewright.workload.base import Workload
from noisewright.workload.kinds.algebra import Stack, Weighted, stack
from noisewright.workload.kinds.marginals import OnAttributes
from noisewright.workload.questions.entries import read_entry
from noisewright.workload.questions.measures import (
    COUNT,
    Measure,
    Missing,
)
from noisewright.workload.questions.relative_weights import weighted_needs
from noisewright.workload.questions.statistics import Counts, Statistic
from noisewright.workload.questions.table_axes import query_labels
from noisewright.workload.structure import Term


@dataclass(frozen=True)
class Questions(Stack):
    """Named questions over a domain. Weights steer the noise; answers are plain.

    As a workload it is the counts of people that all questions need together, or, where they need
    none, sums of the first measure; what they need beyond that is told by `of_measure`.
    """

    domain: Domain = field()
    statistics: tuple[Statistic, ...] = field()
    spec: str = field()
    unsaid: Missing = "left-out"
    """What is made of missing values where a question about a number says nothing of them."""

    def reading(self, unsaid: Missing) -> Questions:
        return questions(self.spec, self.domain, unsaid)

    @property
    def names(self) -> tuple[str, ...]:
        """The name of every question."""
        return tuple(statistic.name for statistic in self.statistics)

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        return _measures(self.statistics)

    @cached_property
    def counts_only(self) -> bool:
        return all(isinstance(statistic, Counts) for statistic in self.statistics)

    def of_measure(self, measure: Measure) -> Workload:
        return stack(_parts(self.statistics, self.domain, measure))

    def plain_terms(self) -> list[Term]:
        """The terms without their weights, one per table of counts."""
        return [replace(term, weight=1.0) for term in self.structure.terms]

    @property
    def answers(self) -> int:
        return sum(statistic.queries for statistic in self.statistics)

    def needs(self, sizes: Sequence[int]) -> list[tuple[Term, float]]:
        if self.counts_only:  # every question has its own answers
            return [(s.table, s.weight) for s in self.statistics]

        return weighted_needs(self.statistics)

    def plain_parts(self) -> list[Workload]:
        return [
            part.inner if isinstance(part, Weighted) else part for part in self.parts
        ]

    def weighed(self, factors: Sequence[float]) -> Questions:
        """A question that stands for several tables has one weight: the largest of theirs."""
        entries = []
        start = 0

        for entry in _entries(self.spec):
            own = self.statistics[start]
            weight = own.weight * max(factors[start : start + own.siblings])
            start += own.siblings
            kept = dict(entry)
            if not isinstance(kept.get("weight"), str):  # no weight of people
                kept.pop("weight", None)
            entries.append({**kept, "importance": float(f"{weight:.6g}")})

        return questions({"queries": entries}, self.domain, self.unsaid)

    def narrowed(self) -> Questions:
        used = {i for term in self.structure.terms for i in term.attributes}
        if not 0 < len(used) < len(self.domain):
            return self

        names = [name for i, name in enumerate(self.domain.names) if i in used]
        return questions(self.spec, self.domain.project(names), self.unsaid)

    def text(self) -> str:
        """The specification it was read from, on one line."""
        return f"spec({len(self.parts)} questions, {self.queries} queries)"

    def label(self, row: int) -> str:
        """The query in words."""
        index = bisect_right(self.starts, row) - 1
        term = self.plain_terms()[index]

        labels = query_labels(self.domain, term)

        return next(islice(labels, row - self.starts[index], None))

    def joined(self, other: Workload) -> Workload:
        if not other.spec:
            return super().joined(other)

        mine = _entries(self.spec)
        new = [entry for entry in _entries(other.spec) if entry not in mine]

        return questions({"queries": [*mine, *new]}, self.domain)

    def each_label(self, domain: Domain | None = None) -> Iterator[str]:
        return chain.from_iterable(map(methodcaller("each_label"), self.statistics))

    def labels(self) -> list[str]:
        """All answers in words."""
        return list(self.each_label())


def _entries(spec: str) -> list[dict[str, object]]:
    """The questions of a specification that was understood before."""
    document = cast("dict[str, list[dict[str, object]]]", load_yaml(spec))
    return document["queries"]


def questions(
    source: str | Path | Mapping[str, object],
    domain: Domain,
    unsaid: Missing = "left-out",
) -> Questions:
    """Read a specification: YAML text, a path to it, or plain values.

    `unsaid` is what `missing:` is where a question does not say it.
    """
    domain.require_reviewed()
    document = source if isinstance(source, Mapping) else load_yaml(source)
    if not isinstance(document, Mapping) or set(document) != {"queries"}:
        raise InvalidParameter(
            "queries",
            list(document) if isinstance(document, Mapping) else document,
            "must be a list under the single key `queries`",
            "see the how-to on asking questions",
        )

    entries = document["queries"]
    require(
        is_listed(entries) and entries,
        "queries",
        entries,
        "must be a list with at least one question",
    )

    statistics: list[Statistic] = []
    refusal = partial(InvalidParameter, "queries")
    for entry in entries:
        error = partial(refusal, entry, "cannot be understood", "see the how-to")
        statistics += read_plain_values(
            partial(read_entry, entry, domain, unsaid), error
        )

    measures = _measures(statistics)
    of = COUNT if COUNT in measures else measures[0]
    parts = _parts(statistics, domain, of)

    return Questions(
        tuple(parts), domain, tuple(statistics), dump_yaml(dict(document)), unsaid
    )


def _measures(statistics: Sequence[Statistic]) -> tuple[Measure, ...]:
    """All that is added up over people, in the order in which it is needed."""
    needs = chain.from_iterable(statistic.needs for statistic in statistics)
    return tuple(dict.fromkeys(need.measure for need in needs))


def _parts(
    statistics: Sequence[Statistic], domain: Domain, measure: Measure
) -> list[Workload]:
    """The tables of one measure, each weighed as it matters.

    Where only counts are asked every question keeps its own, so that answers follow the questions.
    """
    pairs = weighted_needs(statistics)
    if all(isinstance(statistic, Counts) for statistic in statistics):
        pairs = [(statistic.table, statistic.weight) for statistic in statistics]

    return [
        _weighted(weight, OnAttributes(domain.shape, term.attributes, term.inner))
        for term, weight in pairs
        if term.measure == measure
    ]


def _weighted(weight: float, part: Workload) -> Workload:
    return part if weight == 1.0 else Weighted(float(weight), part)
