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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, combinations, islice, product
from math import comb, floor, log10
from operator import methodcaller
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from noisewright.domain import Attribute, Domain, Numeric
from noisewright.domain.levels import LONGEST_LABEL, check_label
from noisewright.domain.schema import dump_yaml, load_yaml
from noisewright.errors import InvalidParameter, TooLarge, meant, require, understood
from noisewright.workload.base import Workload
from noisewright.workload.kinds.algebra import Stack, Weighted, stack
from noisewright.workload.kinds.atoms import (
    Atom,
    Explicit,
    Identity,
    Prefix,
    Ranges,
    Total,
)
from noisewright.workload.kinds.marginals import OnAttributes
from noisewright.workload.questions.measures import (
    COUNT,
    CentredSum,
    Measure,
    Missing,
    Weights,
)
from noisewright.workload.questions.numbers import Means, Sums, Variances
from noisewright.workload.questions.predicate import parse_predicate
from noisewright.workload.questions.quantiles import check_levels
from noisewright.workload.questions.relative_weights import weighted_needs
from noisewright.workload.questions.statistics import Counts, Quantiles, Statistic
from noisewright.workload.structure import Term, terms

_ORDERED: dict[str, type[Atom]] = {"cdf": Prefix, "ranges": Ranges}
_MOST_TABLES = 10**6
_LONGEST_TITLE = 20 * LONGEST_LABEL
"""Characters of what a question is called by itself: several attributes, or a condition."""

_OPTIONS = (
    "by",
    "weight",
    "importance",
    "name",
    "label",
    "of",
    "unit",
    "at",
    "missing",
)
_OF_NUMBERS = ("sum", "mean", "variance")
_WEIGHT_UNITS = 1000  # at least so many of a weight's cap


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
        return tuple(
            dict.fromkeys(need.measure for s in self.statistics for need in s.needs)
        )

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
            kept = {
                k: v for k, v in entry.items() if k != "weight" or isinstance(v, str)
            }
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
        index = int(np.searchsorted(self.starts, row, side="right")) - 1
        term = self.plain_terms()[index]
        return next(
            islice(query_labels(self.domain, term), row - self.starts[index], None)
        )

    def joined(self, other: Workload) -> Workload:
        if not other.spec:
            return super().joined(other)

        mine, theirs = (_entries(asked.spec) for asked in (self, other))
        new = [entry for entry in theirs if entry not in mine]
        return questions({"queries": [*mine, *new]}, self.domain)

    def each_label(self, domain: Domain | None = None) -> Iterator[str]:
        return chain.from_iterable(map(methodcaller("each_label"), self.statistics))

    def labels(self) -> list[str]:
        """All answers in words."""
        return list(self.each_label())


def _entries(spec: str) -> list[dict[str, object]]:
    """The questions of a specification that was understood before."""
    document: Any = load_yaml(spec)
    return list(document["queries"])


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
        isinstance(entries, Sequence) and not isinstance(entries, str) and entries,
        "queries",
        entries,
        "must be a list with at least one question",
    )

    statistics: list[Statistic] = []
    for entry in entries:
        error = partial(
            InvalidParameter, "queries", entry, "cannot be understood", "see the how-to"
        )
        statistics += understood(partial(_read, entry, domain, unsaid), error)

    measures = dict.fromkeys(need.measure for s in statistics for need in s.needs)
    of = COUNT if COUNT in measures else next(iter(measures))
    parts = _parts(statistics, domain, of)

    return Questions(
        tuple(parts), domain, tuple(statistics), dump_yaml(dict(document)), unsaid
    )


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


def _read(entry: object, domain: Domain, unsaid: Missing) -> list[Statistic]:
    if not isinstance(entry, Mapping):
        raise InvalidParameter("queries", entry, "must be a mapping", _colon(entry))

    kinds = [key for key in entry if key in KINDS]
    unknown = [key for key in entry if key not in (*KINDS, *_OPTIONS)]
    if len(kinds) != 1 or unknown:
        raise InvalidParameter(
            "queries",
            dict(entry),
            f"must hold exactly one of {', '.join(KINDS)}",
            f"{_meaning(unknown)}options are {', '.join(_OPTIONS)}",
        )
    if entry[kinds[0]] is None:
        raise InvalidParameter(
            kinds[0], None, "must say of what", f"write `{kinds[0]}: …`"
        )

    weight, survey = _importance(entry, domain)
    if kinds[0] in _OF_NUMBERS:
        entry = {"missing": unsaid, **entry}
    elif "missing" in entry:
        rule = f"is said of {', '.join(_OF_NUMBERS)} alone"
        raise InvalidParameter("missing", entry["missing"], rule, "leave it out")

    statistics = KINDS[kinds[0]](kinds[0], entry, domain)
    if survey is not None:
        statistics = [statistic.weighted(survey) for statistic in statistics]

    for option in {"name", "label"} & entry.keys():
        check_label(option, str(entry[option]))

    named = [str(entry.get("name", statistic.name)) for statistic in statistics]
    check_label(kinds[0], max(named, key=len, default=""), _LONGEST_TITLE)

    return [
        replace(statistic, weight=weight, name=name, siblings=len(statistics))
        for statistic, name in zip(statistics, named, strict=True)
    ]


def _colon(entry: object) -> str:
    """What to write instead of a text where a mapping is needed: mostly a colon is missing."""
    kind, _, rest = str(entry).strip().partition(" ")
    if kind in KINDS:
        return f"a colon is missing: write `{kind}: {rest.strip() or '…'}`"
    return f"write KIND: …, with one of {', '.join(KINDS)}"


def _importance(
    entry: Mapping[str, object], domain: Domain
) -> tuple[float, Weights | None]:
    """How much accuracy matters, and the survey weight of people where one is named."""
    weight = entry.get("weight", 1.0)
    if isinstance(weight, str):
        return _number(entry, "importance", 1.0), survey_weights(weight, domain)
    if "importance" in entry and "weight" in entry:
        raise InvalidParameter(
            "importance", entry["importance"], "is given twice", "leave weight"
        )
    return _number(entry, "importance", weight), None


def _number(entry: Mapping[str, object], name: str, default: object) -> float:
    """A number that an entry may say; `understood` refuses what is none."""
    return float(cast("float", entry.get(name, default)))


def survey_weights(name: str, domain: Domain) -> Weights:
    """A numeric attribute as the weight of people, in units of about a thousandth of its cap."""
    attribute = domain[name]
    if not isinstance(attribute, Numeric):
        raise InvalidParameter("weight", name, "must be a numeric attribute")

    low = attribute.lower
    cap = attribute.upper
    if cap is None or low is None or low < 0 or cap <= 0:
        rule = "must have bounds: no weight is negative, and the upper bound is its cap"
        raise InvalidParameter("weight", name, rule, "declare lower: 0 and upper")

    if attribute.outside != "clip":
        rule = "must be clipped: a weight above its cap counts as the cap and is never told"
        raise InvalidParameter("weight", name, rule, "declare outside: clip")

    unit = 10.0 ** floor(log10(cap / _WEIGHT_UNITS))
    return Weights(name, unit, round(cap / unit))


def _meaning(unknown: Sequence[object]) -> str:
    return meant(str(unknown[0]), (*KINDS, *_OPTIONS)) if unknown else ""


def _total(kind: str, entry: Mapping[str, object], domain: Domain) -> list[Statistic]:
    return [_table({}, domain)]


def _marginals(
    kind: str, entry: Mapping[str, object], domain: Domain
) -> list[Statistic]:
    by = _by(entry)
    among = _each_once(kind, [*_names(entry.get("of", list(domain.names))), *by])
    among = among[: len(among) - len(by)]
    ways = int(cast("int", entry[kind]))
    require(0 <= ways <= len(among), kind, ways, f"must lie between 0 and {len(among)}")
    if comb(len(among), ways) > _MOST_TABLES:
        raise TooLarge(
            f"marginals={ways} of {len(among)} attributes are more than {_MOST_TABLES} tables; "
            "ask for smaller ones, or `of:` fewer attributes"
        )

    sets = [[*chosen, *by] for chosen in combinations(among, ways)]
    return [_table(dict.fromkeys(chosen, Identity), domain) for chosen in sets]


def _counts(kind: str, entry: Mapping[str, object], domain: Domain) -> list[Statistic]:
    """Counts of one table: of values, up to values, or within intervals of them."""
    by = _by(entry)
    names = _names(entry[kind])
    _each_once(kind, [*names, *by])
    base: type[Atom] = _ORDERED.get(kind, Identity)

    for name in names if base is not Identity else ():
        require(
            domain[name].ordered,
            kind,
            name,
            "has no order",
            "use marginal for unordered attributes",
        )

    return [
        _table({**dict.fromkeys(names, base), **dict.fromkeys(by, Identity)}, domain)
    ]


def _of_number(
    kind: str, entry: Mapping[str, object], domain: Domain
) -> list[Statistic]:
    """Sums or means of a bounded number by group."""
    name = str(entry[kind])
    by = _by(entry)
    attribute = domain[name]
    if not isinstance(attribute, Numeric):
        raise InvalidParameter(kind, name, "must be a numeric attribute")
    if name in by:
        raise InvalidParameter(
            kind, name, "cannot be a group of its own", "group by others"
        )

    groups = _table(dict.fromkeys(by, Identity), domain)
    title = f"{kind} of {name}" + (f" by {groups.name}" if by else "")
    kinds: dict[str, type[Sums | Means | Variances]] = {
        "sum": Sums,
        "mean": Means,
        "variance": Variances,
    }
    missing = cast("Missing", entry["missing"])
    measure = summed(attribute, _number(entry, "unit", 1.0), missing)

    return [kinds[kind](domain, title, groups.table, measure=measure)]


def summed(
    attribute: Numeric, unit: float, missing: Missing = "left-out"
) -> CentredSum:
    """The sum of a numeric attribute in whole multiples of `unit`, within its bounds.

    Where the schema has no cell for missing values nobody lacks one, whatever `missing` says.
    """
    if missing not in get_args(Missing):
        rule = "must be left-out or zero"
        raise InvalidParameter(
            "missing", missing, rule, "zero counts whoever has no value as zero"
        )

    attribute.largest_units(unit)  # refuses what has no bounds, or too wide ones
    assert attribute.lower is not None
    assert attribute.upper is not None
    low = round(attribute.lower / unit)
    high = round(attribute.upper / unit)
    if low == high:
        rule = f"rounds every value of {attribute.name!r} to one and the same"
        raise InvalidParameter(
            "unit", unit, rule, "choose it small beside usual values"
        )

    if not attribute.has_other:
        return CentredSum(attribute.name, unit, low, high)

    return CentredSum(attribute.name, unit, low, high, missing == "zero" or "left-out")


def _quantiles(
    kind: str, entry: Mapping[str, object], domain: Domain
) -> list[Statistic]:
    name = str(entry[kind])
    by = _by(entry)
    levels = entry.get("at", [0.5])
    require(
        isinstance(domain[name], Numeric), kind, name, "must be a numeric attribute"
    )

    _each_once(kind, [name, *by])
    levels = tuple(map(float, levels if isinstance(levels, Sequence) else [levels]))
    check_levels(levels)
    table = _table({name: Prefix, **dict.fromkeys(by, Identity)}, domain).table
    title = f"quantiles of {name}" + (f" by {' × '.join(by)}" if by else "")

    return [Quantiles(domain, title, table, levels=levels)]


def _by(entry: Mapping[str, object]) -> list[str]:
    return _each_once("by", _names(entry.get("by", [])))


def _names(value: object) -> list[str]:
    return (
        [value]
        if isinstance(value, str)
        else [str(name) for name in cast("Sequence[object]", value)]
    )


def _each_once(kind: str, names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise InvalidParameter(
            kind, names, "names an attribute twice", "name each once"
        )
    return names


def _table(bases: Mapping[str, type[Atom]], domain: Domain) -> Counts:
    places = {name: domain.find(name) for name in bases}
    order = sorted(bases, key=lambda name: places[name][0])
    positions = tuple(places[name][0] for name in order)
    if len(set(positions)) < len(positions):
        rule = "names an attribute and one of its levels, or two of them"
        raise InvalidParameter("table", order, rule, "the finest one alone says it all")

    factors = [
        base(domain.shape[position])
        if level is None
        else Explicit(level.matrix(), level.queries)
        for base, (position, level) in ((bases[name], places[name]) for name in order)
    ]
    word = {Prefix: "cdf of ", Ranges: "ranges of "}
    name = " × ".join(word.get(bases[n], "") + n for n in order) or "total"

    return Counts(domain, name, Term.of_product(1.0, positions, factors))


def _predicate(
    kind: str, entry: Mapping[str, object], domain: Domain
) -> list[Statistic]:
    text = str(entry[kind])
    predicate = parse_predicate(text, domain)
    name = str(entry.get("label") or text)
    sides = predicate.sides
    if sides is not None:  # a product is measured as it stands, not cell by cell
        labels = [name, *[""] * (len(sides) - 1)]
        pairs = zip(sides, labels, strict=True)
        rows = [
            Explicit(side.reshape(1, -1).astype(np.float64), (own,))
            for side, own in pairs
        ]
        return [Counts(domain, name, Term.of_product(1.0, predicate.attributes, rows))]

    row = Explicit(predicate.mask.reshape(1, -1).astype(np.float64), (name,))
    part = OnAttributes(domain.shape, predicate.attributes, row)
    (term,) = terms(part, domain.shape)

    return [Counts(domain, name, term)]


KINDS: dict[str, Callable[[str, Mapping[str, object], Domain], Sequence[Statistic]]] = {
    "cdf": _counts,
    "ranges": _counts,
    "histogram": _counts,
    "marginal": _counts,
    "marginals": _marginals,
    "count": _predicate,
    "total": _total,
    "sum": _of_number,
    "mean": _of_number,
    "variance": _of_number,
    "quantiles": _quantiles,
}
"""What can be asked: each kind of question with how it is read."""


def query_labels(domain: Domain, term: Term) -> Iterator[str]:
    """Every query of a term in words, one after the other: `age ≤ 17, sex = F`."""
    if term.factors is None:
        return map(term.inner.label, range(term.queries))

    columns = [
        _factor_labels(domain.attributes[i], factor)
        for i, factor in zip(term.attributes, term.factors, strict=True)
    ]
    if columns and all(map(all, columns)):
        return map(", ".join, product(*columns))
    return (", ".join(filter(None, row)) or "total" for row in product(*columns))


def _factor_labels(attribute: Attribute, factor: Workload) -> list[str]:
    name = attribute.name
    labels = attribute.labels
    if isinstance(factor, Weighted):
        return _factor_labels(attribute, factor.inner)
    if isinstance(factor, Explicit):
        return factor.labels()
    if isinstance(factor, Stack):
        return [
            label for part in factor.parts for label in _factor_labels(attribute, part)
        ]
    if isinstance(factor, Identity):
        return [f"{name} = {label}" for label in labels]
    if isinstance(factor, Total):
        return [""]
    if isinstance(factor, Prefix):
        return [f"{name} up to {label}" for label in labels]

    if isinstance(factor, Ranges):
        spans = (factor.span(row) for row in range(factor.queries))
        return [f"{name} from {labels[a]} to {labels[b]}" for a, b in spans]

    return [f"{name}: {factor.label(row)}" for row in range(factor.queries)]
