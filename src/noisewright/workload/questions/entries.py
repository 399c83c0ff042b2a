"""How one entry of a specification is read: each kind of question, and the options beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import comb, floor, log10
from typing import cast, get_args

import numpy as np

from noisewright.arrays import BoolArray
from noisewright.domain import Domain, Numeric
from noisewright.domain.levels import LONGEST_LABEL, check_label
from noisewright.errors import InvalidParameter, TooLarge, did_you_mean, require
from noisewright.workload.base import Workload
from noisewright.workload.kinds.atoms import Atom, Identity, Prefix, Ranges
from noisewright.workload.kinds.explicit import Explicit
from noisewright.workload.kinds.marginals import OnAttributes
from noisewright.workload.questions.measures import CentredSum, Missing, Weights
from noisewright.workload.questions.numbers import Means, Sums, Variances
from noisewright.workload.questions.predicate import parse_predicate
from noisewright.workload.questions.quantiles import Quantiles, check_levels
from noisewright.workload.questions.statistics import Counts, Statistic
from noisewright.workload.structure import Term, terms

Entry = Mapping[str, object]
"""One question of a specification: its kind and its options, by name."""

_ORDERED: dict[str, type[Atom]] = {"cdf": Prefix, "ranges": Ranges}
_MOST_TABLES = 10**6  # of a family: each is a question of its own
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
_OF_NUMBERS: dict[str, type[Sums | Means | Variances]] = {
    "sum": Sums,
    "mean": Means,
    "variance": Variances,
}
_WEIGHT_UNITS = 1000  # at least so many of a weight's cap


def read_entry(entry: object, domain: Domain, unsaid: Missing) -> list[Statistic]:
    """The questions that one entry stands for."""
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

    (kind,) = kinds
    if entry[kind] is None:
        raise InvalidParameter(kind, None, "must say of what", f"write `{kind}: …`")

    weight, survey = _importance(entry, domain)
    if kind in _OF_NUMBERS:
        entry = {"missing": unsaid, **entry}
    elif "missing" in entry:
        rule = f"is said of {', '.join(_OF_NUMBERS)} alone"
        raise InvalidParameter("missing", entry["missing"], rule, "leave it out")

    statistics = KINDS[kind](kind, entry, domain)
    if survey is not None:
        statistics = [statistic.weighted(survey) for statistic in statistics]

    return _named(kind, entry, statistics, weight)


def _named(
    kind: str, entry: Entry, statistics: Sequence[Statistic], weight: float
) -> list[Statistic]:
    """The questions with their weight and the name that the entry gives them, if any."""
    for option in {"name", "label"} & entry.keys():
        check_label(option, str(entry[option]))

    names = [str(entry.get("name", statistic.name)) for statistic in statistics]
    check_label(kind, max(names, key=len, default=""), _LONGEST_TITLE)
    siblings = len(statistics)

    return [
        replace(statistic, weight=weight, name=name, siblings=siblings)
        for statistic, name in zip(statistics, names, strict=True)
    ]


def _colon(entry: object) -> str:
    """What to write instead of a text where a mapping is needed: mostly a colon is missing."""
    kind, _, rest = str(entry).strip().partition(" ")
    if kind in KINDS:
        return f"a colon is missing: write `{kind}: {rest.strip() or '…'}`"

    return f"write KIND: …, with one of {', '.join(KINDS)}"


def _importance(entry: Entry, domain: Domain) -> tuple[float, Weights | None]:
    """How much accuracy matters, and the survey weight of people where one is named."""
    weight = entry.get("weight", 1.0)
    if isinstance(weight, str):
        return _number(entry, "importance", 1.0), _survey_weights(weight, domain)
    if "importance" in entry and "weight" in entry:
        raise InvalidParameter(
            "importance", entry["importance"], "is given twice", "leave weight"
        )

    return _number(entry, "importance", weight), None


def _number(entry: Entry, name: str, default: object) -> float:
    """A number that an entry may say; `understood` refuses what is none."""
    return float(cast("float", entry.get(name, default)))


def _survey_weights(name: str, domain: Domain) -> Weights:
    """A numeric attribute as the weight of people, in units of about a thousandth of its cap."""
    attribute = _numeric("weight", name, domain)
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
    if not unknown:
        return ""

    return did_you_mean(str(unknown[0]), (*KINDS, *_OPTIONS))


def _total(kind: str, entry: Entry, domain: Domain) -> list[Statistic]:
    return [_counted((), domain)]


def _marginals(kind: str, entry: Entry, domain: Domain) -> list[Statistic]:
    by = _by(entry)
    named = _names(entry.get("of", domain.names))
    among = _each_once(kind, [*named, *by])[: len(named)]
    ways = int(cast("int", entry[kind]))
    require(0 <= ways <= len(among), kind, ways, f"must lie between 0 and {len(among)}")
    if comb(len(among), ways) > _MOST_TABLES:
        raise TooLarge(
            f"marginals={ways} of {len(among)} attributes are more than {_MOST_TABLES} tables; "
            "ask for smaller ones, or `of:` fewer attributes"
        )

    sets = combinations(among, ways)
    return [_counted([*chosen, *by], domain) for chosen in sets]


def _counts(kind: str, entry: Entry, domain: Domain) -> list[Statistic]:
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

    bases = dict.fromkeys(names, base) | dict.fromkeys(by, Identity)
    return [_table(bases, domain)]


def _of_number(kind: str, entry: Entry, domain: Domain) -> list[Statistic]:
    """Sums or means of a bounded number by group."""
    by = _by(entry)
    attribute = _numeric(kind, str(entry[kind]), domain)
    name = attribute.name
    if name in by:
        raise InvalidParameter(
            kind, name, "cannot be a group of its own", "group by others"
        )

    groups = _counted(by, domain)
    title = f"{kind} of {name}" + (f" by {groups.name}" if by else "")
    missing = cast("Missing", entry["missing"])
    measure = summed_attribute(attribute, _number(entry, "unit", 1.0), missing)

    return [_OF_NUMBERS[kind](domain, title, groups.table, measure=measure)]


def _numeric(kind: str, name: str, domain: Domain) -> Numeric:
    """The numeric attribute of that name, which an option of this kind must have."""
    attribute = domain[name]
    if not isinstance(attribute, Numeric):
        raise InvalidParameter(kind, name, "must be a numeric attribute")

    return attribute


def summed_attribute(
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


def _quantiles(kind: str, entry: Entry, domain: Domain) -> list[Statistic]:
    by = _by(entry)
    name = _numeric(kind, str(entry[kind]), domain).name
    _each_once(kind, [name, *by])
    given = entry.get("at", [0.5])
    several = given if isinstance(given, Sequence) else [given]
    levels = tuple(map(float, several))
    check_levels(levels)

    bases: dict[str, type[Atom]] = dict.fromkeys(by, Identity)
    bases[name] = Prefix
    title = f"quantiles of {name}" + (f" by {' × '.join(by)}" if by else "")

    table = _table(bases, domain).table

    return [Quantiles(domain, title, table, levels=levels)]


def _by(entry: Entry) -> list[str]:
    return _each_once("by", _names(entry.get("by", [])))


def _names(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]

    return list(map(str, cast("Sequence[object]", value)))


def _each_once(kind: str, names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise InvalidParameter(
            kind, names, "names an attribute twice", "name each once"
        )

    return names


def _counted(names: Iterable[str], domain: Domain) -> Counts:
    """The table of counts by value of some attributes."""
    return _table(dict.fromkeys(names, Identity), domain)


def _table(bases: Mapping[str, type[Atom]], domain: Domain) -> Counts:
    """The table with such queries about each of its attributes."""
    places = {name: domain.find(name) for name in bases}
    order = sorted(bases, key=lambda name: places[name][0])
    positions = tuple(places[name][0] for name in order)
    if len(set(positions)) < len(positions):
        rule = "names an attribute and one of its levels, or two of them"
        raise InvalidParameter("table", order, rule, "the finest one alone says it all")

    factors: list[Workload] = []
    for name in order:
        position, level = places[name]
        if level is None:
            factors.append(bases[name](domain.shape[position]))
        else:
            factors.append(Explicit(level.matrix(), level.queries))

    word = {Prefix: "cdf of ", Ranges: "ranges of "}
    words = [word.get(bases[name], "") + name for name in order]
    title = " × ".join(words) or "total"

    return Counts(domain, title, Term.of_product(1.0, positions, factors))


def _predicate(kind: str, entry: Entry, domain: Domain) -> list[Statistic]:
    text = str(entry[kind])
    predicate = parse_predicate(text, domain)
    attributes = predicate.attributes
    name = str(entry.get("label") or text)

    sides = predicate.sides
    if sides is not None:  # a product is measured as it stands, not cell by cell
        labels = [name, *[""] * (len(sides) - 1)]
        rows = [_row(*pair) for pair in zip(sides, labels, strict=True)]
        term = Term.of_product(1.0, attributes, rows)
        return [Counts(domain, name, term)]

    part = OnAttributes(domain.shape, attributes, _row(predicate.mask, name))
    (term,) = terms(part, domain.shape)

    return [Counts(domain, name, term)]


def _row(cells: BoolArray, name: str) -> Explicit:
    """One query: the people in some cells."""
    row = cells.reshape(1, -1)
    return Explicit(row.astype(np.float64), (name,))


KINDS: dict[str, Callable[[str, Entry, Domain], Sequence[Statistic]]] = {
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
