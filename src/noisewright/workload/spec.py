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
Each may carry `weight:` (how much its accuracy matters, 1 by default) and `name:`. A predicate is
parsed as a Python expression, of which only comparisons of an attribute with constants, joined by
`and`, `or`, `not`, are understood; nothing is evaluated.
"""

from __future__ import annotations

import ast
import warnings
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import combinations, product
from math import comb, prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from noisewright.domain import Attribute, Domain, Level, Ordered
from noisewright.domain.schema import dump_yaml, load_yaml
from noisewright.errors import InvalidParameter, TooLarge, shown, understood
from noisewright.workload.algebra import Stack, Weighted, kron
from noisewright.workload.atoms import Atom, Explicit, Identity, Prefix, Ranges, Total
from noisewright.workload.base import Workload
from noisewright.workload.marginals import OnAttributes
from noisewright.workload.structure import Term

_KINDS = ("cdf", "ranges", "histogram", "marginal", "marginals", "count", "total")
_ORDERED: dict[str, type[Atom]] = {"cdf": Prefix, "ranges": Ranges}
_MOST_TABLES = 10**6
_OPTIONS = ("by", "weight", "name", "label", "of")


@dataclass(frozen=True)
class Questions(Stack):
    """Named questions over a domain. Weights steer the noise; answers are plain counts."""

    domain: Domain
    names: tuple[str, ...]
    spec: str

    def plain_terms(self) -> list[Term]:
        """The terms without their weights, one per named question."""
        return [replace(term, weight=1.0) for term in self.structure.terms]

    def plain_parts(self) -> list[Workload]:
        """The questions without their weights, each over all cells."""
        return [part.inner if isinstance(part, Weighted) else part for part in self.parts]

    def narrowed(self) -> Questions:
        """The same questions over only those attributes that they ask about."""
        used = {i for term in self.structure.terms for i in term.attributes}
        if not 0 < len(used) < len(self.domain):
            return self
        names = [name for i, name in enumerate(self.domain.names) if i in used]
        return questions(self.spec, self.domain.project(names))

    def text(self) -> str:
        return f"spec({len(self.parts)} questions, {self.queries} queries)"

    def label(self, row: int) -> str:
        index = bisect_right(self.starts, row) - 1
        term = self.plain_terms()[index]
        return query_labels(self.domain, term)[row - self.starts[index]]

    def labels(self) -> list[str]:
        return [label for t in self.plain_terms() for label in query_labels(self.domain, t)]


def questions(source: str | Path | Mapping[str, Any], domain: Domain) -> Questions:
    """Read a specification: YAML text, a path to it, or plain values."""
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
    if not isinstance(entries, Sequence) or isinstance(entries, str) or not entries:
        raise InvalidParameter("queries", entries, "must be a list with at least one question")
    parts: list[Workload] = []
    names: list[str] = []
    for entry in entries:
        error = InvalidParameter("queries", entry, "cannot be understood", "see the how-to")
        for name, part in understood(partial(_read, entry, domain), error):
            names.append(name)
            parts.append(part)
    return Questions(tuple(parts), domain, tuple(names), dump_yaml(dict(document)))


def _read(entry: Any, domain: Domain) -> list[tuple[str, Workload]]:
    if not isinstance(entry, Mapping):
        raise InvalidParameter("queries", entry, "must be a mapping", f"start with one of {_KINDS}")
    kinds = [key for key in entry if key in _KINDS]
    unknown = [key for key in entry if key not in _KINDS + _OPTIONS]
    if len(kinds) != 1 or unknown:
        raise InvalidParameter(
            "queries",
            dict(entry),
            f"must hold exactly one of {', '.join(_KINDS)}",
            f"options are {', '.join(_OPTIONS)}",
        )
    weight = entry.get("weight", 1.0)
    parts = _tables(kinds[0], entry, domain)
    return [
        (str(entry.get("name", name)), part if weight == 1.0 else Weighted(float(weight), part))
        for name, part in parts
    ]


def _tables(kind: str, entry: Mapping[str, Any], domain: Domain) -> list[tuple[str, Workload]]:
    value = entry[kind]
    if kind == "total":
        return [("total", OnAttributes(domain.shape, (), Total(1)))]
    if kind == "count":
        return [_predicate(str(value), entry.get("label"), domain)]
    by = _each_once("by", _names(entry.get("by", [])))
    if kind == "marginals":
        among = _each_once("marginals", [*_names(entry.get("of", list(domain.names))), *by])
        among = among[: len(among) - len(by)]
        ways = int(value)
        if not 0 <= ways <= len(among):
            raise InvalidParameter("marginals", ways, f"must lie between 0 and {len(among)}")
        if comb(len(among), ways) > _MOST_TABLES:
            raise TooLarge(
                f"marginals={ways} of {len(among)} attributes are more than {_MOST_TABLES} tables; "
                "ask for smaller ones, or `of:` fewer attributes"
            )
        sets = [[*chosen, *by] for chosen in combinations(among, ways)]
        return [_table(dict.fromkeys(chosen, Identity), domain) for chosen in sets]
    bases: dict[str, type[Atom]] = dict.fromkeys(by, Identity)
    special: type[Atom] = _ORDERED.get(kind, Identity)
    names = _names(value)
    _each_once(kind, [*names, *by])
    for name in names:
        if special is not Identity and not domain[name].ordered:
            raise InvalidParameter(
                kind, name, "has no order", "use marginal for unordered attributes"
            )
    return [_table({**dict.fromkeys(names, special), **bases}, domain)]


def _names(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [str(name) for name in value]


def _each_once(kind: str, names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise InvalidParameter(kind, names, "names an attribute twice", "name each once")
    return names


def _table(bases: Mapping[str, type[Atom]], domain: Domain) -> tuple[str, Workload]:
    places = {name: domain.find(name) for name in bases}
    order = sorted(bases, key=lambda name: places[name][0])
    positions = tuple(places[name][0] for name in order)
    if len(set(positions)) < len(positions):
        rule = "names an attribute and one of its levels, or two of them"
        raise InvalidParameter("table", order, rule, "the finest one alone says it all")
    factors = [_factor(domain, name, bases[name]) for name in order]
    inner = kron(factors) if factors else Total(1)
    word = {Prefix: "cdf of ", Ranges: "ranges of "}
    name = " × ".join(word.get(bases[n], "") + n for n in order) or "total"
    return name, OnAttributes(domain.shape, positions, inner)


def _factor(domain: Domain, name: str, base: type[Atom]) -> Workload:
    position, level = domain.find(name)
    if level is None:
        return base(domain.shape[position])
    return Explicit(level.matrix(), tuple(f"{name} = {label}" for label in level.labels))


def _predicate(text: str, label: object, domain: Domain) -> tuple[str, Workload]:
    predicate = parse_predicate(text, domain)
    name = text if label is None else str(label)
    row = predicate.mask.reshape(1, -1).astype(np.float64)
    return name, OnAttributes(domain.shape, predicate.attributes, Explicit(row, (name,)))


def query_labels(domain: Domain, term: Term) -> list[str]:
    """Every query of a term in words: `age ≤ 17, sex = F`."""
    if term.factors is None:
        return term.inner.labels()
    if not term.attributes:
        return ["total"]
    columns = [
        _factor_labels(domain.attributes[i], factor)
        for i, factor in zip(term.attributes, term.factors, strict=True)
    ]
    return [", ".join(part for part in row if part) or "total" for row in product(*columns)]


def _factor_labels(attribute: Attribute, factor: Workload) -> list[str]:
    name, labels = attribute.name, attribute.labels
    if isinstance(factor, Weighted):
        return _factor_labels(attribute, factor.inner)
    if isinstance(factor, Explicit):
        return factor.labels()
    if isinstance(factor, Stack):
        return [label for part in factor.parts for label in _factor_labels(attribute, part)]
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


Mask = npt.NDArray[np.bool_]

_HELP = (
    'write it like: age >= 65 and sex == "F", 18 <= age < 65, region in ["N", "S"], not employed'
)
_MOST_CELLS = 2**27
_MIRRORED = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}


@dataclass(frozen=True)
class Predicate:
    """The attributes a predicate mentions (in the domain's order) and its cells among theirs."""

    attributes: tuple[int, ...]
    mask: Mask


def parse_predicate(text: str, domain: Domain) -> Predicate:
    """Understand `text` over the attributes of `domain`."""
    try:
        with warnings.catch_warnings(action="ignore"):  # Python's own, on its own notation
            tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise InvalidParameter("count", text, "is not a predicate", _HELP) from None
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    if not names:
        raise InvalidParameter("count", text, "must mention an attribute", _HELP)
    attributes = sorted({domain.find(name)[0] for name in names})
    cells = prod(domain.shape[i] for i in attributes)
    if cells > _MOST_CELLS:
        raise TooLarge(
            f"count={shown(text)} is about {cells} cells, more than {_MOST_CELLS}; "
            "mention fewer attributes"
        )
    return Predicate(tuple(attributes), _Reader(text, domain, attributes).read(tree))


class _Reader:
    """Masks are tensors over the mentioned attributes, one axis each."""

    def __init__(self, text: str, domain: Domain, attributes: list[int]) -> None:
        self.text, self.domain, self.attributes = text, domain, attributes
        self.shape = tuple(domain.shape[i] for i in attributes)

    def read(self, node: ast.expr) -> Mask:
        if isinstance(node, ast.BoolOp):
            join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            return np.asarray(reduce(join, (self.read(value) for value in node.values)))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ~self.read(node.operand)
        if isinstance(node, ast.Name):
            truth = self._equal(self._boolean(node.id), True)
            return self._spread(self.domain.index(node.id), truth)
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        raise self._error(ast.unparse(node))

    def _comparison(self, node: ast.Compare) -> Mask:
        sides = [node.left, *node.comparators]
        masks = [
            self._pair(left, operator, right)
            for left, operator, right in zip(sides, node.ops, sides[1:], strict=False)
        ]
        return np.asarray(reduce(np.logical_and, masks))

    def _pair(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> Mask:
        if isinstance(right, ast.Name) and not isinstance(left, ast.Name):
            left, right = right, left
            operator = _MIRRORED.get(type(operator), type(operator))()
        if not isinstance(left, ast.Name):
            raise self._error(ast.unparse(left))
        position, level = self.domain.find(left.id)
        try:
            constant = ast.literal_eval(right)
        except ValueError:
            raise self._error(ast.unparse(right)) from None
        subject = level or self.domain.attributes[position]
        return self._spread(position, self._cells(subject, operator, constant))

    def _cells(self, subject: Attribute | Level, operator: ast.cmpop, constant: object) -> Mask:
        if isinstance(operator, ast.Eq | ast.NotEq):
            mask = self._equal(subject, constant)
            return mask if isinstance(operator, ast.Eq) else ~mask
        if isinstance(operator, ast.In | ast.NotIn) and isinstance(constant, list | tuple | set):
            mask = reduce(np.logical_or, (self._equal(subject, value) for value in constant))
            return mask if isinstance(operator, ast.In) else ~mask
        return self._ordered(subject, operator, constant)

    def _equal(self, subject: Attribute | Level, constant: object) -> Mask:
        if isinstance(subject, Level):
            return np.equal(subject.groups, subject.locate(constant))
        mask = np.zeros(subject.size, dtype=np.bool_)
        if isinstance(subject, Ordered):
            low = subject.cells_below(constant)
            high = subject.cells_below(constant, inclusive=True)
            mask[low:high] = True
        else:
            mask[subject.locate(constant)] = True
        return mask

    def _ordered(self, attribute: Attribute | Level, operator: ast.cmpop, constant: object) -> Mask:
        if not isinstance(attribute, Ordered):
            raise InvalidParameter(
                "count",
                self.text,
                f"compares {attribute.name!r}, which has no order",
                "use == or in",
            )
        inclusive = isinstance(operator, ast.LtE | ast.Gt)
        below = attribute.cells_below(constant, inclusive)
        # Cells from the last declared one on hold values that have no place in the order.
        mask = np.zeros(attribute.size, dtype=np.bool_)
        if isinstance(operator, ast.Lt | ast.LtE):
            mask[:below] = True
        elif isinstance(operator, ast.Gt | ast.GtE):
            mask[below : len(attribute.declared_labels)] = True
        else:
            raise self._error(self.text)
        return mask

    def _boolean(self, name: str) -> Attribute:
        attribute = self.domain[name]
        if attribute.kind != "boolean":
            raise InvalidParameter("count", self.text, f"uses {name!r} alone", "compare it")
        return attribute

    def _spread(self, attribute: int, cells: Mask) -> Mask:
        shape = [1] * len(self.attributes)
        shape[self.attributes.index(attribute)] = cells.size
        return np.broadcast_to(cells.reshape(shape), self.shape)

    def _error(self, part: str) -> InvalidParameter:
        return InvalidParameter("count", self.text, f"has {part!r}, which is not understood", _HELP)
