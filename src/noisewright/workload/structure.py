"""What a workload is: its attributes, its terms, its tables of counts, its symmetries.

Asked once and kept with the workload (`workload.structure`). Tables are what a strategy over many
attributes is measured and reconstructed by, so a workload over a domain too large to enumerate is
handled term by term, each a workload on one marginal table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, singledispatch
from itertools import product
from math import prod

import numpy as np

from noisewright.arrays import Array
from noisewright.errors import InvalidParameter
from noisewright.workload.base import Workload
from noisewright.workload.kinds.algebra import Kron, Stack, Weighted, kron
from noisewright.workload.kinds.atoms import Atom, Identity, Total
from noisewright.workload.kinds.explicit import Explicit
from noisewright.workload.kinds.marginals import Marginals, OnAttributes
from noisewright.workload.kinds.parity import Parity
from noisewright.workload.linear.interactions import Table
from noisewright.workload.linear.tensor import Sizes, marginal_tables
from noisewright.workload.questions.measures import COUNT, Measure

LARGEST_MAGNITUDE = 100
"""Decimal digits before or after the point that the largest entry of a query may have."""

_MOST_TABLES = 500_000  # of counts, told apart one by one
_FEW_ENTRIES = 2**20  # of a workload that is written out to see what it asks for

_SIGN = Explicit([[1.0, -1.0]], ("sign",))


@dataclass(frozen=True)
class Term:
    """`weight` times `inner`, asked of the marginal table of `attributes`.

    `factors` holds one workload per attribute where the inner workload is their product. `measure`
    says what the table holds of people.
    """

    weight: float
    attributes: Table
    inner: Workload
    factors: tuple[Workload, ...] | None
    measure: Measure = COUNT

    @classmethod
    def of_product(
        cls, weight: float, attributes: Table, factors: Sequence[Workload]
    ) -> Term:
        """The product of one workload per attribute; those asked for totals are summed out."""
        pairs = zip(attributes, factors, strict=True)
        kept = [(i, factor) for i, factor in pairs if not isinstance(factor, Total)]
        axes = tuple(i for i, _ in kept)
        others = tuple(factor for _, factor in kept)
        inner = kron(others) if others else Total(1)

        return cls(weight, axes, inner, others)

    @cached_property
    def queries(self) -> int:
        return self.inner.queries

    @cached_property
    def by_attribute(self) -> dict[int, Workload]:
        """The factor of every attribute where the queries are a product; else none."""
        if self.factors is None:
            return {}

        return dict(zip(self.attributes, self.factors, strict=True))

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Equal for terms that ask the same of the same table, where that is easily told."""
        same: object = id(self.inner)
        if self._all_are(Atom):
            same = tuple(factor.text() for factor in self.factors or ())

        return self.weight, self.attributes, self.measure, same

    def _all_are(self, kind: type[object]) -> bool:
        """Whether it is a product of such workloads."""
        factors = self.factors
        return factors is not None and all(isinstance(f, kind) for f in factors)

    @property
    def is_counts(self) -> bool:
        """Whether it is a table of plain counts."""
        return self._all_are(Identity)

    def answers(self, table: Array) -> Array:
        """Answers from the term's own marginal table, flattened."""
        return np.asarray(self.weight * self.inner.matvec(table))


def each_answered(terms: Sequence[Term], tables: Sequence[Array]) -> list[Array]:
    """Answers to every term from its own marginal table, flattened."""
    pairs = zip(terms, tables, strict=True)
    return [term.answers(table) for term, table in pairs]


@dataclass(frozen=True, eq=False)
class Structure:
    """What a workload asks over attributes of given sizes."""

    workload: Workload
    sizes: Sizes

    @cached_property
    def terms(self) -> list[Term]:
        """The workload on marginal tables, in the order of its rows."""
        return terms(self.workload, self.sizes)

    @cached_property
    def tables(self) -> list[Term] | None:
        """The terms where all of them are tables of plain counts; None where any is not."""
        return self.terms if all(term.is_counts for term in self.terms) else None

    @cached_property
    def counts(self) -> list[Term] | None:
        """All tables of counts asked, told apart where products stack totals and counts.

        None where anything else is asked. Rows may come in another order: for planning only.
        """
        return as_counts(self.terms)

    @property
    def zero(self) -> bool:
        """Whether every answer is zero, whatever the data."""
        return (
            isinstance(self.workload, Explicit)
            and not self.workload.column_norms(1).any()
        )

    @property
    def only_totals(self) -> bool:
        """Whether nothing but the number of people is asked."""
        workload = self.workload
        if workload.queries * workload.size <= _FEW_ENTRIES:
            return not np.ptp(workload.dense(), axis=1).any()
        if self.counts is None:
            return False

        used = {i for table in self.counts for i in table.attributes}
        return not any(self.sizes[i] > 1 for i in used)


def terms(workload: Workload, sizes: Sequence[int]) -> list[Term]:
    """Split `workload` over attributes with `sizes` values into terms, in the order of its rows."""
    if workload.size != prod(sizes):
        raise InvalidParameter(
            "workload",
            workload.brief(),
            f"has {workload.size} cells where the domain has {prod(sizes)}",
            "match the workload's size to the domain",
        )

    return _terms(workload, tuple(sizes), 1.0)


@singledispatch
def _terms(workload: Workload, sizes: Sizes, weight: float) -> list[Term]:
    everything = tuple(range(len(sizes)))
    factors = _factors(workload, sizes)
    if factors is None:
        return [Term(weight, everything, workload, None)]

    return [Term.of_product(weight, everything, factors)]


@_terms.register
def _terms_of_weighted(workload: Weighted, sizes: Sizes, weight: float) -> list[Term]:
    return _terms(workload.inner, sizes, weight * workload.weight)


@_terms.register
def _terms_of_stack(workload: Stack, sizes: Sizes, weight: float) -> list[Term]:
    return [term for part in workload.parts for term in _terms(part, sizes, weight)]


@_terms.register
def _terms_of_marginals(workload: Marginals, sizes: Sizes, weight: float) -> list[Term]:
    if workload.sizes != sizes:
        return _terms.dispatch(Workload)(workload, sizes, weight)

    return [
        Term.of_product(weight * w, table, [workload.bases[i] for i in table])
        for table, w in zip(workload.tables, workload.weights, strict=True)
    ]


@_terms.register
def _terms_of_parity(workload: Parity, sizes: Sizes, weight: float) -> list[Term]:
    if sizes != (2,) * workload.bits:
        return _terms.dispatch(Workload)(workload, sizes, weight)

    # Products of as many signs are one object: what is worked out for one serves all.
    degrees = range(1, len(sizes) + 1)
    signs = [Total(1), *(kron([_SIGN] * degree) for degree in degrees)]

    return [
        Term(weight, bits, signs[len(bits)], (_SIGN,) * len(bits))
        for bits in workload.attributes
    ]


@_terms.register
def _terms_of_on_attributes(
    workload: OnAttributes, sizes: Sizes, weight: float
) -> list[Term]:
    if workload.sizes != sizes:
        return _terms.dispatch(Workload)(workload, sizes, weight)

    attributes = workload.attributes
    if not attributes:
        return [Term.of_product(weight, (), ())]

    factors = _factors(workload.inner, tuple(sizes[i] for i in attributes))
    if factors is None:
        return [Term(weight, attributes, workload.inner, None)]

    return [Term.of_product(weight, attributes, factors)]


def _factors(workload: Workload, sizes: Sizes) -> tuple[Workload, ...] | None:
    """The factors of a product, one per attribute, if the workload is such a product."""
    if len(sizes) == 1:
        return (workload,)
    if isinstance(workload, Identity | Total):
        return tuple(type(workload)(size) for size in sizes)
    if isinstance(workload, Kron) and workload.named_sizes == sizes:
        return workload.factors

    return None


def cell_answers(
    cells: Array, sizes: Sequence[int], asked: Sequence[Term]
) -> list[Array]:
    """Answers to all terms from the counts of all cells; a trailing axis is a batch."""
    numbers: dict[Table, list[int]] = {}
    for number, term in enumerate(asked):
        numbers.setdefault(term.attributes, []).append(number)

    answers: dict[int, Array] = {}
    for attributes, table in marginal_tables(cells, sizes, numbers):
        for number in numbers[attributes]:
            answers[number] = asked[number].answers(table)

    return [answers[number] for number in range(len(asked))]


def as_counts(parts: Sequence[Term]) -> list[Term] | None:
    """Terms as tables of counts, told apart where products stack totals and counts; or None."""
    result: list[Term] = []
    for term in parts:
        choices = [_choices(factor) for factor in term.factors or ()]
        if term.factors is None or not all(choices):
            return None
        if len(result) + prod(map(len, choices)) > _MOST_TABLES:
            return None
        for chosen in product(*choices):
            weight = term.weight * prod(weight for weight, _ in chosen)
            factors = [factor for _, factor in chosen]
            result.append(Term.of_product(weight, term.attributes, factors))

    return result


@singledispatch
def _choices(factor: Workload) -> list[tuple[float, Workload]]:
    """Weighted counts and totals that a one-attribute workload stacks; or none."""
    return []


@_choices.register(Identity)
@_choices.register(Total)
def _choices_of_identity_or_total(factor: Workload) -> list[tuple[float, Workload]]:
    return [(1.0, factor)]


@_choices.register
def _choices_of_weighted(factor: Weighted) -> list[tuple[float, Workload]]:
    inner = _choices(factor.inner)
    return [(factor.weight * weight, workload) for weight, workload in inner]


@_choices.register
def _choices_of_stack(factor: Stack) -> list[tuple[float, Workload]]:
    parts = [_choices(part) for part in factor.parts]
    return [choice for part in parts for choice in part] if all(parts) else []


def check_magnitudes(workload: Workload) -> None:
    """Refuse entries whose squares are no floats: only how they compare matters anyway."""
    least, most = workload.magnitudes()
    if least < -LARGEST_MAGNITUDE or most > LARGEST_MAGNITUDE:
        raise InvalidParameter(
            "workload",
            workload.brief(),
            f"has queries of size 10^{least:.0f} to 10^{most:.0f} and must keep to "
            f"10^±{LARGEST_MAGNITUDE}",
            "multiply all weights by one number: only how they compare matters",
        )
